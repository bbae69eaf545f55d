/*
 * What a page cache returns when the system has no more memory: unused pages, and address space
 * without pages. Invariant: `mapped` falls by the bytes whose pages went. Locks: the mutex of the
 * decay of dirty pages, taken here; the caller is inside the gate (os/gate.h: fork waits meanwhile)
 * and holds no lock. Callers: arenas.c, also for pac_shed_hook (pac_step.h); tcache.c asks
 * pac_relievable().
 */
#ifndef EXTENT_PAC_RELIEVE_H
#define EXTENT_PAC_RELIEVE_H

#include "extent/pac_purge.h"

/* Bytes that pac_relieve() can return at most, by the counters; needs no lock. */
size_t pac_relievable(const pac_t *pac);
/*
 * Called when the system has refused memory or when there is too much address space without use:
 * returns unused pages and address space to the system, the largest extents of each cache first,
 * until `want` bytes are returned, none is left or the system refuses. Returns the number of bytes;
 * 0 with hooks of the user. may_wait: waits until another thread ends its pass of dirty pages.
 * Otherwise returns 0 if another thread is in one, or holds the mutex.
 */
size_t pac_relieve(pac_t *pac, size_t want, bool may_wait);

#endif
