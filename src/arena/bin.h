/*
 * A bin: the slabs of one class (or of one shard of it) in one arena.
 *
 * slabcur serves requests until it is full; then the lowest slab that has a free region takes its
 * place.  A slab with all regions free is given back unless it is slabcur.  Full slabs are on no
 * list.  Everything here, and nfree and the bitmap of its slabs, is under the bin's lock, which is
 * never held while pages are fetched or returned.
 */
#ifndef ARENA_BIN_H
#define ARENA_BIN_H

#include "arena/arena_stats.h"
#include "arena/safety.h"
#include "arena/slab.h"

typedef struct bin_s {
	mutex_t mtx;
	edata_t *slabcur;
	ph_t nonfull;
	bin_stats_t stats;
} ALIGNED(CACHELINE) bin_t;

void bin_init(bin_t *bin);

/* Up to n regions from what the bin has; 0: it needs a new slab. */
unsigned bin_take_locked(bin_t *bin, const bin_info_t *info, void **out, unsigned n);
/* A fresh slab joins the bin. */
void bin_add_slab_locked(bin_t *bin, edata_t *slab);
/* The slab of a region on its way back; a pointer that is in none ends the process. */
static inline edata_t *
bin_slab_of(const void *ptr) {
	uint64_t elem = emap_elem(ptr);
	if (unlikely((elem & ELEM_SLAB) == 0)) {
		safety_fail("double free or pointer to no block");
	}
	return elem_edata(elem);
}

/*
 * Regions come back.  bin is that of ptrs[0]; those of the n that belong to another one (of their
 * class) are moved to the front of ptrs; returns how many.  Slabs with no region in use any more
 * leave the bin and are linked to *empty by heap.next: the caller gives them back once the lock is
 * dropped.  A pointer that is no taken region ends the process with a message.
 */
unsigned bin_put_locked(bin_t *bin, const bin_info_t *info, void **ptrs, unsigned n, edata_t **empty);

/* All its objects are gone, and its slabs are the caller's. */
void bin_forget(bin_t *bin);
void bin_stats_merge(bin_t *bin, bin_stats_t *out, mutex_prof_data_t *mutex_out);

#endif
