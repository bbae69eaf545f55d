/*
 * Unused extent descriptors of one arena, for reuse. Descriptors never leave their arena (edata.h
 * says why that matters). They are made in blocks, in memory of the arena's base. If at all times
 * during a period (a quarter of the decay time, at least 1 s) more than EDATA_KEPT descriptors were
 * spare, a larger heap needed the others; then pages of blocks whose descriptors are all spare are
 * given back to the system, down to that number. Such a page reads as zeros, also for a thread that
 * has found one of its descriptors in the page map before. The lock is the cache's own; base's may
 * be taken below it. Called by extent.c, pac_hpa.c, pac_types.h, pac_life.c, pac_purge.c (ticks)
 * and arena_life.c (blocks).
 */
#pragma once

#include "meta/base.h"
#include "meta/edata.h"
#include "os/mutex.h"

/* The header of a block; its descriptors follow at multiples of EDATA_ALIGN. */
typedef struct edata_block_s {
	struct edata_block_s *next; /* the one made before it */
	uint32_t n;      /* descriptors of the block */
	uint32_t nmade;  /* the first ones, which are in use, spare, or given back with their page */
	uint32_t purged; /* bit i: of the pages that lie wholly in the block, page i is given back */
} edata_block_t;
cassert(sizeof(edata_block_t) <= EDATA_ALIGN);

/* Bytes of a block: a quarter of those of all blocks before it, within these limits. */
#define EDATA_BLOCK_MIN ((size_t)1 << 10)
#define EDATA_BLOCK_MAX (((size_t)64 << 10) - EDATA_ALIGN) /* 32 fit into a block of base */
/* So many spare descriptors (256 KiB) are kept, but for edata_cache_purge(). */
#define EDATA_KEPT 2048u

/* A pass that gives pages back, block by block. */
typedef struct {
	edata_block_t *at; /* the block at which it goes on; NULL: none is under way */
	size_t excess;     /* spare descriptors whose pages are to be given back, at most */
} edata_pass_t;

typedef struct edata_cache_s {
	mutex_t mtx;
	ql_t spare;            /* linked through `link`, the one used last first */
	edata_block_t *blocks; /* newest first; only the newest may have descriptors not made yet */
	size_t npurged;        /* pages given back */
	size_t least;          /* least number of spare ones since the period began */
	edata_pass_t pass;     /* that of edata_cache_tick() */
	/*
	 * Spare ones that the last pass left because their pages have others too, or were refused;
	 * 0: it left none.
	 */
	size_t stuck;
	/* When edata_cache_tick() has something to do next, monotonic ns; 0: at the next call. */
	atomic_u64_t due;
	/* Number of spare descriptors, without those of pages given back; statistics read it too. */
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
/* Adds a descriptor that no extent uses any more to the spare ones; it is not in the page map. */
void edata_cache_put(edata_cache_t *c, edata_t *e);

/*
 * Gives pages of spare descriptors back to the system: as many as were spare above EDATA_KEPT
 * during all of the last `period` ns, at most 1 MiB a call. Returns at once if nothing is due. now:
 * monotonic ns.
 */
void edata_cache_tick(edata_cache_t *c, uint64_t now, uint64_t period);
/*
 * ns from now to the next call of edata_cache_tick() that may give pages back; UINT64_MAX: none,
 * unless more descriptors become spare.
 */
uint64_t edata_cache_ns_until(edata_cache_t *c, uint64_t now);
/* Gives back all pages with spare descriptors only, until the system refuses one. */
void edata_cache_purge(edata_cache_t *c);

/* The newest block; the others follow by next. NULL: none was made. */
edata_block_t *edata_cache_blocks(edata_cache_t *c);

/* Descriptor i of the block; the header has the place of one. */
static inline edata_t *
edata_block_at(edata_block_t *b, size_t i) {
	return (edata_t *)(void *)((char *)b + (1 + i) * EDATA_ALIGN);
}
