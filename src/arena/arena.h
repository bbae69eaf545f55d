/*
 * An arena: small objects in bins, large ones in extents of their own, pages from one page cache.
 *
 * Arenas do not share anything but the page map.  A thread allocates from the arena it is bound to,
 * and frees to whichever arena the object came from.  No function here is called with a lock held.
 * Sampled small objects of all arenas live in one hidden arena whose mappings are marked in
 * arena_sampled_map, so that a sized free can tell "surely not sampled" from the address alone.
 */
#ifndef ARENA_ARENA_H
#define ARENA_ARENA_H

#include "arena/arena_table.h"
#include "arena/bin.h"
#include "extent/pac.h"

#define ARENA_NAME_LEN 32

typedef struct arena_large_count_s {
	atomic_u64_t nmalloc;
	atomic_u64_t ndalloc;
	atomic_u64_t nrequests;
	atomic_u64_t nhot; /* by a hot extent: allocated for a request of the program, in nmalloc and nrequests not counted */
} arena_large_count_t;

/* What every arena touches stands together at the front; the long tables behind it fill with use. */
typedef struct arena_s {
	unsigned ind;
	bool is_auto;
	atomic_u32_t nthreads;
	base_t *base;
	mutex_t tcache_list_mtx;
	ql_t tcaches;              /* thread caches bound to it, for statistics; under tcache_list_mtx */
	mutex_t large_mtx;
	atomic_b_t has_spare;      /* some bin may have a stock, or a current slab without a region in use */
	atomic_u64_t next_trim;    /* of those, ns */
	bool is_ending;            /* reset or destroy is under way; under the table's lock, as: */
	struct arena_s *hidden;    /* its hidden arena, also while that is destroyed */
	struct arena_s *next_gone; /* the one destroyed before */
	uint64_t created_ns;
	atomic_zu_t oversize_threshold; /* as it was set, for who asks; what it does is the page cache's */
	atomic_zu_t large_allocated;
	atomic_u64_t large_nfills;
	atomic_u64_t large_nflushes;
	atomic_u64_t guard_small;  /* slabs, large extents so far, while some are guarded */
	atomic_u64_t guard_large;
	char name[ARENA_NAME_LEN];
	bin_t *bins[BIN_MAX];      /* n_shards of the class each */
	pac_t pac;
	arena_large_count_t large[LARGE_CLASSES_MAX];
} arena_t;

/* Large objects start at some cache line of their first page, not all at the same. */
extern HIDDEN bool opt_cache_oblivious;

/*
 * Set bytes: the 2 MiB pieces of address space that may hold sampled objects (or others that must not reach a cache by
 * their size alone).  By bits 21 to 31 of the address: one shift finds the byte.
 */
#define SAMPLED_MAP_LG_PIECE 21
#define SAMPLED_MAP_SIZE (1u << (32 - SAMPLED_MAP_LG_PIECE))
extern uint8_t arena_sampled_map[SAMPLED_MAP_SIZE];

/* Sized frees of addresses in the range look at the page map from now on. */
void arena_mark_slow_sized_free(const void *addr, size_t size);

static inline bool
arena_may_be_sampled(const void *ptr) {
	return arena_sampled_map[(uint32_t)(uintptr_t)ptr >> SAMPLED_MAP_LG_PIECE] != 0;
}

/* Decay times in milliseconds; hooks NULL: the system's pages. NULL: no memory. */
arena_t *arena_new(unsigned ind, bool is_auto, ssize_t dirty_ms, ssize_t muzzy_ms,
    ehooks_table_t *hooks);
void arena_name_default(arena_t *a);

static inline unsigned
arena_ind_get(const arena_t *a) {
	return a->ind;
}

/*
 * Up to n regions of class szind (at least one) into out; 0: no memory.  nrequests and nfills are
 * added to the class' counters.
 */
unsigned arena_small_fill(arena_t *a, szind_t szind, unsigned shard, void **out, unsigned n,
    uint64_t nrequests, unsigned nfills);
/* Returns n regions of class szind, of whatever arenas, to their slabs; the array is used as scratch space. */
void arena_small_flush(szind_t szind, void **ptrs, unsigned n);
/*
 * The same for what a thread cache has too many of: they go into the bins' stocks while there is room.  Most
 * are expected to be of this shard of a; nrequests are added to its counters, and one flush.
 */
void arena_small_stow(arena_t *a, szind_t szind, unsigned shard, void **ptrs, unsigned n, uint64_t nrequests);
/*
 * The stocks' regions go to their slabs, and empty slabs go, the current ones too: what was not used since the last
 * time, or all.
 */
void arena_trim(arena_t *a, bool all);
/* The same by time: what was not used for a quarter of a second.  Returns ns from now until the next look; UINT64_MAX: nothing is there. */
uint64_t arena_trim_tick(arena_t *a, uint64_t now);
/* Adds requests served by a thread cache to the counters of a class. */
void arena_small_count_requests(arena_t *a, szind_t szind, unsigned shard, uint64_t nrequests,
    unsigned nflushes);

/*
 * One object, without a thread cache.  usize: from sz_s2u or sz_sa2u; alignment 0: the natural one;
 * nrequests: 0 if the request is counted elsewhere, else 1.  NULL: no memory.
 */
void *arena_malloc(arena_t *a, size_t usize, size_t alignment, bool zero, unsigned nrequests);
void arena_dalloc(void *ptr, uint64_t elem);

/*
 * Where a large object of usual alignment begins in an extent.  With cache_oblivious that is spread over the cache lines
 * of a page but the first; by the golden ratio, neighbours lie far apart.  In memory of extent hooks it is the beginning.
 */
static inline char *
arena_large_start(const arena_t *a, const edata_t *e) {
	if (!opt_cache_oblivious || ehooks_are_own(&a->pac.src.ehooks)) {
		return e->addr;
	}
	uint64_t mix = (((uintptr_t)e->addr >> LG_PAGE) * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
	uint64_t line = 1 + ((mix * ((PAGE >> LG_CACHELINE) - 1)) >> 32);
	return e->addr + (line << LG_CACHELINE);
}

/* A large object (usize >= SC_LARGE_MINCLASS). */
void *arena_large_malloc(arena_t *a, size_t usize, size_t alignment, bool zero);
/*
 * The same of plain alignment, if a hot extent is ready for it, which may be an eighth longer. NULL
 * otherwise.
 */
void *arena_large_malloc_hot(arena_t *a, size_t usize);
void arena_large_dalloc(edata_t *e);
/* Resizes in place to between usize_min and usize_max; 0 or ENOMEM. */
int arena_large_resize(void *ptr, edata_t *e, size_t usize_min, size_t usize_max, bool zero);
void arena_large_count_requests(arena_t *a, szind_t szind, uint64_t nrequests, unsigned nfills,
    unsigned nflushes);

/* Gives a large object a record, all zero, which makes it a sampled one; NULL: no memory. */
sample_rec_t *arena_large_make_sampled(void *ptr);
/* Takes the record, which no longer names a count, from a large object that lives on. */
void arena_large_end_sampled(void *ptr);
/* The record of a sampled object, NULL if it is not one. */
sample_rec_t *arena_sample_rec(const void *ptr, uint64_t elem);

/* Usable size of an active object. */
size_t arena_usize(const void *ptr, uint64_t elem);

int arena_decay_ms_set(arena_t *a, bool is_dirty, ssize_t ms);
ssize_t arena_decay_ms_get(const arena_t *a, bool is_dirty);
void arena_decay(arena_t *a, bool all);
/* Bytes of address space that make sure of an object, with room to align it; less than usize: too many. */
size_t arena_need(size_t usize, size_t alignment);

static inline bin_t *
arena_bin(arena_t *a, szind_t szind, unsigned shard) {
	return &a->bins[szind][shard];
}

#endif
