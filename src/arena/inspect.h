/*
 * Reading an arena's counters, summed up. Functions may be called at any time; values of a running
 * process are approximate. Each function takes the arena's locks one at a time, so the caller holds
 * none. The statistics of mallctl and the profiler call it.
 */
#ifndef ARENA_INSPECT_H
#define ARENA_INSPECT_H

#include "arena/arena.h"
#include "arena/arena_stats.h"

/* Bytes cached by the thread cache with this link in its arena list; set by thread/tsd. */
extern size_t (*inspect_tcache_bytes)(ql_t *tcache_link);

/* Bytes in all thread caches that are bound to the arena. */
size_t arena_cached_bytes(arena_t *arena);
/* Adds the arena's counters to *out, which the caller zeroes before the first call. */
void arena_stats_merge(arena_t *arena, arena_stats_t *out);
/* Bytes in memory, metadata included. Takes only the locks of base and freepool. */
size_t arena_resident(arena_t *arena);
/* Bytes of address space in use, metadata included, without what is retained; the same locks. */
size_t arena_mapped(arena_t *arena);
/* Bytes of metadata; the same locks. */
size_t arena_metadata(arena_t *arena);
/* Zeroes the contention counters of all the arena's locks. */
void arena_mutexes_reset(arena_t *arena);

#endif
