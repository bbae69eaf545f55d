/*
 * Large objects that a program has freed a short while ago: without memory, and shut, so that who reads or writes one faults.
 *
 * In builds with --enable-opt-safety-checks.  A large object that no thread cache takes loses its pages and the access to
 * them, and waits in a ring of the process, oldest first.  When the ring is full, or memory is short, extents are opened and go
 * the way of every free; they read as zero then.  The page map says extent_state_shut meanwhile, by which a
 * second free is found out; to the arena's statistics they are allocated until they go.
 * Only extents of automatic arenas, without guards, of the system's pages.
 * The ring is under the lock "shut" (LEAF); what is taken from it belongs to who took it.  Callers are inside the gate.
 */
#ifndef ARENA_SHUT_H
#define ARENA_SHUT_H

#include "meta/edata.h"

/* Extents that wait at most, and their bytes of address space. */
#define SHUT_MAX 32u
#define SHUT_BYTES ((size_t)256 << 20)

/* e: active, of a large object that is no sample. false: nothing has changed, and the caller frees it. */
bool shut_try_take(edata_t *e);
/* All go. */
void shut_flush(void);

#endif
