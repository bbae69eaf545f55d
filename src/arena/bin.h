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
/*
 * A region comes back.  Returns the slab if that was its last one in use and it left the bin: the
 * caller gives it back once the lock is dropped.  A pointer that is no taken region ends the
 * process with a message.
 */
edata_t *bin_put_locked(bin_t *bin, const bin_info_t *info, edata_t *slab, void *ptr);

void bin_stats_merge(bin_t *bin, bin_stats_t *out, mutex_prof_data_t *mutex_out);

#endif
