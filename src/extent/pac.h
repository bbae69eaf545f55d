/*
 * The page cache of an arena: dirty -> muzzy -> retained -> the system, and back.
 *
 * A request is looked for in this order: dirty, muzzy, retained, new address space.  Freed pages
 * become dirty; decay moves them on (decay.h), driven by pac_tick() from whoever has the time.
 * The extent of each page class that was freed last stays "hot" for a moment: taken and left by an
 * atomic exchange, without a lock, whole and not coalesced; the next tick makes it plain dirty.  To
 * all statistics it is dirty.
 * A decay's lock is taken before any cache's and held during a pass of purging, so that one thread
 * purges at a time; it is only ever tried on the ticking path.
 */
#ifndef EXTENT_PAC_H
#define EXTENT_PAC_H

#include "extent/decay.h"
#include "extent/extent.h"

extern ssize_t opt_dirty_decay_ms;
extern ssize_t opt_muzzy_decay_ms;
/* Recycled memory of at least this many bytes is zeroed by purging it. */
extern size_t opt_calloc_madvise_threshold;

/* name, type */
#define DECAY_STATS_FIELDS(X) \
	X(npurge, uint64_t) \
	X(nmadvise, uint64_t) \
	X(purged, uint64_t)

typedef struct pac_decay_s {
	decay_t decay;
	ecache_t *cache;
	atomic_u64_t npurge;
	atomic_u64_t nmadvise;
	atomic_u64_t purged; /* pages */
} pac_decay_t;

typedef struct pac_s {
	extent_src_t src;
	atomic_zu_t mapped;   /* bytes in use, dirty or muzzy */
	atomic_zu_t nactive;  /* pages in use */
	atomic_zu_t nhot;     /* pages of hot extents */
	pac_decay_t decay_dirty;
	pac_decay_t decay_muzzy;
	ecache_t dirty;
	ecache_t muzzy;
	ecache_t retained;
	atomic_p_t hot[SC_NPSIZES_MAX];
} pac_t;

/* Pages unused and not yet purged, hot ones included. */
static inline size_t
pac_ndirty(const pac_t *pac) {
	return ecache_npages(&pac->dirty) + atomic_load_zu(&pac->nhot, MO_RELAXED);
}

/* Called outside all locks when the pages mapped by all arenas reach a new maximum; NULL: nobody cares. */
extern void (*pac_new_maximum_hook)(void);

void pac_init(pac_t *pac, base_t *base, unsigned arena_ind, ssize_t dirty_ms, ssize_t muzzy_ms,
    uint64_t now);

/* size: whole pages. zero: the pages must read as zero. NULL: no memory. */
edata_t *pac_alloc(pac_t *pac, size_t size, size_t alignment, bool zero);
void pac_dalloc(pac_t *pac, edata_t *e);
/* In place; 0 or ENOMEM (nothing changed). zero: as above, for the new part. */
int pac_expand(pac_t *pac, edata_t *e, size_t size, bool zero);
int pac_shrink(pac_t *pac, edata_t *e, size_t size);

/* Purges what is due at now; returns at once when nothing is or when another thread does it. */
void pac_tick(pac_t *pac, uint64_t now);
/* The same, waiting for other threads; all: purge everything that is unused. */
void pac_purge(pac_t *pac, uint64_t now, bool all);

int pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now);

/* Largest number of bytes that all arenas ever had mapped at once. */
size_t pac_mapped_max(void);

#endif
