/*
 * The page cache of an arena: unused pages move from dirty to muzzy to retained to the system.
 * A request is looked for in this order: dirty, muzzy, retained, new address space. Freed pages
 * become dirty, and decay (decay.h) moves them on when pac_tick() is called. The extents of each
 * page class that were freed last stay "hot" for a moment: they are kept whole, not joined with
 * neighbours, and serve the next requests of their size. The next tick makes them dirty. Statistics
 * count them as dirty. Callers are arena and large; background_thread and arenas tick.
 */
#ifndef EXTENT_PAC_H
#define EXTENT_PAC_H

#include "extent/pac_hot.h"
#include "extent/pac_types.h"

/*
 * Locks: a decay's mutex is taken before any cache's and is held during a purging pass, so that one
 * thread purges at a time; pac_tick() only tries it. During hooks of the user it is released, and
 * `passer` keeps other threads out.
 *
 * When new pages are fetched for a large request, as many dirty ones are purged, past the muzzy
 * cache, if pages in use and dirty pages together would exceed the peak of pages in use by more
 * than a quarter. A bounded cache (pac_bound) limits its unused pages at every allocation and
 * release.
 */

/* The options dirty_decay_ms and muzzy_decay_ms: the times with which arenas start. */
extern ssize_t opt_dirty_decay_ms;
extern ssize_t opt_muzzy_decay_ms;
/* Reused memory of at least this many bytes is zeroed by purging it instead of memset(). */
extern size_t opt_calloc_madvise_threshold;

/*
 * Called with no lock held when the pages mapped by all arenas reach a new maximum; NULL if not
 * set.
 */
extern void (*pac_new_maximum_hook)(void);

/*
 * Called with any lock held when the background thread of an arena has work; NULL if there are no
 * such threads.
 */
extern void (*pac_wake_hook)(unsigned arena_ind);

/* Initialises a cache in zeroed memory. */
void pac_init(pac_t *pac, base_t *base, unsigned arena_ind, ssize_t dirty_ms, ssize_t muzzy_ms,
    uint64_t now);

/*
 * Extents of a bounded cache begin at multiples of this many bytes, so that they are reused without
 * being split in different ways.
 */
#define PAC_GRAIN ((size_t)64 << 10)

/*
 * Bounds the dirty pages, in addition to their decay in time. As many may stay as the peak of pages
 * in use exceeds the pages in use now, so memory never exceeds its peak because of kept pages; and
 * at most half of the pages in use, or `bytes` if that is more. That leaves pages for the next
 * request, while a program that has freed nearly everything does not have to come back for the rest
 * to be purged. Pages do not become muzzy for a time. Decay times of 0 and -1 keep their meaning.
 * bytes 0: not bounded any more.
 */
void pac_bound(pac_t *pac, size_t bytes);

/*
 * Names the one bounded cache that gives up dirty pages, PAC_YIELD bytes at a time, whenever
 * another cache's growth brings the pages of all arenas to a new maximum: what it keeps for the
 * next large block then makes the process no larger. It must never be destroyed. NULL: none.
 */
#define PAC_YIELD (4 * PAC_GRAIN)
void pac_yields(pac_t *pac);

/*
 * Returns an active extent. size is a number of whole pages in bytes; zero: the pages must read as
 * zero. NULL: there is no memory.
 */
edata_t *pac_alloc_as(pac_t *pac, size_t size, size_t alignment, bool zero, bool is_dense);

static inline edata_t *
pac_alloc(pac_t *pac, size_t size, size_t alignment, bool zero) {
	return pac_alloc_as(pac, size, alignment, zero, false);
}

/* The same for pages that will all be touched soon: they may be populated (extent/ahead.h). */
static inline edata_t *
pac_alloc_dense(pac_t *pac, size_t size) {
	return pac_alloc_as(pac, size, PAGE, false, true);
}

/* The same with guard pages (extent/guard.h) if possible; never with hooks of the user. */
edata_t *pac_alloc_guarded(pac_t *pac, size_t size, size_t alignment, bool zero);
/* Takes back an active extent, guarded or not. */
void pac_dalloc(pac_t *pac, edata_t *e);
/*
 * Change the size in place, not of a guarded extent. 0, or ENOMEM with nothing changed. zero: the
 * new part must read as zero.
 */
int pac_expand(pac_t *pac, edata_t *e, size_t size, bool zero);
int pac_shrink(pac_t *pac, edata_t *e, size_t size);

/*
 * Purges what is due at `now` (nanoseconds). Returns at once if nothing is due or if another thread
 * purges.
 */
void pac_tick(pac_t *pac, uint64_t now);
/* The same, but waits for other threads. all: purges everything that is unused. */
void pac_purge(pac_t *pac, uint64_t now, bool all);
/*
 * Called when the last thread has left the arena, so that nobody may come to use what is dirty
 * there: purges dirty pages beyond 1.5 MiB, a quarter of what the arena uses, and a 24th of all
 * mapped memory. Does not wait for other threads. Not in arenas without a decay time.
 */
void pac_leave(pac_t *pac);
/* Bytes that may stay dirty then. */
static inline size_t
pac_leave_limit(size_t active, size_t mapped_all) {
	return max_zu(max_zu(ZU(3) << 19, active / 4), mapped_all / 24);
}

/* Bytes that pac_relieve() may find, according to the counters, without a lock. */
size_t pac_relievable(const pac_t *pac);
/*
 * When the system has no more memory: gives up unused pages and address space, largest pieces
 * first, until `want` bytes are gone or nothing is left. Returns the bytes that are gone; 0 with
 * hooks of the user.
 */
size_t pac_relieve(pac_t *pac, size_t want);

/*
 * For the background thread of this cache, after a tick: nanoseconds until the next tick is useful
 * (UINT64_MAX: not before something changes). From then on pac_wake_hook is called when
 * considerably more pages become unused, or any pages if none were; until pac_unserve().
 */
uint64_t pac_serve(pac_t *pac, uint64_t now);
void pac_unserve(pac_t *pac);
/* Wakes the background thread of the cache, if there is one. May be called with any lock held. */
void pac_wake(pac_t *pac);

/*
 * Keeps other threads from purging until pac_open(), and waits for the pass that is under way: then
 * all active extents are owned and none is held by a pass. EBUSY: this thread itself is in a pass
 * (in a hook).
 */
int pac_close(pac_t *pac);
void pac_open(pac_t *pac);
/*
 * At the end of an arena, which is closed and has no active extents: returns all pages; none stays
 * retained.
 */
void pac_destroy(pac_t *pac);
/* After pac_destroy(), for reuse of the arena. */
void pac_renew(pac_t *pac, ssize_t dirty_ms, ssize_t muzzy_ms, uint64_t now);

/* Sets a decay time and lets what is unused start to decay again; EINVAL if ms is not valid. */
int pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now);

#endif
