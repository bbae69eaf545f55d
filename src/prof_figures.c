/* The arenas' own counters; no state. */
#include "prof_figures.h"

#include "arena/arena_stats.h"
#include "arena/arenas.h"
#include "arena/inspect.h"
#include "meta/freepool.h"
#include "os/pages.h"

void
prof_figures_read(prof_figures_t *to) {
	memset(to, 0, sizeof(*to));
	arena_stats_t *st = meta_alloc(sizeof(*st));
	if (st == NULL) {
		return;
	}
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		arena_t *a = arenas_get(i);
		if (a != NULL) {
			arena_stats_merge(a, st);
		}
	}
	to->allocated = st->small.allocated + st->large.allocated;
	to->active = st->pactive << LG_PAGE;
	to->resident = st->resident;
	to->retained = st->retained;
	meta_free(st, sizeof(*st));
}

/* Counts change under the bins' locks; a word read without is that of a moment ago. */
static uint64_t
arena_allocated(arena_t *a) {
	uint64_t bytes = atomic_load_zu(&a->large_allocated, MO_RELAXED);
	for (szind_t i = 0; i < SC_NBINS; i++) {
		uint64_t regs = 0;
		for (unsigned s = 0; s < bin_infos[i].n_shards; s++) {
			regs += __atomic_load_n(&arena_bin(a, i, s)->stats.curregs, MO_RELAXED);
		}
		bytes += regs * bin_infos[i].reg_size;
	}
	return bytes;
}

static uint64_t
arena_active(arena_t *a) {
	return (uint64_t)atomic_load_zu(&a->pac.nactive, MO_RELAXED) << LG_PAGE;
}

/* Over all arenas and the hidden ones of their sampled objects. */
static uint64_t
sum_over_arenas(uint64_t (*read)(arena_t *a)) {
	uint64_t sum = 0;
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		arena_t *a = arenas_get(i);
		arena_t *sampled = arenas_sampled_get(i);
		sum += a == NULL ? 0 : read(a);
		sum += sampled == NULL ? 0 : read(sampled);
	}
	return sum;
}

uint64_t
prof_figures_allocated(void) {
	return sum_over_arenas(arena_allocated);
}

uint64_t
prof_figures_active(void) {
	return sum_over_arenas(arena_active);
}
