/*
 * Serves a large request from adjacent unused pieces that lie in different caches.
 * A cache joins only extents of its own, so a free range of addresses may be a row of dirty, muzzy
 * and retained pieces. If no single piece is long enough, the longest dirty one with enough room
 * around it is taken, and the rest is added from both sides. That reuses pages that are in memory
 * already. The neighbours are examined without their locks and may have changed: each piece is
 * taken by its own cache under its lock, and a row that turns out too short is put back. Not for
 * arenas with hooks of the user. Called by pac.c.
 */
#ifndef EXTENT_JOIN_H
#define EXTENT_JOIN_H

#include "extent/extent.h"

/* Requests below this many bytes are not worth the search. */
#define JOIN_MIN ((size_t)1 << 20)

/* The caches are dirty, muzzy and retained, in this order. */
enum { JOIN_NCACHES = 3 };

/*
 * Returns an active extent of exactly size bytes that begins in caches[0]; NULL if there is none.
 * *added is the number of bytes that came from the last cache, also of a row that was put back:
 * these bytes are in caches[0] then.
 */
edata_t *join_take(extent_src_t *src, ecache_t *const *caches, size_t size, size_t alignment,
    size_t *added);

#endif
