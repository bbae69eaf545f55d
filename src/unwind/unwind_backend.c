/*
 * Counters of stack walks: how they ended, how deep they were, and how many needed a row that
 * cannot be cached; unwind_backend.h has the interface of the methods. Invariant: each sample
 * counts once by depth and once by its end, but one of the method "none" or with room for 0 frames
 * has no end. Relaxed atomics, no lock, so numbers that are read together may differ by walks under
 * way. Counted by the methods and unwind.c; read by unwind.c; names of ends are read by prof_dump.c
 * and prof_root.c.
 */
#include "unwind/unwind_backend.h"

#include "util/assert.h"
#include "util/bits.h"

struct unwind_counts_s unwind_counts;

void
unwind_counts_read(struct unwind_stats_s *dst) {
	memset(dst, 0, sizeof(*dst));
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++) {
		dst->depths[i] = atomic_load_u64(&unwind_counts.depths[i], MO_RELAXED);
		dst->samples += dst->depths[i];
	}
	for (unsigned i = 0; i < unwind_stop_count; i++) {
		dst->stops[i] = atomic_load_u64(&unwind_counts.stops[i], MO_RELAXED);
	}
	dst->fallbacks = atomic_load_u64(&unwind_counts.fallbacks, MO_RELAXED);
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
