/* Set-up of a page cache; what happens in it is in extent.c. */
#include "extent/ecache.h"

void
ecache_init(ecache_t *c, eset_class_t *classes, extent_state_t state, const char *name, unsigned rank) {
	mutex_init(&c->mtx, name, rank);
	eset_init(&c->eset, classes);
	c->state = state;
}
