/*
 * What an arena counts: each list of fields stands here once and gives the struct, the merge, the
 * mallctl leaves and the printed rows.
 * X(name, type) throughout.
 */
#ifndef ARENA_ARENA_STATS_H
#define ARENA_ARENA_STATS_H

#include "extent/pac.h"
#include "meta/sc.h"
#include "arena/bin_info.h"
#include "os/mutex.h"

/* Whole-arena values that add up when arenas are merged. */
#define ARENA_STATS_SUM_FIELDS(X) \
	X(nthreads, unsigned) \
	X(pactive, size_t) X(pdirty, size_t) X(pmuzzy, size_t) \
	X(mapped, size_t) X(retained, size_t) \
	X(base, size_t) X(internal, size_t) \
	X(metadata_edata, size_t) X(metadata_rtree, size_t) X(metadata_thp, size_t) \
	X(tcache_bytes, size_t) X(tcache_stashed_bytes, size_t) \
	X(resident, size_t) X(abandoned_vm, size_t) X(extent_avail, size_t)

/* Small and large objects together, per group. */
#define CLASS_STATS_FIELDS(X) \
	X(allocated, size_t) \
	X(nmalloc, uint64_t) X(ndalloc, uint64_t) X(nrequests, uint64_t) \
	X(nfills, uint64_t) X(nflushes, uint64_t)

#define BIN_STATS_FIELDS(X) \
	X(nmalloc, uint64_t) X(ndalloc, uint64_t) X(nrequests, uint64_t) \
	X(curregs, size_t) \
	X(nfills, uint64_t) X(nflushes, uint64_t) \
	X(nslabs, uint64_t) X(nreslabs, uint64_t) \
	X(curslabs, size_t) X(nonfull_slabs, size_t)

#define LARGE_STATS_FIELDS(X) \
	X(nmalloc, uint64_t) X(ndalloc, uint64_t) X(nrequests, uint64_t) \
	X(curlextents, size_t)

#define ECACHE_STATS_FIELDS(X) \
	X(ndirty, size_t) X(nmuzzy, size_t) X(nretained, size_t) \
	X(dirty_bytes, size_t) X(muzzy_bytes, size_t) X(retained_bytes, size_t)

/* The arena's locks, by their names in mallctl; expression of an arena_t *a. */
#define ARENA_MUTEXES(X) \
	X(large, &a->large_mtx) \
	X(extent_avail, &a->pac.src.edata_cache.mtx) \
	X(extents_dirty, &a->pac.dirty.mtx) \
	X(extents_muzzy, &a->pac.muzzy.mtx) \
	X(extents_retained, &a->pac.retained.mtx) \
	X(decay_dirty, &a->pac.decay_dirty.decay.mtx) \
	X(decay_muzzy, &a->pac.decay_muzzy.decay.mtx) \
	X(base, &a->base->mtx) \
	X(tcache_list, &a->tcache_list_mtx)

#define STATS_FIELD(name, type) type name;

typedef struct decay_stats_s {
	DECAY_STATS_FIELDS(STATS_FIELD)
} decay_stats_t;
typedef struct class_stats_s {
	CLASS_STATS_FIELDS(STATS_FIELD)
} class_stats_t;
typedef struct bin_stats_s {
	BIN_STATS_FIELDS(STATS_FIELD)
} bin_stats_t;
typedef struct large_stats_s {
	LARGE_STATS_FIELDS(STATS_FIELD)
} large_stats_t;
typedef struct ecache_stats_s {
	ECACHE_STATS_FIELDS(STATS_FIELD)
} ecache_stats_t;

enum arena_mutex_e {
#define STATS_MUTEX_ENUM(name, expr) arena_mutex_##name,
	ARENA_MUTEXES(STATS_MUTEX_ENUM)
#undef STATS_MUTEX_ENUM
	arena_mutex_count
};

#define LARGE_CLASSES_MAX (SC_NSIZES - 35u)

/* Everything about one arena at one time, or the sum over several. */
typedef struct arena_stats_s {
	ARENA_STATS_SUM_FIELDS(STATS_FIELD)
	uint64_t uptime_ns;        /* of the oldest */
	decay_stats_t dirty;
	decay_stats_t muzzy;
	class_stats_t small;
	class_stats_t large;
	bin_stats_t bins[BIN_MAX];
	mutex_prof_data_t bin_mutexes[BIN_MAX];
	large_stats_t lextents[LARGE_CLASSES_MAX];
	ecache_stats_t extents[SC_NPSIZES_MAX];
	mutex_prof_data_t mutexes[arena_mutex_count];
} arena_stats_t;

#endif
