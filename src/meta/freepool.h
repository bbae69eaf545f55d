/*
 * Memory for the allocator's own structures that is freed and reused; base never takes memory back.
 * Used for thread caches and tsds, bitmaps of large slabs, stocks, buffers of statistics and of
 * dumps, and what of the profiler does not lie in the region (meta/region.h).
 * Sizes up to 32 KiB are rounded to a power of two or one and a half times that, and freed pieces
 * are kept in one list per class; larger pieces are mapped and unmapped. The caller remembers the
 * size. One lock for all, taken inside the gate (os/gate.h: fork waits meanwhile) or at boot; below
 * it only base's lock is taken. Called by thread/, arena/, recs.c, the profiler and the statistics
 * (stats.c, ctl/).
 */
#pragma once

#include "util/compiler.h"

/* Called at boot, before the first use. */
void meta_boot(void);

/*
 * Returns size bytes (> 0), zeroed, aligned to 16 (to 64 from 64 bytes on, to a page above 32 KiB);
 * NULL if there is no memory.
 */
void *meta_alloc(size_t size);
/* size is what was passed to meta_alloc(). ptr may be NULL. */
void meta_free(void *ptr, size_t size);

/* Bytes that meta_alloc() would use for size; below size if that overflows. */
size_t meta_good_size(size_t size);

/* Bytes that meta_alloc() has handed out and that are not freed, with rounding. */
size_t meta_in_use(void);
/* Bytes of large pieces, which are mapped directly and belong to no base. */
size_t meta_mapped(void);
