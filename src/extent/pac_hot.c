/*
 * The slots of hot extents, except the inline operations on one slot in pac_hot.h.
 * pac_hot.h has the contract. Invariant: an extent has the state hot exactly while it is in a slot
 * or is being moved into or out of one. No lock here; ecache_put() takes the dirty cache's, so the
 * caller must not hold a cache's lock.
 */
#include "extent/pac_hot.h"

/* Pieces behind an extent that are examined by pac_hot_cool_at(). */
#define HOT_COOL_MAX 8

static unsigned
hot_nslots(unsigned pind) {
	return pind < PAC_HOT_SMALL ? 1 + PAC_HOT_MORE : 1;
}

static atomic_p_t *
hot_slot(pac_t *pac, unsigned pind, unsigned k) {
	assert(k < hot_nslots(pind));
	return k == 0 ? &pac->hot[pind] : &pac->hot_more[pind][k - 1];
}

/*
 * Exchanges the contents of a slot. The extent that is returned is owned by the caller; its
 * page-map elements still say hot.
 */
static edata_t *
pac_hot_swap(atomic_p_t *slot, edata_t *fresh) {
	if (fresh == NULL && atomic_load_p(slot, MO_RELAXED) == NULL) {
		return NULL;
	}
	edata_t *old = atomic_exchange_p(slot, fresh, MO_SEQ_CST);
	if (old != NULL) {
		assert(old->state == extent_state_hot && old != fresh);
		old->state = extent_state_active;
	}
	return old;
}

void
pac_tell_back(pac_t *pac, size_t npages) {
	if (unlikely(atomic_load_zu(&pac->wake_above, MO_SEQ_CST) != SIZE_MAX)
	    && decay_ms(&pac->decay_dirty.decay) != 0) {
		pac_tell_slow(pac, npages);
	}
}

void
pac_hot_misfit(pac_t *pac, edata_t *e) {
	size_t npages = e->size >> LG_PAGE;
	void *seen = NULL;
	for (unsigned i = 0; !atomic_cas_strong_p(&pac->hot[i], &seen, e, MO_SEQ_CST, MO_RELAXED); i++) {
		i = i + 1 < SC_NPSIZES ? i : UINT_MAX;
		seen = NULL;
	}
	pac_tell_back(pac, npages);
}

/* The class whose slots are used for an extent of this size. */
static unsigned
pac_hot_pind(const pac_t *pac, size_t size) {
	return unlikely(pac_is_bounded(pac)) ? pac_hot_bounded() : sz_psz_floor(size);
}

void
pac_hot_leave(pac_t *pac, edata_t *e) {
	edata_check(e);
	e->szind = SC_NSIZES;
	e->is_sampled = false;
	e->state = extent_state_hot;
	emap_set_boundary(e);
	unsigned pind = pac_hot_pind(pac, e->size);
	for (unsigned k = 1; k < hot_nslots(pind); k++) {
		void *seen = NULL;
		atomic_p_t *slot = hot_slot(pac, pind, k);
		if (atomic_load_p(slot, MO_RELAXED) == NULL
		    && atomic_cas_strong_p(slot, &seen, e, MO_SEQ_CST, MO_RELAXED)) {
			return;
		}
	}
	edata_t *old = pac_hot_swap(hot_slot(pac, pind, 0), e);
	if (old != NULL) {
		ecache_put(&pac->src, &pac->dirty, old);
	}
}

void
pac_hot_flush_bounded(pac_t *pac) {
	edata_t *e = pac_hot_swap(hot_slot(pac, pac_hot_bounded(), 0), NULL);
	if (e != NULL) {
		ecache_put(&pac->src, &pac->dirty, e);
		pac_tell_back(pac, 0);
	}
}

edata_t *
pac_hot_take(pac_t *pac, size_t size, size_t alignment) {
	unsigned pind = pac_hot_pind(pac, size);
	for (unsigned k = 0; k < hot_nslots(pind); k++) {
		edata_t *e = pac_hot_swap(hot_slot(pac, pind, k), NULL);
		if (e != NULL && e->size == size && is_aligned((uintptr_t)e->addr, max_zu(alignment, 1))) {
			return e;
		}
		if (e != NULL) {
			ecache_put(&pac->src, &pac->dirty, e);
			pac_tell_back(pac, 0);
		}
	}
	return NULL;
}

/*
 * Takes e, which was seen in a slot, out of its slot and makes it dirty. Returns false if it is not
 * there any more.
 */
static bool
pac_hot_try_cool(pac_t *pac, edata_t *e, size_t size) {
	unsigned pind = pac_hot_pind(pac, size);
	for (unsigned k = 0; k < hot_nslots(pind); k++) {
		atomic_p_t *slot = hot_slot(pac, pind, k);
		void *seen = e;
		if (atomic_load_p(slot, MO_RELAXED) == e
		    && atomic_cas_strong_p(slot, &seen, NULL, MO_SEQ_CST, MO_RELAXED)) {
			/*
			 * Since it was seen it may have been taken and left again with another
			 * size; that does not matter, it can become dirty.
			 */
			assert(e->state == extent_state_hot);
			e->state = extent_state_active;
			ecache_put(&pac->src, &pac->dirty, e);
			return true;
		}
	}
	return false;
}

void
pac_hot_cool_at(pac_t *pac, const char *addr, size_t size) {
	bool has_cooled = false;
	for (unsigned i = 0; size > 0 && i < HOT_COOL_MAX; i++) {
		uint64_t elem = emap_elem_any(addr);
		extent_state_t state = elem_state(elem);
		if (state != extent_state_hot && state != extent_state_dirty) {
			break;
		}
		edata_t *e = elem_edata(elem);
		size_t piece = __atomic_load_n(&e->size, __ATOMIC_RELAXED);
		if (__atomic_load_n(&e->arena_ind, __ATOMIC_RELAXED) != pac->src.ehooks.arena_ind || piece < PAGE
		    || (state == extent_state_hot && !pac_hot_try_cool(pac, e, piece))) {
			break;
		}
		has_cooled = has_cooled || state == extent_state_hot;
		addr += piece;
		size -= min_zu(size, piece);
	}
	if (has_cooled) {
		pac_tell_back(pac, 0);
	}
}

void
pac_hot_flush(pac_t *pac) {
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		for (unsigned k = 0; k < hot_nslots(i); k++) {
			edata_t *e = pac_hot_swap(hot_slot(pac, i, k), NULL);
			if (e != NULL) {
				ecache_put(&pac->src, &pac->dirty, e);
			}
		}
	}
	pac_tell_back(pac, 0);
}

size_t
pac_ndirty(const pac_t *pac) {
	size_t n = ecache_npages(&pac->dirty);
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		for (unsigned k = 0; k < hot_nslots(i); k++) {
			const edata_t *e = atomic_load_p(hot_slot((pac_t *)pac, i, k), MO_SEQ_CST);
			n += e == NULL ? 0 : __atomic_load_n(&e->size, __ATOMIC_RELAXED) >> LG_PAGE;
		}
	}
	return n;
}
