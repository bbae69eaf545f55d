/*
 * prof.stats.*: counts of samples by size class, in two arrays (prof_stats.h).
 *
 * Invariant: a live count never goes below 0, because each free subtracts what its allocation
 * added. This holds because opt_prof_stats does not change after boot. Locks: none; the counters
 * are atomic, each for itself. Called by prof.c for samples, by ctl_prof.c and stats.c to read.
 */
#include "prof/sites/prof_stats.h"

#include "meta/sc.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_switch.h"
#include "util/atomic.h"

typedef struct {
	atomic_u64_t req_sum; /* requested bytes */
	atomic_u64_t count;   /* samples */
} class_stats_t;

static LARGE_BSS struct {
	class_stats_t live[SC_NSIZES];  /* samples that are not freed */
	class_stats_t accum[SC_NSIZES]; /* all samples since the start */
} stats;

static void
class_add(class_stats_t *s, size_t req) {
	atomic_fetch_add_u64(&s->req_sum, req, MO_RELAXED);
	atomic_fetch_add_u64(&s->count, 1, MO_RELAXED);
}

void
prof_stats_inc(unsigned szind, size_t req) {
	assert(szind < SC_NSIZES);
	class_add(&stats.live[szind], req);
	class_add(&stats.accum[szind], req);
}

void
prof_stats_dec(unsigned szind, size_t req) {
	assert(szind < SC_NSIZES);
	uint64_t sum = atomic_fetch_sub_u64(&stats.live[szind].req_sum, req, MO_RELAXED);
	uint64_t count = atomic_fetch_sub_u64(&stats.live[szind].count, 1, MO_RELAXED);
	/* This object's own prof_stats_inc() added as much. */
	assert(sum >= req && count > 0);
	(void)sum;
	(void)count;
}

int
prof_stats_read(bool is_accum, unsigned szind, prof_stats_t *out) {
	if (!prof_is_booted() || !opt_prof_stats || szind >= SC_NSIZES) {
		return ENOENT;
	}
	const class_stats_t *s = is_accum ? &stats.accum[szind] : &stats.live[szind];
	out->req_sum = atomic_load_u64(&s->req_sum, MO_RELAXED);
	out->count = atomic_load_u64(&s->count, MO_RELAXED);
	return 0;
}
