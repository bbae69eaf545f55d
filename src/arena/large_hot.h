/*
 * Large objects served by hot extents of their page class (extent/pac.h): a size that was freed a
 * moment ago is allocated again, without a lock and without entering the gate.
 *
 * The fast case of what large.c does. A result of false means that nothing has changed and the
 * caller takes the slow path. Only for objects that are not sampled. Invariant: an extent in a slot
 * belongs to no thread; the atomic exchange on the slot decides which one gets it. Called by the
 * fast paths of malloc and free for classes that no thread cache holds, by thread caches when they
 * are filled, and by arena_large_dalloc().
 */
#ifndef ARENA_LARGE_HOT_H
#define ARENA_LARGE_HOT_H

#include "arena/arena.h"
#include "arena/large_tail.h"

/* Extents that are moved at once: their pages and objects are counted once for all of them. */
#define LARGE_HOT_BATCH 16u

/* Records a new object size in a hot extent that had another one. */
ALWAYS_INLINE void
large_hot_adopt(const arena_t *a, edata_t *e, size_t usize, bool is_bounded) {
	e->szind = (uint8_t)sz_s2i(usize);
	e->u.large_usize = usize;
	e->u.large_pind = (uint8_t)(is_bounded ? pac_hot_bounded() : sz_psz_floor(e->size));
	e->u.large_start = arena_large_start(a, e);
	large_tail_mark(e);
}

/*
 * Turns a hot extent, which the caller has taken, into an object of usize bytes. is_fill: it goes
 * into a thread cache. The caller then calls large_hot_count_malloc().
 */
ALWAYS_INLINE void *
large_hot_object(const arena_t *a, edata_t *e, size_t usize, bool is_bounded, bool is_fill) {
	/* If large_hot_try_free() left it with this size, it is ready. */
	if (unlikely(e->szind == SC_NSIZES || e->u.large_usize != usize)) {
		large_hot_adopt(a, e, usize, is_bounded);
	}
	pac_hot_activate(e, is_fill ? elem_bits_of_class(e->szind) : 0);
	return e->u.large_start;
}

/* Counts n objects of one class, of npages together. A thread cache counts requests itself. */
ALWAYS_INLINE void
large_hot_count_malloc(arena_t *a, szind_t szind, size_t usize, bool is_fill, unsigned n,
    size_t npages) {
	pac_hot_count_active(&a->pac, npages);
	if (config_stats) {
		arena_large_count_t *c = &a->large[szind - SC_NBINS];
		atomic_fetch_add_u64(is_fill ? &c->nmalloc : &c->nhot, n, MO_RELAXED);
		atomic_fetch_add_zu(&a->large_allocated, n * usize, MO_RELAXED);
	}
}

/*
 * Allocates from the slot of the page class. usize: whole pages, more than caches may hold, no more
 * than the largest size; is_bounded: the slot of a bounded cache.
 */
ALWAYS_INLINE bool
large_hot_try_malloc(arena_t *a, size_t usize, bool is_bounded, void **p) {
	assert(usize > sz_i2s(emap_ncacheable - 1) && (usize & PAGE_MASK) == 0);
	size_t size = usize + ((size_t)opt_cache_oblivious << LG_PAGE);
	size = is_bounded ? align_up(size, max_zu(PAC_GRAIN, PAGE)) : size;
	unsigned pind = is_bounded ? pac_hot_bounded() : sz_psz_floor(size);
	edata_t *e = pac_hot_take_slot(&a->pac, pind, size, size);
	if (unlikely(e == NULL)) {
		return false;
	}
	*p = large_hot_object(a, e, usize, is_bounded, false);
	large_hot_count_malloc(a, e->szind, usize, false, 1, e->size >> LG_PAGE);
	return true;
}

/*
 * The same from the slot or the stack of the class or of the next one; never in a bounded cache.
 */
ALWAYS_INLINE bool
large_hot_try_malloc_near(arena_t *a, size_t usize, void **p) {
	edata_t *e = pac_hot_pop_near(&a->pac, usize + ((size_t)opt_cache_oblivious << LG_PAGE));
	if (e == NULL) {
		return false;
	}
	*p = large_hot_object(a, e, usize, false, false);
	large_hot_count_malloc(a, e->szind, usize, false, 1, e->size >> LG_PAGE);
	return true;
}

/* Up to n such objects of a cached class for a thread cache. Returns how many. */
static inline unsigned
large_hot_fill(arena_t *a, size_t usize, void **out, unsigned n) {
	edata_t *es[LARGE_HOT_BATCH];
	size_t size = usize + ((size_t)opt_cache_oblivious << LG_PAGE), npages = 0;
	unsigned got = pac_hot_pop_some(&a->pac, size, es, (unsigned)min_zu(n, LARGE_HOT_BATCH));
	for (unsigned i = 0; i < got; i++) {
		out[i] = large_hot_object(a, es[i], usize, false, true);
		npages += es[i]->size >> LG_PAGE;
	}
	if (got > 0) {
		large_hot_count_malloc(a, es[0]->szind, usize, true, got, npages);
	}
	return got;
}

/* Counts n objects of one class, of bytes and npages together, after they are hot. */
ALWAYS_INLINE void
large_hot_count_free(arena_t *a, szind_t szind, unsigned n, size_t bytes, size_t npages) {
	pac_hot_count_inactive(&a->pac, npages);
	if (config_stats) {
		atomic_fetch_add_u64(&a->large[szind - SC_NBINS].ndalloc, n, MO_RELAXED);
		atomic_fetch_sub_zu(&a->large_allocated, bytes, MO_RELAXED);
	}
}

/* Whether ptr is the object of e, and the first word of the mark behind it is unchanged. */
ALWAYS_INLINE bool
large_hot_is_intact(const edata_t *e, const void *ptr) {
	return likely(ptr == e->u.large_start) && likely(large_tail_is_marked(e, ptr));
}

/*
 * Frees the object at ptr to the slot of its page class. a: the arena of e, an active extent;
 * is_bounded: the cache has a limit, which is checked. Returns true if *npages more pages lie
 * unused; the caller then calls pac_tell(). If it returns false, only *npages has changed.
 */
ALWAYS_INLINE bool
large_hot_try_free(arena_t *a, edata_t *e, const void *ptr, bool is_bounded, size_t *npages) {
	assert(e->arena_ind == a->ind && e->szind < SC_NSIZES);
	unsigned pind = e->u.large_pind;
	*npages = e->size >> LG_PAGE;
	if (unlikely(!large_hot_is_intact(e, ptr)) || unlikely(!pac_hot_is_vacant(&a->pac, pind))
	    || (is_bounded && !pac_hot_has_room(&a->pac, *npages))) {
		return false;
	}
	szind_t szind = e->szind;
	size_t usize = e->u.large_usize;
	if (unlikely(!pac_hot_try_fill(&a->pac.hot[pind], e))) {
		return false;
	}
	large_hot_count_free(a, szind, 1, usize, *npages);
	return true;
}

/* The same to the stack of its class, in a cache that is not bounded. */
static inline bool
large_hot_try_free_more(arena_t *a, edata_t *e, const void *ptr, size_t *npages) {
	szind_t szind = e->szind;
	size_t usize = e->u.large_usize;
	*npages = e->size >> LG_PAGE;
	if (unlikely(!large_hot_is_intact(e, ptr))
	    || unlikely(!pac_hot_try_push(&a->pac, e->u.large_pind, e))) {
		return false;
	}
	large_hot_count_free(a, szind, 1, usize, *npages);
	return true;
}

#endif
