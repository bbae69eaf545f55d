/*
 * Initialises a cache of unused extents: its mutex, its set and its state.
 * The operations on a cache (take, put, evict) are in extent.c. Called by pac_init() (pac_life.c),
 * before other threads know the arena, so no lock is taken.
 */
#include "extent/ecache.h"

void
ecache_init(ecache_t *c, eset_class_t *classes, extent_state_t state, const char *name,
    unsigned rank) {
	mutex_init(&c->mtx, name, rank);
	eset_init(&c->eset, classes);
	c->state = state;
}
