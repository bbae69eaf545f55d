/*
 * unwind/frame_scan.h: objects made by hand, in memory: which functions are taken, by a table of
 * their ranges; where their records may lie; all look-ups against a model; objects that change, or
 * are loaded in the place of others; a full list.
 */
#include "test.h"

#include <link.h>
#include <sys/mman.h>

#include "os/sys.h"
#include "unwind/frame_scan.h"
#include "unwind/unwind_backend.h"

#define PAGE_BYTES ((size_t)64 << 10) /* of any system */
#define CODE_PAGE 3
#define OBJECT_PAGES 5
#define OBJECT_BYTES (OBJECT_PAGES * PAGE_BYTES)
#define CODE_BYTES 5000
#define N_FUNCTIONS 400

/* Two segments without code, of a page and of two, and one with CODE_BYTES of code in page 3. */
static ElfW(Phdr) headers[4];
static struct sys_module_s m;
static unsigned char *object, *at; /* the first address, and where the next bytes are put */
static char path[32];

static void
put_u32(uint32_t v) {
	memcpy(at, &v, sizeof(v));
	at += sizeof(v);
}

/* A CIE whose FDEs name functions by their distance, in 4 bytes. */
static unsigned char *
put_cie(void) {
	static const unsigned char rest[12] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b};
	unsigned char *begin = at;
	put_u32(sizeof(rest) + 4);
	put_u32(0);
	memcpy(at, rest, sizeof(rest));
	at += sizeof(rest);
	return begin;
}

static unsigned char *
put_fde(const unsigned char *cie, const unsigned char *start, size_t size) {
	unsigned char *begin = at;
	put_u32(16);
	put_u32((uint32_t)(at - cie));
	put_u32((uint32_t)(start - at));
	put_u32((uint32_t)size);
	put_u32(0);
	return begin;
}

static size_t
first_page(unsigned segment) {
	return segment == 2 ? CODE_PAGE : segment;
}

/* A new object, of bytes 0xff, with no other one beside it. */
static unsigned char *
object_new(void) {
	static unsigned number;
	object = mmap(NULL, OBJECT_BYTES + 2 * PAGE_BYTES, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (object == MAP_FAILED) {
		bail_out("mmap");
	}
	object += PAGE_BYTES;
	memset(object, 0xff, OBJECT_BYTES);
	uintptr_t vaddr = 0x7000000;
	for (unsigned i = 0; i < 3; i++) {
		headers[i] = (ElfW(Phdr)){.p_type = PT_LOAD, .p_flags = i < 2 ? PF_R : PF_R | PF_X,
			.p_vaddr = vaddr + first_page(i) * PAGE_BYTES,
			.p_filesz = i < 2 ? (i + 1) * PAGE_BYTES : CODE_BYTES};
		headers[i].p_memsz = headers[i].p_filesz;
	}
	headers[3] = (ElfW(Phdr)){.p_type = PT_NOTE, .p_flags = PF_R | PF_X, .p_vaddr = vaddr,
		.p_filesz = OBJECT_BYTES, .p_memsz = OBJECT_BYTES};
	snprintf(path, sizeof(path), "object%u", number++);
	m = (struct sys_module_s){.start = (uintptr_t)object, .end = (uintptr_t)object + OBJECT_BYTES,
		.bias = (uintptr_t)object - vaddr, .path = path, .headers = headers, .n_headers = 4};
	at = object;
	return object + CODE_PAGE * PAGE_BYTES;
}

static const unsigned char *
find(const unsigned char *pc) {
	return frame_scan_find((uintptr_t)pc);
}

/* Counts of objects that were seen since the last call, and of those with an .eh_frame. */
static unsigned
nseen(unsigned *nscanned) {
	static uint64_t last[2];
	struct unwind_stats_s s;
	memset(&s, 0, sizeof(s));
	frame_scan_stats(&s);
	unsigned n = (unsigned)(s.without_hdr - last[0]);
	*nscanned = (unsigned)(s.scanned - last[1]);
	last[0] = s.without_hdr;
	last[1] = s.scanned;
	return n;
}

/* ------------------------------------------------------------------ functions */

/* A function beside a good one at byte 40 of the code: whether it is taken. */
static void
test_ranges(void) {
	static const struct {
		int start;
		unsigned size;
		bool is_in;
	} of[] = {
		{0, 1, true}, {0, CODE_BYTES, true}, {0, CODE_BYTES + 1, false}, {0, 0, false},
		{-1, 1, false}, {-1, 2, false}, {-1, CODE_BYTES + 1, false}, {50, 0, false},
		{50, 1, true}, {50, CODE_BYTES - 50, true}, {50, CODE_BYTES - 49, false},
		{CODE_BYTES - 1, 1, true}, {CODE_BYTES - 1, 2, false}, {CODE_BYTES, 1, false},
		{CODE_BYTES, 0, false}, {-(int)PAGE_BYTES, 8, false}, {(int)PAGE_BYTES, 8, false},
		{50, UINT32_MAX, false}, {-1, UINT32_MAX, false},
	};
	for (unsigned i = 0; i < ARRAY_LEN(of) * 2; i++) {
		const unsigned char *code = object_new(), *pc = code + of[i / 2].start;
		const unsigned char *cie = put_cie(), *good, *fde;
		if (i % 2 == 0) {
			good = put_fde(cie, code + 40, 8);
			fde = put_fde(cie, pc, of[i / 2].size);
		} else {
			fde = put_fde(cie, pc, of[i / 2].size);
			good = put_fde(cie, code + 40, 8);
		}
		frame_scan_look(&m);
		const unsigned char *want = of[i / 2].is_in ? fde : pc < code + 40 ? NULL : good;
		ok(find(pc) == want && find(code + 40) == (of[i / 2].start == 40 ? fde : good),
		    "%d + %u, %s: %s", of[i / 2].start, of[i / 2].size, i % 2 == 0 ? "last" : "first",
		    of[i / 2].is_in ? "taken" : "left out");
	}
}

/* Functions in any order, of several CIEs, up to the end of the segment or a word 0. */
static void
test_model(bool is_ended) {
	static const unsigned char *fdes[CODE_BYTES], *cie;
	uint64_t rnd = 5 + is_ended;
	unsigned n = 0, bad = 0;
	const unsigned char *code = object_new(), *want = NULL;
	memset(fdes, 0, sizeof(fdes));
	while (n < N_FUNCTIONS) {
		unsigned start = (unsigned)draw_below(&rnd, CODE_BYTES);
		if (n == 0 || draw_below(&rnd, 20) == 0) {
			cie = put_cie();
		}
		if (fdes[start] == NULL) {
			fdes[start] = put_fde(cie, code + start, 1);
			n++;
		}
	}
	if (is_ended) {
		put_u32(0);
		put_fde(cie, code, CODE_BYTES);
	} else {
		headers[0].p_filesz = (size_t)(at - object);
		headers[1].p_type = PT_NULL;
	}
	frame_scan_look(&m);
	for (unsigned i = 0; i < CODE_BYTES; i++) {
		want = fdes[i] != NULL ? fdes[i] : want;
		bad += wrong_if(find(code + i) != want);
	}
	is_uint(bad, 0, "every byte of the code leads to the function before it");
}

/* ------------------------------------------------------------------ where it lies */

static void
test_places(void) {
	unsigned n, nscanned;
	/* Other words before it, among them a CIE of no function and one of what is no code. */
	for (unsigned skip = 0; skip <= 64; skip += 4) {
		const unsigned char *code = object_new();
		at += skip;
		put_cie();
		put_u32(0x12345678);
		put_fde(put_cie(), object, 8);
		put_u32(0x12345678);
		const unsigned char *fde = put_fde(put_cie(), code, 8);
		frame_scan_look(&m);
		ok(find(code) == fde, "behind %u other bytes", skip);
	}
	/* Up to the last byte of a segment, whose size may be odd, and not beyond it. */
	for (int more = -1; more < 4; more++) {
		const unsigned char *code = object_new();
		at = object + PAGE_BYTES - 64;
		const unsigned char *cie = put_cie(), *one = put_fde(cie, code, 8);
		const unsigned char *two = put_fde(cie, code + 8, 8);
		headers[0].p_filesz = (size_t)(at - object) + (size_t)more;
		headers[1].p_type = PT_NULL;
		frame_scan_look(&m);
		ok(find(code) == one && find(code + 8) == (more < 0 ? one : two), "a segment of %+d", more);
	}
	nseen(&nscanned);
	/* In any segment that is mapped for reading; in code only if it is nowhere else. */
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned is_read = 0; is_read < 2; is_read++) {
			const unsigned char *code = object_new();
			at = object + first_page(i) * PAGE_BYTES + 16;
			const unsigned char *fde = put_fde(put_cie(), code + CODE_BYTES - 8, 8);
			headers[i].p_flags &= ~(is_read ? 0 : (unsigned)PF_R);
			ok(frame_scan_look(&m), "a new object is looked at");
			n = nseen(&nscanned);
			ok(find(code + CODE_BYTES - 1) == (is_read ? fde : NULL) && n == 1
			    && nscanned == is_read, "segment %u, %s", i, is_read ? "read" : "not read");
		}
	}
	const unsigned char *code = object_new();
	at = object + CODE_PAGE * PAGE_BYTES + 16;
	put_fde(put_cie(), code + 100, 8);
	at = object + PAGE_BYTES;
	const unsigned char *fde = put_fde(put_cie(), code + 100, 8);
	frame_scan_look(&m);
	ok(find(code + 100) == fde, "data before code");
	/* A page that cannot be read is passed over: before it, behind it, behind other bytes. */
	for (unsigned i = 0; i < 3; i++) {
		static const unsigned of_frames[] = {1, 0, 2}, unreadable[] = {0, 1, 1};
		code = object_new();
		headers[0].p_filesz = 3 * PAGE_BYTES;
		headers[1].p_type = PT_NULL;
		at = object + of_frames[i] * PAGE_BYTES;
		fde = put_fde(put_cie(), code, 8);
		mprotect(object + unreadable[i] * PAGE_BYTES, PAGE_BYTES, PROT_NONE);
		frame_scan_look(&m);
		ok(find(code) == fde, "page %u of three cannot be read", unreadable[i]);
	}
}

/* The versions of a CIE without an augmentation, of the least length and longer. */
static void
test_cies(void) {
	for (unsigned version = 0; version < 6; version++) {
		for (unsigned more = 0; more < 9; more += 4) {
			const unsigned char *code = object_new(), *cie = at;
			const unsigned char rest[] = {(unsigned char)version, 0, 1, 0x78, 16, 0, 0, 0};
			const unsigned char rest4[] = {4, 0, 8, 0, 1, 0x78, 16, 0};
			uint64_t start = (uint64_t)(uintptr_t)code, size = 8;
			put_u32(12 + more);
			put_u32(0);
			memcpy(at, version == 4 ? rest4 : rest, 8);
			memset(at + 8, 0, more);
			at += 8 + more;
			const unsigned char *fde = at;
			put_u32(20);
			put_u32((uint32_t)(at - cie));
			memcpy(at, &start, 8);
			memcpy(at + 8, &size, 8);
			at += 16;
			frame_scan_look(&m);
			bool is_good = version == 1 || version == 3 || version == 4;
			ok(find(code) == (is_good ? fde : NULL), "version %u, of %u bytes", version, 12 + more);
		}
	}
}

/* ------------------------------------------------------------------ what changes */

static void
test_changes(void) {
	const unsigned char *code = object_new(), *fde, *cie = put_cie();
	static const unsigned char id[2][4] = {"one", "two"};
	unsigned nscanned;
	put_fde(cie, code, 8);
	fde = put_fde(cie, code + 8, 8);
	m.build_id = id[0];
	m.build_id_len = sizeof(id[0]);
	nseen(&nscanned);
	ok(frame_scan_look(&m) && !frame_scan_look(&m) && nseen(&nscanned) == 1,
	    "an object is looked at once");
	/* Each word of its records that is another one: not found as long as it is. */
	unsigned char *words[] = {object, object + 4, (unsigned char *)fde, (unsigned char *)fde + 4,
		(unsigned char *)fde + 8};
	for (unsigned i = 0; i < ARRAY_LEN(words); i++) {
		uint32_t was, other[] = {0xffffffff, 0, 4096, 1};
		memcpy(&was, words[i], 4);
		for (unsigned k = 0; k < ARRAY_LEN(other); k++) {
			memcpy(words[i], &other[k], 4);
			ok(other[k] == was || find(code + 8) == NULL, "word %u is %#x", i, other[k]);
		}
		memcpy(words[i], &was, 4);
		ok(find(code + 8) == fde, "and as it was");
	}
	mprotect(object, PAGE_BYTES, PROT_NONE);
	ok(find(code + 8) == NULL, "its pages cannot be read");
	mprotect(object, PAGE_BYTES, PROT_READ | PROT_WRITE);
	/* Another object in its place, by whatever it differs. */
	m.build_id = id[1];
	ok(frame_scan_look(&m) && !frame_scan_look(&m), "another build id");
	m.path = "elsewhere";
	ok(frame_scan_look(&m) && !frame_scan_look(&m), "another path");
	m.build_id_len = 0;
	ok(frame_scan_look(&m) && !frame_scan_look(&m), "no build id");
	m.end -= PAGE_BYTES;
	ok(frame_scan_look(&m) && !frame_scan_look(&m), "another end");
	at = (unsigned char *)cie;
	cie = put_cie();
	put_fde(cie, code + 8, 8);
	fde = put_fde(cie, code, 8);
	m.start += 4;
	ok(frame_scan_look(&m) && !frame_scan_look(&m) && find(code) == fde,
	    "another start: the newest is found");
	m.eh_frame_hdr = object;
	m.path = "with a table";
	ok(!frame_scan_look(&m), "with .eh_frame_hdr it is no object of these");
	is_uint(nseen(&nscanned), 5, "each is one more");
	is_uint(nscanned, 5, "and has its table");
}

static void
test_wanted(void) {
	const unsigned char *code = object_new();
	uintptr_t last = m.end - 1;
	put_fde(put_cie(), code, 8);
	frame_scan_begin();
	ok(!frame_scan_is_wanted(), "no walk has come by");
	ok(!frame_scan_try_know(m.start) && frame_scan_is_wanted(), "an unknown one: a look is wanted");
	frame_scan_begin();
	ok(!frame_scan_is_wanted(), "until it begins");
	frame_scan_look(&m);
	ok(frame_scan_try_know(m.start) && frame_scan_try_know(last) && !frame_scan_is_wanted(),
	    "it is known from its first byte to its last");
	ok(!frame_scan_try_know(last + 1) && !frame_scan_try_know(m.start - 1), "and not beyond");
	frame_scan_begin();
	unsigned n = 0;
	while (n < 200 && (object_new(), frame_scan_look(&m))) {
		munmap(object, OBJECT_BYTES);
		n++;
	}
	struct unwind_stats_s s;
	memset(&s, 0, sizeof(s));
	frame_scan_stats(&s);
	ok(s.without_hdr == 128 && n > 0, "a list of 128 (%u here) is full", n);
	ok(!frame_scan_try_know(16) && !frame_scan_is_wanted(), "then no look is wanted");
	ok(find(code) != NULL, "those that are in it are found");
}

int
main(void) {
	test_model(false);
	test_model(true);
	test_ranges();
	test_places();
	test_cies();
	test_changes();
	test_wanted();
	return done_testing();
}
