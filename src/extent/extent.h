/*
 * Extents between page caches and owners: find, split, coalesce, grow, purge.
 *
 * An extent in a cache belongs to the cache's lock; taking it out writes its page-map state to
 * active under that lock, and from then on the taker owns it alone.  Only neighbours in the same
 * cache coalesce.
 * Where the arena has hooks of its own, splitting and merging asks the program, and that must not happen
 * under a lock: what is to be cut or joined is first taken out of the cache whole.
 * Lock order: grow, dirty, muzzy, retained, then edata_cache, then the page map's and base's.
 * At most one cache lock is held at a time.
 */
#ifndef EXTENT_EXTENT_H
#define EXTENT_EXTENT_H

#include "extent/ecache.h"
#include "extent/ehooks.h"
#include "meta/edata_cache.h"
#include "meta/emap.h"

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
	/* Called for each new mapping before anybody has it; may be NULL. */
	void (*grown)(void *addr, size_t size);
} extent_src_t;

/* With the system's pages; else ehooks_init afterwards. */
void extent_src_init(extent_src_t *src, base_t *base, unsigned arena_ind);
/* Largest growth step, in whole page classes; EINVAL: less than a page. */
size_t extent_grow_limit_get(extent_src_t *src);
int extent_grow_limit_set(extent_src_t *src, size_t limit);
/* Growth begins anew, up to the limit of the start. */
void extent_src_renew(extent_src_t *src);
/* The next mapping is as small as the first was. */
void extent_grow_restart(extent_src_t *src);

/*
 * Takes an active extent of exactly size bytes out of the cache; NULL: none fits (or no memory).
 * lg_max_fit: as in eset_fit.
 */
edata_t *ecache_take(extent_src_t *src, ecache_t *c, size_t size, size_t alignment,
    unsigned lg_max_fit);
/* The same, but only the extent that starts at addr. */
edata_t *ecache_take_at(extent_src_t *src, ecache_t *c, char *addr, size_t size);
/* The last size bytes of the one that ends at end. */
edata_t *ecache_take_before(extent_src_t *src, ecache_t *c, char *end, size_t size);
/* Puts an active extent into the cache, coalescing with its neighbours there. */
void ecache_put(extent_src_t *src, ecache_t *c, edata_t *e);
/* Takes out the least recently added one if the cache holds more than npages_min pages. */
edata_t *ecache_evict(ecache_t *c, size_t npages_min);

/* New address space from the system; what is left over goes to the retained cache. */
edata_t *extent_grow(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment);

/*
 * Cuts an active extent: e keeps the first size_a bytes, the rest is returned as an active extent
 * of its own; NULL: no memory, or refused by a hook; e unchanged.
 */
edata_t *extent_split(extent_src_t *src, edata_t *e, size_t size_a);
/*
 * Appends the active b to the active a; b's descriptor goes back to the cache of spares.  Errno: a hook
 * refused, both are as they were.
 */
int extent_merge(extent_src_t *src, edata_t *a, edata_t *b);

/* Makes sure that the pages can be used; 0 or ENOMEM. */
int extent_commit(extent_src_t *src, edata_t *e);
/* Gives the pages back for good, or 0 pages if it is refused (errno). */
int extent_unmap(extent_src_t *src, edata_t *e);
/* The same at the arena's end, without a refusal. */
void extent_destroy(extent_src_t *src, edata_t *e);

#endif
