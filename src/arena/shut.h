/*
 * Shut extents: large objects that were freed a short while ago, without memory and without access,
 * so that a read or write after free faults.
 *
 * In builds with --enable-opt-safety-checks. A large object that no thread cache takes loses its
 * pages and the access to them, and waits in a ring of the process, oldest first. When the ring is
 * full, or memory is short, extents are opened and freed as usual; they read as zero then.
 * Invariant: the page map says extent_state_shut meanwhile, by which a double free is detected;
 * statistics count them as allocated. Only extents of automatic arenas on pages of the system,
 * without guards. The ring is under the lock "shut" (LEAF); an extent taken from it belongs to the
 * thread that took it. ifree_in_gate() calls it, inside the gate.
 */
#ifndef ARENA_SHUT_H
#define ARENA_SHUT_H

#include "meta/edata.h"

/* Maximum number of extents in the ring, and of their bytes of address space. */
#define SHUT_MAX 32u
#define SHUT_BYTES ((size_t)256 << 20)

/*
 * e: active, of a large object that is not sampled. Returns false if nothing has changed; the
 * caller frees it then.
 */
bool shut_try_take(edata_t *e);
/* Opens and frees all. */
void shut_flush(void);

#endif
