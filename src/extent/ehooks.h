/*
 * Where an arena's pages come from and go to.
 *
 * Everything above asks for pages through these calls and never through os/pages directly, so that
 * an arena can later bring its own functions; today every arena has the system's.
 * Called without any lock of a page cache held, except that commit may run under none or the grow
 * lock.
 */
#ifndef EXTENT_EHOOKS_H
#define EXTENT_EHOOKS_H

#include "os/pages.h"
#include "util/compiler.h"

typedef struct ehooks_s {
	unsigned arena_ind;
} ehooks_t;

static inline void
ehooks_init(ehooks_t *h, unsigned arena_ind) {
	h->arena_ind = arena_ind;
}

/* New pages, aligned; *zero and *commit say what they are. NULL: none. */
static inline void *
ehooks_alloc(ehooks_t *h UNUSED, size_t size, size_t alignment, bool *zero, bool *commit) {
	*commit = true;
	void *p = pages_map(NULL, size, alignment, commit);
	*zero = p != NULL;
	return p;
}

/* Gives pages back to the system; 0 or errno (then they are still there). */
static inline int
ehooks_dalloc(ehooks_t *h UNUSED, void *addr, size_t size) {
	return pages_unmap(addr, size);
}

static inline int
ehooks_commit(ehooks_t *h UNUSED, void *addr, size_t size) {
	return pages_commit(addr, size);
}

static inline int
ehooks_purge_lazy(ehooks_t *h UNUSED, void *addr, size_t size) {
	return pages_purge_lazy(addr, size);
}

/* On success the pages read as zeros. */
static inline int
ehooks_purge_forced(ehooks_t *h UNUSED, void *addr, size_t size) {
	return pages_purge_forced(addr, size);
}

#endif
