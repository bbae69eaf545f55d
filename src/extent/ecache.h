/*
 * One of the three caches in the page cache of an arena: the unused extents in one state (dirty,
 * muzzy or retained). Invariant: every extent in the set has the cache's state, in its descriptor
 * and in the page map. The mutex protects the set and the descriptors of its extents. The
 * operations (take, put, evict) are in extent.c. Used by extent.c, pac*.c, ahead, piece, join and
 * purge_batch; statistics read its counters.
 */
#pragma once

#include "extent/eset.h"
#include "os/mutex.h"

/* The set's table of classes (eset_t.classes) is not in this struct but in the pac_t. */
typedef struct ecache_s {
	mutex_t mtx;
	extent_state_t state;
	eset_t eset;
} ecache_t;

/*
 * Initialises a cache in zeroed memory. classes goes to eset_init(), name and rank to mutex_init().
 */
void ecache_init(ecache_t *c, eset_class_t *classes, extent_state_t state, const char *name,
    unsigned rank);

/* Pages in the cache; may be read without the mutex. */
static inline size_t
ecache_npages(const ecache_t *c) {
	return eset_npages(&c->eset);
}
