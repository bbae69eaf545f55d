/*
 * Returns unused pages and address space when the system has refused memory, or when address space
 * is to be unmapped; pac_relieve.h has the contract. Invariant: an extent is taken out of a cache
 * (also of muzzy or retained ones) and returned to the system within a pass of dirty pages, whose
 * mutex is held. Called by arenas.c; tcache.c calls pac_relievable().
 */
#include "extent/pac_relieve.h"

#include "extent/pac_hpa.h"

/*
 * Hidden arenas (of samples), the only ones with a grow_alignment above a page, unmap nothing
 * before their end: they keep the ranges of address space that are marked as theirs
 * (arena_sampled_map).
 */
static bool
pac_may_unmap(const pac_t *pac) {
	return pac->src.grow_alignment <= PAGE;
}

size_t
pac_relievable(const pac_t *pac) {
	if (ehooks_are_custom(&pac->src.ehooks) || (!pac_may_unmap(pac) && !pages_can_decommit())) {
		return 0;
	}
	size_t mapped = atomic_load_zu(&pac->mapped, MO_RELAXED) >> LG_PAGE;
	size_t active = pac_nactive(pac);
	active += pac_hpa_held(pac) >> LG_PAGE;
	size_t unused = mapped > active ? mapped - active : 0;
	return (unused + (pac_may_unmap(pac) ? ecache_npages(&pac->retained) : 0)) << LG_PAGE;
}

/*
 * Unmaps, or else decommits, an extent that was taken out of c during a pass. Returns the bytes
 * returned to the system; 0: the system refused, and the extent is in c again.
 */
static size_t
pac_let_go(pac_t *pac, ecache_t *c, edata_t *e) {
	size_t size = e->size;
	bool is_mapped = c != &pac->retained;
	piece_break(e->addr, size);
	if (pac_may_unmap(pac) && extent_unmap(&pac->src, e) == 0) {
		pac_mapped_sub(pac, is_mapped ? size : 0);
		return size;
	}
	bool is_done = is_mapped && pac_try_decommit(e);
	pac_mapped_sub(pac, is_done ? size : 0);
	ecache_put(&pac->src, is_done ? &pac->retained : c, e);
	return is_done ? size : 0;
}

/*
 * Returns extents of one cache to the system, the largest first, and of the last one only as much
 * as is wanted, rounded up to PAC_GRAIN. Returns the bytes; stops at the first refusal. Whatever
 * the cache, the mutex held is that of the decay of dirty pages.
 */
static size_t
pac_relieve_from_locked(pac_t *pac, ecache_t *c, size_t want) {
	pac_decay_t *d = &pac->decay_dirty;
	size_t gone = 0, now = 1;
	edata_t *e;
	assert(d->passer == tls_get() && !ehooks_are_custom(&pac->src.ehooks));
	while (gone < want && now > 0 && (e = ecache_take_largest(c)) != NULL) {
		size_t part = align_up(min_zu(want - gone, e->size), max_zu(PAC_GRAIN, PAGE));
		edata_t *rest = part < e->size ? extent_split(&pac->src, e, part) : NULL;
		if (rest != NULL) {
			ecache_put(&pac->src, c, rest);
		}
		now = pac_let_go(pac, c, e);
		gone += now;
	}
	if (c == &pac->dirty && gone > 0) {
		atomic_fetch_add_u64(&d->npurge, 1, MO_RELAXED);
		atomic_fetch_add_u64(&d->purged, gone >> LG_PAGE, MO_RELAXED);
		decay_purged_locked(&d->decay, ecache_npages(c));
	}
	return gone;
}

/*
 * Gives back empty slabs, in the pass in which the hot extents go to their slabs. Unused pages of
 * the other slabs stay: they free no address space. Returns the bytes that were unmapped; 0 with
 * the option retain, as pac_relieve() finds them retained.
 */
static size_t
pac_relieve_slabs(pac_t *pac, bool may_wait) {
	pac_decay_t *d = &pac->decay_dirty;
	size_t bytes = 0;
	if (unlikely(pac->hpa != NULL) && pac_pass_lock(d, may_wait) == 0) {
		pac_flush_hot_locked(pac, d);
		mutex_unlock(&d->decay.mtx);
		bytes = hpa_purge(pac->hpa, false);
		pac_pass_end(d);
	}
	return opt_retain ? 0 : bytes;
}

/*
 * Begins with retained extents, which cost least to return because they have no pages. Where the
 * system accounts for writable pages, retained ones are decommitted: to unmap them frees nothing
 * that it counts, so they come last. `first` has the two orders, of three caches each.
 */
size_t
pac_relieve(pac_t *pac, size_t want, bool *was_busy) {
	ecache_t *const first[] = {&pac->retained, &pac->dirty, &pac->muzzy, &pac->dirty, &pac->muzzy,
	    &pac->retained};
	pac_decay_t *d = &pac->decay_dirty;
	unsigned from = pages_can_decommit() ? 3 : 0;
	if (pac_relievable(pac) == 0) {
		return 0;
	}
	size_t gone = pac_relieve_slabs(pac, was_busy == NULL);
	if (pac_pass_lock(d, was_busy == NULL) == 0) {
		/* Hooks may have been set since; from here on they cannot be. */
		want = ehooks_are_custom(&pac->src.ehooks) ? 0 : want;
		for (unsigned i = from; i < from + 3 && gone < want; i++) {
			if (first[i] == &pac->dirty) {
				pac_flush_hot_locked(pac, d);
				pac_flush_piece_locked(pac, d);
			}
			bool is_kept = first[i] == &pac->retained && !pac_may_unmap(pac);
			gone += is_kept ? 0 : pac_relieve_from_locked(pac, first[i], want - gone);
		}
		pac_pass_unlock(d);
	} else if (was_busy != NULL) {
		*was_busy = true;
	}
	pac_pass_ended(pac);
	pac_recheck_wake(pac);
	return gone;
}
