/*
 * Operations on extents between page caches and owners: find, split, coalesce, grow, return.
 * An extent in a cache belongs to the cache's lock. Taking it out sets its state in the page map to
 * active under that lock; from then on it belongs to the thread that took it. Only neighbours in
 * the same cache coalesce. Where the arena has hooks of the user, splitting and merging asks the
 * user, which must not happen under a lock: an extent to be cut or joined is first taken out of the
 * cache as a whole. Lock order: grow, dirty, muzzy, retained, then edata_cache, then base. At most
 * one cache lock is held at a time. Called by pac and join.
 */
#ifndef EXTENT_EXTENT_H
#define EXTENT_EXTENT_H

#include "extent/ecache.h"
#include "extent/ehooks.h"
#include "meta/edata_cache.h"
#include "meta/emap.h"

/* A dirty extent is split for a request only if it is at most 2^this times as large. */
extern size_t opt_lg_extent_max_active_fit;

/* What the extents of an arena need from lower floors; shared by all operations. */
typedef struct extent_src_s {
	ehooks_t ehooks;
	edata_cache_t edata_cache;
	/* Held while a mapping is made, so that threads that miss together map only once. */
	mutex_t grow_mtx;
	/*
	 * Bytes of the next mapping, under grow_mtx; starts at a huge page and grows by page
	 * classes.
	 */
	size_t grow_next;
	/* Greatest value of grow_next. */
	size_t grow_limit;
	/* Every mapping starts and ends at a multiple of this; a power of two. */
	size_t grow_alignment;
	/* Called for each new mapping before it is used; may be NULL. */
	void (*grown)(void *addr, size_t size);
} extent_src_t;

/* Initialises it with the system's pages; ehooks_init() may set the user's hooks afterwards. */
void extent_src_init(extent_src_t *src, base_t *base, unsigned arena_ind);
/* Get and set the largest growth step, rounded down to a page class; EINVAL: less than a page. */
size_t extent_grow_limit_get(extent_src_t *src);
int extent_grow_limit_set(extent_src_t *src, size_t limit);
/* Growth starts again, with the initial limit. */
void extent_src_renew(extent_src_t *src);

/*
 * Takes an active extent of exactly size bytes out of the cache. NULL: none fits, or there is no
 * memory for a descriptor. lg_max_fit as for eset_fit().
 */
edata_t *ecache_take(extent_src_t *src, ecache_t *c, size_t size, size_t alignment,
    unsigned lg_max_fit);
/* The same, but up to `most` bytes where the extent that fits has them; `most` >= size. */
edata_t *ecache_take_upto(extent_src_t *src, ecache_t *c, size_t size, size_t most);
/* The same, but only the extent that starts at addr. */
edata_t *ecache_take_at(extent_src_t *src, ecache_t *c, char *addr, size_t size);
/* The last size bytes of the extent that ends at end. */
edata_t *ecache_take_before(extent_src_t *src, ecache_t *c, char *end, size_t size);
/* Puts an active extent into the cache and joins it with its neighbours there. */
void ecache_put(extent_src_t *src, ecache_t *c, edata_t *e);
/* Takes out one of the largest class; NULL if the cache is empty. */
edata_t *ecache_take_largest(ecache_t *c);
/*
 * Takes out the least recently added extent, if the cache holds more than npages_min pages; parts
 * of huge pieces last, or not at all.
 */
edata_t *ecache_evict(ecache_t *c, size_t npages_min);
edata_t *ecache_evict_spare(ecache_t *c, size_t npages_min);

/* Maps new address space for an extent of size bytes; the surplus goes to the retained cache. */
edata_t *extent_grow(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment);
/* The same without hooks of the user, for a caller that holds grow_mtx. */
edata_t *extent_grow_locked(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment);

/*
 * Cuts an active extent: e keeps the first size_a bytes, the rest is returned as another active
 * extent. NULL: no memory, or a hook refused; e is unchanged then.
 */
edata_t *extent_split(extent_src_t *src, edata_t *e, size_t size_a);
/*
 * Appends the active extent b to the active extent a; b's descriptor becomes spare. An errno value:
 * a hook refused, and both are unchanged.
 */
int extent_merge(extent_src_t *src, edata_t *a, edata_t *b);

/* Makes the pages usable; 0 or ENOMEM. */
int extent_commit(extent_src_t *src, edata_t *e);
/* Returns the pages to the system; an errno value: refused, and the extent is unchanged. */
int extent_unmap(extent_src_t *src, edata_t *e);
/* The same at the end of the arena; cannot be refused. */
void extent_destroy(extent_src_t *src, edata_t *e);

#endif
