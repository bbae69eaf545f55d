/*
 * Shut extents: those of recently freed large objects, kept inaccessible and without memory, so
 * that a read or write after free faults.
 *
 * Only builds with --enable-opt-safety-checks shut extents; in others the ring stays empty. When a
 * large object is freed and no thread cache takes it, its extent loses its pages and the access to
 * them, and enters a ring of the process. When the ring is full, the oldest extents are made
 * accessible and freed; when memory is short, all extents are. One that the system does not make
 * accessible again stays shut for ever, outside the ring. Invariant: the page map says
 * extent_state_shut meanwhile, by which a double free is detected; statistics of the arena count
 * them as allocated. The comment of shut_try_keep() says which are shut. No lock: the places of the
 * ring are atomic, and an extent taken out belongs to the thread that took it. Callers, in
 * imalloc.c, inside the gate (os/gate.h: fork waits meanwhile) without a lock: ifree_in_gate(), and
 * imalloc_relieved() for shut_flush().
 */
#pragma once

#include "meta/edata.h"

/*
 * Maximum number of extents in the ring, and of the sum of their sizes in bytes. Threads that shut
 * extents at once may exceed it meanwhile, and may leave the sum lower than it needs to be.
 */
#define SHUT_MAX 32u
#define SHUT_BYTES ((size_t)256 << 20)

/*
 * Takes over the extent of a freed large object (claimed by arena_large_try_claim(), not sampled).
 * True: the caller has nothing more to do. The extent is shut and in the ring, in which room was
 * made.
 * False: the caller frees the object. Either the arena is not automatic (explicit, hidden, that of
 * oversized requests) or has the user's hooks; or the extent has guards or over SHUT_BYTES / 2
 * bytes (it may be a page longer than the object); or the system refuses, and then the contents may
 * be lost.
 */
bool shut_try_keep(edata_t *e);
/* Empties the ring: makes its extents accessible and frees them, if the system permits. */
void shut_flush(void);
