/*
 * Looking at arenas from outside: their counters, summed up.
 */
#ifndef ARENA_INSPECT_H
#define ARENA_INSPECT_H

#include "arena/arena.h"
#include "arena/arena_stats.h"

/* Bytes cached by the thread cache with this link in its arena list; set by thread/tsd. */
extern size_t (*inspect_tcache_bytes)(ql_t *tcache_link);

/* In all thread caches that belong to the arena. */
size_t arena_cached_bytes(arena_t *arena);
/* Adds what arena counts now to *out (zeroed by the caller before the first). */
void arena_stats_merge(arena_t *arena, arena_stats_t *out);
/* What it keeps in memory, metadata included; no lock but those of base and freepool is taken. */
size_t arena_resident(arena_t *arena);
/* Zeroes the contention counters of all the arena's locks. */
void arena_mutexes_reset(arena_t *arena);

#endif
