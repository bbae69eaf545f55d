/*
 * Large objects: one extent each. arena.h has the contract.
 *
 * With cache_oblivious the extent has one page more than the object needs, and the object starts at
 * a cache line of the first page that follows from the extent's address, so that equal large
 * buffers do not all compete for the same lines of the cache. A guarded object ends where its last
 * guard begins, so it has no extra page and no offset. It is not resized in place, is not cached by
 * a thread (except by a sized free, which does not look at the descriptor: then it is cached with
 * its guards), and is never hot. In a bounded cache (extent/pac.h) an extent is whole grains long;
 * the rest behind the object is unused. Only the owner of an object calls these functions; counters
 * are atomic and the page cache takes its own locks.
 */
#include "arena/arena.h"

#include "arena/large_hot.h"
#include "arena/safety.h"
#include "extent/guard.h"
#include "meta/freepool.h"

/* Room behind an object that grows by small steps: this part of its size. */
#define LARGE_ROOM_PART 16

bool opt_cache_oblivious = CONFIG_CACHE_OBLIVIOUS;

static arena_large_count_t *
large_count(arena_t *a, size_t usize) {
	szind_t ind = sz_s2i(usize);
	assert(ind >= SC_NBINS && ind < SC_NSIZES);
	return &a->large[ind - SC_NBINS];
}

static void
large_stats_add(arena_t *a, size_t usize) {
	if (config_stats) {
		arena_large_count_t *c = large_count(a, usize);
		atomic_fetch_add_u64(&c->nmalloc, 1, MO_RELAXED);
		atomic_fetch_add_zu(&a->large_allocated, usize, MO_RELAXED);
	}
}

static void
large_stats_sub(arena_t *a, size_t usize) {
	if (config_stats) {
		arena_large_count_t *c = large_count(a, usize);
		atomic_fetch_add_u64(&c->ndalloc, 1, MO_RELAXED);
		assert(atomic_load_zu(&a->large_allocated, MO_RELAXED) >= usize);
		atomic_fetch_sub_zu(&a->large_allocated, usize, MO_RELAXED);
	}
}

void
arena_large_count_requests(arena_t *a, szind_t szind, uint64_t nrequests, unsigned nfills,
    unsigned nflushes) {
	if (!config_stats) {
		return;
	}
	atomic_fetch_add_u64(&a->large[szind - SC_NBINS].nrequests, nrequests, MO_RELAXED);
	atomic_fetch_add_u64(&a->large_nfills, nfills, MO_RELAXED);
	atomic_fetch_add_u64(&a->large_nflushes, nflushes, MO_RELAXED);
}

/* Records in an active extent that it holds an object of usize bytes that begins at start. */
static void
large_adopt(const arena_t *a, edata_t *e, size_t usize, char *start) {
	assert(e->size >= usize && !e->is_slab && start >= e->addr && start + usize <= edata_end(e));
	e->u.large_start = start;
	e->szind = (uint8_t)sz_s2i(usize);
	e->u.large_usize = usize;
	e->u.large_pind
	    = (uint8_t)(pac_is_bounded(&a->pac) ? pac_hot_bounded() : sz_psz_floor(e->size));
	/* A cached object must fit any request of its class; a guarded one must not be cached. */
	if ((sz_i2s(e->szind) != usize && e->szind < emap_ncacheable) || e->nguards != 0) {
		e->szind = SC_NSIZES;
	}
	emap_set_boundary(e);
}

void
large_tail_check(const edata_t *e) {
	const uint32_t *tail = large_tail(e);
	if (large_has_tail(e) && unlikely(!large_tail_is(tail, LARGE_TAIL_WORD))
	    && unlikely(!large_tail_is(tail, 0))) {
		safety_fail(LARGE_TAIL_IS_LOST);
	}
}

/* Addresses and lengths of extents are multiples of this number of bytes. */
static size_t
large_grain(const arena_t *a) {
	return pac_is_bounded(&a->pac) ? max_zu(PAC_GRAIN, PAGE) : PAGE;
}

void *
arena_large_malloc(arena_t *a, size_t usize, size_t alignment, bool zero) {
	assert(usize >= SC_LARGE_MINCLASS);
	usize = PAGE_CEILING(usize);
	bool is_guarded = guard_count_extent(&a->guard_large, opt_san_guard_large);
	bool has_offset = opt_cache_oblivious && alignment <= CACHELINE && !is_guarded;
	size_t grain = is_guarded ? PAGE : large_grain(a);
	size_t size = align_up(has_offset ? usize + PAGE : usize, grain);
	if (size < usize || usize == 0) {
		return NULL;
	}
	edata_t *e = (is_guarded ? pac_alloc_guarded : pac_alloc)(&a->pac, size,
	    max_zu(alignment, grain), zero);
	if (e == NULL) {
		return NULL;
	}
	assert(is_aligned((uintptr_t)e->addr, max_zu(alignment, PAGE)) && e->recs == NULL);
	large_adopt(a, e, usize, has_offset ? arena_large_start(a, e) : e->addr);
	if (!e->is_zeroed || usize >= LARGE_TAIL_FRESH) {
		large_tail_mark(e);
	}
	large_stats_add(a, usize);
	return e->u.large_start;
}

unsigned
arena_large_fill(arena_t *a, size_t usize, void **out, unsigned n) {
	unsigned got = 0, more = opt_san_guard_large == 0;
	while (more != 0 && got < n) {
		more = large_hot_fill(a, usize, out + got, n - got);
		got += more;
	}
	if (got == 0) {
		out[0] = arena_large_malloc(a, usize, 0, false);
		got = out[0] != NULL;
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
	large_tail_check(e);
	large_stats_sub(a, e->u.large_usize);
	if (e->recs != NULL) {
		meta_free(e->recs, sizeof(sample_rec_t));
		e->recs = NULL;
	}
	pac_dalloc(&a->pac, e);
}

static bool
large_may_be_hot(const arena_t *a, const edata_t *e) {
	return !e->is_sampled && e->szind != SC_NSIZES && !pac_is_bounded(&a->pac);
}

void
arena_large_dalloc(edata_t *e) {
	assert(!e->is_slab && e->u.large_usize <= e->size);
	arena_t *a = large_arena(e);
	size_t npages;
	if (large_may_be_hot(a, e)
	    && likely(large_hot_try_free_more(a, e, e->u.large_start, &npages))) {
		pac_tell(&a->pac, npages);
	} else {
		large_dalloc_slow(a, e);
	}
}

/* Frees objects of one size whose extents belong into one stack of the arena. */
static void
large_flush_alike(arena_t *a, edata_t *const *es, unsigned n) {
	size_t npages = 0, usize = es[0]->u.large_usize;
	szind_t szind = es[0]->szind;
	for (unsigned i = 0; i < n; i++) {
		npages += es[i]->size >> LG_PAGE;
	}
	unsigned done = pac_hot_push_some(&a->pac, es[0]->u.large_pind, es, n, &npages);
	if (done > 0) {
		large_hot_count_free(a, szind, done, done * usize, npages);
		pac_tell(&a->pac, npages);
	}
	for (unsigned i = done; i < n; i++) {
		large_dalloc_slow(a, es[i]);
	}
}

static bool
large_is_alike(const arena_t *a, const edata_t *first, const edata_t *e) {
	return e->arena_ind == a->ind && large_may_be_hot(a, e)
	    && e->u.large_pind == first->u.large_pind && e->u.large_usize == first->u.large_usize
	    && large_hot_is_intact(e, e->u.large_start);
}

void
arena_large_flush(void **ptrs, unsigned n) {
	edata_t *es[LARGE_HOT_BATCH];
	for (unsigned i = 0; i < n;) {
		edata_t *e = emap_edata(ptrs[i]);
		arena_t *a = large_arena(e);
		unsigned k = 0;
		for (es[0] = e; k < LARGE_HOT_BATCH && large_is_alike(a, es[0], e);) {
			es[k++] = e;
			if (++i == n) {
				break;
			}
			e = emap_edata(ptrs[i]);
		}
		if (k > 0) {
			large_flush_alike(a, es, k);
		} else {
			arena_large_dalloc(e);
			i++;
		}
	}
}

/*
 * Bytes that the extent needs when its object has usize bytes, with the page for the offset if it
 * has one; 0: too large.
 */
static size_t
large_extent_size(const arena_t *a, const edata_t *e, size_t usize) {
	size_t pad = min_zu(e->size - e->u.large_usize, PAGE);
	size_t size = align_up(usize + pad, large_grain(a));
	return size < usize ? 0 : size;
}

/*
 * Makes the extent size bytes long, and a sixteenth longer where that is to be had and the step is
 * smaller: an object that grows by small steps then takes most of them without a change of extents.
 */
static int
large_expand(arena_t *a, edata_t *e, size_t size, bool zero) {
	size_t room = align_up(size / LARGE_ROOM_PART, large_grain(a));
	bool is_step_small = size - e->size < room && size <= SC_LARGE_MAXCLASS;
	if (is_step_small && !pac_is_bounded(&a->pac)
	    && pac_expand(&a->pac, e, size + room, zero) == 0) {
		return 0;
	}
	return pac_expand(&a->pac, e, size, zero);
}

/* Grows in place to exactly usize; 0 or ENOMEM. */
static int
large_grow(arena_t *a, char *ptr, edata_t *e, size_t usize, bool zero) {
	size_t old_usize = e->u.large_usize;
	size_t size = large_extent_size(a, e, usize);
	char *old_end = edata_end(e);
	if (size == 0 || e->nguards != 0 || (size > e->size && large_expand(a, e, size, zero) != 0)) {
		return ENOMEM;
	}
	if (zero) {
		/* The part of the old extent behind the old object becomes part of the object. */
		char *end = ptr + usize < old_end ? ptr + usize : old_end;
		memset(ptr + old_usize, 0, (size_t)(end - (ptr + old_usize)));
	}
	return 0;
}

static int
large_shrink(arena_t *a, edata_t *e, size_t usize) {
	size_t size = large_extent_size(a, e, usize);
	if (e->nguards != 0) {
		return ENOMEM;
	}
	return size < e->size ? pac_shrink(&a->pac, e, size) : 0;
}

int
arena_large_resize(void *ptr, edata_t *e, size_t usize_min, size_t usize_max, bool zero) {
	assert(usize_min <= usize_max && usize_min >= SC_LARGE_MINCLASS);
	arena_t *a = large_arena(e);
	size_t old = e->u.large_usize, usize = old;
	large_tail_check(e);
	if (usize_max > old) {
		usize = usize_max;
		int err = large_grow(a, ptr, e, usize, zero);
		if (err != 0 && usize_min > old && usize_min < usize_max) {
			usize = usize_min;
			err = large_grow(a, ptr, e, usize, zero);
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
		large_stats_sub(a, old);
		large_adopt(a, e, usize, e->u.large_start);
		large_tail_mark(e);
		large_stats_add(a, usize);
		arena_large_count_requests(a, sz_s2i(usize), 1, 0, 0);
	}
	return 0;
}
