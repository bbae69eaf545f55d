/*
 * Initialises a page cache: its mutex, its set and its state.
 * What happens in a cache afterwards (take, put, coalesce, evict) is in extent.c. Called by
 * pac_init(), before other threads know the arena.
 */
#include "extent/ecache.h"

void
ecache_init(ecache_t *c, eset_class_t *classes, extent_state_t state, const char *name,
    unsigned rank) {
	mutex_init(&c->mtx, name, rank);
	eset_init(&c->eset, classes);
	c->state = state;
}
