/*
 * The cache of unwind rows: packing rows, generations, finding and storing; counters of walks. Each
 * address has a pair of entries, row_slot() and the slot beside it: a new row is stored in the
 * first and moves the row there to the second, whose row is lost; a look-up tries both, the fast
 * step (unwind_fp.c) only the first. unwind_rows.h explains why no lock is needed. Invariant: a row
 * in the cache is correct for its generation, and a step by a plain row stays inside the frame.
 * unwind_step.c, code.c and the boot of unwind_fp.c call unwind_row_find(); unwind_step.c also
 * packs rows of its own; module_history.c forgets all rows. The counters of walks are here too,
 * because the methods count and unwind.c calls the methods: each sample counts once by depth and
 * once by its end, but one without a method or with room for 0 frames has no end. They are relaxed
 * atomics, so numbers that are read together may differ by walks under way. prof_dump.c,
 * prof_course.c and prof_request.c read them; prof_dump.c and prof_root.c the names of ends.
 */
#include "unwind/unwind_rows.h"

#include "os/sys.h"
#include "unwind/frame_scan.h"
#include "unwind/objects.h"
#include "util/hash.h"

/* Bits: kind 3, plain 1, frame pointer 2, signed 1 and the three offsets fill one word. */
cassert(7 + 3 * ROW_OFF_BITS == 64);
cassert(ROW_MISSING == 0 && ROW_UNKNOWN <= 7 && ROW_FP_LOST <= 3);
cassert(ROW_FP_SAME == 0 && ROW_FP_CFA == 1);
/* Slots form pairs (index xor 1). */
cassert(N_ROWS % 2 == 0 && LG_ROWS < 64);
/* An entry does not cross a cache line. */
cassert(sizeof(struct row_entry_s) == 16 && CACHELINE % sizeof(struct row_entry_s) == 0);

LARGE_BSS struct unwind_rows_s unwind_rows;
struct unwind_counts_s unwind_counts;

/* ---- generations ---- */

void
unwind_rows_forget(void) {
	uint64_t n = atomic_fetch_add_u64(&unwind_rows.generations, 1, MO_RELAXED) + 1;
	atomic_store_u64(&unwind_rows.salt, hash_mix64(n), MO_RELEASE);
}

void
unwind_stats_read(struct unwind_stats_s *dst) {
	memset(dst, 0, sizeof(*dst));
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		dst->depths[i] = atomic_load_u64(&unwind_counts.depths[i], MO_RELAXED);
		dst->samples += dst->depths[i];
	}
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		dst->stops[i] = atomic_load_u64(&unwind_counts.stops[i], MO_RELAXED);
	}
	dst->fallbacks = atomic_load_u64(&unwind_counts.fallbacks, MO_RELAXED);
	dst->rows_made = atomic_load_u64(&unwind_rows.made, MO_RELAXED);
	dst->generations = atomic_load_u64(&unwind_rows.generations, MO_RELAXED);
	frame_scan_stats(dst);
}

const char *
unwind_stop_name(unwind_stop_t stop) {
	static const char *const names[unwind_stop_count] = {
		[unwind_stop_end] = "end",
		[unwind_stop_full] = "full",
		[unwind_stop_no_module] = "no_module",
		[unwind_stop_no_row] = "no_row",
		[unwind_stop_bad_frame] = "bad_frame",
	};
	assert(stop < unwind_stop_count);
	return names[stop];
}

/* ---- rows ---- */

/* Whether an offset is a multiple of 8 that fits into a packed row. */
static bool
is_words(int64_t off) {
	int64_t limit = INT64_C(1) << (ROW_OFF_BITS - 1);
	return (off & 7) == 0 && off / 8 >= -limit && off / 8 < limit;
}

/* The bits of the frame pointer's rule in a row: ROW_FP_LOST if it does not fit or has no place. */
static row_t
pack_fp_rule(const struct cfi_rule_s *rule) {
	row_t off = ROW_PACK_FP(rule->off / 8);
	switch (rule->kind) {
	case cfi_reg_same:
		return ROW_FP_SAME << 4;
	case cfi_reg_at_cfa:
		return is_words(rule->off) ? off | ROW_FP_CFA << 4 : ROW_FP_LOST << 4;
	case cfi_reg_at_fp:
		return is_words(rule->off) ? off | ROW_FP_FP << 4 : ROW_FP_LOST << 4;
	default:
		return ROW_FP_LOST << 4;
	}
}

/* Adds the rule of the return address to *row; false (*row is then spoilt) if it does not fit. */
static bool
pack_ra_rule(const struct cfi_rule_s *rule, row_t *row) {
	if (rule->kind == cfi_reg_same) {
		return true;
	}
	*row |= ROW_PACK_RA(rule->off / 8);
	return rule->kind == cfi_reg_at_cfa && rule->off < 0 && is_words(rule->off);
}

/* Whether the row is plain: a ROW_SP whose return address and frame pointer lie in its frame. */
static bool
is_plain(row_t row) {
	int64_t size = ROW_CFA_OFF(row);
	if (ROW_KIND(row) != ROW_SP || ROW_FP_HOW(row) > ROW_FP_CFA) {
		return false;
	}
	bool is_fp_inside = ROW_FP_HOW(row) == ROW_FP_SAME
	    || (ROW_FP_OFF(row) < 0 && ROW_FP_OFF(row) >= -size);
	bool is_ra_inside = ROW_RA_OFF(row) < 0 && ROW_RA_OFF(row) >= -size;
	return is_ra_inside && is_fp_inside && RA_OFF_PLAIN(row) == (uintptr_t)ROW_RA_OFF(row);
}

/* Asserts that unpacking yields what was packed. Only for rows that a step uses. */
static void
row_check(row_t row, const struct cfi_row_s *r) {
	assert(ROW_CFA_OFF(row) == r->cfa_off);
	assert(ROW_RA_OFF(row) == (r->ra.kind == cfi_reg_at_cfa ? r->ra.off : 0));
	assert((ROW_FP_HOW(row) != ROW_FP_CFA && ROW_FP_HOW(row) != ROW_FP_FP)
	    || ROW_FP_OFF(row) == r->fp.off);
	assert(((row & ROW_RA_SIGNED) != 0) == r->is_ra_signed);
	assert((row & ROW_PLAIN) == 0);
}

row_t
unwind_row_pack(const struct cfi_row_s *r) {
	static const unsigned char kinds[] = {
		[cfi_cfa_bad] = ROW_UNKNOWN,
		[cfi_cfa_expression] = ROW_UNKNOWN,
		[cfi_cfa_sp] = ROW_SP,
		[cfi_cfa_fp] = ROW_FP,
		[cfi_cfa_deref_fp] = ROW_DEREF,
		[cfi_cfa_signal] = ROW_SIGNAL,
	};
	if (r->cfa == cfi_cfa_signal) {
		return ROW_SIGNAL;
	}
	if (r->ra.kind == cfi_reg_undefined) {
		return ROW_END;
	}
	row_t row = kinds[r->cfa] | ROW_PACK_CFA(r->cfa_off / 8) | pack_fp_rule(&r->fp);
	row |= r->is_ra_signed ? ROW_RA_SIGNED : 0;
	if (!is_words(r->cfa_off) || !pack_ra_rule(&r->ra, &row)) {
		return ROW_UNKNOWN;
	}
	if (config_debug && ROW_KIND(row) != ROW_UNKNOWN) {
		row_check(row, r);
	}
	return is_plain(row) ? row | ROW_PLAIN : row;
}

/* Stores a row in the first entry of its pair; the row there moves to the second entry. */
static void
row_store(uintptr_t pc, row_t row, uint64_t salt) {
	/* A stored ROW_MISSING would match an empty entry. */
	assert(ROW_KIND(row) != ROW_MISSING && row_slot(pc) < N_ROWS);
	struct row_entry_s *e = &unwind_rows.rows[row_slot(pc)];
	struct row_entry_s *other = &unwind_rows.rows[row_slot(pc) ^ 1];
	atomic_store_u64(&other->row, atomic_load_u64(&e->row, MO_RELAXED), MO_RELAXED);
	atomic_store_u64(&other->key, atomic_load_u64(&e->key, MO_RELAXED), MO_RELAXED);
	atomic_store_u64(&e->row, row, MO_RELAXED);
	atomic_store_u64(&e->key, row_key(pc, row, salt), MO_RELAXED);
	atomic_fetch_add_u64(&unwind_rows.made, 1, MO_RELAXED);
}

/*
 * Computes the row of an address in an object, by its .eh_frame_hdr or, without one, by the table
 * that a scan has made. The result is that of cfi_find_row().
 */
static int
find_row(const void *hdr, uintptr_t pc, struct cfi_row_s *r) {
	if (hdr != NULL) {
		return cfi_find_row(hdr, pc, r);
	}
	const unsigned char *fde = frame_scan_find(pc);
	return fde == NULL ? ENOENT : cfi_row_of_fde(fde, pc, r);
}

/*
 * Computes the row of the call before pc, or a kind that says why there is none. A context that was
 * made by hand may return to the first instruction of a function that has no caller: there is no
 * call before that address, so a row at pc itself counts if it is that of an outermost frame.
 */
static row_t
row_make(const void *hdr, uintptr_t pc) {
	struct cfi_row_s r;
	int err = find_row(hdr, pc - 1, &r);
	if (err == 0) {
		return unwind_row_pack(&r);
	}
	if (err == ENOENT && find_row(hdr, pc, &r) == 0 && unwind_row_pack(&r) == ROW_END) {
		return ROW_END;
	}
	return err == ENOENT ? ROW_NO_FDE : ROW_UNKNOWN;
}

/*
 * Whether there is an object at pc whose .eh_frame_hdr, if it has one (*hdr), can be read; only its
 * first bytes are tried. An object that is being unloaded is unmapped before the C library forgets
 * it; if other code is mapped there meanwhile, the address is still found in the object although
 * its tables are gone.
 */
static bool
has_tables(uintptr_t pc, const void **hdr) {
	return objects_find(pc - 1, hdr) && (*hdr == NULL || sys_is_readable(*hdr, CFI_HDR_BYTES));
}

bool
unwind_row_try_read(uintptr_t pc, struct cfi_row_s *r) {
	const void *hdr;
	return has_tables(pc, &hdr) && find_row(hdr, pc - 1, r) == 0;
}

row_t
unwind_row_find(uintptr_t pc) {
	uint64_t salt = atomic_load_u64(&unwind_rows.salt, MO_ACQUIRE);
	row_t row = row_load(row_slot(pc), pc, salt);
	if (row == ROW_MISSING) {
		row = row_load(row_slot(pc) ^ 1, pc, salt);
	}
	const void *hdr;
	if (row == ROW_MISSING && has_tables(pc, &hdr)) {
		row = row_make(hdr, pc);
		row_store(pc, row, salt);
	}
	return row;
}
