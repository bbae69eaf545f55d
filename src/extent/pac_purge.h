/*
 * What becomes of the unused pages of a page cache: they are purged when their decay is due
 * (pac_tick), when they exceed a limit (pac_trim), or when somebody asks (pac_purge,
 * pac_purge_oldest); and who is told that there are more of them (pac_tell). pac.h explains the
 * caches, the locks and the limits. Invariant: one thread at a time purges a cache, in a pass.
 * Callers: pac.c after a request or a release; arenas.c (heartbeats, mallctl), vacant.c and
 * background threads; arena.c and holes.c for their own passes; pac_relieve.c and pac_serve.c. They
 * are inside the gate and hold no lock, except where a comment says otherwise.
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
 * Called when the unused bytes of a cache have risen by more than pac_rise_step bytes above the
 * lowest value that was seen since the last call (at ticks, and at the call itself); only if the
 * cache decays by time and no background thread serves it. The caller is inside the gate and holds
 * no lock of a cache or bin; it may be in a pass of this cache, or in a hook of the user
 * (tls_s.inside). NULL: not set. The step is set at boot.
 */
extern void (*pac_rise_hook)(void);
extern size_t pac_rise_step;

/*
 * Extents of a bounded cache begin at multiples of this many bytes, so that they are reused without
 * being split in different ways.
 */
#define PAC_GRAIN ((size_t)64 << 10)

/*
 * Bounds the unused pages, in addition to their decay in time. The limit is the smaller of two
 * values: the peak of pages in use minus the pages in use now, so that kept pages never raise the
 * memory above its peak; and the greater of half of the pages in use and `bytes`. So pages remain
 * for the next request, and after a program has freed nearly everything the rest is purged without
 * a further call. Purged pages do not become muzzy, unless the muzzy decay time is -1. A dirty
 * decay time of 0 or -1 keeps its meaning. bytes 0 removes the bound.
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
/*
 * Pages of descriptors (meta/edata_cache.h) that were spare for so many ms at least are given back;
 * for a quarter of the dirty decay time if that is longer.
 */
#define PAC_SPARE_MS ((size_t)1000)

/*
 * Dirty and hot pages: those to which the limit of pac_trim() and wake_above apply. The rest of the
 * huge piece is not among them. Needs no lock.
 */
size_t pac_nunused(const pac_t *pac);
/* Whether the limit that pac_trim() enforces allows npages pages in use to become unused too. */
bool pac_has_room(const pac_t *pac, size_t npages);
/*
 * Purges unused pages that exceed the limit: that of pac_bound(), or without a bound that for large
 * requests (pac.h). If another thread purges, nothing is done: if it does so in this function, it
 * checks the limit again.
 */
void pac_trim(pac_t *pac);
/* Called when `grown` has brought the pages of all arenas to a new maximum: see pac_yields(). */
void pac_yield(const pac_t *grown);

/*
 * Purges what is due at `now` (monotonic ns): dirty and muzzy pages, huge slabs, descriptors, and
 * what exceeds a bound. Returns at once if nothing is due or if another thread purges.
 */
void pac_tick(pac_t *pac, uint64_t now);
/* As pac_tick(), but waits for other threads. all: purges all unused pages, whatever their age. */
void pac_purge(pac_t *pac, uint64_t now, bool all);
/*
 * Purges the oldest unused pages, whatever their age, until at most npages are left (pac_nidle());
 * first those of huge slabs, all or none. With npages 0 pages of unused descriptors too. Does
 * nothing for pages that another thread purges.
 */
void pac_purge_oldest(pac_t *pac, size_t npages);

/*
 * Begins a pass of dirty pages, for work on the arena's slabs during which a reset must wait. 0, or
 * EBUSY: this thread is in a pass already, or without may_wait: another thread is in one or holds
 * the mutex. A thread that is in a pass must not wait for one of another cache. pac_pass_leave()
 * ends it, and purges if the decay time is 0, which a release inside the pass could not do.
 */
int pac_pass_enter(pac_t *pac, bool may_wait);
void pac_pass_leave(pac_t *pac);

/* Wakes the background thread of the cache, if there is one. May be called with any lock held. */
void pac_wake(pac_t *pac);

/*
 * pac_tell() is called after more pages became unused. It wakes the background thread if more than
 * wake_above pages are unused, purges at once if the decay time is 0 (both pac_tell_slow()), and
 * calls pac_rise_hook if rise_above is exceeded (pac_tell_rise()). The caller is inside the gate
 * and holds no lock.
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
 * may have counted the unused pages without it and sleep now, so wake_above, which pac_serve() has
 * set, is checked again.
 */
void pac_tell_back(pac_t *pac);

/*
 * Sets wake_above for the case that no background thread sleeps: SIZE_MAX, so that releases skip
 * pac_tell_slow(); or 0 if the decay time is 0, so that each release purges.
 */
void pac_tell_by_default(pac_t *pac);
/*
 * Makes hot extents dirty, in a pass of d, whose mutex is held. With hooks of the user the mutex is
 * released meanwhile, because joining may ask the user.
 */
void pac_flush_hot_locked(pac_t *pac, pac_decay_t *d);
/* Makes the rest of the huge piece dirty, if d is the decay of dirty pages. */
void pac_flush_piece_locked(pac_t *pac, pac_decay_t *d);
/* Number of pages that may stay dirty for good, as purging them would break huge pieces. */
size_t pac_npages_kept(const pac_t *pac);

/*
 * Sets the decay time of d, one of the two decays of pac, in ms. Its pages decay anew from `now`
 * (monotonic ns) on, and with ms 0 they are purged at once. 0, or EINVAL if ms is below -1 or above
 * DECAY_MS_MAX.
 */
int pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now);

#endif
