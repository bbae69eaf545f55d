/*
 * Hot extents: those freed last in each page class, exchanged without a lock. Part of pac.c.
 * pac.h says what hot extents are for. Invariant: an extent is in one slot or owned by one thread;
 * the thread that exchanges it out of a slot owns it. These functions may be called at any time,
 * but not under a cache's lock, because an extent that stops being hot goes to the dirty cache.
 * test/models/hot.pml is a model of this. large_hot and pac.c are the callers.
 */
#ifndef EXTENT_PAC_HOT_H
#define EXTENT_PAC_HOT_H

#include "extent/pac_types.h"

/*
 * Unused pages that are not purged yet, including hot ones, which are counted by walking the slots.
 */
size_t pac_ndirty(const pac_t *pac);

/* The index of the slot that a bounded cache uses. */
static inline unsigned
pac_hot_bounded(void) {
	return SC_NPSIZES - 1;
}

/*
 * Puts a hot extent that was taken by mistake into an empty slot of any class; users of a slot
 * check the size.
 */
void pac_hot_misfit(pac_t *pac, edata_t *e);

/*
 * Takes the extent in the slot of a page class if it has least to most bytes: owned by the caller,
 * still marked as hot. NULL if there is none. Needs no lock and no gate: a fork in between only
 * costs the child this extent.
 */
ALWAYS_INLINE edata_t *
pac_hot_take_slot(pac_t *pac, unsigned pind, size_t least, size_t most) {
	const edata_t *seen = atomic_load_p(&pac->hot[pind], MO_RELAXED);
	/*
	 * Descriptors stay readable for ever; whether this one is still in the slot is checked
	 * below.
	 */
	size_t size = seen == NULL ? 0 : __atomic_load_n(&seen->size, __ATOMIC_RELAXED);
	if (size < least || size > most) {
		return NULL;
	}
	edata_t *e = atomic_exchange_p(&pac->hot[pind], NULL, MO_ACQUIRE);
	if (unlikely(e == NULL)) {
		return NULL;
	}
	assert(e->state == extent_state_hot && !e->is_slab && !e->is_sampled && e->recs == NULL);
	if (unlikely(e->size < least || e->size > most)) {
		pac_hot_misfit(pac, e);
		return NULL;
	}
	return e;
}

/*
 * Makes a hot extent, which the caller has taken and whose class it has set, active in the page
 * map; the caller counts its pages (pac_hot_count_active). class_bits: elem_bits_of_class().
 */
ALWAYS_INLINE void
pac_hot_activate(edata_t *e, uint64_t class_bits) {
	e->state = extent_state_active;
	emap_set_first_state(e, class_bits);
}

/*
 * Adds pages of extents that became active. They are subtracted after the extents are hot again, so
 * that the count is never too low.
 */
ALWAYS_INLINE void
pac_hot_count_active(pac_t *pac, size_t npages) {
	atomic_fetch_add_zu(&pac->nactive, npages, MO_RELAXED);
}

ALWAYS_INLINE void
pac_hot_count_inactive(pac_t *pac, size_t npages) {
	atomic_fetch_sub_zu(&pac->nactive, npages, MO_RELAXED);
}

/* pac_hot_activate() for an extent that found its slot taken. */
void pac_hot_revive(edata_t *e);

ALWAYS_INLINE bool
pac_hot_is_vacant(const pac_t *pac, unsigned pind) {
	return atomic_load_p(&pac->hot[pind], MO_RELAXED) == NULL;
}

/*
 * Puts an active extent, neither a slab nor a sample, into a slot that was seen vacant; the caller
 * then calls pac_hot_count_inactive() and pac_tell(). Returns false if nothing changed. Afterwards
 * any thread may take the extent, so its fields must be read before.
 */
ALWAYS_INLINE bool
pac_hot_try_fill(atomic_p_t *slot, edata_t *e) {
	assert(e->state == extent_state_active && !e->is_slab && !e->is_sampled && e->recs == NULL);
	void *seen = NULL;
	e->is_zeroed = false;
	e->state = extent_state_hot;
	emap_set_first_state(e, 0);
	if (unlikely(!atomic_cas_strong_p(slot, &seen, e, MO_SEQ_CST, MO_RELAXED))) {
		pac_hot_revive(e);
		return false;
	}
	return true;
}

/*
 * As pac_hot_take_slot(), from the slot or the stack of the class or of the next one: size bytes,
 * or an eighth more at most. Not in a bounded cache, nor with hooks of the user. The second one
 * takes up to n extents and returns how many.
 */
edata_t *pac_hot_pop_near(pac_t *pac, size_t size);
unsigned pac_hot_pop_some(pac_t *pac, size_t size, edata_t **out, unsigned n);
/*
 * As pac_hot_try_fill(), on the stack of the class, if it has one with an empty slot. The second
 * one returns how many of the n extents, from the first one on, are there then. *npages: pages of
 * all n, which the caller has added up; then of those that are there.
 */
bool pac_hot_try_push(pac_t *pac, unsigned pind, edata_t *e);
unsigned pac_hot_push_some(pac_t *pac, unsigned pind, edata_t *const *es, unsigned n,
    size_t *npages);

/*
 * Takes a hot extent of this size and alignment, active; NULL if there is none. The caller of
 * pac_alloc() writes the page map.
 */
edata_t *pac_hot_take(pac_t *pac, size_t size, size_t alignment);
/* Makes an active extent hot; it, or the one that was in its slot before, may become dirty. */
void pac_hot_leave(pac_t *pac, edata_t *e);
/* Makes all hot extents dirty and frees the stacks; no other thread uses the cache any more. */
void pac_hot_destroy(pac_t *pac);
/* Make all hot extents dirty; those in stacks; or the one of a bounded cache. */
void pac_hot_flush(pac_t *pac);
void pac_hot_flush_stacks(pac_t *pac);
void pac_hot_flush_bounded(pac_t *pac);
/*
 * Makes hot extents in the size bytes from addr on dirty, as far as only unused pages are there, so
 * that an expansion finds them as one extent.
 */
void pac_hot_cool_at(pac_t *pac, const char *addr, size_t size);

/*
 * Called when pages that were between two containers are unused again; npages of them are in a hot
 * slot. The background thread may have looked in between and sleeps now: its limit is checked, see
 * pac_serve().
 */
void pac_tell_back(pac_t *pac, size_t npages);

#endif
