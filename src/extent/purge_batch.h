/*
 * Purges many extents with one system call, if the kernel lets a process advise itself
 * (process_madvise). A purging pass collects extents; when the batch is full, and at the end of the
 * pass, they are purged by one call and put into the retained cache. Until then they are active and
 * owned by the pass. If the kernel refuses the call, they are purged one by one; one that cannot be
 * purged becomes retained with its pages. The batch is a local variable of pac_purge_to_locked(),
 * which holds the decay's lock and flushes the batch; pac_retain() adds extents. Not used for
 * arenas with hooks of the user.
 */
#pragma once

#include "extent/extent.h"

typedef struct purge_batch_s {
	extent_src_t *src;
	ecache_t *retained;
	edata_t *first; /* extents in the batch, linked through heap.next */
	unsigned n;     /* number of these extents */
	uint64_t ntaken; /* extents added so far */
	uint64_t ncalls; /* system calls made for them so far; a failed batch call is not counted */
} purge_batch_t;

void purge_batch_init(purge_batch_t *b, extent_src_t *src, ecache_t *retained);
/*
 * Takes over an active extent, and flushes the batch if opt_process_madvise_max_batch are in it.
 * Returns false if batching is off (the option is 0); the caller keeps the extent then.
 */
bool purge_batch_try_add(purge_batch_t *b, edata_t *e);
/* Purges what is in the batch, if anything, and makes it retained; for the end of the pass. */
void purge_batch_flush(purge_batch_t *b);
