/*
 * What becomes of the unused pages of a page cache: they are purged when their decay is due
 * (pac_tick), when they exceed a limit (pac_trim), or when somebody asks (pac_purge,
 * pac_purge_oldest); and who is told that there are more of them (pac_tell). pac.h explains the
 * caches, the locks and the limits. Invariant: one thread at a time purges a cache, in a pass.
 * Callers: pac.c after a request or a release; heartbeats, background threads, mallctl; arena.c and
 * holes.c for their own passes.
 */
#ifndef EXTENT_PAC_PURGE_H
#define EXTENT_PAC_PURGE_H

#include "extent/pac_hot.h"
#include "extent/pac_step.h"

/* The options dirty_decay_ms and muzzy_decay_ms: the times with which arenas start. */
extern ssize_t opt_dirty_decay_ms;
extern ssize_t opt_muzzy_decay_ms;
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
void pac_yields(pac_t *pac);
/* Descriptors are spare for so many ms at least before their pages go, whatever the decay time. */
#define PAC_SPARE_MS ((size_t)1000)

/* Whether the limit allows npages pages in use to become unused too. */
bool pac_has_room(const pac_t *pac, size_t npages);
/*
 * Purges unused pages that exceed the limit. If another thread purges, nothing is done: when it is
 * in this function, it checks the limit again.
 */
void pac_trim(pac_t *pac);
/* Called when `grown` has brought the pages of all arenas to a new maximum: see pac_yields(). */
void pac_yield(const pac_t *grown);

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
/* Makes the rest of the huge piece dirty, if d is the decay of dirty pages. */
void pac_flush_piece_locked(pac_t *pac, pac_decay_t *d);
/* Pages that may stay dirty for good because purging them would break huge pieces. */
size_t pac_npages_kept(const pac_t *pac);

/*
 * Sets a decay time (ms); the decay of all unused pages starts anew, and with ms 0 they are purged
 * at once. 0, or EINVAL if ms is below -1 or above DECAY_MS_MAX.
 */
int pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now);

#endif
