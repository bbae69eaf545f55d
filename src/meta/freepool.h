/*
 * Recycled memory for the allocator's own structures: what comes and goes (thread caches, books of
 * the profiler, bitmaps of large slabs), as opposed to base, which only grows.
 *
 * Sizes up to 32 KiB are rounded to a power of two or one and a half times that and kept on one free
 * list per class; larger ones are mapped and unmapped.  The caller remembers the size.
 * One leaf lock; below it only base's.
 */
#ifndef META_FREEPOOL_H
#define META_FREEPOOL_H

#include "util/compiler.h"

/* Once, before the first use. */
void meta_boot(void);

/* size bytes (> 0), zeroed, aligned to 16 (to 64 from 64 bytes on); NULL: no memory. */
void *meta_alloc(size_t size);
/* size: as it was asked for. ptr may be NULL. */
void meta_free(void *ptr, size_t size);

/* Bytes that meta_alloc would really take for size. */
size_t meta_good_size(size_t size);

/* Bytes in use, as taken (rounded sizes). */
size_t meta_in_use(void);
/* Bytes mapped straight from the system for large pieces: not part of any base. */
size_t meta_mapped(void);

#endif
