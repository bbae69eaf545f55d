/*
 * A slab: an extent divided into regions of one small class, with a bitmap of the free ones.
 *
 * The bitmap lies in the descriptor up to 256 regions, else in metadata memory.  It is protected
 * by the lock of the slab's bin.  Regions are handed out from the lowest address up, so that the
 * rest of a slab stays untouched as long as possible.
 */
#ifndef ARENA_SLAB_H
#define ARENA_SLAB_H

#include "arena/bin_info.h"
#include "meta/edata.h"
#include "meta/emap.h"

/* Makes an active extent of the right size a slab with all regions free; 0 or ENOMEM. */
int slab_init(edata_t *e, szind_t szind, unsigned shard, bool is_sampled);
/* Makes it a plain extent again; all its regions are free. */
void slab_fini(edata_t *e);

/* Takes up to n regions into out, lowest first; returns how many. */
unsigned slab_take(edata_t *e, const bin_info_t *info, void **out, unsigned n);
/* Puts a region back; false if it was not taken (double free) or is none. */
bool slab_put_is_valid(edata_t *e, const bin_info_t *info, const void *ptr);

/* Number of the region that holds ptr. */
static inline size_t
slab_region(const edata_t *e, const bin_info_t *info, const void *ptr) {
	size_t off = (size_t)((const char *)ptr - e->addr);
	assert(off < info->slab_size && off % info->reg_size == 0);
	return div_compute(&info->div, off);
}

/* The profiler's record of a region of a sampled slab. */
static inline sample_rec_t *
slab_rec(const edata_t *e, const void *ptr) {
	assert(e->is_slab && e->is_sampled && e->recs != NULL);
	return &e->recs[slab_region(e, &bin_infos[e->szind], ptr)];
}

#endif
