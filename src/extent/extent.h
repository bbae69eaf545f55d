/*
 * Extents between page caches and owners: find, split, coalesce, grow, purge.
 *
 * An extent in a cache belongs to the cache's lock; taking it out writes its page-map state to
 * active under that lock, and from then on the taker owns it alone.  Only neighbours in the same
 * cache coalesce.
 * Lock order: grow, dirty, muzzy, retained, then edata_cache, then the page map's and base's.
 * At most one cache lock is held at a time.
 */
#ifndef EXTENT_EXTENT_H
#define EXTENT_EXTENT_H

#include "extent/ecache.h"
#include "extent/ehooks.h"
#include "meta/edata_cache.h"
#include "meta/emap.h"

/* Keep unused address space for reuse instead of unmapping it. */
extern bool opt_retain;
/* A dirty extent is split for a request only up to 2^this times its size. */
extern size_t opt_lg_extent_max_active_fit;

/* What an arena's extents need from below; shared by all operations. */
typedef struct extent_src_s {
	ehooks_t ehooks;
	edata_cache_t edata_cache;
	mutex_t grow_mtx;
	/* Bytes of the next mapping, under grow_mtx; starts at a huge page and grows. */
	size_t grow_next;
	size_t grow_limit;
	/* Every mapping starts and ends at a multiple of this. */
	size_t grow_alignment;
	/* Called under grow_mtx for each new mapping; may be NULL. */
	void (*grown)(void *addr, size_t size);
} extent_src_t;

void extent_src_init(extent_src_t *src, base_t *base, unsigned arena_ind);

/*
 * Takes an active extent of exactly size bytes out of the cache; NULL: none fits (or no memory).
 * lg_max_fit: as in eset_fit.
 */
edata_t *ecache_take(extent_src_t *src, ecache_t *c, size_t size, size_t alignment,
    unsigned lg_max_fit);
/* The same, but only the extent that starts at addr. */
edata_t *ecache_take_at(extent_src_t *src, ecache_t *c, char *addr, size_t size);
/* Puts an active extent into the cache, coalescing with its neighbours there. */
void ecache_put(extent_src_t *src, ecache_t *c, edata_t *e);
/* Takes out the least recently added one if the cache holds more than npages_min pages. */
edata_t *ecache_evict(ecache_t *c, size_t npages_min);

/* New address space from the system; what is left over goes to the retained cache. */
edata_t *extent_grow(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment);

/*
 * Cuts an active extent: e keeps the first size_a bytes, the rest is returned as an active extent
 * of its own; NULL: no memory, e unchanged.
 */
edata_t *extent_split(extent_src_t *src, edata_t *e, size_t size_a);
/* Appends the active b to the active a; b's descriptor goes back to the cache of spares. */
void extent_merge(extent_src_t *src, edata_t *a, edata_t *b);

/* Makes sure that the pages can be used; 0 or ENOMEM. */
int extent_commit(extent_src_t *src, edata_t *e);
/* Gives the pages back to the system for good, or 0 pages if it refuses (errno). */
int extent_unmap(extent_src_t *src, edata_t *e);

#endif
