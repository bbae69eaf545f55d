/*
 * Large objects by the hot extent of their page class (extent/pac.h): a size that was freed a moment
 * ago is allocated again, without lock and gate.  What large.c does, for the one case that is quick;
 * false sends the caller there, and nothing has changed.
 * Only for classes that no thread cache holds, and for objects that are no samples.
 */
#ifndef ARENA_LARGE_HOT_H
#define ARENA_LARGE_HOT_H

#include "arena/arena.h"
#include "arena/large_tail.h"

/* usize: whole pages, more than caches may hold, no more than the largest size; is_bounded: by a bounded cache's slot. */
ALWAYS_INLINE bool
large_hot_is_malloced(arena_t *a, size_t usize, bool is_bounded, void **p) {
	assert(usize > sz_i2s(emap_ncacheable - 1) && (usize & PAGE_MASK) == 0);
	size_t size = usize + ((size_t)opt_cache_oblivious << LG_PAGE);
	size = is_bounded ? align_up(size, max_zu(PAC_GRAIN, PAGE)) : size;
	unsigned pind = is_bounded ? pac_hot_bounded() : sz_psz_floor(size);
	edata_t *e = pac_hot_pop(&a->pac, pind, size);
	if (unlikely(e == NULL)) {
		return false;
	}
	/* Left by large_hot_is_freed() it is ready. */
	if (unlikely(e->szind == SC_NSIZES || e->u.large_usize != usize)) {
		e->szind = (uint8_t)sz_s2i(usize);
		e->u.large_usize = usize;
		e->u.large_pind = (uint8_t)pind;
		e->u.large_start = arena_large_start(a, e);
		large_tail_mark(e);
	}
	if (config_stats) {
		arena_large_count_t *c = &a->large[e->szind - SC_NBINS];
		atomic_fetch_add_u64(&c->nhot, 1, MO_RELAXED);
		atomic_fetch_add_zu(&a->large_allocated, usize, MO_RELAXED);
	}
	*p = e->u.large_start;
	return true;
}

ALWAYS_INLINE void
large_hot_count_free(arena_t *a, const edata_t *e) {
	if (config_stats) {
		atomic_fetch_add_u64(&a->large[e->szind - SC_NBINS].ndalloc, 1, MO_RELAXED);
		atomic_fetch_sub_zu(&a->large_allocated, e->u.large_usize, MO_RELAXED);
	}
}

static NOINLINE void
large_hot_uncount_free(arena_t *a, const edata_t *e) {
	if (config_stats) {
		atomic_fetch_sub_u64(&a->large[e->szind - SC_NBINS].ndalloc, 1, MO_RELAXED);
		atomic_fetch_add_zu(&a->large_allocated, e->u.large_usize, MO_RELAXED);
	}
}

/*
 * a: the arena of e, an active extent; ptr: its object, if all is right; is_bounded: the limit of a's cache is
 * to be kept.  true: *npages more lie unused, of
 * which the caller tells (pac_tell).  false: nothing has changed, but *npages.
 */
ALWAYS_INLINE bool
large_hot_is_freed(arena_t *a, edata_t *e, const void *ptr, bool is_bounded, size_t *npages) {
	assert(e->arena_ind == a->ind && e->szind >= emap_ncacheable && e->szind < SC_NSIZES);
	unsigned pind = e->u.large_pind;
	*npages = e->size >> LG_PAGE;
	if (unlikely(ptr != e->u.large_start) || unlikely(!large_tail_is_marked(e, ptr))
	    || unlikely(!pac_hot_is_vacant(&a->pac, pind))
	    || (is_bounded && !pac_hot_has_room(&a->pac, *npages))) {
		return false;
	}
	large_hot_count_free(a, e);
	if (unlikely(!pac_hot_has_pushed(&a->pac, pind, e))) {
		large_hot_uncount_free(a, e);
		return false;
	}
	return true;
}

#endif
