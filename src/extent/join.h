/*
 * Serves a large request from adjacent unused extents that lie in different caches. A cache joins
 * only extents of its own, so a free range of addresses may be a row of dirty, muzzy and retained
 * extents. A dirty extent with enough room around it is taken (of the highest page class, up to the
 * request's own, that has one; there the longest of those examined), and what it lacks is cut from
 * its neighbours on both sides. That reuses pages that are in memory already. The neighbours are
 * examined without their caches' locks and may have changed: each is taken under the lock of its
 * cache, one lock at a time, and if one is gone, what was joined so far becomes one dirty extent.
 * In an arena with hooks of the user it finds nothing. Called by pac.c, without a lock, if no
 * single dirty or muzzy extent fits well; retained extents and new address space come after this.
 */
#pragma once

#include "extent/extent.h"

/* Requests below this many bytes are not worth the search: join_take() returns NULL for them. */
#define JOIN_MIN ((size_t)1 << 20)

/* The caches are dirty, muzzy and retained, in this order. */
enum { JOIN_NCACHES = 3 };

/*
 * Returns an active, committed extent of exactly size bytes (a multiple of PAGE), part of which was
 * in caches[0] (dirty). NULL: there is none, size is below JOIN_MIN, or the arena has hooks of the
 * user. Its contents are undefined unless is_zeroed is set. alignment: of its address, a power of
 * two, PAGE or more. *added: bytes that were taken from the last cache (retained), by which the
 * caller raises pac_t.mapped. They are counted also if the result is NULL; they are in caches[0]
 * then.
 */
edata_t *join_take(extent_src_t *src, ecache_t *const *caches, size_t size, size_t alignment,
    size_t *added);
