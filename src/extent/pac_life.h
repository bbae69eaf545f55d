/*
 * The beginning and the end of a page cache. Invariant: between pac_close() and pac_open() the
 * calling thread is in a pass of both decays; pac_destroy() is called in between. Takes each
 * decay's mutex for short steps only. Called by arena.c, arena_life.c and arenas.c, without these
 * mutexes and those of caches.
 */
#pragma once

#include "extent/pac.h"

/* Initialises a cache in zeroed memory, without hooks. Decay times in ms; now: monotonic ns. */
void pac_init(pac_t *pac, base_t *base, unsigned arena_ind, ssize_t dirty_ms, ssize_t muzzy_ms,
    uint64_t now);

/*
 * Waits for passes that are under way, and keeps other threads from purging until pac_open(). Then
 * no pass holds an extent, so every active one is a slab or a large object. The caller ensures that
 * no other thread uses the arena, and is itself in no pass of it, so in no hook of the arena.
 */
void pac_close(pac_t *pac);
/* Purges what was released meanwhile and has to go at once (pac_pass_ended). */
void pac_open(pac_t *pac);
/*
 * Sets the user's hooks, or &ehooks_system; returns the previous table. A thread that holds a
 * decay's mutex, src.grow_mtx or the grow_mtx of the huge slabs (hpa.h) may rely on
 * ehooks_are_custom() until it releases it, because this function waits for all of them and takes
 * them. While there are hooks of the user, there is no rest of a huge piece (extent/piece.h).
 */
ehooks_table_t *pac_hooks_set(pac_t *pac, ehooks_table_t *table);
/*
 * At the end of an arena, which is closed and has no active extents: returns all pages and address
 * space (to hooks of the user, if there are any); none stays retained. pac_open() is called
 * afterwards too.
 */
void pac_destroy(pac_t *pac);
/*
 * After pac_destroy() and pac_open(), for reuse of the arena; parameters as of pac_init(). Sets to
 * 0 the counters of the decays and of the huge slabs, `bound` and `npeak` (pac_types.h), and resets
 * the growth step and its limit. Hooks and the shard of huge slabs itself stay.
 */
void pac_renew(pac_t *pac, ssize_t dirty_ms, ssize_t muzzy_ms, uint64_t now);
