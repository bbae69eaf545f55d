/*
 * Purging many extents in one system call, where the kernel lets a process advise itself (process_madvise).
 *
 * A pass of purging collects the extents that are to lose their pages; a full batch, and the end of the pass,
 * purges them and puts them into the retained cache.  Until then they are active and the pass's own.  What the
 * kernel refuses is purged one by one.  It lives on the stack of the pass, which holds the decay's lock.
 */
#ifndef EXTENT_PURGE_BATCH_H
#define EXTENT_PURGE_BATCH_H

#include "extent/extent.h"

/* Ranges per call; 0: every extent by itself. */
extern size_t opt_process_madvise_max_batch;

typedef struct purge_batch_s {
	extent_src_t *src;
	ecache_t *retained;
	edata_t *first;  /* chained by their heap links */
	unsigned n;
	uint64_t ntaken; /* extents ever */
	uint64_t ncalls; /* system calls made for them */
} purge_batch_t;

void purge_batch_init(purge_batch_t *b, extent_src_t *src, ecache_t *retained);
/* The extent is taken over; false: nothing is batched. */
bool purge_batch_has_taken(purge_batch_t *b, edata_t *e);
void purge_batch_flush(purge_batch_t *b);

#endif
