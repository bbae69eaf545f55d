/*
 * Serves a large request from adjacent unused extents that lie in different caches. A cache joins
 * only extents of its own, so a free range of addresses may be a row of dirty, muzzy and retained
 * extents. If no single extent is long enough, a dirty one with enough room around it is taken (the
 * longest of those examined in its page class), and the rest is added from both sides. That reuses
 * pages that are in memory already. The neighbours are examined without their caches' locks and may
 * have changed: each is taken under the lock of its cache, one lock at a time, and if the row turns
 * out too short, it is put into the dirty cache. Not for arenas with hooks of the user. Called by
 * pac.c without a lock.
 */
#ifndef EXTENT_JOIN_H
#define EXTENT_JOIN_H

#include "extent/extent.h"

/* Requests below this many bytes are not worth the search. */
#define JOIN_MIN ((size_t)1 << 20)

/* The caches are dirty, muzzy and retained, in this order. */
enum { JOIN_NCACHES = 3 };

/*
 * Returns an active extent of exactly size bytes, part of which was in caches[0] (dirty); NULL if
 * there is none. *added: bytes that were taken from the last cache (retained), by which the caller
 * raises pac_t.mapped. They are counted also if the result is NULL; they are in caches[0] then.
 */
edata_t *join_take(extent_src_t *src, ecache_t *const *caches, size_t size, size_t alignment,
    size_t *added);

#endif
