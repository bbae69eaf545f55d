/*
 * The page cache of an arena: it allocates extents of whole pages and keeps unused ones for reuse.
 * A freed extent becomes hot (kept whole, on a stack of its page class; pac_hot.h) or, if the stack
 * is full, dirty. pac_tick() makes hot extents dirty, and purges dirty ones whose decay is due
 * (decay.h): these become muzzy (only with a muzzy decay time), then retained, which is address
 * space without pages, or are unmapped. Statistics count hot extents as dirty. A request tries: a
 * hot extent of exactly its size; a huge slab (pac_hpa.h); a dirty, then a muzzy extent that fits
 * well, first without and then with the hot ones made dirty; adjacent pieces (join.h); retained or
 * new address space (for dense requests from a populated run or a huge piece, ahead.h, piece.h); at
 * last any longer extent. Callers: arena, large; background_thread and arenas call pac_tick().
 */
#ifndef EXTENT_PAC_H
#define EXTENT_PAC_H

#include "extent/pac_hot.h"
#include "extent/pac_step.h"

/*
 * Locks: a decay's mutex is taken before any cache's and is held during a purging pass, so that one
 * thread purges at a time; pac_tick() only tries it. While a hook of the user runs, the mutex is
 * released, and `passer` keeps other threads out.
 *
 * When new pages were fetched for a request of at least JOIN_MIN bytes, dirty pages are purged,
 * oldest first and past the muzzy cache, until pages in use and unused pages together are at most
 * 5/4 of the greatest number of pages in use so far. A bounded cache (pac_bound) limits its unused
 * pages at every allocation and release.
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
 * Called when the background thread of an arena has work. The caller may hold any lock. NULL before
 * background_thread_boot().
 */
extern void (*pac_wake_hook)(unsigned arena_ind);

/*
 * Called when the unused bytes of a cache that decays, without a background thread, have risen by
 * pac_rise_step above what they were at the last call, or at a tick since if that was less. The
 * caller is inside the gate and holds no lock of a cache or bin; it may be in a pass of this cache,
 * or in a hook of the user (tls_s.inside). NULL: not set. The step is set at boot.
 */
extern void (*pac_rise_hook)(void);
extern size_t pac_rise_step;

/*
 * Extents of a bounded cache begin at multiples of this many bytes, so that they are reused without
 * being split in different ways.
 */
#define PAC_GRAIN ((size_t)64 << 10)

/*
 * Bounds the unused pages, in addition to their decay in time. The limit is the smaller of two: the
 * peak of pages in use minus the pages in use now, so that kept pages never raise the memory above
 * its peak; and half of the pages in use, but at least `bytes`. So pages remain for the next
 * request, and after a program has freed nearly everything the rest is purged without a further
 * call. Pages with a muzzy decay time above 0 skip the muzzy cache. Decay times of 0 and -1 keep
 * their meaning. bytes 0 removes the bound.
 */
void pac_bound(pac_t *pac, size_t bytes);

/*
 * Names the one bounded cache (that of oversized requests) which purges PAC_YIELD bytes of its
 * dirty pages whenever the growth of another cache brings the pages of all arenas to a new maximum,
 * so that the pages it keeps for its next block do not enlarge the process. It must never be
 * destroyed. NULL: none.
 */
#define PAC_YIELD (4 * PAC_GRAIN)
/* Descriptors are spare for so many ms at least before their pages go, whatever the decay time. */
#define PAC_SPARE_MS ((size_t)1000)
void pac_yields(pac_t *pac);

/*
 * Returns an active extent of exactly size bytes, a multiple of PAGE; NULL: there is no memory.
 * zero: the pages must read as zero. is_dense: all pages will be touched soon, so they may be
 * populated (extent/ahead.h) or come from a huge piece (extent/piece.h).
 */
edata_t *pac_alloc_as(pac_t *pac, size_t size, size_t alignment, bool zero, bool is_dense);

static inline edata_t *
pac_alloc(pac_t *pac, size_t size, size_t alignment, bool zero) {
	return pac_alloc_as(pac, size, alignment, zero, false);
}

static inline edata_t *
pac_alloc_dense(pac_t *pac, size_t size) {
	return pac_alloc_as(pac, size, PAGE, false, true);
}

/*
 * As pac_alloc(), of pages that are not there yet: it takes no unused ones. If that can be had,
 * `room` more bytes of address space follow, retained, so that the extent can grow in place.
 */
edata_t *pac_alloc_new(pac_t *pac, size_t size, size_t room, size_t alignment);

/*
 * As pac_alloc(), with guard pages (extent/guard.h) if the system and guard_limit allow; without
 * them if the arena has hooks of the user.
 */
edata_t *pac_alloc_guarded(pac_t *pac, size_t size, size_t alignment, bool zero);
/* Frees an active extent, guarded or not; e belongs to the cache afterwards. */
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
/* As pac_tick(), but waits for other threads. all: purges all unused pages, whatever their age. */
void pac_purge(pac_t *pac, uint64_t now, bool all);
/*
 * Purges the oldest unused pages, whatever their age, until at most npages are left (pac_nidle());
 * of huge slabs all or none, and first. With npages 0 pages of unused descriptors too. Does nothing
 * for pages that another thread purges.
 */
void pac_purge_oldest(pac_t *pac, size_t npages);

/* Bytes in use, dirty or muzzy in all arenas. */
size_t pac_mapped_all(void);

/* Bytes that pac_relieve() can return at most, by the counters; needs no lock. */
size_t pac_relievable(const pac_t *pac);
/*
 * Called when the system has refused memory: returns unused pages and address space to it, the
 * largest extents of each cache first, until `want` bytes are returned or none is left. Returns the
 * number of bytes; 0 with hooks of the user.
 */
size_t pac_relieve(pac_t *pac, size_t want, bool may_wait);
/*
 * Begins a pass of dirty pages, for work on the cache's slabs that a reset must not meet. 0, or
 * EBUSY in a pass of this thread; without may_wait also if another thread is in one or holds the
 * mutex. Who is in a pass must not wait for one of another cache. pac_pass_leave() ends it, and
 * purges if the decay time is 0, which a release inside the pass could not do.
 */
int pac_pass_enter(pac_t *pac, bool may_wait);
void pac_pass_leave(pac_t *pac);

/* Wakes the background thread of the cache, if there is one. May be called with any lock held. */
void pac_wake(pac_t *pac);

/*
 * Called after more pages became unused: wakes the background thread if more than wake_above pages
 * are unused, purges at once if the decay time is 0, and calls pac_rise_hook if rise_above is
 * exceeded. The caller is inside the gate and holds no lock.
 */
void pac_tell_slow(pac_t *pac);
void pac_tell_rise(pac_t *pac);

ALWAYS_INLINE void
pac_tell(pac_t *pac) {
	if (unlikely(atomic_load_zu(&pac->wake_above, MO_SEQ_CST) != SIZE_MAX)) {
		pac_tell_slow(pac);
	}
	if (unlikely(pac_unused(pac) > atomic_load_zu(&pac->rise_above, MO_RELAXED))) {
		pac_tell_rise(pac);
	}
}

/*
 * Called after an extent that a thread held for a moment is in a cache again. The background thread
 * may have counted the unused pages without it and sleep now, so the limit of pac_serve() is
 * checked again.
 */
void pac_tell_back(pac_t *pac);

/*
 * Sets wake_above for the case that no background thread sleeps: SIZE_MAX, so that releases skip
 * pac_tell_slow(); or 0 if the decay time is 0, so that each release purges.
 */
void pac_tell_by_default(pac_t *pac);
/*
 * Makes hot extents dirty, in a pass. With hooks of the user the lock is released meanwhile,
 * because joining may ask the user.
 */
void pac_flush_hot_locked(pac_t *pac, pac_decay_t *d);
/* Pages that may stay dirty for good because purging them would break huge pieces. */
size_t pac_npages_kept(const pac_t *pac);

/*
 * Sets a decay time (ms); the decay of all unused pages starts anew, and with ms 0 they are purged
 * at once. 0, or EINVAL if ms is below -1 or above DECAY_MS_MAX.
 */
int pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now);

#endif
