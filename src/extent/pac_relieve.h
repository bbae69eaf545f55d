/*
 * What a page cache gives back to the system when that has no more memory, or when too much
 * address space is unused: unused pages, and address space without pages. Invariant: `mapped`,
 * which does not count the latter, falls by the bytes whose pages went. Locks: pac_relieve() takes
 * the mutex of the decay of dirty pages; its caller is inside the gate (os/gate.h: fork waits
 * meanwhile) and holds no lock. Callers: arenas.c, also for pac_shed_hook (pac_step.h); tcache.c
 * asks pac_relievable().
 */
#pragma once

#include "extent/pac_purge.h"

/*
 * Bytes that pac_relieve() can give back at most, by the counters; 0 with hooks of the user. Hot
 * extents are among them: their huge slabs may become empty, and then go whole. Takes no lock.
 */
size_t pac_relievable(const pac_t *pac);
/*
 * Gives unused pages and address space back to the system, the largest extents of each cache first,
 * until at least `want` bytes went, none is left or the system refuses. Of the last extent only
 * what is still wanted goes, rounded up to PAC_GRAIN. Before that all empty huge slabs become
 * retained; with the option retain off they are unmapped, however many bytes are wanted. Returns
 * the number of bytes; 0 with hooks of the user, or if this thread is in a pass of dirty pages.
 * was_busy: NULL: waits until another thread ends such a pass. Otherwise, if a thread (this one
 * too) is in one or holds the mutex, sets *was_busy to true (it is never set to false), and the
 * result is 0, or only the bytes of slabs.
 */
size_t pac_relieve(pac_t *pac, size_t want, bool *was_busy);
