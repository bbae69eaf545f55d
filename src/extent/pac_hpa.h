/*
 * Connects the page cache to huge page allocation (hpa/hpa.h), if the option hpa is on. Requests up
 * to opt_hpa_slab_max_alloc bytes for which there is no hot extent take pages from huge slabs
 * instead of the caches. A freed extent becomes hot (pac_hot.h), like any other, and its pages
 * return to their slab when it would become dirty; with a dirty decay time of 0 pac_dalloc() frees
 * to the slab at once. The hot extents up to opt_hpa_sec_max_alloc bytes are the small extent cache
 * of the options and statistics hpa_sec_*. It serves dense requests (hpa.h) and gets what is freed
 * of dense slabs, because extents that go round between both kinds of slab would keep more slabs in
 * use; other small extents pass it by, apart from large objects (pac_hot_leave). Its bytes, without
 * those of large objects, are limited, and a request that finds nothing there fetches some more
 * extents from the slabs. The
 * memory of a slab is taken from the retained cache or newly mapped, and becomes retained again
 * (unmapped if the option retain is off). Invariant: an extent of such pages is active or hot,
 * never in the dirty, muzzy or retained cache. Work for slabs is done in a pass of the dirty decay,
 * whose mutex is not held meanwhile; callers are inside the gate (os/gate.h: fork waits meanwhile)
 * and hold no lock. Called by pac.c, pac_purge.c, pac_relieve.c, pac_serve.c and arena.c; vacant.c,
 * statistics and the profiler read counters.
 */
#pragma once

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
 * A hot extent, or an active one of a huge slab, dense (hpa.h) or not; NULL: there is no memory.
 * The page map may still say hot; the caller writes the entries that its use needs, as after
 * pac_hot_take(). Called only if pac_hpa_serves(). May make more extents of this size hot, and may
 * map a slab. That is counted under a lock, where the hook for a new maximum of mapped memory
 * cannot be called; so the caller calls pac_mapped_add() if pac->mapped grew.
 */
edata_t *pac_hpa_take(pac_t *pac, size_t size, bool is_dense);
/*
 * An active extent of exactly [addr, addr + size), directly behind an extent of the caller in the
 * same slab; NULL: some of it is in use, hot or beyond the slab, the slab is out (hpa.h), or there
 * is no descriptor.
 */
edata_t *pac_hpa_take_at(pac_t *pac, char *addr, size_t size);

/*
 * pac_hot_try_keep() of a freed extent of a huge slab; false also if it is small and not of a dense
 * slab, or belongs to the small extent cache and that is full. Counts it.
 */
bool pac_hpa_try_keep(pac_t *pac, edata_t *e);
/* Bytes in the small extent cache; takes hot_mtx. */
size_t pac_hpa_sec_bytes(pac_t *pac);

/*
 * Does what is due for huge slabs at `now` (monotonic ns), unless a thread, also this one, is in a
 * pass, or another one holds the decay's mutex.
 */
void pac_hpa_tick(pac_t *pac, uint64_t now);
/*
 * Makes the memory of empty slabs retained (unmaps it with the option retain off), and with is_all
 * purges every dirty page. Returns the bytes of these slabs. may_wait: waits for the pass of
 * another thread; else does nothing if there is one. Does nothing in a pass of this thread. The
 * caller has flushed the hot extents.
 */
size_t pac_hpa_purge(pac_t *pac, bool is_all, bool may_wait);

/* Pages of huge slabs that are not in use and may be in memory; hot ones count as in use. */
static inline size_t
pac_hpa_nidle(const pac_t *pac) {
	return pac->hpa == NULL ? 0 : atomic_load_zu(&pac->hpa->nidle, MO_RELAXED);
}

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

/* Bytes not in use in slabs that are partly in use; hot extents count as in use. */
size_t pac_hpa_held(const pac_t *pac);
