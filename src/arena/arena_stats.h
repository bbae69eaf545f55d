/*
 * The statistics of an arena, as lists of fields. A list generates the struct, the mallctl leaves
 * and the JSON report of its fields, most of the merge (inspect.c) and of the sums over arenas
 * (ctl_snapshot.c), and in the printed report (stats.c) the rows of ROW fields and the columns of
 * the totals and of large classes; the other tables name their columns in stats.c. The lists of
 * decay and of huge slabs are in extent/pac_types.h and hpa/hpa.h. A row is X(name, type, text for
 * the manual); a row of ARENA_MUTEXES is X(name, address of the mutex, text). Types only: no state
 * and no lock. The counters themselves are under the locks that bin.h and arena_types.h state.
 */
#pragma once

#include "extent/pac.h"
#include "meta/sc.h"
#include "arena/bin_info.h"
#include "os/mutex.h"

/*
 * Values of a whole arena, which are added up when arenas are merged. Each comes from the macro
 * SUM_name of inspect.c. malloc_stats_print gives each of the ROW fields a row with its name; each
 * PAGE field is printed in a way of its own. In arena 0 mapped, base and resident include what all
 * arenas share, and metadata_rtree is all of the page map; it is 0 in other arenas.
 */
#define ARENA_STATS_PAGE_FIELDS(X) \
	X(nthreads, unsigned, "threads bound to the arena") \
	X(pactive, size_t, "pages in use") \
	X(pdirty, size_t, "unused pages that may hold old contents") \
	X(pmuzzy, size_t, "unused pages that the system may take at any time")
#define ARENA_STATS_ROW_FIELDS(X) \
	X(mapped, size_t, "bytes of address space in use, with dirty and muzzy pages") \
	X(retained, size_t, "bytes of address space kept without memory behind") \
	X(base, size_t, "bytes of the allocator's own data") \
	X(internal, size_t, "always 0: the allocator's own data never come from the arena's extents") \
	X(metadata_edata, size_t, "bytes of descriptors of extents") \
	X(metadata_rtree, size_t, "bytes of the page map") \
	X(metadata_thp, size_t, "huge pages under the allocator's own data") \
	X(tcache_bytes, size_t, "bytes in the caches of the arena's threads") \
	X(tcache_stashed_bytes, size_t, \
	    "bytes of freed objects that wait to be checked (lg_san_uaf_align)") \
	X(resident, size_t, "bytes that may be in memory, at most") \
	X(abandoned_vm, size_t, "always 0: what the system refuses to unmap is unmapped later") \
	X(extent_avail, size_t, "spare descriptors of extents")
#define ARENA_STATS_SUM_FIELDS(X) ARENA_STATS_PAGE_FIELDS(X) ARENA_STATS_ROW_FIELDS(X)

/*
 * Totals over all small classes, and over all large ones (CLASS_STATS_FIELDS):
 * - CLASS_OF_SIZE_FIELDS are counted for each class, small (BIN_STATS_FIELDS) or large
 *   (LARGE_COUNT_FIELDS), and summed.
 * - CLASS_OF_ALL_FIELDS are so too for small classes; of large ones there is one counter for all of
 *   them together (arena_large_all_t).
 * - `allocated` is computed from curregs for small classes, and is a counter of the arena for large
 *   ones.
 * nrequests counts the requests of the program, also those that a thread cache served.
 */
#define CLASS_OF_SIZE_FIELDS(X) \
	X(nmalloc, uint64_t, "objects that the arena gave out, also to thread caches") \
	X(ndalloc, uint64_t, "objects that came back to it") \
	X(nrequests, uint64_t, "requests, also those that a thread cache served")
#define CLASS_OF_ALL_FIELDS(X) \
	X(nfills, uint64_t, "times a thread cache was filled") \
	X(nflushes, uint64_t, "times a thread cache was flushed")
#define CLASS_STATS_FIELDS(X) \
	X(allocated, size_t, "bytes in use, in usable sizes") \
	CLASS_OF_SIZE_FIELDS(X) \
	CLASS_OF_ALL_FIELDS(X)

#define BIN_STATS_FIELDS(X) \
	X(nmalloc, uint64_t, "objects given out, also to thread caches") \
	X(ndalloc, uint64_t, "objects that came back") \
	X(nrequests, uint64_t, "requests, also those that a thread cache served") \
	X(curregs, size_t, "objects out now, also those in thread caches") \
	X(nfills, uint64_t, "times a thread cache was filled") \
	X(nflushes, uint64_t, "times a thread cache was flushed") \
	X(nslabs, uint64_t, "slabs ever made") \
	X(nreslabs, uint64_t, "times a slab with free objects became the current one again") \
	X(curslabs, size_t, "slabs now") \
	X(nonfull_slabs, size_t, "slabs with free objects, without the current one")

/* What is counted for each large class; each is a 64-bit counter. */
#define LARGE_COUNT_FIELDS(X) \
	X(nmalloc, uint64_t, "objects given out, also to thread caches") \
	X(ndalloc, uint64_t, "objects that came back") \
	X(nrequests, uint64_t, "requests, also those that a thread cache served")
#define LARGE_STATS_FIELDS(X) \
	LARGE_COUNT_FIELDS(X) \
	X(curlextents, size_t, "objects out now")

/* Unused extents of one page class; j is its number in stats.arenas.<i>.extents.<j>. */
#define ECACHE_STATS_FIELDS(X) \
	X(ndirty, size_t, "dirty extents of page class j") \
	X(nmuzzy, size_t, "muzzy extents of page class j") \
	X(nretained, size_t, "retained extents of page class j") \
	X(dirty_bytes, size_t, "bytes of these dirty extents") \
	X(muzzy_bytes, size_t, "bytes of these muzzy extents") \
	X(retained_bytes, size_t, "bytes of these retained extents")

/*
 * The arena's locks: name in mallctl; the address of the mutex in arena_t *a, NULL if the arena has
 * none; text for the manual.
 */
#define ARENA_MUTEXES(X) \
	X(large, NULL, "kept for its name: there is no such lock, and all are 0") \
	X(extent_avail, &a->pac.src.edata_cache.mtx, "lock of the spare descriptors") \
	X(extents_dirty, &a->pac.dirty.mtx, "lock of the dirty pages") \
	X(extents_muzzy, &a->pac.muzzy.mtx, "lock of the muzzy pages") \
	X(extents_retained, &a->pac.retained.mtx, "lock of the retained pages") \
	X(decay_dirty, &a->pac.decay_dirty.decay.mtx, "lock of the decay of dirty pages") \
	X(decay_muzzy, &a->pac.decay_muzzy.decay.mtx, "lock of the decay of muzzy pages") \
	X(base, &a->base->mtx, "lock of the allocator's own data") \
	X(tcache_list, &a->tcache_list_mtx, "lock of the list of thread caches") \
	X(hpa_shard, pac_hpa_mutex(&a->pac), "lock of the huge slabs") \
	X(hpa_shard_grow, pac_hpa_grow_mutex(&a->pac), "lock of fetching a huge slab") \
	X(hpa_sec, pac_hpa_sec_mutex(&a->pac), "lock of the small extent cache")

#define STATS_FIELD(name, type, says) type name;

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
#define STATS_MUTEX_ENUM(name, expr, says) arena_mutex_##name,
	ARENA_MUTEXES(STATS_MUTEX_ENUM)
#undef STATS_MUTEX_ENUM
	arena_mutex_count
};

/* Upper bound of the number of large classes: with any page size more than 35 are small. */
#define LARGE_CLASSES_MAX (SC_NSIZES - 35u)

/* All counters of one arena, copied one part after another, or their sums over several arenas. */
typedef struct arena_stats_s {
	ARENA_STATS_SUM_FIELDS(STATS_FIELD)
	uint64_t uptime_ns;        /* since the arena, or the oldest of several, was made */
	decay_stats_t dirty;
	decay_stats_t muzzy;
	class_stats_t small;
	class_stats_t large;
	bin_stats_t bins[BIN_MAX];
	mutex_prof_data_t bin_mutexes[BIN_MAX];
	large_stats_t lextents[LARGE_CLASSES_MAX];
	ecache_stats_t extents[SC_NPSIZES_MAX];
	mutex_prof_data_t mutexes[arena_mutex_count];
	hpa_stats_t hpa;
} arena_stats_t;
