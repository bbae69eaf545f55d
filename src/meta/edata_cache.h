/*
 * Unused extent descriptors of one arena, for reuse.
 * Descriptors never leave their arena (edata.h says why that matters), and they are never freed.
 * The lock is the cache's own; no other lock is taken below it. Called by extent.c, pac_hpa.c
 * and arena_life.c.
 */
#ifndef META_EDATA_CACHE_H
#define META_EDATA_CACHE_H

#include "meta/base.h"
#include "meta/edata.h"
#include "os/mutex.h"

typedef struct edata_cache_s {
	mutex_t mtx;
	edata_t *spare; /* stack, linked through heap.next */
	edata_t *all;   /* every descriptor of the arena, linked through next_all; it only grows */
	/* Number of spare descriptors, for statistics. */
	atomic_zu_t count;
	base_t *base;
	uint16_t arena_ind;
} edata_cache_t;

/* c is zeroed. New descriptors come from `base` and get arena_ind for good. */
void edata_cache_init(edata_cache_t *c, base_t *base, unsigned arena_ind);
/*
 * Returns a spare or new descriptor, with its arena_ind; all other fields are undefined. NULL if
 * there is no memory.
 */
edata_t *edata_cache_get(edata_cache_t *c);
/* Adds a descriptor that no extent uses any more to the spare ones. */
void edata_cache_put(edata_cache_t *c, edata_t *e);

/* The first of all descriptors that exist now, in use or spare; the others follow by next_all. */
static inline edata_t *
edata_cache_all(edata_cache_t *c) {
	mutex_lock(&c->mtx);
	edata_t *e = c->all;
	mutex_unlock(&c->mtx);
	return e;
}

#endif
