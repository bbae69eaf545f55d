/*
 * Reading and adding up the counters of an arena and its hidden arena. Functions may be called at
 * any time; while other threads run, values are approximate. Each function takes the arena's locks
 * one at a time; the caller holds none. Called by the statistics of mallctl and by the profiler.
 */
#ifndef ARENA_INSPECT_H
#define ARENA_INSPECT_H

#include "arena/arena.h"
#include "arena/arena_stats.h"

/* Bytes cached by the thread cache with this link in its arena list; set by thread/tsd. */
extern size_t (*inspect_tcache_bytes)(ql_t *tcache_link);

/* Bytes in all thread caches that are bound to the arena. */
size_t arena_cached_bytes(arena_t *arena);
/*
 * Adds the counters of the arena and of its hidden arena to *out, which the caller zeroes before
 * the first call.
 */
void arena_stats_merge(arena_t *arena, arena_stats_t *out);
/* Bytes of metadata in memory; of arena 0 also those that all arenas share. Locks as below. */
size_t arena_own_resident(arena_t *arena);
/* Bytes in memory, metadata included. Takes only the locks of base and freepool. */
size_t arena_resident(arena_t *arena);
/* Bytes of mapped address space, metadata included, without retained extents; locks as above. */
size_t arena_mapped(arena_t *arena);
/* Bytes of metadata; locks as above. */
size_t arena_metadata(arena_t *arena);
/* Zeroes the contention counters of all the arena's locks. */
void arena_mutexes_reset(arena_t *arena);

#endif
