/*
 * Unused extent descriptors of one arena, for reuse.
 * Descriptors never leave their arena (edata.h says why that matters). They are made in blocks. A
 * page of a block whose descriptors are all spare may be given back to the system: if more spare
 * ones than it takes to fill some hundred KiB were there all the time for a quarter of the decay
 * time, most of them were needed for a larger heap only. Such a page reads as zeros, also for a
 * thread that has found one of its descriptors in the page map before. The lock is the cache's own;
 * base's may be taken below it. Called by extent.c, pac_hpa.c, pac_purge.c and arena_life.c.
 */
#ifndef META_EDATA_CACHE_H
#define META_EDATA_CACHE_H

#include "meta/base.h"
#include "meta/edata.h"
#include "os/mutex.h"

/* The header of a block; its descriptors follow at multiples of EDATA_ALIGN. */
typedef struct edata_block_s {
	struct edata_block_s *next; /* the one made before it */
	uint32_t n;
	uint32_t nmade;  /* the first ones, which were handed out at least once */
	uint32_t purged; /* bit i: of the pages that lie wholly in the block, page i is given back */
} edata_block_t;
cassert(sizeof(edata_block_t) <= EDATA_ALIGN);

/* Bytes of a block: a quarter of all before it, within these limits. */
#define EDATA_BLOCK_MIN ((size_t)1 << 10)
#define EDATA_BLOCK_MAX (((size_t)64 << 10) - EDATA_ALIGN) /* 32 fit into a block of base */
/* As many spare descriptors are always kept, unless all are to go. */
#define EDATA_KEPT 2048u

typedef struct edata_cache_s {
	mutex_t mtx;
	ql_t spare;            /* linked through `link`, the one used last first */
	edata_block_t *blocks; /* newest first; only the newest may have descriptors not made yet */
	size_t npurged;        /* pages given back */
	size_t least;          /* least number of spare ones since the period began */
	size_t excess;         /* spare ones to be given back in the pass under way */
	edata_block_t *at;     /* the block at which that pass goes on; NULL: none is under way */
	bool is_passing;       /* a thread works on that pass */
	bool is_kept;          /* the system refused to take a page: not tried again */
	/* When a period or pass is to be looked at, in ns; 0: at the next call. */
	atomic_u64_t due;
	/* Number of spare descriptors, without those of pages given back; for statistics. */
	atomic_zu_t count;
	base_t *base;
	uint16_t arena_ind;
} edata_cache_t;

/* c is zeroed. New descriptors come from `base` and get arena_ind for good. */
void edata_cache_init(edata_cache_t *c, base_t *base, unsigned arena_ind);
/*
 * Returns a spare or new descriptor, with its arena_ind; all other fields are undefined. NULL if
 * there is no memory.
 */
edata_t *edata_cache_get(edata_cache_t *c);
/* Adds a descriptor that no extent uses any more to the spare ones. */
void edata_cache_put(edata_cache_t *c, edata_t *e);

/*
 * Gives pages of descriptors that were spare for `period` ns back to the system, some MiB a call.
 * Returns at once if nothing is due.
 */
void edata_cache_tick(edata_cache_t *c, uint64_t now, uint64_t period);
/* Gives all pages of spare descriptors back. */
void edata_cache_purge(edata_cache_t *c);

/* The newest block; the others follow by next. */
edata_block_t *edata_cache_blocks(edata_cache_t *c);

static inline edata_t *
edata_block_at(edata_block_t *b, size_t i) {
	return (edata_t *)(void *)((char *)b + (1 + i) * EDATA_ALIGN);
}

#endif
