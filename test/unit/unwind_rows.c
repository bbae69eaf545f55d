/*
 * Rows of unwinding in one word, and their cache. Every kind of row with offsets on both sides of
 * each limit is packed, and what the word says is what the row was; rows of addresses that share
 * entries of the cache are found, moved, lost and forgotten, and each is that of the call before
 * its address; each counter is moved and read back.
 */
#include "test.h"

#include "unwind/module_history.h"
#include "unwind/objects.h"
#include "unwind/unwind_rows.h"

extern char _start[] __attribute__((weak)); /* which has no caller */

/* ------------------------------------------------------------------ packing */

#define LIMIT (INT64_C(8) << (ROW_OFF_BITS - 1)) /* bytes: an offset is from -LIMIT to below it */

static const int64_t offs[] = {0, 1, -4, 4, 8, -8, 12, 16, -16, 24, -24, LIMIT - 8, LIMIT - 1,
	LIMIT, -LIMIT, -LIMIT - 1, -LIMIT - 8, 2 * LIMIT, -2 * LIMIT, 4 * LIMIT + 8, INT64_MAX - 7,
	INT64_MIN};

static bool
fits(int64_t off) {
	return off % 8 == 0 && off >= -LIMIT && off < LIMIT;
}

/* The kind that a row is packed as. */
static unsigned
kind_of(const struct cfi_row_s *r) {
	if (r->cfa == cfi_cfa_signal) {
		return ROW_SIGNAL;
	}
	if (r->ra.kind == cfi_reg_undefined) {
		return ROW_END;
	}
	bool is_ra_known = r->ra.kind == cfi_reg_same
	    || (r->ra.kind == cfi_reg_at_cfa && r->ra.off < 0 && fits(r->ra.off));
	if (!fits(r->cfa_off) || !is_ra_known) {
		return ROW_UNKNOWN;
	}
	return r->cfa == cfi_cfa_sp ? ROW_SP : r->cfa == cfi_cfa_fp ? ROW_FP
	    : r->cfa == cfi_cfa_deref_fp ? ROW_DEREF : ROW_UNKNOWN;
}

static unsigned
fp_how(const struct cfi_rule_s *fp) {
	return fp->kind == cfi_reg_same ? ROW_FP_SAME
	    : fp->kind == cfi_reg_at_cfa && fits(fp->off) ? ROW_FP_CFA
	    : fp->kind == cfi_reg_at_fp && fits(fp->off) ? ROW_FP_FP : ROW_FP_LOST;
}

static bool
is_in_frame(const struct cfi_row_s *r, const struct cfi_rule_s *rule) {
	return rule->kind == cfi_reg_at_cfa && fits(rule->off) && rule->off < 0
	    && rule->off >= -r->cfa_off;
}

/* Whether a step by the row touches nothing outside of the frame. */
static bool
is_plain(const struct cfi_row_s *r) {
	bool is_usual = true;
#if defined(__x86_64__)
	is_usual = r->ra.off == -8;
#endif
	return kind_of(r) == ROW_SP && is_usual && is_in_frame(r, &r->ra)
	    && (r->fp.kind == cfi_reg_same || is_in_frame(r, &r->fp));
}

static unsigned
nwrong(const struct cfi_row_s *r) {
	row_t row = unwind_row_pack(r);
	unsigned kind = kind_of(r), how = fp_how(&r->fp);
	if (wrong_if(ROW_KIND(row) != kind)) {
		return 1;
	}
	if (kind == ROW_SIGNAL || kind == ROW_END || kind == ROW_UNKNOWN) {
		return wrong_if((row & ROW_PLAIN) != 0);
	}
	return wrong_if(ROW_CFA_OFF(row) != r->cfa_off)
	    || wrong_if(ROW_RA_OFF(row) != (r->ra.kind == cfi_reg_same ? 0 : r->ra.off))
	    || wrong_if(ROW_FP_HOW(row) != how)
	    || wrong_if((how == ROW_FP_CFA || how == ROW_FP_FP) && ROW_FP_OFF(row) != r->fp.off)
	    || wrong_if(((row & ROW_RA_SIGNED) != 0) != r->is_ra_signed)
	    || wrong_if(((row & ROW_PLAIN) != 0) != is_plain(r));
}

static void
test_pack(void) {
	static const cfi_cfa_t cfas[] = {cfi_cfa_bad, cfi_cfa_sp, cfi_cfa_fp, cfi_cfa_deref_fp,
		cfi_cfa_expression, cfi_cfa_signal};
	static const cfi_reg_t regs[] = {cfi_reg_same, cfi_reg_at_cfa, cfi_reg_at_fp,
		cfi_reg_undefined, cfi_reg_bad};
	unsigned bad = 0;
	uint64_t n = ARRAY_LEN(offs), all = 2 * ARRAY_LEN(cfas) * n * ARRAY_LEN(regs) * n
	    * ARRAY_LEN(regs) * n;
	for (uint64_t i = 0; i < all; i++) {
		uint64_t left = i / 2;
		struct cfi_row_s r = {.is_ra_signed = i % 2 != 0};
		r.cfa = cfas[left % ARRAY_LEN(cfas)];
		r.cfa_off = offs[(left /= ARRAY_LEN(cfas)) % n];
		r.fp.kind = regs[(left /= n) % ARRAY_LEN(regs)];
		r.fp.off = offs[(left /= ARRAY_LEN(regs)) % n];
		r.ra.kind = regs[(left /= n) % ARRAY_LEN(regs)];
		r.ra.off = offs[left / ARRAY_LEN(regs)];
		bad += nwrong(&r);
	}
	is_uint(bad, 0, "what a packed row says is what the row was, for %llu rows",
	    (unsigned long long)all);
}

/* ------------------------------------------------------------------ the cache */

static uint64_t
nmade(void) {
	struct unwind_stats_s stats;
	unwind_stats_read(&stats);
	return stats.rows_made;
}

/* Finds the row; whether it was read from the tables now, and counted once. */
static bool
is_made(uintptr_t pc, row_t *row) {
	uint64_t before = nmade();
	*row = unwind_row_find(pc);
	uint64_t made = nmade() - before;
	if (made > 1) {
		bail_out("counted twice");
	}
	return made == 1;
}

/* The next address behind pc, in the same object, whose row has the same entries in the cache. */
static uintptr_t
next_of_slot(uintptr_t pc) {
	uintptr_t next = pc + 1;
	while (row_slot(next) != row_slot(pc)) {
		next++;
	}
	return next;
}

static void
test_cache(void) {
	void (*volatile of_libc)(void *, size_t, size_t, int (*)(const void *, const void *)) = qsort;
	uintptr_t a = (uintptr_t)of_libc + 4, b = next_of_slot(a), c = next_of_slot(b);
	row_t row, first, again;
	ok(is_made(a, &row) && ROW_KIND(row) != ROW_MISSING, "a row is read from the tables");
	ok(!is_made(a, &again) && again == row, "and is in the cache");
	ok(is_made(b, &first) && !is_made(b, &again) && again == first, "so is another one");
	ok(!is_made(a, &again) && again == row, "besides which the first has the second entry");
	ok(is_made(c, &again) && !is_made(b, &again) && again == first, "a third one moves that on");
	ok(is_made(a, &again) && again == row, "and the first is lost");
	uint64_t before = nmade();
	is_uint(unwind_row_find(1), ROW_MISSING, "where no object is, there is no row");
	is_uint(unwind_row_find(1), ROW_MISSING, "nor later");
	is_uint(nmade(), before, "and none is stored");
}

/* What the tables say of the byte in front of a return address. */
static row_t
row_before(uintptr_t pc, struct cfi_row_s *r, bool *is_read) {
	struct cfi_row_s at;
	const void *hdr;
	*is_read = false;
	if (!objects_find(pc - 1, &hdr)) {
		return ROW_MISSING;
	}
	int err = cfi_find_row(hdr, pc - 1, r);
	*is_read = err == 0;
	if (err == ENOENT && cfi_find_row(hdr, pc, &at) == 0 && unwind_row_pack(&at) == ROW_END) {
		return ROW_END;
	}
	return err == 0 ? unwind_row_pack(r) : err == ENOENT ? ROW_NO_FDE : ROW_UNKNOWN;
}

static unsigned
nwrong_from(uintptr_t from, uintptr_t to) {
	unsigned bad = 0;
	for (uintptr_t pc = from; pc < to; pc++) {
		struct cfi_row_s r, read;
		bool is_there;
		row_t row = row_before(pc, &r, &is_there);
		memset(&read, 0, sizeof(read));
		bad += wrong_if(unwind_row_find(pc) != row)
		    || wrong_if(unwind_row_try_read(pc, &read) != is_there)
		    || wrong_if(is_there && unwind_row_pack(&read) != unwind_row_pack(&r));
	}
	return bad;
}

/* Every address of some functions, of the one that has no caller, and around the whole object. */
static void
test_places(void) {
	struct object_place_s o;
	uintptr_t pc = (uintptr_t)&nmade;
	is_uint(nwrong_from(pc - 2000, pc + 2000), 0, "rows are those of the call before");
	if (_start != NULL) {
		is_uint(nwrong_from((uintptr_t)_start - 16, (uintptr_t)_start + 64), 0, "and of the start");
	}
	if (objects_place(pc, &o)) {
		is_uint(nwrong_from(o.start - 2, o.start + 8), 0, "and where an object begins");
		is_uint(nwrong_from(o.end - 8, o.end + 4), 0, "and where it ends");
	}
}

static void
test_forgets(void) {
	enum { TIMES = 100 };
	static uint64_t salts[TIMES];
	uintptr_t pc = (uintptr_t)&nmade + 1;
	row_t row, again;
	unsigned bad = 0;
	uint64_t first = atomic_load_u64(&unwind_rows.generations, MO_RELAXED);
	is_made(pc, &row);
	for (unsigned i = 0; i < TIMES; i++) {
		salts[i] = atomic_load_u64(&unwind_rows.salt, MO_RELAXED);
		for (unsigned k = 0; k < i; k++) {
			bad += wrong_if(salts[k] == salts[i]);
		}
		unwind_rows_forget();
		uint64_t now = atomic_load_u64(&unwind_rows.generations, MO_RELAXED);
		bad += wrong_if(now != first + i + 1)
		    || wrong_if(!is_made(pc, &again)) || wrong_if(again != row)
		    || wrong_if(is_made(pc, &again));
	}
	is_uint(bad, 0, "a new generation has none of the rows of any before");
}

/* ------------------------------------------------------------------ counters */

static void
test_stats(void) {
	struct unwind_stats_s before, after;
	uint64_t n = 1000, samples = 0;
	unsigned bad = 0;
	unwind_stats_read(&before);
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		samples += n;
		atomic_fetch_add_u64(&unwind_counts.depths[i], n++, MO_RELAXED);
	}
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		atomic_fetch_add_u64(&unwind_counts.stops[i], n++, MO_RELAXED);
	}
	atomic_fetch_add_u64(&unwind_counts.fallbacks, n++, MO_RELAXED);
	atomic_fetch_add_u64(&unwind_rows.made, n++, MO_RELAXED);
	atomic_fetch_add_u64(&unwind_rows.generations, n++, MO_RELAXED);
	memset(&after, 0xa5, sizeof(after));
	unwind_stats_read(&after);
	n = 1000;
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		bad += wrong_if(after.depths[i] - before.depths[i] != n++);
	}
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		bad += wrong_if(after.stops[i] - before.stops[i] != n++);
	}
	is_uint(bad, 0, "each depth and each end is counted apart");
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		samples += before.depths[i];
	}
	is_uint(after.samples, samples, "samples are those of all depths");
	is_uint(after.fallbacks - before.fallbacks, n++, "fallbacks");
	is_uint(after.rows_made - before.rows_made, n++, "rows made");
	is_uint(after.generations - before.generations, n++, "generations");
	is_uint(after.without_hdr, before.without_hdr, "objects without a header");
	is_uint(after.scanned, before.scanned, "and those scanned");
}

int
main(void) {
	if (!config_prof) {
		plan_skip_all("no profiler in this build");
	}
	free(keep(malloc(1)));
	module_history_try_look(); /* for a C library without a look-up of objects */
	test_pack();
	test_cache();
	test_places();
	test_forgets();
	test_stats();
	return done_testing();
}
