/*
 * Large objects by the hot extent of their page class (extent/pac.h): a size that was freed a moment
 * ago is allocated again, without lock and gate.  What large.c does, for the one case that is quick;
 * false sends the caller there, and nothing has changed.
 * Only for classes that no thread cache holds, and for objects that are no samples.
 */
#ifndef ARENA_LARGE_HOT_H
#define ARENA_LARGE_HOT_H

#include "arena/arena.h"

/* usize: whole pages, more than caches may hold, far from the largest size. */
ALWAYS_INLINE bool
large_hot_is_malloced(arena_t *a, size_t usize, void **p) {
	assert(usize > sz_i2s(emap_ncacheable - 1) && (usize & PAGE_MASK) == 0);
	size_t size = usize + ((size_t)opt_cache_oblivious << LG_PAGE);
	unsigned pind = sz_psz_floor(size);
	edata_t *e = pac_hot_pop(&a->pac, pind, size);
	if (unlikely(e == NULL)) {
		return false;
	}
	/* Left by large_hot_is_freed() it is ready. */
	if (unlikely(e->szind == SC_NSIZES || e->u.large_usize != usize)) {
		e->szind = (uint8_t)sz_s2i(usize);
		e->u.large_usize = usize;
		e->u.large_pind = (uint8_t)pind;
	}
	if (config_stats) {
		arena_large_count_t *c = &a->large[e->szind - SC_NBINS];
		atomic_fetch_add_u64(&c->nmalloc, 1, MO_RELAXED);
		atomic_fetch_add_u64(&c->nrequests, 1, MO_RELAXED);
		atomic_fetch_add_zu(&a->large_allocated, usize, MO_RELAXED);
	}
	*p = opt_cache_oblivious ? arena_large_start(e) : e->addr;
	return true;
}

/* a: the arena of e, an active extent; ptr: where its object begins, if all is right. */
ALWAYS_INLINE bool
large_hot_is_freed(arena_t *a, edata_t *e, const void *ptr) {
	assert(e->arena_ind == a->ind && e->szind >= emap_ncacheable && e->szind < SC_NSIZES);
	arena_large_count_t *c = &a->large[e->szind - SC_NBINS];
	size_t usize = e->u.large_usize;
	if (unlikely(!arena_large_is_start(e, ptr))
	    || unlikely(!pac_hot_has_pushed(&a->pac, e->u.large_pind, e))) {
		return false;
	}
	if (config_stats) {
		atomic_fetch_add_u64(&c->ndalloc, 1, MO_RELAXED);
		atomic_fetch_sub_zu(&a->large_allocated, usize, MO_RELAXED);
	}
	return true;
}

#endif
