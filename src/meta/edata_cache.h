/*
 * Spare extent descriptors of one arena.  They never leave it (edata.h says why that matters).
 * Lock: its own, above base's.
 */
#ifndef META_EDATA_CACHE_H
#define META_EDATA_CACHE_H

#include "meta/base.h"
#include "meta/edata.h"
#include "os/mutex.h"

typedef struct edata_cache_s {
	mutex_t mtx;
	edata_t *spare; /* linked through heap.next */
	edata_t *all;   /* every descriptor there is, linked through next_all; it only grows */
	atomic_zu_t count;
	base_t *base;
	uint16_t arena_ind;
} edata_cache_t;

void edata_cache_init(edata_cache_t *c, base_t *base, unsigned arena_ind);
/* NULL: no memory. */
edata_t *edata_cache_get(edata_cache_t *c);
void edata_cache_put(edata_cache_t *c, edata_t *e);

/* The first of all descriptors there are now, in use or spare; further ones by next_all. */
static inline edata_t *
edata_cache_all(edata_cache_t *c) {
	mutex_lock(&c->mtx);
	edata_t *e = c->all;
	mutex_unlock(&c->mtx);
	return e;
}

#endif
