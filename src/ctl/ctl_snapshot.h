/*
 * The snapshot of statistics: what stats.* reads and malloc_stats_print() prints.
 * The shared snapshot is taken at its first use, and refreshed by writes to the node "epoch" and by
 * malloc_stats_print(), which then prints a copy of it. Between refreshes an arena that is new is
 * added at its first read, and one that is destroyed is removed. All that changes only under
 * snapshot_mutex, and functions named _locked need that lock. Callers, which are inside the gate
 * but for snapshot_has_destroyed(): ctl_tree.c, ctl_stats.c, ctl_arena.c and stats.c; ctl.c takes
 * the lock. The field lists here give the structs, the sums, the leaves and the printed rows.
 */
#pragma once

#include "arena/arena.h"
#include "arena/arena_stats.h"
#include "arena/background_thread.h"
#include "extent/ahead.h"
#include "os/mutex.h"
#include "util/compiler.h"

/* Locks that belong to no arena, by their names in mallctl, with texts for the manual. */
#define SNAPSHOT_MUTEXES(X) \
	X(background_thread, "lock of starting and ending background threads") \
	X(max_per_bg_thd, "of the background threads' own locks, the one taken most often") \
	X(ctl, "lock of this snapshot") \
	X(prof, "locks of the table of stacks, together") \
	X(prof_thds_data, "lock of a sweep over the profiler's site tables") \
	X(prof_dump, "lock of a dump") \
	X(prof_recent_alloc, "lock of the list of recent samples") \
	X(prof_recent_dump, "lock of writing that list") \
	X(prof_stats, "lock of prof.stats")

enum snapshot_mutex_e {
#define SNAPSHOT_MUTEX_ENUM(name, says) snapshot_mutex_##name,
	SNAPSHOT_MUTEXES(SNAPSHOT_MUTEX_ENUM)
#undef SNAPSHOT_MUTEX_ENUM
	snapshot_mutex_count
};

/* Sums over all arenas (stats.NAME): X(name, type, text for the manual). */
#define SNAPSHOT_GLOBAL_FIELDS(X) \
	X(allocated, size_t, "bytes that the program has allocated, in usable sizes") \
	X(active, size_t, "bytes of pages in use; a multiple of the page, and at least " \
	    "allocated, unless threads allocate or free while the two are summed") \
	X(metadata, size_t, "bytes of the allocator's own data") \
	X(metadata_edata, size_t, "of them, descriptors of extents") \
	X(metadata_rtree, size_t, "of them, the page map") \
	X(metadata_thp, size_t, "huge pages under them") \
	X(resident, size_t, "bytes that may be in memory, at most: pages in use, dirty pages, own " \
	    "data") \
	X(mapped, size_t, "bytes of address space in use, with dirty and muzzy pages") \
	X(retained, size_t, "bytes of address space kept without memory behind")

/* Counters of a lock: X(name in mallctl, member, type, text for the manual). */
#define MUTEX_STATS_FIELDS(X) \
	X(num_ops, n_lock_ops, uint64_t, "times it was taken") \
	X(num_wait, n_wait_times, uint64_t, "times a thread had to sleep for it") \
	X(num_spin_acq, n_spin_acquired, uint64_t, "times it came free while a thread looked at it") \
	X(num_owner_switch, n_owner_switches, uint64_t, "times another thread took it than before") \
	X(total_wait_time, tot_wait_time, uint64_t, "nanoseconds of sleep for it, in all") \
	X(max_wait_time, max_wait_time, uint64_t, "nanoseconds of the longest sleep") \
	X(max_num_thds, max_n_thds, uint32_t, "most threads that slept for it at once")

/* Statistics of the whole process. */
typedef struct {
	SNAPSHOT_GLOBAL_FIELDS(STATS_FIELD)
	background_thread_stats_t background;
	thp_stats_t thp;
	mutex_prof_data_t mutexes[snapshot_mutex_count];
} snapshot_global_t;

/* Statistics of one arena, or of several that were added up. */
typedef struct {
	arena_stats_t stats;
	ssize_t dirty_decay_ms;
	ssize_t muzzy_decay_ms;
	const char *dss; /* a word of dss_prec_names, or "N/A" */
	char name[ARENA_NAME_LEN];
} snapshot_arena_t;

typedef struct {
	snapshot_global_t global;
	/*
	 * sum over all arenas; a hidden arena of samples counts as part of its visible arena, which is
	 * arena 0 for those of automatic arenas
	 */
	snapshot_arena_t *merged;
	/* sums of destroyed arenas; NULL if there were none, no memory, or it is the shared snapshot */
	snapshot_arena_t *destroyed;
	/* by index; NULL: there was no such arena, or none that a refresh or a read has added yet */
	snapshot_arena_t **arenas;
	unsigned narenas; /* elements of arenas that belong to the snapshot */
	unsigned capacity; /* elements of arenas */
} snapshot_t;

/* Protects the shared snapshot and the names of arenas; held while statistics are collected. */
extern HIDDEN mutex_t snapshot_mutex;

/*
 * Refreshes the shared snapshot and copies it to s, so that mallctl gives the same numbers until
 * the next refresh. s is all zero, or has been filled in by this function before. Takes the lock.
 * 0, or EAGAIN without memory: then s may have old and new parts, only to be freed or filled again.
 */
int snapshot_take(snapshot_t *s);
/* Frees what snapshot_take() allocated; s is all zero afterwards. */
void snapshot_free(snapshot_t *s);

/* Refreshes the shared snapshot and increments the epoch. 0, or EAGAIN if there is no memory. */
int snapshot_refresh_locked(void);
/* Number of refreshes by snapshot_refresh_locked() that succeeded, plus 1. */
uint64_t snapshot_epoch_locked(void);
/* The shared snapshot; the first call collects it, without a new epoch. NULL: no memory. */
const snapshot_t *snapshot_get_locked(void);
/*
 * Arena `ind` of the shared snapshot; one that was made after the last refresh is collected now.
 * NULL: there is no such arena, or no memory.
 */
const snapshot_arena_t *snapshot_arena_locked(unsigned ind);

/*
 * Called when an arena is destroyed: keeps its counters, and removes it from the shared snapshot.
 * hidden (may be NULL) is its arena of samples. Without memory its counters are lost. Takes the
 * lock.
 */
void snapshot_add_destroyed(arena_t *arena, arena_t *hidden);
/* Whether any arena was destroyed; needs no lock. */
bool snapshot_has_destroyed(void);
/* The sums of all arenas destroyed up to now; NULL if there were none, or no memory for them. */
const snapshot_arena_t *snapshot_destroyed_locked(void);

/*
 * Zeroes the contention counters of arenas, profiler, background threads and snapshot_mutex; the
 * snapshot has the old numbers until its next refresh.
 */
void snapshot_mutexes_reset_locked(void);
