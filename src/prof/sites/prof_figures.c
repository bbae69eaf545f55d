/*
 * Sums of the arenas' counters for the course, triggers and requests (prof_figures.h).
 *
 * Invariant: none of its own; it has no state. A counter is read without the lock of its bin, so it
 * may be a moment old. Locks: only those of metadata and, for prof_figures_live(), of the arenas'
 * lists of thread caches, each for a moment. Called by prof_course.c, prof_trigger.c and
 * prof_request.c, inside the fork gate (os/gate.h).
 */
#include "prof/sites/prof_figures.h"

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "extent/piece.h"
#include "os/pages.h"

static size_t
arena_allocated(arena_t *a) {
	size_t bytes = atomic_load_zu(&a->large_allocated, MO_RELAXED);
	for (szind_t i = 0; i < SC_NBINS; i++) {
		size_t regs = 0;
		for (unsigned s = 0; s < bin_infos[i].n_shards; s++) {
			regs += __atomic_load_n(&arena_bin(a, i, s)->stats.curregs, MO_RELAXED);
		}
		bytes += regs * bin_infos[i].reg_size;
	}
	return bytes;
}

static size_t
arena_active(arena_t *a) {
	return pac_nactive(&a->pac) << LG_PAGE;
}

static size_t
arena_retained(arena_t *a) {
	return ecache_npages(&a->pac.retained) << LG_PAGE;
}

/* The sum of read() over all arenas, and over the hidden arenas, which hold their samples. */
static uint64_t
sum_over_arenas(size_t (*read)(arena_t *a)) {
	uint64_t sum = 0;
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		arena_t *a = arenas_get(i);
		arena_t *sampled = arenas_sampled_get(i);
		sum += a == NULL ? 0 : read(a);
		sum += sampled == NULL ? 0 : read(sampled);
	}
	return sum;
}

/* Caches change meanwhile; the error is at most about one fill or flush for each running thread. */
uint64_t
prof_figures_live(void) {
	uint64_t allocated = sum_over_arenas(arena_allocated);
	uint64_t cached = sum_over_arenas(arena_cached_bytes);
	return allocated < cached ? 0 : allocated - cached;
}

uint64_t
prof_figures_active(void) {
	return sum_over_arenas(arena_active);
}

uint64_t
prof_figures_resident(void) {
	return sum_over_arenas(arena_resident);
}

void
prof_figures_read(prof_figures_t *to) {
	to->allocated = sum_over_arenas(arena_allocated);
	to->active = prof_figures_active();
	to->resident = prof_figures_resident();
	to->retained = sum_over_arenas(arena_retained);
	to->mapped = sum_over_arenas(arena_mapped);
	to->metadata = sum_over_arenas(arena_metadata);
	thp_stats_t thp;
	thp_stats_read(&thp);
	to->huge = (uint64_t)thp.pieces * PIECE_SIZE;
	to->populated = thp.populated;
}
