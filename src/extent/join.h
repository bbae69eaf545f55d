/*
 * A large request put together from neighbours that lie unused in different caches.
 *
 * A cache coalesces only what lies in it, so a free stretch of address space is a row of dirty, muzzy and
 * retained pieces.  Where no piece alone is long enough, the longest dirty one that has room around it is
 * taken and what is missing is added from both sides: pages that are there already are used again,
 * instead of new ones beside them.
 * What the neighbours are is looked at without their locks and may be wrong by then: each piece is taken by
 * its own cache, under its lock, and a row that turns out too short goes back.  Not for arenas with
 * hooks of the program.
 */
#ifndef EXTENT_JOIN_H
#define EXTENT_JOIN_H

#include "extent/extent.h"

/* Smaller requests are not worth the search. */
#define JOIN_MIN ((size_t)1 << 20)

/* caches: dirty, muzzy, retained. */
enum { JOIN_NCACHES = 3 };

/*
 * An active extent of exactly size bytes that begins in caches[0]; NULL: none.  *added: bytes of it that
 * came from the last cache; those of a row that went back are in caches[0] now, and counted too.
 */
edata_t *join_take(extent_src_t *src, ecache_t *const *caches, size_t size, size_t alignment, size_t *added);

#endif
