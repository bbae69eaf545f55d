/*
 * Reading and adding up the counters of an arena and its hidden arena (small samples). Functions
 * may be called at any time, inside the gate (os/gate.h: fork waits meanwhile); while other threads
 * run, values are approximate. Each function takes the locks that it needs one at a time; the
 * caller holds none of them. Called by the statistics of mallctl (ctl_snapshot.c) and by the
 * profiler (prof_figures.c, prof_frag.c).
 */
#pragma once

#include "arena/arena.h"
#include "arena/arena_stats.h"

/* What thread caches hold and have served. */
typedef struct {
	size_t bytes;       /* in the caches */
	/* [SC_NSIZES]: requests served and not yet reported to the arena; NULL: not wanted */
	uint64_t *requests;
} inspect_caches_t;

/*
 * Adds to *sum what the thread cache with this link in its arena's list has; it may serve
 * meanwhile. Set by thread/tsd; NULL before.
 */
extern void (*inspect_tcache)(ql_t *tcache_link, inspect_caches_t *sum);

/*
 * Bytes in all thread caches that are bound to the arena, also explicit ones (tcache.create). Takes
 * the lock of the arena's list of caches.
 */
size_t arena_cached_bytes(arena_t *arena);
/*
 * Adds the counters of the arena and of its hidden arena to *out, which the caller zeroes before
 * the first call. The hidden arena of arena 0 has the samples of all automatic arenas.
 */
void arena_stats_merge(arena_t *arena, arena_stats_t *out);
/*
 * arena_metadata_resident(), arena_resident(), arena_mapped() and arena_metadata() are of this
 * arena only, not of its hidden one. In arena 0 they include the metadata that all arenas share:
 * the page map, freepool, and the tables of the profiler. They take the lock of the arena's base,
 * in arena 0 also that of freepool, and there arena_mapped() also that of meta/region.
 */
/* Bytes of metadata (what the library needs for its own work) that are in memory. */
size_t arena_metadata_resident(arena_t *arena);
/* Bytes that may be in memory, metadata included, muzzy pages and holes (holes.h) not. */
size_t arena_resident(arena_t *arena);
/* Bytes of mapped address space, metadata included, retained extents and guard pages not. */
size_t arena_mapped(arena_t *arena);
/*
 * Bytes of metadata in use. The shared metadata counts with its touched bytes, freepool with its
 * mapped bytes.
 */
size_t arena_metadata(arena_t *arena);

/*
 * Zeroes the contention counters of the locks that statistics report for the arena: its own and
 * those of its hidden arena.
 */
void arena_mutexes_reset(arena_t *arena);
