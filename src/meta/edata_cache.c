/*
 * A stack of unused extent descriptors; the one used last is the first to be used again.
 * edata_cache.h has the contract. Invariant: a spare descriptor has the state "none" and keeps its
 * arena_ind. The cache's mutex protects the stack and the list of all descriptors. Initialised with
 * the arena, then called by extent.c and pac_hpa.c for each descriptor that they use or return.
 */
#include "meta/edata_cache.h"

#include "os/witness.h"

void
edata_cache_init(edata_cache_t *c, base_t *base, unsigned arena_ind) {
	mutex_init(&c->mtx, "extent_avail", WITNESS_RANK_EDATA_CACHE);
	c->base = base;
	c->arena_ind = (uint16_t)arena_ind;
	assert(c->spare == NULL);
}

/* Makes a new descriptor and enters it in the list of all. */
static edata_t *
edata_cache_make(edata_cache_t *c) {
	edata_t *e = base_alloc_edata(c->base, sizeof(edata_t), EDATA_ALIGN);
	if (e != NULL) {
		__atomic_store_n(&e->arena_ind, c->arena_ind, MO_RELAXED);
		mutex_lock(&c->mtx);
		e->next_all = c->all;
		c->all = e;
		mutex_unlock(&c->mtx);
	}
	return e;
}

edata_t *
edata_cache_get(edata_cache_t *c) {
	mutex_lock(&c->mtx);
	edata_t *e = c->spare;
	if (e != NULL) {
		c->spare = e->heap.next == NULL ? NULL : edata_of_heap(e->heap.next);
		atomic_fetch_sub_zu(&c->count, 1, MO_RELAXED);
	}
	mutex_unlock(&c->mtx);
	assert(e == NULL || e->arena_ind == c->arena_ind);
	return e != NULL ? e : edata_cache_make(c);
}

void
edata_cache_put(edata_cache_t *c, edata_t *e) {
	assert(e->arena_ind == c->arena_ind);
	mutex_lock(&c->mtx);
	e->state = extent_state_none;
	e->heap.next = c->spare == NULL ? NULL : &c->spare->heap;
	c->spare = e;
	atomic_fetch_add_zu(&c->count, 1, MO_RELAXED);
	mutex_unlock(&c->mtx);
}
