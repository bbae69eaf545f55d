/*
 * Looking at arenas from outside: their counters, summed up.
 */
#ifndef ARENA_INSPECT_H
#define ARENA_INSPECT_H

#include "arena/arena.h"
#include "arena/arena_stats.h"

/* Bytes cached by the thread cache with this link in its arena list; set by thread/tsd. */
extern size_t (*inspect_tcache_bytes)(ql_t *tcache_link);

/* Adds what arena counts now to *out (zeroed by the caller before the first). */
void arena_stats_merge(arena_t *arena, arena_stats_t *out);
/* Zeroes the contention counters of all the arena's locks. */
void arena_mutexes_reset(arena_t *arena);

#endif
