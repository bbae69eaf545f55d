/*
 * The slots of hot extents, except the inline operations on one slot in pac_hot.h.
 * pac_hot.h has the contract. Invariant: an extent has the state hot exactly while it is in a slot
 * or is being moved into or out of one. No lock here; ecache_put() takes the dirty cache's, so the
 * caller must not hold a cache's lock.
 */
#include "extent/pac_hot.h"

#include "meta/freepool.h"

/* Pieces behind an extent that are examined by pac_hot_cool_at(). */
#define HOT_COOL_MAX 8
/* Slots of a stack that are examined for an extent that fits, or for an empty one. */
#define HOT_LOOKS 16u
/* Empty slots after which nothing more is expected further down. */
#define HOT_EMPTIES 2u
/*
 * Largest part of an extent that may lie unused behind the object that takes it over: one eighth.
 */
#define HOT_LG_SLACK 3

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
pac_hot_revive(edata_t *e) {
	pac_hot_activate(e, elem_bits_of_class(e->szind));
}

void
pac_hot_misfit(pac_t *pac, edata_t *e) {
	size_t npages = e->size >> LG_PAGE;
	void *seen = NULL;
	for (unsigned i = 0; !atomic_cas_strong_p(&pac->hot[i], &seen, e, MO_SEQ_CST, MO_RELAXED);
	    i++) {
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

/* ------------------------------------------------------------------ stacks */

static pac_hot_stack_t *
hot_stack(const pac_t *pac, unsigned pind) {
	return atomic_load_p(&pac->hot_stacks[pind], MO_ACQUIRE);
}

static unsigned
hot_stack_depth(unsigned pind) {
	return pind < PAC_HOT_SHALLOW_CLASSES ? PAC_HOT_SHALLOW : PAC_HOT_DEEP;
}

static size_t
hot_stack_bytes(unsigned pind) {
	return hot_stack_depth(pind) * sizeof(atomic_p_t);
}

/* After extents have left stacks: the count of pages there is never too low. */
static void
hot_stack_uncount(pac_t *pac, size_t npages) {
	if (npages != 0) {
		atomic_fetch_sub_zu(&pac->hot_npages, npages, MO_SEQ_CST);
	}
}

/*
 * Takes e, seen in this slot, if it is still there: owned by the caller, still marked as hot. Its
 * size may have changed since it was seen. Its pages are added to *npages, for hot_stack_uncount().
 */
static inline bool
hot_stack_try_take(atomic_p_t *slot, edata_t *e, size_t *npages) {
	void *seen = e;
	if (!atomic_cas_strong_p(slot, &seen, NULL, MO_ACQUIRE, MO_RELAXED)) {
		return false;
	}
	assert(e->state == extent_state_hot && !e->is_slab && !e->is_sampled && e->recs == NULL);
	*npages += e->size >> LG_PAGE;
	return true;
}

/*
 * Takes an extent of least to most bytes from the stack of a class: owned by the caller, still
 * marked as hot. NULL if none was seen. Pages that left the stack are added to *npages.
 */
static inline edata_t *
hot_stack_pop(pac_t *pac, unsigned pind, size_t least, size_t most, size_t *npages) {
	pac_hot_stack_t *s = hot_stack(pac, pind);
	unsigned top = atomic_load_u8(&pac->hot_tops[pind], MO_RELAXED), n_empty = 0;
	unsigned mask = hot_stack_depth(pind) - 1;
	for (unsigned k = 1; s != NULL && k <= HOT_LOOKS && n_empty < HOT_EMPTIES; k++) {
		atomic_p_t *slot = &s->slots[(top - k) & mask];
		edata_t *e = atomic_load_p(slot, MO_RELAXED);
		size_t size = e == NULL ? 0 : __atomic_load_n(&e->size, __ATOMIC_RELAXED);
		n_empty += e == NULL;
		if (size < least || size > most || !hot_stack_try_take(slot, e, npages)) {
			continue;
		}
		atomic_store_u8(&pac->hot_tops[pind], (uint8_t)((top - k) & mask), MO_RELAXED);
		if (likely(e->size >= least && e->size <= most)) {
			return e;
		}
		pac_hot_misfit(pac, e);
	}
	return NULL;
}

/*
 * The pages are counted first. If another thread forks in between, the child counts them for ever,
 * without an extent: its statistics are too high by them, and it looks into the stacks more often.
 */
ALWAYS_INLINE unsigned
hot_push(pac_t *pac, unsigned pind, edata_t *const *es, unsigned n, size_t *npages) {
	pac_hot_stack_t *s = hot_stack(pac, pind);
	size_t left = *npages;
	assert(n > 0 && left > 0);
	if (s == NULL) {
		*npages = 0;
		return 0;
	}
	unsigned top = atomic_load_u8(&pac->hot_tops[pind], MO_RELAXED),
	    mask = hot_stack_depth(pind) - 1, done = 0;
	atomic_fetch_add_zu(&pac->hot_npages, left, MO_SEQ_CST);
	for (unsigned at = top, looks = 0; done < n && looks < HOT_LOOKS; at++, looks++) {
		atomic_p_t *slot = &s->slots[at & mask];
		size_t put = es[done]->size >> LG_PAGE;
		if (atomic_load_p(slot, MO_RELAXED) == NULL && pac_hot_try_fill(slot, es[done])) {
			left -= put;
			done++;
			top = at + 1;
			looks = 0;
		}
	}
	atomic_store_u8(&pac->hot_tops[pind], (uint8_t)(top & mask), MO_RELAXED);
	hot_stack_uncount(pac, left);
	*npages -= left;
	return done;
}

bool
pac_hot_try_push(pac_t *pac, unsigned pind, edata_t *e) {
	size_t npages = e->size >> LG_PAGE;
	return hot_push(pac, pind, &e, 1, &npages) != 0;
}

unsigned
pac_hot_push_some(pac_t *pac, unsigned pind, edata_t *const *es, unsigned n, size_t *npages) {
	return hot_push(pac, pind, es, n, npages);
}

/* Gives the class a stack if it has none and there is memory. The caller is inside the gate. */
static void
hot_stack_make(pac_t *pac, unsigned pind) {
	if (hot_stack(pac, pind) != NULL) {
		return;
	}
	void *none = NULL;
	pac_hot_stack_t *s = meta_alloc(hot_stack_bytes(pind));
	if (s == NULL) {
		return;
	}
	if (!atomic_cas_strong_p(&pac->hot_stacks[pind], &none, s, MO_ACQ_REL, MO_RELAXED)) {
		meta_free(s, hot_stack_bytes(pind));
	}
}

/* Takes everything out of the stack of a class and makes it dirty. */
static void
hot_stack_flush(pac_t *pac, unsigned pind) {
	pac_hot_stack_t *s = hot_stack(pac, pind);
	size_t npages = 0;
	for (unsigned k = 0; s != NULL && k < hot_stack_depth(pind); k++) {
		edata_t *e = atomic_load_p(&s->slots[k], MO_SEQ_CST);
		if (e != NULL && hot_stack_try_take(&s->slots[k], e, &npages)) {
			e->state = extent_state_active;
			pac_put_unused(pac, e);
		}
	}
	hot_stack_uncount(pac, npages);
}

void
pac_hot_destroy(pac_t *pac) {
	pac_hot_flush(pac);
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		pac_hot_stack_t *s = hot_stack(pac, i);
		if (s != NULL) {
			atomic_store_p(&pac->hot_stacks[i], NULL, MO_RELEASE);
			meta_free(s, hot_stack_bytes(i));
		}
	}
}

/* ------------------------------------------------------------------ slots and stacks */

/* Takes up to n extents of least to most bytes from the slot of the class and from its stack. */
ALWAYS_INLINE unsigned
hot_pop_class(pac_t *pac, unsigned pind, size_t least, size_t most, edata_t **out, unsigned n) {
	size_t npages = 0;
	unsigned got = (out[0] = pac_hot_take_slot(pac, pind, least, most)) != NULL;
	while (got < n && (out[got] = hot_stack_pop(pac, pind, least, most, &npages)) != NULL) {
		got++;
	}
	hot_stack_uncount(pac, npages);
	return got;
}

/*
 * For hot_pop_near(): from the class after pind, if extents of at most `most` bytes are there.
 */
static NOINLINE unsigned
hot_pop_next(pac_t *pac, unsigned pind, size_t size, size_t most, edata_t **out, unsigned n) {
	unsigned last = sz_psz_floor(most);
	return last == pind ? 0 : hot_pop_class(pac, last, size, most, out, n);
}

ALWAYS_INLINE unsigned
hot_pop_near(pac_t *pac, size_t size, edata_t **out, unsigned n) {
	size_t most = size + PAGE_FLOOR(size >> HOT_LG_SLACK);
	unsigned pind = sz_psz_floor(size);
	assert(n > 0);
	if (unlikely(ehooks_are_own(&pac->src.ehooks)) || unlikely(pac_is_bounded(pac))) {
		return 0;
	}
	unsigned got = hot_pop_class(pac, pind, size, most, out, n);
	return likely(got == n) ? got : got + hot_pop_next(pac, pind, size, most, out + got, n - got);
}

edata_t *
pac_hot_pop_near(pac_t *pac, size_t size) {
	edata_t *e;
	return hot_pop_near(pac, size, &e, 1) != 0 ? e : NULL;
}

unsigned
pac_hot_pop_some(pac_t *pac, size_t size, edata_t **out, unsigned n) {
	return hot_pop_near(pac, size, out, n);
}

void
pac_hot_leave(pac_t *pac, edata_t *e) {
	edata_check(e);
	e->szind = SC_NSIZES;
	e->is_sampled = false;
	unsigned pind = pac_hot_pind(pac, e->size);
	bool is_bounded = pac_is_bounded(pac);
	e->state = is_bounded ? extent_state_hot : e->state;
	emap_set_boundary(e);
	if (is_bounded) {
		atomic_fetch_sub_zu(&pac->nactive, e->size >> LG_PAGE, MO_RELAXED);
		edata_t *old = pac_hot_swap(&pac->hot[pind], e);
		if (old != NULL) {
			pac_put_unused(pac, old);
		}
		return;
	}
	size_t npages = e->size >> LG_PAGE;
	if (!pac_hot_is_vacant(pac, pind) || !pac_hot_try_fill(&pac->hot[pind], e)) {
		hot_stack_make(pac, pind);
		if (!pac_hot_try_push(pac, pind, e)) {
			pac_put_unused(pac, e);
		}
	}
	pac_hot_count_inactive(pac, npages);
}

void
pac_hot_flush_bounded(pac_t *pac) {
	edata_t *e = pac_hot_swap(&pac->hot[pac_hot_bounded()], NULL);
	if (e != NULL) {
		pac_put_unused(pac, e);
		pac_tell_back(pac, 0);
	}
}

/* Makes an extent dirty that was taken for a request which it does not fit. */
static void
pac_hot_give_up(pac_t *pac, edata_t *e) {
	pac_put_unused(pac, e);
	pac_tell_back(pac, 0);
}

edata_t *
pac_hot_take(pac_t *pac, size_t size, size_t alignment) {
	unsigned pind = pac_hot_pind(pac, size);
	edata_t *e = pac_hot_swap(&pac->hot[pind], NULL);
	if (e != NULL && e->size == size && is_aligned((uintptr_t)e->addr, max_zu(alignment, 1))) {
		return e;
	}
	if (e != NULL) {
		pac_hot_give_up(pac, e);
	}
	size_t npages = 0;
	e = hot_stack_pop(pac, pind, size, size, &npages);
	hot_stack_uncount(pac, npages);
	if (e == NULL) {
		return NULL;
	}
	e->state = extent_state_active;
	if (!is_aligned((uintptr_t)e->addr, max_zu(alignment, 1))) {
		pac_hot_give_up(pac, e);
		return NULL;
	}
	return e;
}

/*
 * Takes e, which was seen in a slot, out of its slot and makes it dirty. Returns false if it is not
 * there any more.
 */
static bool
pac_hot_try_cool(pac_t *pac, edata_t *e, size_t size) {
	unsigned pind = pac_hot_pind(pac, size);
	pac_hot_stack_t *s = hot_stack(pac, pind);
	void *seen = e;
	size_t npages = 0;
	bool is_mine = atomic_cas_strong_p(&pac->hot[pind], &seen, NULL, MO_SEQ_CST, MO_RELAXED);
	for (unsigned k = 0; !is_mine && s != NULL && k < hot_stack_depth(pind); k++) {
		is_mine = atomic_load_p(&s->slots[k], MO_RELAXED) == e
		    && hot_stack_try_take(&s->slots[k], e, &npages);
	}
	hot_stack_uncount(pac, npages);
	if (is_mine) {
		/*
		 * Since it was seen it may have been taken and left again with another size; that
		 * does not matter, it can become dirty.
		 */
		assert(e->state == extent_state_hot);
		e->state = extent_state_active;
		pac_put_unused(pac, e);
	}
	return is_mine;
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
		if (__atomic_load_n(&e->arena_ind, __ATOMIC_RELAXED) != pac->src.ehooks.arena_ind
		    || piece < PAGE || (state == extent_state_hot && !pac_hot_try_cool(pac, e, piece))) {
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
pac_hot_flush_stacks(pac_t *pac) {
	for (unsigned i = 0; i < SC_NPSIZES && atomic_load_zu(&pac->hot_npages, MO_SEQ_CST) != 0; i++) {
		hot_stack_flush(pac, i);
	}
	pac_tell_back(pac, 0);
}

void
pac_hot_flush(pac_t *pac) {
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		edata_t *e = pac_hot_swap(&pac->hot[i], NULL);
		if (e != NULL) {
			pac_put_unused(pac, e);
		}
	}
	pac_hot_flush_stacks(pac);
}

size_t
pac_ndirty(const pac_t *pac) {
	size_t n = ecache_npages(&pac->dirty) + atomic_load_zu(&pac->hot_npages,
	    MO_SEQ_CST) + piece_npages(&pac->piece);
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		const edata_t *e = atomic_load_p(&pac->hot[i], MO_SEQ_CST);
		n += e == NULL ? 0 : __atomic_load_n(&e->size, __ATOMIC_RELAXED) >> LG_PAGE;
	}
	return n;
}
