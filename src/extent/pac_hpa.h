/*
 * Connects the page cache to huge page allocation (hpa/hpa.h), if the option hpa is on. Requests up
 * to opt_hpa_slab_max_alloc bytes for which there is no hot extent take pages from huge slabs
 * instead of the caches; a free returns these pages to their slab. Before that, freed extents up to
 * opt_hpa_sec_max_alloc bytes are put into the small extent caches (hpa/hsec.h), if any, in which
 * pac_hpa_take() looks first; longer ones, and most of those that were large objects, become hot
 * (pac_hot_leave). With a dirty decay time of 0 neither happens: pac_dalloc() frees to the slab at
 * once. The memory of a slab is taken from the retained cache or newly mapped, and becomes
 * retained again (unmapped if the option retain is off). Invariant: an extent of such pages is
 * active or hot, never in the dirty, muzzy or retained cache. Work for slabs is done in a pass of
 * the dirty decay, whose mutex is not held meanwhile; callers are inside the gate (os/gate.h: fork
 * waits meanwhile) and hold no lock. Called by pac.c, pac_purge.c, pac_relieve.c, pac_life.c,
 * pac_serve.c and arena.c; vacant.c, statistics and the profiler read counters.
 */
#ifndef EXTENT_PAC_HPA_H
#define EXTENT_PAC_HPA_H

#include "extent/pac_hot.h"
#include "extent/pac_step.h"
#include "os/nstime.h"

/*
 * Gives the cache a shard (the huge slabs of one arena), if hpa is on and it has none. 0 or ENOMEM.
 * Not for the cache of a hidden arena, which holds sampled objects: they may not lie in huge slabs.
 */
int pac_hpa_init(pac_t *pac, base_t *base);

/*
 * Whether a request is taken from a huge slab; not in a bounded cache, nor with hooks of the user.
 */
ALWAYS_INLINE bool
pac_hpa_serves(const pac_t *pac, size_t size, size_t alignment) {
	return unlikely(pac->hpa != NULL) && size <= opt_hpa_slab_max_alloc && alignment <= PAGE
	    && !pac_is_bounded(pac) && !ehooks_are_custom(&pac->src.ehooks);
}

/*
 * An active extent of a huge slab, dense (hpa.h) or not; NULL: there is no memory. The page map may
 * still say hot; the caller writes the entries that its use needs, as after pac_hot_take(). Called
 * only if pac_hpa_serves(). May put more extents of this size into a small extent cache, and may
 * map a slab. That is counted under a lock, where the hook for a new maximum of mapped memory
 * cannot be called; so the caller calls pac_mapped_add() if pac->mapped grew.
 */
edata_t *pac_hpa_take(pac_t *pac, size_t size, bool is_dense);
/*
 * An active extent of exactly [addr, addr + size), directly behind an extent of the caller in the
 * same slab; NULL: some of it is in use (or in a small extent cache) or beyond the slab, the slab
 * is out (hpa.h), or there is no descriptor.
 */
edata_t *pac_hpa_take_at(pac_t *pac, char *addr, size_t size);

/*
 * Puts an active extent of a huge slab into a small extent cache; false: it is too long for them,
 * or there are none; the caller still owns it. Does not look at the dirty decay time: the caller
 * (pac_dalloc) does not ask if that is 0.
 */
bool pac_hpa_try_keep(pac_t *pac, edata_t *e);

/*
 * Does what is due for huge slabs at `now` (monotonic ns), unless a thread, also this one, is in a
 * pass, or another one holds the decay's mutex. Before that, empties the small extent caches if
 * they were not used for the dirty decay time (never if that is -1).
 */
void pac_hpa_tick(pac_t *pac, uint64_t now);
/*
 * Makes the memory of empty slabs retained (unmaps it with the option retain off), and with is_all
 * purges every dirty page. Returns the bytes of these slabs. may_wait: waits for the pass of
 * another thread; else does nothing if there is one. Does nothing in a pass of this thread.
 */
size_t pac_hpa_purge(pac_t *pac, bool is_all, bool may_wait);
/*
 * As pac_hpa_purge(), called in a pass that this thread has begun, or at the end of an arena. This
 * function and pac_hpa_purge() empty the small extent caches first.
 */
size_t pac_hpa_empty(pac_t *pac, bool is_all);

/* Pages of huge slabs that are not in use and may be in memory, also those in extent caches. */
static inline size_t
pac_hpa_nidle(const pac_t *pac) {
	return pac->hpa == NULL ? 0 : atomic_load_zu(&pac->hpa->nidle, MO_RELAXED)
	    + (atomic_load_zu(&pac->hpa->sec.bytes, MO_RELAXED) >> LG_PAGE);
}

/*
 * Purges every unused page of huge slabs if more than npages pages of the page cache are unused
 * (pac_nidle). Does not wait for other threads.
 */
void pac_hpa_try_purge(pac_t *pac, size_t npages);

/* Pages that are not in use and may be in memory, muzzy ones apart. Needs no lock. */
static inline size_t
pac_nidle(const pac_t *pac) {
	return pac_ndirty(pac) + pac_hpa_nidle(pac);
}

/*
 * How long a background thread may sleep, in ns, because nothing wakes it when work for slabs is
 * due: 50 ms if the last tick left work undone, otherwise 1 s; UINT64_MAX: there are no slabs, and
 * pac_hpa_take() wakes it when it has made the first.
 */
static inline uint64_t
pac_hpa_sleep_max(const pac_t *pac) {
	if (pac->hpa == NULL || atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED) == 0) {
		return UINT64_MAX;
	}
	bool is_behind = atomic_load_b(&pac->hpa->is_behind, MO_RELAXED);
	return is_behind ? NSTIME_PER_SEC / 20 : NSTIME_PER_SEC;
}

/* Bytes not in use in slabs that are partly in use, where a small extent cache uses its extents. */
size_t pac_hpa_held(const pac_t *pac);

#endif
