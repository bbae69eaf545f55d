/*
 * An arena: small objects in bins, large ones in extents of their own, pages from one page cache.
 *
 * Arenas share nothing but the page map. A thread allocates from the arena it is bound to and frees
 * to the arena that the object came from. No function here may be called with a lock held; each
 * takes the lock of a bin or of the page cache itself. Sampled small objects of all arenas live in
 * hidden arenas. The pieces of address space in which they lie are marked in arena_sampled_map, so
 * that a sized free can exclude a sample by the address alone. Callers: thread caches, the slow
 * path of requests, the tables of arenas (arenas.h), statistics.
 */
#ifndef ARENA_ARENA_H
#define ARENA_ARENA_H

#include "arena/arena_table.h"
#include "arena/bin.h"
#include "extent/pac.h"

/* Bytes of an arena's name, with its terminating zero. */
#define ARENA_NAME_LEN 32

/* Counters of one large class; arena_stats.h describes them. */
#define ARENA_COUNT(name, type, says) atomic_u64_t name;
typedef struct arena_large_count_s {
	LARGE_COUNT_FIELDS(ARENA_COUNT)
} arena_large_count_t;
/* Counters of all large classes together. */
typedef struct arena_large_all_s {
	CLASS_OF_ALL_FIELDS(ARENA_COUNT)
} arena_large_all_t;
#undef ARENA_COUNT

/* Where a pass over the slabs of an arena is; its thread's, but for the first two (holes.h). */
typedef struct {
	atomic_u64_t due;       /* when there is something to do, ns; 0: not known yet */
	atomic_u32_t nrefused;  /* how often the system did not take pages */
	bool is_under_way;
	bool has_more;          /* pages were seen that may be due at the next pass */
	szind_t szind;          /* the bin at which it goes on */
	unsigned shard;
	size_t left;            /* slabs of the bin to be looked at; SIZE_MAX: it has not come to it */
	size_t nslabs;          /* slabs to be looked at when it began */
	uint64_t began;         /* ns */
	uint64_t last;          /* when a step was made last, ns */
} holes_t;

/* The fields that every arena touches come first; the long tables behind them fill with use. */
typedef struct arena_s {
	unsigned ind;              /* index in the table */
	bool is_auto;              /* neither explicit nor hidden */
	atomic_u32_t nthreads;     /* threads bound to the arena */
	atomic_u64_t left;         /* number of its last leave, 0: never left (vacant.h) */
	base_t *base;              /* memory of this struct and of descriptors */
	mutex_t tcache_list_mtx;
	ql_t tcaches;              /* caches bound to it, for statistics; under tcache_list_mtx */
	mutex_t large_mtx;         /* guards nothing; statistics report a lock of this name */
	atomic_b_t has_spare;      /* a bin may have a stock, or an empty current slab: a trim is due */
	atomic_u64_t next_trim;    /* time of the next trim, ns */
	holes_t holes;
	bool is_ending;            /* reset or destroy is under way; under the lock "arenas" */
	struct arena_s *hidden;    /* its hidden arena, even if destroyed; under the lock "arenas" */
	struct arena_s *next_gone; /* the arena destroyed before this one; under the lock "arenas" */
	uint64_t created_ns;
	atomic_zu_t oversize_threshold; /* bytes; the value that mallctl reports */
	atomic_zu_t large_allocated; /* bytes of large objects in use */
	arena_large_all_t large_all;
	atomic_u64_t guard_small;  /* slabs so far, counted while some are guarded */
	atomic_u64_t guard_large;  /* large extents so far, counted while some are guarded */
	char name[ARENA_NAME_LEN];
	bin_t *bins[BIN_MAX];      /* each has n_shards elements, by the class */
	pac_t pac;                 /* its page cache */
	arena_large_count_t large[LARGE_CLASSES_MAX];
} arena_t;

/* Large objects start at varying cache lines of their first page, not all at the same one. */
extern HIDDEN bool opt_cache_oblivious;
/* The user has asked for that: so do all large objects. */
extern HIDDEN bool opt_cache_oblivious_all;
/*
 * From this size (128 KiB; with larger pages 256 KiB) up they do by default: of smaller ones the
 * page that the offset costs would be up to a quarter. In builds with safety checks all do, because
 * only those that do have marks (large_marks.h) at their ends.
 */
#define LARGE_OFFSET_MIN (config_hardening || opt_cache_oblivious_all ? SC_LARGE_MINCLASS \
    : min_zu((size_t)32 << LG_PAGE, (size_t)256 << 10))
/*
 * Objects of classes from this one on are never cached if their arena is explicit: it may be
 * destroyed while other threads' caches hold them, or have the user's hooks. Set once at boot.
 */
extern HIDDEN szind_t arena_large_own_min;

/*
 * Bytes that are set mark 2 MiB pieces of address space that may hold sampled objects, or others
 * that must not enter a cache by their size alone. Bits 21 to 31 of the address are the index, so
 * that one shift finds the byte.
 */
#define SAMPLED_MAP_LG_PIECE 21
#define SAMPLED_MAP_SIZE (1u << (32 - SAMPLED_MAP_LG_PIECE))
extern uint8_t arena_sampled_map[SAMPLED_MAP_SIZE];

/* From now on sized frees of addresses in the range consult the page map. */
void arena_mark_slow_sized_free(const void *addr, size_t size);

/* False only if ptr is neither NULL nor in a marked piece. */
static inline bool
arena_may_be_sampled(const void *ptr) {
	return arena_sampled_map[(uint32_t)(uintptr_t)ptr >> SAMPLED_MAP_LG_PIECE] != 0;
}

/*
 * Makes an arena. Decay times are in milliseconds; hooks NULL: pages of the system. Returns NULL if
 * there is no memory.
 */
arena_t *arena_new(unsigned ind, bool is_auto, ssize_t dirty_ms, ssize_t muzzy_ms,
    ehooks_table_t *hooks);
/* Sets the name that the arena has unless the user sets one. */
void arena_name_default(arena_t *a);

static inline unsigned
arena_ind_get(const arena_t *a) {
	return a->ind;
}

/*
 * Takes up to n regions of class szind into out, at least one unless there is no memory. Returns
 * the number. nrequests and nfills are added to the class's counters.
 */
unsigned arena_small_fill(arena_t *a, szind_t szind, unsigned shard, void **out, unsigned n,
    uint64_t nrequests, unsigned nfills);
/*
 * Returns n regions of class szind, of any arenas, to their slabs; ptrs is used as scratch space.
 */
void arena_small_flush(szind_t szind, void **ptrs, unsigned n);
/*
 * Returns n regions of class szind that leave a thread cache: they go into the stocks (stock.h) of
 * their bins while there is room, the others to their slabs. ptrs is used as scratch space.
 */
void arena_small_stow(szind_t szind, void **ptrs, unsigned n);
/*
 * Returns regions of stocks to their slabs, and deletes empty slabs, also current ones. Without all
 * only those that were not used since the last trim.
 */
void arena_trim(arena_t *a, bool all);
/*
 * arena_trim() if 250 ms have passed since the last call of this function that trimmed. Returns ns
 * from now to the next call that is useful; UINT64_MAX: there is nothing to trim.
 */
uint64_t arena_trim_tick(arena_t *a, uint64_t now);
/* Adds requests served by a thread cache to the counters of a class. */
void arena_small_count_requests(arena_t *a, szind_t szind, unsigned shard, uint64_t nrequests,
    unsigned nflushes);

/*
 * Allocates one object without a thread cache. usize: from sz_s2u or sz_sa2u; alignment 0: the
 * natural one; nrequests: 0 if the request is counted elsewhere, otherwise 1. Returns NULL if there
 * is no memory.
 */
void *arena_malloc(arena_t *a, size_t usize, size_t alignment, bool zero, unsigned nrequests);
/* Frees one object past the thread caches. elem: its page-map element. */
void arena_dalloc(void *ptr, uint64_t elem);

/* The bytes that a large object of usize bytes and usual alignment needs for its offset. */
static inline size_t
arena_large_pad(size_t usize) {
	return opt_cache_oblivious && usize >= LARGE_OFFSET_MIN ? PAGE : 0;
}

/*
 * The address at which a large object of usual alignment begins in an extent. With an offset it
 * varies over the cache lines of the first page except the first line; the golden ratio places
 * neighbours far apart. In memory of extent hooks it is the beginning of the extent.
 */
static inline char *
arena_large_start(const arena_t *a, const edata_t *e, size_t usize) {
	if (arena_large_pad(usize) == 0 || ehooks_are_own(&a->pac.src.ehooks)) {
		return e->addr;
	}
	uint64_t mix = (((uintptr_t)e->addr >> LG_PAGE) * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
	uint64_t line = 1 + ((mix * ((PAGE >> LG_CACHELINE) - 1)) >> 32);
	return e->addr + (line << LG_CACHELINE);
}

/*
 * A large object is free or handed out; its descriptor knows which. Only the following three
 * functions change that: a free begins with arena_large_try_claim(), which returns false if the
 * object is free already, and an allocation ends with arena_large_hand_out(), which returns the
 * address of the object. In between the object belongs to a thread cache, or to its arena.
 * arena_large_unclaim() takes a claim back. A free touches the object's memory, marks included,
 * only after its claim: a thread that frees the object at the same moment may have taken access
 * away.
 */
ALWAYS_INLINE bool
arena_large_try_claim(edata_t *e) {
	/* That of an object which was freed before may be hot by now. */
	assert(!e->is_slab && (e->state == extent_state_active || e->state == extent_state_hot));
	return (atomic_fetch_or_u32(&e->u.large_is_freed, 1, MO_RELAXED) & 1) == 0;
}

ALWAYS_INLINE void
arena_large_unclaim(edata_t *e) {
	assert(atomic_load_u32(&e->u.large_is_freed, MO_RELAXED) == 1);
	atomic_store_u32(&e->u.large_is_freed, 0, MO_RELAXED);
}

ALWAYS_INLINE void *
arena_large_hand_out(edata_t *e) {
	assert(!e->is_slab && e->state == extent_state_active);
	arena_large_unclaim(e);
	if (config_hardening) {
		e->large_request = 0;
	}
	return e->u.large_start;
}

/* Whether ptr is where a large object begins that is handed out. e: of an active extent. */
static inline bool
arena_large_is_live(const void *ptr, const edata_t *e) {
	assert(!e->is_slab);
	return ptr == e->u.large_start && atomic_load_u32(&e->u.large_is_freed, MO_RELAXED) == 0;
}

/*
 * Makes a large object (usize >= SC_LARGE_MINCLASS), which is not handed out yet. NULL: there is no
 * memory. arena_large_malloc() hands it out.
 */
edata_t *arena_large_new(arena_t *a, size_t usize, size_t alignment, bool zero);
void *arena_large_malloc(arena_t *a, size_t usize, size_t alignment, bool zero);
/*
 * Makes up to n large objects in hot extents (extent/pac_hot.h), which may be a quarter longer than
 * needed, and writes their descriptors to out; they are not handed out yet. Returns their number; 0
 * if no hot extent fits. Alignment: a cache line.
 */
unsigned arena_large_reuse(arena_t *a, size_t usize, void **out, unsigned n);
/* Frees a large object; a write past its end that is detected ends the process. */
void arena_large_dalloc(edata_t *e);
/*
 * Frees n large objects that leave a thread cache, given by their descriptors; cheaper if their
 * arena and class are the same. One that is in use again by its arena, because that was reset
 * meanwhile, ends the process.
 */
void arena_large_flush(void *const *objs, unsigned n);
/*
 * Resizes in place: to usize_max, or if that fails to usize_min or, if the old size is at least
 * usize_min, not at all. 0 or ENOMEM. zero: new bytes must be zero.
 */
int arena_large_resize(void *ptr, edata_t *e, size_t usize_min, size_t usize_max, bool zero);
/*
 * Moves the pages of a large object into a longer extent, without a copy; usize: its new size, a
 * multiple of PAGE. Returns its new address, and e is no more; NULL: not possible, or not worth it,
 * and nothing has changed. A sample keeps its record. zero: new bytes must be zero.
 */
void *arena_large_try_move(edata_t *e, size_t usize, bool zero);
/*
 * Called after realloc has made a large object longer, to usize bytes: the free of one above 32 KiB
 * passes the thread caches then. The program will seldom ask for that size at once; the next block
 * that grows needs the room, which a cached object occupies.
 */
void arena_large_note_grown(void *ptr, size_t usize);
void arena_large_count_requests(arena_t *a, szind_t szind, uint64_t nrequests, unsigned nfills,
    unsigned nflushes);

/*
 * Gives a large object a record without a count, which makes it a sample. Returns rec, also if that
 * is NULL; nothing has changed then.
 */
sample_rec_t *arena_large_make_sampled(edata_t *e, sample_rec_t *rec);
/*
 * Takes the record, which must not refer to a count any more, from an object that lives on, and
 * returns it.
 */
sample_rec_t *arena_large_end_sampled(edata_t *e);
/* Returns the record of a sampled object, NULL for any other object. */
static inline sample_rec_t *
arena_sample_rec(const void *ptr, uint64_t elem) {
	if ((elem & ELEM_SAMPLED) == 0) {
		return NULL;
	}
	const edata_t *e = elem_edata(elem);
	return (elem & ELEM_SLAB) != 0 ? slab_rec(e, ptr) : e->recs;
}

/* Usable size of an active object. */
static inline size_t
arena_usize(const void *ptr UNUSED, uint64_t elem) {
	const edata_t *e = elem_edata(elem);
	return (elem & ELEM_SLAB) != 0 ? sz_i2s(e->szind) : e->u.large_usize;
}

/* What the program may use of an active object; with canaries 0 if ptr is none. */
static inline size_t
arena_usable(const void *ptr, uint64_t elem) {
	const edata_t *e = elem_edata(elem);
	size_t usize = arena_usize(ptr, elem);
	return !config_hardening ? usize
	    : (elem & ELEM_SLAB) != 0 ? canary_size(ptr, usize, e) : canary_large_size(e);
}

/*
 * Makes an object in use, of usize bytes, one that serves a request of size bytes: puts its
 * canaries, if it has any. Returns ptr.
 */
ALWAYS_INLINE void *
arena_guard(void *ptr, size_t usize, size_t size) {
	if (config_hardening && size <= SC_SMALL_MAXCLASS) {
		if (usize < SC_LARGE_MINCLASS) {
			canary_put(ptr, usize, size);
		} else {
			canary_put_large(emap_edata(ptr), size);
		}
	}
	return ptr;
}

/* Decay time of dirty or muzzy pages in ms: 0: purge at once, -1: never. EINVAL: not valid. */
int arena_decay_ms_set(arena_t *a, bool is_dirty, ssize_t ms);
ssize_t arena_decay_ms_get(const arena_t *a, bool is_dirty);
/* Bytes of address space that suffice for an object and its alignment; below usize: overflow. */
size_t arena_need(size_t usize, size_t alignment);

static inline bin_t *
arena_bin(arena_t *a, szind_t szind, unsigned shard) {
	return &a->bins[szind][shard];
}

#endif
