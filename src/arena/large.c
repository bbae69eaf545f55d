/*
 * Large objects: one extent each. large.h has the contract.
 *
 * Offset: with cache_oblivious the extent of an object from LARGE_OFFSET_MIN up, with an alignment
 * of at most a cache line, has one page more than it needs, and the object starts at one of the
 * cache lines of the first page. The extent's address decides which, so that equal large buffers do
 * not all compete for the same lines of the cache. A smaller object starts where its extent starts,
 * because the extra page would be up to a fifth of the extent; but if the user has set
 * cache_oblivious to true, objects of all sizes have an offset (opt_cache_oblivious_all in
 * large.h).
 *
 * Guards: a guarded object ends where its last guard begins, so it has neither the extra page nor
 * an offset. It is neither resized in place nor moved, is not cached by a thread, and is never hot
 * (unused, but kept whole for the next request of its size: extent/pac_hot.h).
 *
 * Bounded page caches (pac_bound): a new extent, unless chosen for guards (also if it then gets
 * none), is a multiple of PAC_GRAIN bytes long; the rest behind the object is unused. A write to
 * arena.<i>.oversize_threshold can bound a cache later, so older extents may have any length.
 *
 * Thread caches hold large objects by their descriptors, so that none has to be looked up in the
 * page map. A free by the program comes here only when the cache does not take the object or
 * returns it; before that imalloc.c has ended its sample. large.h says who owns an object and its
 * descriptor, and who may call; counters are atomic, and the page cache takes its own locks.
 */
#include "arena/large.h"

#include "arena/arena_table.h"
#include "arena/safety.h"
#include "extent/guard.h"
#include "extent/pac.h"
#include "extent/pac_move.h"
#include "meta/recs.h"

/*
 * When an object of this size (1 MiB) or more cannot grow in place, its pages are moved instead of
 * its bytes copied. Not in builds with safety checks (config_hardening), nor if it is guarded
 * (pac_move.c).
 */
#define LARGE_MOVE_MIN ((size_t)1 << 20)
/*
 * Maximum number of extents that are taken from the hot ones, or become hot, with one update of the
 * counters.
 */
#define LARGE_BATCH 32u

bool opt_cache_oblivious = CONFIG_CACHE_OBLIVIOUS;
bool opt_cache_oblivious_all;
szind_t arena_large_explicit_min = SC_NSIZES; /* until tcache_limits.c sets it */

static arena_large_count_t *
large_count(arena_t *a, size_t usize) {
	szind_t ind = sz_s2i(usize);
	assert(ind >= SC_NBINS && ind < SC_NSIZES);
	return &a->large[ind - SC_NBINS];
}

/* Counts n objects of usize bytes each. */
static void
large_stats_add(arena_t *a, size_t usize, unsigned n) {
	if (config_stats) {
		atomic_fetch_add_u64(&large_count(a, usize)->nmalloc, n, MO_RELAXED);
		atomic_fetch_add_zu(&a->large_allocated, n * usize, MO_RELAXED);
	}
}

static void
large_stats_sub(arena_t *a, size_t usize, unsigned n) {
	if (config_stats) {
		atomic_fetch_add_u64(&large_count(a, usize)->ndalloc, n, MO_RELAXED);
		assert(atomic_load_zu(&a->large_allocated, MO_RELAXED) >= n * usize);
		atomic_fetch_sub_zu(&a->large_allocated, n * usize, MO_RELAXED);
	}
}

/* Counts a resized object as freed, allocated and requested. */
static void
large_stats_resized(arena_t *a, size_t old, size_t usize) {
	large_stats_sub(a, old, 1);
	large_stats_add(a, usize, 1);
	arena_large_count_requests(a, sz_s2i(usize), 1, 0, 0);
}

void
arena_large_count_requests(arena_t *a, szind_t szind, uint64_t nrequests, unsigned nfills,
    unsigned nflushes) {
	if (!config_stats) {
		return;
	}
	atomic_fetch_add_u64(&a->large[szind - SC_NBINS].nrequests, nrequests, MO_RELAXED);
	atomic_fetch_add_u64(&a->large_all.nfills, nfills, MO_RELAXED);
	atomic_fetch_add_u64(&a->large_all.nflushes, nflushes, MO_RELAXED);
}

/*
 * Makes an active extent a large object of usize bytes at start. szind becomes that of the class,
 * or SC_NSIZES if thread caches must not take the object. may_cache: false for an object that
 * arena_large_note_grown() would keep from them (large.h).
 */
static void
large_adopt(const arena_t *a, edata_t *e, size_t usize, char *start, bool may_cache) {
	assert(e->size >= usize && !e->is_slab && start >= e->addr && start + usize <= edata_end(e));
	e->u.large_start = start;
	e->szind = (uint8_t)sz_s2i(usize);
	e->bin_shard = 0; /* a slab may have left another value; large_is_alike() compares it */
	e->u.large_usize = usize;
	e->large_request = 0;
	/*
	 * Thread caches must not take an object whose size is not that of its class (if they hold the
	 * class at all), a guarded one, and, from arena_large_explicit_min on, one of an explicit arena
	 * or one that has grown.
	 */
	if ((sz_i2s(e->szind) != usize && e->szind < emap_ncacheable) || e->nguards != 0
	    || (e->szind >= arena_large_explicit_min && (!may_cache || !a->is_auto))) {
		e->szind = SC_NSIZES;
	}
	e->u.large_bin = emap_bin_of_class(e->szind);
	emap_set_boundary(e);
}

void
arena_large_note_grown(void *ptr, size_t usize) {
	assert(usize >= SC_LARGE_MINCLASS);
	if (sz_s2i(usize) < arena_large_explicit_min) {
		return;
	}
	edata_t *e = emap_edata(ptr);
	assert(!e->is_slab && ptr == e->u.large_start);
	e->szind = SC_NSIZES;
	e->u.large_bin = 0;
	emap_set_boundary(e);
}

/* Whether a mark is lost: neither there nor zero. */
static bool
large_is_lost(const uint64_t *mark) {
	return unlikely(!large_mark_is(mark, LARGE_MARK_WORD)) && unlikely(!large_mark_is(mark, 0));
}

/*
 * What is wrong with the marks of an object; NULL: nothing. Without safety checks they are examined
 * when it is freed past the thread caches, leaves one or is resized, not when it enters a cache.
 */
ALWAYS_INLINE const char *
large_fault(const edata_t *e) {
	if (likely(large_is_marked(e))) {
		return NULL;
	}
	return !canary_is_large_intact(e) || large_is_lost(large_tail(e)) ? SAFETY_TAIL_IS_LOST
	    : large_is_lost(large_front(e)) ? SAFETY_FRONT_IS_LOST : NULL;
}

void
large_marks_check(const edata_t *e) {
	const char *fault = large_fault(e);
	if (unlikely(fault != NULL)) {
		safety_fail(fault);
	}
}

/* Bytes of which the address and the length of a new extent without guards are multiples. */
static size_t
large_grain(const arena_t *a) {
	return pac_is_bounded(&a->pac) ? max_zu(PAC_GRAIN, PAGE) : PAGE;
}

/*
 * Puts the marks of a new object. Pages that were never written may stay without memory, so of a
 * zeroed object below LARGE_MARKS_FRESH none is put, and of one that may be used sparsely only the
 * front one, next to the first byte that is likely to be used.
 */
static void
large_put_first_marks(edata_t *e) {
	bool may_be_sparse = large_may_be_sparse(e->u.large_usize);
	if (!e->is_zeroed || (e->u.large_usize >= LARGE_MARKS_FRESH && !may_be_sparse)) {
		large_marks_put(e);
	} else if (large_has_marks(e) && may_be_sparse) {
		large_mark_put(large_front(e));
	}
}

edata_t *
arena_large_new(arena_t *a, size_t usize, size_t alignment, bool zero) {
	assert(usize >= SC_LARGE_MINCLASS);
	usize = PAGE_CEILING(usize);
	bool wants_guards = guard_count_extent(&a->guard_large, opt_san_guard_large);
	bool may_have_offset = alignment <= CACHELINE && !wants_guards;
	size_t grain = wants_guards ? PAGE : large_grain(a);
	size_t size = align_up(usize + (may_have_offset ? arena_large_pad(usize) : 0), grain);
	if (size < usize || usize == 0) {
		return NULL;
	}
	edata_t *e = (wants_guards ? pac_alloc_guarded : pac_alloc)(&a->pac, size,
	    max_zu(alignment, grain), zero);
	if (e == NULL) {
		return NULL;
	}
	assert(is_aligned((uintptr_t)e->addr, max_zu(alignment, PAGE)) && e->recs == NULL);
	atomic_store_u32(&e->u.large_is_freed, 1, MO_RELAXED);
	large_adopt(a, e, usize, may_have_offset ? arena_large_start(a, e, usize) : e->addr, true);
	large_put_first_marks(e);
	large_stats_add(a, usize, 1);
	return e;
}

void *
arena_large_malloc(arena_t *a, size_t usize, size_t alignment, bool zero) {
	edata_t *e = arena_large_new(a, usize, alignment, zero);
	return e == NULL ? NULL : arena_large_hand_out(e);
}

/*
 * Makes an extent that was hot an object of usize bytes. Nothing is to be done if it was one of the
 * same size before. szind is SC_NSIZES if the extent became hot otherwise than as a large object
 * (pac_hot_try_keep).
 */
ALWAYS_INLINE void
large_reuse(const arena_t *a, edata_t *e, size_t usize) {
	if (likely(e->szind != SC_NSIZES) && likely(e->u.large_usize == usize)) {
		/* Its marks and the page map are as they were. */
		assert(atomic_load_u32(&e->u.large_is_freed, MO_RELAXED) == 1);
		return;
	}
	atomic_store_u32(&e->u.large_is_freed, 1, MO_RELAXED);
	large_adopt(a, e, usize, arena_large_start(a, e, usize), true);
	large_marks_put(e);
}

unsigned
arena_large_reuse(arena_t *a, size_t usize, void **out, unsigned n) {
	edata_t *es[LARGE_BATCH];
	usize = PAGE_CEILING(usize);
	size_t size = usize + arena_large_pad(usize), bytes = 0;
	if (opt_san_guard_large != 0 || size < usize || pac_is_bounded(&a->pac)) {
		return 0;
	}
	unsigned got = pac_hot_take(&a->pac, size, pac_hot_most(&a->pac, size), PAGE, es,
	    (unsigned)min_zu(n, LARGE_BATCH));
	for (unsigned i = 0; i < got; i++) {
		large_reuse(a, es[i], usize);
		out[i] = es[i];
		bytes += es[i]->size;
	}
	if (got > 0) {
		pac_active_count(&a->pac, bytes >> LG_PAGE);
		large_stats_add(a, usize, got);
	}
	return got;
}

static arena_t *
large_arena(const edata_t *e) {
	arena_t *a = arena_table_get(e->arena_ind);
	assert(a != NULL);
	return a;
}

static NOINLINE void
large_dalloc_slow(arena_t *a, edata_t *e) {
	large_marks_check(e);
	large_stats_sub(a, e->u.large_usize, 1);
	if (e->recs != NULL) {
		recs_free(e->recs, 1);
		e->recs = NULL;
	}
	pac_dalloc(&a->pac, e); /* clears is_sampled */
}

/*
 * Whether the extent of an object may become hot, with the object's fields left for reuse: not for
 * a sample (freed by a reset), an object that must not be cached, a bounded page cache or decay
 * time 0; and not if a mark is lost, because large_dalloc_slow() reports that (safety_fail()).
 */
static bool
large_may_be_hot(const arena_t *a, const edata_t *e) {
	return !e->is_sampled && e->szind != SC_NSIZES && !pac_is_bounded(&a->pac)
	    && decay_ms(&a->pac.decay_dirty.decay) != 0
	    && large_fault(e) == NULL;
}

/*
 * Whether e can be freed together with `first`, which may become hot: a free object of the same
 * size, arena and page class. The arena, szind, state and is_sampled are parts of `home` (edata.h),
 * so the answer of large_may_be_hot() is the same for both, except for the marks, which are checked
 * here.
 */
ALWAYS_INLINE bool
large_is_alike(const edata_t *first, const edata_t *e) {
	return e->home == first->home && e->u.large_usize == first->u.large_usize
	    && atomic_load_u32(&e->u.large_is_freed, MO_RELAXED) == 1
	    && (likely(e->size == first->size) || sz_psz_floor(e->size) == sz_psz_floor(first->size))
	    && large_fault(e) == NULL;
}

/* Frees n objects of one size whose extents are of one page class and may be hot. */
static void
large_dalloc_alike(arena_t *a, edata_t *const *es, unsigned n) {
	size_t npages, usize = es[0]->u.large_usize;
	unsigned done = pac_hot_leave(&a->pac, es, n, &npages);
	if (done > 0) {
		large_stats_sub(a, usize, done);
		pac_active_uncount(&a->pac, npages);
		pac_note_release(&a->pac);
	}
	for (unsigned i = done; i < n; i++) {
		large_dalloc_slow(a, es[i]);
	}
}

void
arena_large_dalloc(edata_t *e) {
	arena_t *a = large_arena(e);
	assert(!e->is_slab && e->u.large_usize <= e->size);
	if (large_may_be_hot(a, e)) {
		atomic_store_u32(&e->u.large_is_freed, 1, MO_RELAXED);
		large_dalloc_alike(a, &e, 1);
	} else {
		large_dalloc_slow(a, e);
	}
}

/*
 * The descriptor of an object from a thread cache. Ends the process if the descriptor does not
 * belong to a freed object any more; NULL if safety_fail() returns, because its hook does.
 */
static edata_t *
large_of_cached(void *obj) {
	edata_t *e = obj;
	if (unlikely(e->state != extent_state_active)
	    || unlikely(atomic_load_u32(&e->u.large_is_freed, MO_RELAXED) != 1)) {
		safety_fail("the arena of a block in a thread cache was reset");
		return NULL;
	}
	return e;
}

/* Copies the first of n descriptors, as far as they are alike; returns their number. */
static unsigned
large_gather(edata_t **es, void *const *objs, unsigned n) {
	const edata_t *first = es[0] = objs[0];
	unsigned k = 1;
	for (; k < n && large_is_alike(first, objs[k]); k++) {
		es[k] = objs[k];
	}
	return k;
}

void
arena_large_flush(void *const *objs, unsigned n) {
	edata_t *es[LARGE_BATCH];
	for (unsigned i = 0, k; i < n; i += k) {
		edata_t *e = large_of_cached(objs[i]);
		k = 1;
		if (e == NULL) {
			continue;
		}
		arena_t *a = large_arena(e);
		if (large_may_be_hot(a, e)) {
			k = large_gather(es, objs + i, (unsigned)min_zu(n - i, LARGE_BATCH));
			large_dalloc_alike(a, es, k);
		} else {
			large_dalloc_slow(a, e);
		}
	}
}

/*
 * Bytes that the extent needs if its object has usize bytes. A page for the offset is among them if
 * the extent is longer than the object now. In a bounded cache an extent may be longer in any case,
 * as sizes are rounded up to PAC_GRAIN; there the page is among them if the object does not start
 * where its extent starts. 0: usize is too large.
 */
static size_t
large_extent_size(const arena_t *a, const edata_t *e, size_t usize) {
	size_t grain = large_grain(a), rest = e->size - e->u.large_usize;
	bool has_pad = grain == PAGE ? rest != 0 : e->u.large_start != e->addr;
	size_t size = align_up(usize + (has_pad ? PAGE : 0), grain);
	return size < usize ? 0 : size;
}

/*
 * Makes the extent long enough for an object of exactly usize bytes, in place. The caller records
 * the new size of the object. 0 or ENOMEM.
 */
static int
large_grow(arena_t *a, edata_t *e, size_t usize, bool zero) {
	size_t old_size = canary_large_size(e);
	size_t size = large_extent_size(a, e, usize);
	char *ptr = e->u.large_start, *old_end = edata_end(e);
	if (size == 0 || e->nguards != 0
	    || (size > e->size && pac_expand(&a->pac, e, size, zero) != 0)) {
		return ENOMEM;
	}
	if (zero) {
		/* The part of the old extent behind the old object becomes part of the object. */
		char *end = ptr + usize < old_end ? ptr + usize : old_end;
		memset(ptr + old_size, 0, (size_t)(end - (ptr + old_size)));
	}
	return 0;
}

/*
 * Shortens the extent to what an object of usize bytes needs. 0; ENOMEM if it is guarded or cannot
 * be split.
 */
static int
large_shrink(arena_t *a, edata_t *e, size_t usize) {
	size_t size = large_extent_size(a, e, usize);
	if (e->nguards != 0) {
		return ENOMEM;
	}
	return size < e->size ? pac_shrink(&a->pac, e, size) : 0;
}

int
arena_large_resize(edata_t *e, size_t usize_min, size_t usize_max, bool zero,
    bool may_cache) {
	assert(usize_min <= usize_max && usize_min >= SC_LARGE_MINCLASS);
	arena_t *a = large_arena(e);
	size_t old = e->u.large_usize, usize = old;
	large_marks_check(e);
	if (usize_max > old) {
		usize = usize_max;
		int err = large_grow(a, e, usize, zero);
		if (err != 0 && usize_min > old && usize_min < usize_max) {
			usize = usize_min;
			err = large_grow(a, e, usize, zero);
		}
		if (err != 0) {
			return usize_min <= old ? 0 : err;
		}
	} else if (usize_max < old) {
		usize = usize_max;
		if (large_shrink(a, e, usize) != 0) {
			return ENOMEM;
		}
	}
	if (usize != old) {
		large_adopt(a, e, usize, e->u.large_start, usize < old || may_cache);
		large_marks_put(e);
		large_stats_resized(a, old, usize);
	}
	return 0;
}

/*
 * Zeroes the object from its byte `old` on. moved: length of the old extent, whose pages are the
 * first of this one and may hold anything. What follows them is not written if is_zeroed.
 */
static void
large_zero_rest(edata_t *e, size_t old, size_t moved) {
	char *from = e->u.large_start + old, *end = e->u.large_start + e->u.large_usize;
	char *dirty_end = e->is_zeroed && e->addr + moved < end ? e->addr + moved : end;
	if (from < dirty_end) {
		memset(from, 0, (size_t)(dirty_end - from));
	}
}

void *
arena_large_try_move(edata_t *e, size_t usize, bool zero) {
	arena_t *a = large_arena(e);
	size_t old = e->u.large_usize, lead = (size_t)(e->u.large_start - e->addr), moved = e->size;
	size_t size = large_extent_size(a, e, usize);
	assert(usize > old && (usize & PAGE_MASK) == 0);
	if (config_hardening || old < LARGE_MOVE_MIN || size <= e->size) {
		return NULL;
	}
	sample_rec_t *rec = e->recs;
	bool is_sampled = e->is_sampled;
	e->recs = NULL;
	edata_t *to = pac_try_move(&a->pac, e, size, large_grain(a));
	if (to == NULL) {
		e->recs = rec;
		return NULL;
	}
	to->recs = rec;
	to->is_sampled = is_sampled;
	atomic_store_u32(&to->u.large_is_freed, 1, MO_RELAXED);
	large_adopt(a, to, usize, to->addr + lead, false);
	if (zero) {
		large_zero_rest(to, old, moved);
	}
	large_marks_put(to);
	large_stats_resized(a, old, usize);
	return arena_large_hand_out(to);
}
