/*
 * What a page cache returns when the system has no more memory, or too much address space is
 * without use: unused pages, and address space without pages. Invariant: `mapped` falls by the
 * bytes whose pages went. Locks: the mutex of the decay of dirty pages, taken here; the caller is
 * inside the gate (os/gate.h: fork waits meanwhile) and holds no lock. Callers: arenas.c, also for
 * pac_shed_hook (pac_step.h); tcache.c asks pac_relievable().
 */
#ifndef EXTENT_PAC_RELIEVE_H
#define EXTENT_PAC_RELIEVE_H

#include "extent/pac_purge.h"

/* Bytes that pac_relieve() can return at most, by the counters; 0: hooks of the user. No lock. */
size_t pac_relievable(const pac_t *pac);
/*
 * Returns unused pages and address space to the system, the largest extents of each cache first,
 * until `want` bytes (rounded up to PAC_GRAIN) are returned, none is left or the system refuses.
 * Returns the number of bytes; 0 with hooks of the user, or if this thread is in a pass of dirty
 * pages. was_busy: NULL: waits until another thread ends such a pass. Otherwise, if a thread is in
 * one or holds the mutex, returns 0 and sets *was_busy to true.
 */
size_t pac_relieve(pac_t *pac, size_t want, bool *was_busy);

#endif
