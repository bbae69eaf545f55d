/*
 * Call frame information: rows of hand-made records, of real code, and of garbage; and the records
 * of an .eh_frame that is cut or broken.
 */
#include "test.h"

#include <sys/mman.h>

#include "os/sys.h"
#include "unwind/cfi.h"

#if defined(__x86_64__)
enum { FP = 6, SP = 7, RA = 16, PC = 16, ENTRY_OFF = 8 };
#elif defined(__aarch64__)
enum { FP = 29, SP = 31, RA = 30, ENTRY_OFF = 0 };
#else
enum { FP, SP, RA, ENTRY_OFF };
#endif

#define CODE 0x10000

/* A CIE and the one FDE after it, with a given program for the function at CODE. */
static unsigned char record[256];
static size_t record_len;

static void
put(const void *bytes, size_t n) {
	memcpy(record + record_len, bytes, n);
	record_len += n;
}

static void
put_u32(uint32_t v) {
	put(&v, 4);
}

static void
put_u64(uint64_t v) {
	put(&v, 8);
}

static void
put_u8(unsigned v) {
	record[record_len++] = (unsigned char)v;
}

static void
patch_len(size_t at) {
	uint32_t len = (uint32_t)(record_len - at - 4);
	memcpy(record + at, &len, 4);
}

/* Ends the CIE, and puts the FDE after it. */
static const unsigned char *
put_function(const unsigned char *program, size_t n) {
	/* def_cfa sp, ENTRY_OFF */
	put_u8(0x0c);
	put_u8(SP);
	put_u8(ENTRY_OFF);
	patch_len(0);
	size_t fde = record_len;
	put_u32(0);
	put_u32((uint32_t)(record_len));
	put_u64(CODE);
	put_u64(100);
	put_u8(0);
	put(program, n);
	patch_len(fde);
	return record + fde;
}

static const unsigned char *
make_record(const char *augmentation, const unsigned char *program, size_t n) {
	record_len = 0;
	put_u32(0);
	put_u32(0);
	put_u8(1);
	put(augmentation, strlen(augmentation) + 1);
	put_u8(1);
	put_u8(0x78);
	put_u8(RA);
	put_u8(1);
	put_u8(0);
	return put_function(program, n);
}

/* offset ra,-8; advance 1; cfa_offset 16; offset fp,-16; advance 3; cfa_register fp;
 * advance1 20; remember; def_cfa sp,8; restore fp; advance2 1; restore_state */
static const unsigned char usual[] = {0x80 + RA, 1, 0x41, 0x0e, 16, 0x80 + FP, 2, 0x43, 0x0d, FP,
    0x02, 20, 0x0a, 0x0c, SP, 8, 0xc0 + FP, 0x03, 1, 0, 0x0b};

static struct cfi_row_s row;

static int
row_at(const unsigned char *fde, uintptr_t off) {
	memset(&row, 0x55, sizeof(row));
	return cfi_row_of_fde(fde, CODE + off, &row);
}

static bool
is_row(cfi_cfa_t cfa, int64_t cfa_off, cfi_reg_t fp, int64_t fp_off) {
	return row.cfa == cfa && row.cfa_off == cfa_off && row.fp.kind == fp
	    && (fp == cfi_reg_same || row.fp.off == fp_off);
}

static void
test_usual(void) {
	const unsigned char *fde = make_record("zR", usual, sizeof(usual));
	ok(row_at(fde, 0) == 0 && is_row(cfi_cfa_sp, ENTRY_OFF, cfi_reg_same, 0), "at entry");
	ok(row.ra.kind == cfi_reg_at_cfa && row.ra.off == -8, "return address below the CFA");
	ok(row_at(fde, 1) == 0 && is_row(cfi_cfa_sp, 16, cfi_reg_at_cfa, -16), "after push");
	ok(row_at(fde, 3) == 0 && is_row(cfi_cfa_sp, 16, cfi_reg_at_cfa, -16), "just before the next");
	ok(row_at(fde, 4) == 0 && is_row(cfi_cfa_fp, 16, cfi_reg_at_cfa, -16), "frame pointer set");
	ok(row_at(fde, 24) == 0 && is_row(cfi_cfa_sp, 8, cfi_reg_same, 0), "epilogue");
	ok(row_at(fde, 25) == 0 && is_row(cfi_cfa_fp, 16, cfi_reg_at_cfa, -16), "remembered state");
	is_int(row_at(fde, 99), 0, "last byte");
	is_int(row_at(fde, 100), ENOENT, "behind the function");
	is_int(cfi_row_of_fde(fde, CODE - 1, &row), ENOENT, "before it");
	fde = make_record("zRS", usual, sizeof(usual));
	/* "S" makes the augmentation longer, but has no data. */
	ok(row_at(fde, 0) == 0 && row.cfa == cfi_cfa_signal, "signal frame");
}

#define ROW_OF(...) \
	row_at(make_record("zR", (const unsigned char[]){__VA_ARGS__}, \
	    sizeof((const unsigned char[]){__VA_ARGS__})), \
	    50)

static void
test_forms(void) {
	ok(ROW_OF(0x07, RA) == 0 && row.ra.kind == cfi_reg_undefined, "undefined return address");
	/* Expressions: breg<fp> -8 deref; breg<fp> 0. */
	ok(ROW_OF(0x0f, 3, 0x70 + FP, 0x78, 0x06) == 0 && row.cfa == cfi_cfa_deref_fp
	    && row.cfa_off == -8,
	    "CFA by an expression");
	ok(ROW_OF(0x10, FP, 2, 0x70 + FP, 0) == 0 && row.fp.kind == cfi_reg_at_fp && row.fp.off == 0,
	    "frame pointer by an expression");
	ok(ROW_OF(0x10, FP, 1, 0x96) == 0 && row.fp.kind == cfi_reg_bad, "by one not understood");
	ok(ROW_OF(0x0f, 2, 0x73, 0) == 0 && row.cfa == cfi_cfa_expression && row.expr_len == 2
	    && row.expr[0] == 0x73,
	    "CFA by an expression that is no row");
	is_int(ROW_OF(0x0f, 3, 0x70 + FP, 0x78, 0x06, 0x0d, FP), ENOTSUP,
	    "def_cfa_register after an expression");
	is_int(ROW_OF(0x0f, 3, 0x70 + FP, 0x78, 0x06, 0x0e, 16), ENOTSUP, "def_cfa_offset after it");
	is_int(ROW_OF(0x0f, 2, 0x73, 0, 0x13, 0x7c), ENOTSUP, "and after one that is no row");
	ok(ROW_OF(0x0f, 2, 0x73, 0, 0x0c, SP, 16) == 0 && row.cfa == cfi_cfa_sp, "but def_cfa holds");
	is_int(ROW_OF(0x0c, 3, 8), ENOTSUP, "CFA by another register");
	ok(ROW_OF(0x0c, 3, 8, 0x07, RA) == 0, "which does not matter in the outermost frame");
	ok(ROW_OF(0x12, SP, 0x7e) == 0 && row.cfa_off == 16, "def_cfa_sf");
	ok(ROW_OF(0x13, 0x7c) == 0 && row.cfa_off == 32, "def_cfa_offset_sf");
	ok(ROW_OF(0x11, FP, 0x02) == 0 && row.fp.off == -16, "offset_extended_sf");
	ok(ROW_OF(0x05, FP, 0x83, 0x01) == 0 && row.fp.off == -131 * 8, "offset_extended, two bytes");
	ok(ROW_OF(0x2f, FP, 2) == 0 && row.fp.off == 16, "negative_offset_extended");
	ok(ROW_OF(0x80 + FP, 2, 0x08, FP) == 0 && row.fp.kind == cfi_reg_same, "same_value");
	ok(ROW_OF(0x80 + FP, 2, 0x06, FP) == 0 && row.fp.kind == cfi_reg_same, "restore_extended");
	ok(ROW_OF(0x09, FP, 3) == 0 && row.fp.kind == cfi_reg_bad, "in another register");
	ok(ROW_OF(0x14, FP, 3) == 0 && row.fp.kind == cfi_reg_bad, "val_offset");
	ok(ROW_OF(0x16, FP, 1, 0x96) == 0 && row.fp.kind == cfi_reg_bad, "val_expression");
	ok(ROW_OF(0x2d) == 0 && row.is_ra_signed, "signed return address");
	ok(ROW_OF(0x2d, 0x2d) == 0 && !row.is_ra_signed, "and not");
	ok(ROW_OF(0x2e, 16, 0x00) == 0, "args_size and nop");
	ok(ROW_OF(0x01, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x0e, 40) == 0 && row.cfa_off == ENTRY_OFF,
	    "set_loc behind the place ends the program");
	ok(ROW_OF(0x04, 51, 0, 0, 0, 0x0e, 40) == 0 && row.cfa_off == ENTRY_OFF, "advance_loc4");
}

/* The number of the return address's register is a byte in version 1, LEB128 in later ones. */
static void
test_ra_reg(void) {
	static const unsigned char program[] = {0x07, 0xb0, 0x01};
	for (unsigned version = 1; version <= 4; version++) {
		record_len = 0;
		put_u32(0);
		put_u32(0);
		put_u8(version);
		put("zR", 3);
		if (version == 4) {
			put_u8(8);
			put_u8(0);
		}
		put_u8(1);
		put_u8(0x78);
		put_u8(0xb0);
		if (version > 1) {
			put_u8(1);
		}
		put_u8(2); /* the augmentation: the form of addresses, and a byte that nobody reads */
		put_u8(0);
		put_u8(0);
		const unsigned char *fde = put_function(program, sizeof(program));
		bool is_known = version != 2;
		int err = row_at(fde, 50);
		ok(err == (is_known ? 0 : ENOTSUP) && (!is_known || row.ra.kind == cfi_reg_undefined),
		    "version %u: register 176 has the return address", version);
	}
}

/*
 * A CIE with these letters and the data of the augmentation, and an FDE whose addresses have this
 * form: one byte, 2, 4 or 8; relative: from their own place.
 */
static const unsigned char *
make_encoded(const char *letters, const unsigned char *data, size_t n, uintptr_t start,
    size_t width, bool is_relative) {
	record_len = 0;
	put_u32(0);
	put_u32(0);
	put_u8(1);
	put(letters, strlen(letters) + 1);
	put_u8(1);
	put_u8(0x78);
	put_u8(RA);
	put_u8((unsigned)n);
	put(data, n);
	put_u8(0x0c);
	put_u8(SP);
	put_u8(ENTRY_OFF);
	patch_len(0);
	size_t fde = record_len, size = 100;
	put_u32(0);
	put_u32((uint32_t)(record_len));
	start -= is_relative ? (uintptr_t)(record + record_len) : 0;
	put(&start, width);
	put(&size, width);
	put_u8(0);
	patch_len(fde);
	return record + fde;
}

/* What the letters before R have of the data is passed over: R tells how to read the FDE. */
static void
test_letters(void) {
	static const struct {
		const char *letters;
		unsigned char n, data[12];
		int want;
	} rows[] = {
	    {"zR", 1, {0x03}, 0},
	    {"zLR", 2, {0xff, 0x03}, 0},
	    {"zRL", 2, {0x03, 0xff}, 0},
	    {"zPR", 10, {0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03}, 0},
	    {"zPR", 4, {0x02, 0xff, 0xff, 0x03}, 0},
	    {"zPR", 6, {0x03, 0xff, 0xff, 0xff, 0xff, 0x03}, 0},
	    {"zPR", 10, {0x04, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03}, 0},
	    {"zPR", 4, {0x0a, 0xff, 0xff, 0x03}, 0},
	    {"zPR", 10, {0x0c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03}, 0},
	    {"zPLR", 7, {0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03}, 0},
	    {"zPLRS", 7, {0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03}, 0},
	    {"zBR", 1, {0x03}, 0},
	    {"zGR", 1, {0x03}, 0},
	    {"zPR", 2, {0x05, 0x03}, ENOTSUP}, /* no such form */
	    {"zPR", 10, {0x50, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03}, ENOTSUP},
	    {"zPR", 5, {0x03, 0xff, 0xff, 0xff, 0x03}, ENOTSUP}, /* nothing is left for R */
	    {"zXR", 1, {0x03}, ENOTSUP},
	    {"zRX", 1, {0x03}, ENOTSUP},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool is_signal = strchr(rows[i].letters, 'S') != NULL;
		const unsigned char *fde = make_encoded(rows[i].letters, rows[i].data, rows[i].n, CODE, 4,
		    false);
		int err = row_at(fde, 99);
		is_int(err, rows[i].want, "letters %s, %u bytes that begin with %#x", rows[i].letters,
		    rows[i].n, rows[i].data[0]);
		ok(err != 0 || row.cfa == (is_signal ? cfi_cfa_signal : cfi_cfa_sp), "and its row");
		ok(err != 0 || row_at(fde, 100) == ENOENT, "and where it ends");
	}
}

/* Each form of an address: its width, its sign, what it is relative to. */
static void
test_encodings(void) {
	static const struct {
		unsigned char encoding, width;
		uintptr_t written, start;
		int want;
	} rows[] = {
	    {0x00, 8, 0x8000000080000000, 0x8000000080000000, 0},
	    {0x02, 2, 0x8000, 0x8000, 0},
	    {0x03, 4, 0x80000000, 0x80000000, 0},
	    {0x04, 8, 0x8000000080000000, 0x8000000080000000, 0},
	    {0x0a, 2, 0x8000, (uintptr_t)INT16_MIN, 0},
	    {0x0b, 4, 0x80000000, (uintptr_t)INT32_MIN, 0},
	    {0x0c, 8, 0x8000000080000000, 0x8000000080000000, 0},
	    {0x01, 1, 0x70, 0x70, ENOTSUP},        /* a number of as many bytes as it needs */
	    {0x05, 8, 0x10000, 0x10000, ENOTSUP},  /* no such form */
	    {0x23, 4, 0x10000, 0x10000, ENOTSUP},  /* relative to the text */
	    {0x83, 4, 0x10000, 0x10000, ENOTSUP},  /* the address of the address */
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned char e = rows[i].encoding;
		const unsigned char *fde = make_encoded("zR", &e, 1, rows[i].written, rows[i].width, false);
		is_int(cfi_row_of_fde(fde, rows[i].start, &row), rows[i].want,
		    "form %#x: the first byte", e);
		is_int(cfi_row_of_fde(fde, rows[i].start - 1, &row), rows[i].want != 0 ? ENOTSUP : ENOENT,
		    "the one before it");
		e |= 0x10;
		uintptr_t start = (uintptr_t)record + 0x7000;
		if (rows[i].want == 0) {
			fde = make_encoded("zR", &e, 1, start, rows[i].width, true);
			is_int(cfi_row_of_fde(fde, start, &row), 0, "form %#x: relative to its place", e);
		}
	}
}

static void
test_errors(void) {
	is_int(ROW_OF(0x3f), ENOTSUP, "unknown instruction");
	is_int(ROW_OF(0x0b), ENOTSUP, "restore_state without remember");
	is_int(ROW_OF(0x0a, 0x0a, 0x0a, 0x0a, 0x0a), ENOTSUP, "remembers too much");
	is_int(ROW_OF(0x0e), ENOTSUP, "cut operand");
	is_int(ROW_OF(0x0f, 50, 1), ENOTSUP, "block longer than the record");
	is_int(ROW_OF(0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), ENOTSUP,
	    "endless number");
	const unsigned char *fde = make_record("xR", usual, sizeof(usual));
	is_int(row_at(fde, 0), ENOTSUP, "unknown augmentation");
	fde = make_record("zR", usual, sizeof(usual));
	record[8] = 2;
	is_int(row_at(fde, 0), ENOTSUP, "unknown version");
	fde = make_record("zR", usual, sizeof(usual));
	record[16] = 0x0c;
	is_int(row_at(fde, 0), 0, "addresses of 8 bytes");
	record[16] = 0x8c;
	is_int(row_at(fde, 0), ENOTSUP, "addresses that are in memory");
	fde = make_record("zRL", usual, sizeof(usual));
	is_int(row_at(fde, 0), ENOTSUP, "letters for more bytes than the augmentation has");
	static const unsigned char zero[8];
	is_int(cfi_row_of_fde(zero, CODE, &row), ENOTSUP, "end mark");
	static const unsigned char hdr[12] = {2, 0x1b, 3, 0x3b};
	is_int(cfi_find_row(hdr, CODE, &row), ENOENT, "unknown header version");
	static const unsigned char wide[28] = {1, 0x1b, 4, 0x3b, [8] = 1};
	is_int(cfi_find_row(wide, UINTPTR_MAX, &row), ENOENT, "a count of 8 bytes is not read");
	static const unsigned char empty[12] = {1, 0x1b, 3, 0x3b};
	is_int(cfi_find_row(empty, CODE, &row), ENOENT, "empty table");
	static const unsigned char one[20] = {1, 0x1b, 0x13, 0x3b, [8] = 1};
	is_int(cfi_find_row(one, (uintptr_t)one, &row), ENOENT, "a count relative to its place");
}

/* Any bytes: an answer, no read outside (the sanitizer would see it), no endless loop. */
static void
test_garbage(void) {
	uint64_t state = 5;
	unsigned n_answers[3] = {0};
	for (unsigned i = 0; i < 300000; i++) {
		unsigned char program[40];
		size_t n = test_random(&state) % sizeof(program);
		for (size_t k = 0; k < n; k++) {
			program[k] = (unsigned char)test_random(&state);
		}
		int err = row_at(make_record("zR", program, n), test_random(&state) % 100);
		n_answers[err == 0 ? 0 : err == ENOTSUP ? 1 : 2]++;
	}
	ok(n_answers[0] > 0 && n_answers[1] > 0 && n_answers[2] == 0,
	    "300000 random programs: %u rows, %u refused", n_answers[0], n_answers[1]);
}

/* ---- records one after the other ---- */

static struct {
	cfi_record_t kind;
	size_t at, end;  /* its bytes in record[] */
	uintptr_t start; /* of the function, which has 100 bytes more than the record's number */
} rows[8];
static size_t nrows;

static void
put_row(cfi_record_t kind, size_t cie, uintptr_t start) {
	size_t at = record_len;
	put_u32(0);
	if (kind == cfi_record_cie) {
		put_u32(0);
		put_u8(1);
		put("zR", 3);
		put("\x01\x78\x10\x01\x03", 5); /* addresses of 4 bytes */
	} else if (kind == cfi_record_fde) {
		put_u32((uint32_t)(record_len - cie));
		put_u32((uint32_t)start);
		put_u32((uint32_t)(100 + nrows));
		put_u8(0);
	}
	patch_len(at);
	rows[nrows].kind = kind;
	rows[nrows].at = at;
	rows[nrows].end = record_len;
	rows[nrows++].start = start;
}

/* An .eh_frame of two CIEs, the FDEs of both, and the terminator. */
static void
make_rows(void) {
	record_len = nrows = 0;
	put_row(cfi_record_cie, 0, 0);
	put_row(cfi_record_fde, rows[0].at, CODE);
	put_row(cfi_record_fde, rows[0].at, CODE + 1000);
	put_row(cfi_record_cie, 0, 0);
	put_row(cfi_record_fde, rows[0].at, CODE + 3000);
	put_row(cfi_record_fde, rows[3].at, CODE + 2000);
	put_row(cfi_record_end, 0, 0);
}

/* The first n bytes of record[] in memory of their own; what lies behind them cannot be read. */
static unsigned char *
place_cut(size_t n) {
	enum { PAGE_MAX = 65536 };
	static unsigned char *pages;
	if (pages == NULL) {
		pages = mmap(NULL, 2 * PAGE_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
		mprotect(pages + PAGE_MAX, PAGE_MAX, PROT_NONE);
	}
	memcpy(pages + PAGE_MAX - n, record, n);
	return pages + PAGE_MAX - n;
}

/* The number of records that are not read as they should: all that are whole, and no other. */
static unsigned
n_misread(size_t n) {
	unsigned char *begin = place_cut(n);
	const unsigned char *p = begin;
	unsigned bad = 0;
	for (size_t i = 0; i < nrows; i++) {
		uintptr_t start = 0, size = 0;
		cfi_record_t kind = cfi_read_record(begin, &p, begin + n, &start, &size);
		if (rows[i].end > n) {
			return bad + wrong_if(kind != cfi_record_bad) + wrong_if(p != begin + rows[i].at);
		}
		bad += wrong_if(kind != rows[i].kind) || wrong_if(p != begin + rows[i].end)
		    || (kind == cfi_record_fde
		    && (wrong_if(start != rows[i].start) || wrong_if(size != 100 + i)));
	}
	return bad;
}

static void
test_records(void) {
	unsigned bad = 0;
	make_rows();
	for (size_t n = 0; n <= record_len; n++) {
		bad += n_misread(n);
	}
	is_uint(bad, 0, "an .eh_frame that ends at any byte: the records before are read");

	/* Any distance from an FDE back to its CIE. */
	size_t field = rows[4].at + 4;
	uintptr_t start, size;
	bad = 0;
	for (uint32_t back = 1; back < 2 * field; back++) {
		bool is_cie = back == field - rows[0].at || back == field - rows[3].at;
		memcpy(record + field, &back, 4);
		unsigned char *begin = place_cut(record_len);
		const unsigned char *p = begin + rows[4].at;
		cfi_record_t kind = cfi_read_record(begin, &p, begin + record_len, &start, &size);
		bad += wrong_if(kind != (is_cie ? cfi_record_fde : cfi_record_bad))
		    || wrong_if(p != begin + rows[4].end);
	}
	is_uint(bad, 0, "an FDE is none without a CIE before it");

	make_rows();
	memset(record + rows[3].at, 0xff, 4);
	uint64_t rest = record_len - rows[3].at - 12;
	memcpy(record + rows[3].at + 4, &rest, 8);
	const unsigned char *p = record + rows[3].at;
	ok(cfi_read_record(record, &p, record + record_len, &start, &size) == cfi_record_bad
	    && p == record + rows[3].at, "a length of 8 bytes is not followed");
}

/* Any bytes in it: each step goes on and stays within, or is the last one. */
static void
test_broken_records(void) {
	uint64_t state = 7;
	unsigned bad = 0, n_kinds[cfi_record_end + 1] = {0};
	uintptr_t start, size;
	for (unsigned i = 0; i < 100000; i++) {
		make_rows();
		for (unsigned k = 0; k <= i % 3; k++) {
			static const unsigned char any[] = {0, 1, 4, 11, 12, 0x7f, 0x80, 0xff};
			record[test_random(&state) % record_len] = any[test_random(&state) % sizeof(any)];
		}
		unsigned char *begin = place_cut(record_len), *end = begin + record_len;
		const unsigned char *p = begin, *last;
		do {
			last = p;
			cfi_record_t kind = cfi_read_record(begin, &p, end, &start, &size);
			n_kinds[kind]++;
			bad += wrong_if(p < last || p > end)
			    || wrong_if(p == last && kind != cfi_record_bad);
		} while (p > last && p < end);
	}
	ok(bad == 0 && n_kinds[cfi_record_bad] > 1000 && n_kinds[cfi_record_end] > 1000,
	    "100000 broken ones: %u records, %u bad ones, %u ends", n_kinds[cfi_record_cie]
	    + n_kinds[cfi_record_fde], n_kinds[cfi_record_bad], n_kinds[cfi_record_end]);
}

static int
find_own_row(void *ctx, const struct sys_module_s *m) {
	uintptr_t pc = (uintptr_t)ctx;
	if (pc < m->start || pc >= m->end || m->eh_frame_hdr == NULL) {
		return 0;
	}
	return cfi_find_row(m->eh_frame_hdr, pc, &row) == 0 ? 1 : 2;
}

static void
test_real(void) {
	int ret = sys_modules(find_own_row, (void *)(uintptr_t)test_real, "");
	if (ret == 0) {
		skip(1, "no .eh_frame_hdr");
		return;
	}
	ok(ret == 1 && row.cfa == cfi_cfa_sp && row.cfa_off == ENTRY_OFF,
	    "a real function at its entry");
}

/* Pushes regs.pc; on aarch64, whose pc has no such operator, its low bits as a number. */
#if defined(__x86_64__)
#define PUSH_PC 0x70 + PC, 0
#else
#define PUSH_PC 0x3c
#endif
#define EVAL(...) \
	cfi_eval((const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}), \
	    &regs, &value)

static void
test_eval(void) {
	uintptr_t word = 4711, value = 0;
	struct cfi_regs_s regs = {.pc = 0x1000c, .sp = (uintptr_t)&word, .fp = 4096};
	/* What linkers write for a PLT: sp + 8 + ((pc & 15) >= 11 ? 8 : 0). */
	ok(EVAL(0x70 + SP, 8, PUSH_PC, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22)
	    && value == regs.sp + 16,
	    "the expression of a PLT");
	ok(EVAL(0x70 + SP, 0, 0x06, 0x23, 0x81, 1) && value == 4711 + 129, "a word that is there");
	ok(EVAL(0x70 + FP, 0x7f) && value == 4095, "a negative offset");
	ok(EVAL(0x31, 0x70 + FP, 0x80, 0x60, 0x2a) && value == 1 && EVAL(0x31, 0x32, 0x2a) && value == 0
	    && EVAL(0x30, 0x70 + FP, 0xff, 0x5f, 0x2a) && value == 1, "greater or equal, with signs");
	ok(!EVAL(0x70 + FP, 0, 0x06), "memory that is not there");
	regs.dead = (uintptr_t)&word;
	regs.dead_end = (uintptr_t)(&word + 1);
	ok(!EVAL(0x70 + SP, 0, 0x06), "memory that the unwinder writes meanwhile");
	ok(!EVAL(0x31, 0x22) && !EVAL(0x23, 1) && !EVAL(0x06) && !EVAL(0x30, 0x31, 0x1c), "too few "
	    "values, an operation that is not known");
	ok(!EVAL(0x31, 0x31, 0x31, 0x31, 0x31, 0x31, 0x31, 0x31, 0x31), "too many");
	ok(!EVAL(0x73, 0) && !EVAL(0x2f, 0, 0) && !EVAL(0x23), "other registers, jumps, cut off");
}

int
main(void) {
	if (RA != 16 && RA != 30) {
		plan_skip_all("not for this processor");
	}
	test_usual();
	test_forms();
	test_ra_reg();
	test_letters();
	test_encodings();
	test_errors();
	test_garbage();
	test_records();
	test_broken_records();
	test_real();
	test_eval();
	return done_testing();
}
