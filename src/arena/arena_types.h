/*
 * The fields of an arena. arena.h and large.h include this header; arena.h says what an arena is.
 *
 * Invariant: `ind`, `is_auto`, `base` and `bins` do not change after arena_new(). The lock of each
 * other field is named beside it, that of `holes` at holes_t; atomic ones need none, and mutexes,
 * `bins` and `pac` have their own.
 */
#pragma once

#include "arena/arena_stats.h"
#include "arena/bin.h"
#include "extent/pac_types.h"

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

/* Bytes in use from which on an arena wants passes; holes_make_all() does not ask. */
#define HOLES_MIN_USE (ZU(1) << 20)
/*
 * How far a pass over the slabs of an arena has come (holes.h). All fields but the atomic ones
 * belong to the thread that is in the pass of dirty pages.
 */
typedef struct {
	atomic_u64_t due;       /* when the next step is due, monotonic ns; 0: not known yet */
	/* Regions went back to slabs since the last pass began (arena_want_holes() in arena.c). */
	atomic_b_t is_wanted;
	/* A pass is under way, or the last one has seen pages that may be due at the next one. */
	atomic_b_t is_busy;
	atomic_u32_t nrefused;  /* how often the system failed to take pages back */
	bool is_under_way;
	bool has_more;          /* pages were seen that may be due at the next pass */
	szind_t szind;          /* class and shard of the bin at which the pass goes on */
	unsigned shard;
	size_t left;            /* slabs of this bin still to be looked at; SIZE_MAX: not begun */
	size_t nslabs;          /* slabs with free regions when the pass began */
	uint64_t began;         /* when the pass began, monotonic ns */
	uint64_t last;          /* when its last step was made, monotonic ns */
} holes_t;

/* The fields that every arena touches come first; the long tables behind them fill with use. */
typedef struct arena_s {
	unsigned ind;              /* index in the table */
	bool is_auto;              /* neither explicit (arenas.create) nor hidden (of samples) */
	atomic_u32_t nthreads;     /* threads bound to the arena */
	atomic_u64_t left;         /* number that vacant.c gave to the last thread that left; 0: none */
	base_t *base;              /* memory of this struct and of descriptors */
	mutex_t tcache_list_mtx;
	ql_t tcaches;              /* thread caches bound to it; under tcache_list_mtx */
	atomic_b_t has_spare;      /* a stock may hold regions, or slabcur be empty: a trim has work */
	atomic_u64_t next_trim;    /* time of the next trim, monotonic ns */
	holes_t holes;
	bool is_ending;            /* reset or destroy is under way; under the lock "arenas" */
	struct arena_s *hidden;    /* its hidden arena, perhaps destroyed; under the lock "arenas" */
	struct arena_s *next_gone; /* the arena destroyed before this one; under the lock "arenas" */
	uint64_t created_ns;       /* when made or renewed, monotonic ns; set under the lock "arenas" */
	atomic_zu_t oversize_threshold; /* bytes, as mallctl reports; setting it bounds `pac` */
	atomic_zu_t stashed;       /* bytes of its objects that wait in quarantines of threads */
	atomic_zu_t large_allocated; /* bytes of large objects given out, to caches too */
	arena_large_all_t large_all;
	atomic_u64_t guard_small;  /* slabs so far; counted unless opt_san_guard_small is 0 */
	atomic_u64_t guard_large;  /* large extents so far; unless opt_san_guard_large is 0 */
	char name[ARENA_NAME_LEN]; /* under snapshot_mutex (ctl/) once the arena is in the table */
	bin_t *bins[BIN_MAX];      /* each has n_shards elements, by the class */
	pac_t pac;                 /* its page cache */
	arena_large_count_t large[LARGE_CLASSES_MAX];
} arena_t;

static inline bin_t *
arena_bin(arena_t *a, szind_t szind, unsigned shard) {
	return &a->bins[szind][shard];
}

/* The end of the row in which all bins of an arena lie, by class; it begins at bins[0]. */
static inline bin_t *
arena_bins_end(const arena_t *a) {
	return a->bins[SC_NBINS - 1] + bin_infos[SC_NBINS - 1].n_shards;
}
