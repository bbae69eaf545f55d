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
 * into a thread cache, which counts requests itself.
 */
ALWAYS_INLINE void *
large_hot_object(arena_t *a, edata_t *e, size_t usize, bool is_bounded, bool is_fill) {
	/* If large_hot_try_free() left it with this size, it is ready. */
	if (unlikely(e->szind == SC_NSIZES || e->u.large_usize != usize)) {
		large_hot_adopt(a, e, usize, is_bounded);
	}
	pac_hot_activate(&a->pac, e, is_fill ? elem_bits_of_class(e->szind) : 0);
	if (config_stats) {
		arena_large_count_t *c = &a->large[e->szind - SC_NBINS];
		atomic_fetch_add_u64(is_fill ? &c->nmalloc : &c->nhot, 1, MO_RELAXED);
		atomic_fetch_add_zu(&a->large_allocated, usize, MO_RELAXED);
	}
	return e->u.large_start;
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
	return true;
}

/*
 * The same from the slot or the stack of the class or of the next one; never in a bounded cache.
 * usize may be of a class that is cached (is_fill).
 */
ALWAYS_INLINE bool
large_hot_try_malloc_near(arena_t *a, size_t usize, bool is_fill, void **p) {
	edata_t *e = pac_hot_pop_near(&a->pac, usize + ((size_t)opt_cache_oblivious << LG_PAGE));
	if (e == NULL) {
		return false;
	}
	*p = large_hot_object(a, e, usize, false, is_fill);
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
	large_hot_count_free(a, e);
	if (unlikely(!pac_hot_try_fill(&a->pac, &a->pac.hot[pind], e))) {
		large_hot_uncount_free(a, e);
		return false;
	}
	return true;
}

/* The same to the stack of its class, in a cache that is not bounded. */
static inline bool
large_hot_try_free_more(arena_t *a, edata_t *e, const void *ptr, size_t *npages) {
	*npages = e->size >> LG_PAGE;
	if (unlikely(!large_hot_is_intact(e, ptr))) {
		return false;
	}
	large_hot_count_free(a, e);
	if (unlikely(!pac_hot_try_push(&a->pac, e->u.large_pind, e))) {
		large_hot_uncount_free(a, e);
		return false;
	}
	return true;
}

#endif
