/*
 * What a page cache returns when the system has no more memory: unused pages, and address space
 * without pages. Invariant: `mapped` falls by the bytes whose pages went. Locks: the mutex of dirty
 * pages, taken here. Callers: arenas.c, tcache.c.
 */
#ifndef EXTENT_PAC_RELIEVE_H
#define EXTENT_PAC_RELIEVE_H

#include "extent/pac_purge.h"

/* Bytes that pac_relieve() can return at most, by the counters; needs no lock. */
size_t pac_relievable(const pac_t *pac);
/*
 * Called when the system has refused memory: returns unused pages and address space to it, the
 * largest extents of each cache first, until `want` bytes are returned or none is left. Returns the
 * number of bytes; 0 with hooks of the user.
 */
size_t pac_relieve(pac_t *pac, size_t want, bool may_wait);

#endif
