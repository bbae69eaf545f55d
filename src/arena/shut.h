/*
 * Shut extents: those of recently freed large objects, kept inaccessible and without memory, so
 * that a read or write after free faults.
 *
 * In builds with --enable-opt-safety-checks. When a large object is freed and no thread cache takes
 * it, its extent loses its pages and the access to them, and enters a ring of the process. When the
 * ring is full, the oldest extents are made accessible and freed; when memory is short, all extents
 * are. Invariant: the page map says extent_state_shut meanwhile, by which a double free is
 * detected; statistics count them as allocated. Only extents without guards, of automatic arenas
 * without hooks of the user, are shut. The ring is under the lock "shut", under which no other is
 * taken; an extent taken from it belongs to the thread that took it.
 * Callers, in imalloc.c, inside the gate (os/gate.h: fork waits meanwhile) without a lock:
 * ifree_in_gate(), and imalloc_relieved() for shut_flush().
 */
#ifndef ARENA_SHUT_H
#define ARENA_SHUT_H

#include "meta/edata.h"

/* Maximum number of extents in the ring, and maximum sum of their sizes in bytes. */
#define SHUT_MAX 32u
#define SHUT_BYTES ((size_t)256 << 20)

/*
 * Takes over the extent of a freed large object (claimed, not sampled): makes room in the ring,
 * shuts the extent and puts it there, or frees it if other threads have filled the ring again. A
 * mark (large_marks.h) that was overwritten ends the process. False: the arena is explicit, hidden
 * or that of oversized requests, or has the user's hooks; the extent, which may be a page longer
 * than the object, has guards or more than SHUT_BYTES / 2 bytes; or the system refuses. The caller
 * frees the object then; its contents may be lost.
 */
bool shut_try_keep(edata_t *e);
/* Makes all extents in the ring accessible and frees them. */
void shut_flush(void);

#endif
