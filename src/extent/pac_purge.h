/*
 * What becomes of the unused pages of a page cache: they are purged when their decay is due
 * (pac_tick), when they exceed a limit (pac_trim), or when somebody asks (pac_purge,
 * pac_purge_oldest); and who is told that there are more of them (pac_note_release). pac.h explains
 * the caches, the locks and the limits. A cache has two decays, of its dirty and of its muzzy
 * pages. Invariant: one thread at a time is in a pass of a decay, and only that thread purges the
 * pages of the decay (but pac_relieve.c takes muzzy ones too, in a pass of the dirty decay).
 * Callers: pac.c, large.c after a request or release; arenas.c (for mallctl and heartbeats, the
 * periodic upkeep of threads), vacant.c, background threads; arena.c, holes.c for their own passes
 * (arena.c also sets decay times); pac_life.c, pac_relieve.c, pac_serve.c; prof_frag.c reads
 * pac_npages_kept(). The callers are inside the gate (os/gate.h: fork waits meanwhile) and hold no
 * lock, except where a comment says otherwise.
 */
#pragma once

#include "extent/pac_hot.h"
#include "extent/pac_step.h"

/* The options dirty_decay_ms and muzzy_decay_ms: first defaults for new arenas (arenas_boot). */
extern ssize_t opt_dirty_decay_ms;
extern ssize_t opt_muzzy_decay_ms;

/*
 * Called when the unused bytes of a cache (pac_unused) exceed a base by more than pac_rise_step
 * bytes. The base is what was unused at the last call, or less if a tick has seen less since. Only
 * caches that decay by time, and that no background thread serves, call it. The caller is inside
 * the gate and holds no lock of a cache or bin; it may be in a pass of this cache, or in a hook of
 * the user (tls_s.inside). NULL: not set. The step is set at boot.
 */
extern void (*pac_rise_hook)(void);
extern size_t pac_rise_step;

/*
 * Large extents of a bounded cache begin and end at multiples of this many bytes (except those
 * chosen for guards, also where they get none). So an unused extent is split at the same places
 * again and again, and its parts fit the next requests. Parts of extents that are purged have such
 * lengths too.
 */
#define PAC_GRAIN ((size_t)64 << 10)

/*
 * Bounds the unused pages, in addition to their decay in time. The limit is the smaller of these
 * two:
 * - the peak of pages in use minus the pages in use now: kept pages never raise the memory above
 *   its peak;
 * - half of the pages in use, or `bytes` if that is more: some pages remain for the next request.
 * The limit is enforced at each request and release. So a program that frees nearly everything, and
 * then calls no more, keeps at most `bytes` unused. Purged pages do not become muzzy, unless the
 * muzzy decay time is -1. A dirty decay time of 0 (purged at once) or -1 (never purged) keeps its
 * meaning. bytes is at least PAGE, or 0: no bound. A bound also purges the unused pages of huge
 * slabs, and with a positive muzzy decay time the muzzy ones, after the passes of other threads.
 * For a new arena the caller holds the lock "arenas" (arenas.c).
 */
void pac_bound(pac_t *pac, size_t bytes);

/*
 * pac_yields() names the one bounded cache (that of oversized requests) which purges PAC_YIELD
 * bytes of its dirty pages whenever the growth of another cache brings the mapped bytes of all
 * arenas (pac_mapped_all) to a new maximum. So the pages it keeps for its next block do not enlarge
 * the process. It must never be destroyed. NULL: none.
 */
#define PAC_YIELD (4 * PAC_GRAIN)
void pac_yields(pac_t *pac);
/*
 * Pages of descriptors (meta/edata_cache.h) are given back when they have been spare for this many
 * ms, or for a quarter of the dirty decay time if that is longer; not if the time is -1.
 */
#define PAC_SPARE_MS ((size_t)1000)

/*
 * Number of dirty and hot pages: the limit of pac_trim() applies to it. pac_ndirty(), to which
 * wake_above applies, counts the rest of the huge piece (piece.h) too, and pac_nidle() also what is
 * unused in huge slabs. pac_unused() is in bytes, of all mapped pages that are not in use, muzzy
 * ones included. Needs no lock.
 */
size_t pac_nunused(const pac_t *pac);
/* Whether the limit that pac_trim() enforces allows npages of the pages in use to become unused. */
bool pac_has_room(const pac_t *pac, size_t npages);
/*
 * Purges unused pages that exceed the limit: that of pac_bound(), or without a bound that for large
 * requests (pac.h). Does nothing with a dirty decay time of 0 or -1, or while a thread is in a pass
 * of the dirty pages; if that thread is in this function too, it then checks the limit again.
 */
void pac_trim(pac_t *pac);
/*
 * Called after a request below JOIN_MIN got new pages, because no unused extent fitted. Purges the
 * oldest unused pages if those in use and unused (pac_nunused) exceed the peak of pages in use by
 * more than PAC_TRADE_MIN bytes and 1 / PAC_TRADE_SHARE of the peak: pieces between blocks that
 * live, which only some requests fit, do not add up until their decay. The epoch of the dirty decay
 * allows 1 / PAC_TRADE_SHARE of the peak, so a program that has to fetch all of these pages again
 * takes few page faults (10 s: 20 epochs a second). Not with a dirty decay time of 0 or -1, nor in
 * a bounded cache; huge pieces are spared as by the decay.
 */
#define PAC_TRADE_SHARE 128u
#define PAC_TRADE_MIN ((size_t)1 << 20)
void pac_trade(pac_t *pac);
/* Called when `grown` has brought the mapped bytes to a new maximum: see pac_yields(). */
void pac_yield(const pac_t *grown);

/*
 * Purges what is due at `now` (monotonic ns): dirty and muzzy pages, huge slabs, descriptors, and
 * what exceeds a bound. Does not wait for other threads: what another thread purges at the moment
 * is left to it.
 */
void pac_tick(pac_t *pac, uint64_t now);
/*
 * As pac_tick(), but waits for the passes of other threads (for huge slabs only with `all`), always
 * makes hot extents dirty, and leaves descriptors and an idle rest of a huge piece (but a dirty
 * decay time of 0 makes it end with a pac_tick()). all: purges all unused pages, and all pages of
 * spare descriptors, whatever their age. A decay in whose pass this thread is already is left out.
 */
void pac_purge(pac_t *pac, uint64_t now, bool all);
/*
 * Purges the oldest unused pages, whatever their age, until at most npages are left by the count of
 * pac_nidle(). If more are unused, all unused pages of huge slabs are purged first. With npages 0
 * pages of unused descriptors too. While another thread is in a pass, fewer pages are purged.
 */
void pac_purge_oldest(pac_t *pac, size_t npages);

/*
 * Begins a pass of the cache's dirty pages, for work on the arena's slabs during which a reset must
 * wait; the decay's mutex is not held during it. Returns 0; EBUSY if this thread is in such a pass
 * already; and without may_wait EBUSY also if another thread is in one or holds the mutex. A thread
 * that is in a pass must not wait for one of another cache. pac_pass_leave() ends it, and calls
 * pac_pass_ended().
 */
int pac_pass_enter(pac_t *pac, bool may_wait);
void pac_pass_leave(pac_t *pac);
/*
 * Called after each pass of dirty pages that ended outside pac_tick() and pac_trim(). Purges what
 * was released meanwhile, in the pass or by other threads, and could not be purged then: all with a
 * dirty decay time of 0, otherwise what exceeds a bound.
 */
void pac_pass_ended(pac_t *pac);

/*
 * pac_note_release() is called after more pages became unused. It wakes the background thread if
 * more than wake_above pages are dirty (pac_ndirty), purges at once if the decay time is 0 (both
 * pac_wake_or_purge()), and calls pac_rise_hook if more than rise_above bytes are unused
 * (pac_unused; pac_report_rise()). The caller is inside the gate and holds no lock.
 */
void pac_wake_or_purge(pac_t *pac);
void pac_report_rise(pac_t *pac);

ALWAYS_INLINE void
pac_note_release(pac_t *pac) {
	if (unlikely(atomic_load_zu(&pac->wake_above, MO_SEQ_CST) != SIZE_MAX)) {
		pac_wake_or_purge(pac);
	}
	if (unlikely(pac_unused(pac) > atomic_load_zu(&pac->rise_above, MO_RELAXED))) {
		pac_report_rise(pac);
	}
}

/*
 * Called after an extent that a thread held for a moment is in a cache again. The background thread
 * may have counted the unused pages without it and sleep now, so wake_above, which pac_serve() has
 * set, is checked again. The caller may hold a decay's mutex.
 */
void pac_recheck_wake(pac_t *pac);

/*
 * Sets wake_above for the case that no background thread sleeps: SIZE_MAX, so that releases skip
 * pac_wake_or_purge(); or 0 if the decay time is 0, so that each release purges.
 */
void pac_set_wake_default(pac_t *pac);
/*
 * Makes hot extents dirty, in a pass of d, whose mutex is held, if d is the decay of dirty pages:
 * extents on their way into that cache would be missing in its pass otherwise. With hooks of the
 * user the mutex is released meanwhile, because joining may ask the user.
 */
void pac_flush_hot_locked(pac_t *pac, pac_decay_t *d);
/*
 * Makes the rest of the huge piece dirty, if d is the decay of dirty pages. d's mutex is held
 * throughout.
 */
void pac_flush_piece_locked(pac_t *pac, pac_decay_t *d);
/* Number of pages that may stay dirty for good, as purging them would break huge pieces. */
size_t pac_npages_kept(const pac_t *pac);

/*
 * Sets the decay time of d, one of the two decays of pac, in ms. Its pages decay anew from `now`
 * (monotonic ns) on. Then, unless this thread is in a pass of d, waits for that of another one and
 * makes hot extents dirty; ms 0: purges all. Wakes the background thread. 0, or EINVAL (nothing is
 * done): ms is below -1 or above DECAY_MS_MAX.
 */
int pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now);
