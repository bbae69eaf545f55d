/*
 * One page cache of an arena: the unused extents in one state, under one lock.
 */
#ifndef EXTENT_ECACHE_H
#define EXTENT_ECACHE_H

#include "extent/eset.h"
#include "os/mutex.h"

typedef struct ecache_s {
	mutex_t mtx;
	extent_state_t state;
	eset_t eset;
} ecache_t;

/* classes: as eset_init. */
void ecache_init(ecache_t *c, eset_class_t *classes, extent_state_t state, const char *name, unsigned rank);

static inline size_t
ecache_npages(const ecache_t *c) {
	return eset_npages(&c->eset);
}

#endif
