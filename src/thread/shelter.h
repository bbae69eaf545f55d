/*
 * Memory for threads that must not wait while another thread forks, and for signal handlers that
 * interrupted their own thread inside the gate.
 *
 * The forking thread may be waiting for a lock (stdio's, say) whose holder wants memory; if that
 * holder waited for the fork, both would wait for ever.  So at a closed gate requests are served from
 * here.  There is no lock: who is inside the gate may use the shelter beside who is outside, a handler
 * beside the thread that it has interrupted, and neither ever waits for the other.  A lock that was taken
 * on both sides of the gate would be one that fork's prepare handler waits for without knowing it.
 *
 * Blocks are regions of slabs, sizes are the classes of all other blocks, and all that is known of a
 * block is in the descriptor of its slab, found through the page map: nothing lies in the blocks.  Free
 * regions are zero; one that is not when it is handed out, or when its slab is empty, was written to after
 * its free.  Freed large blocks have no access.
 * A forked child goes on with the shelter as it is: each change is one atomic word.
 * Callers: imalloc.c at a closed gate, in handlers, and wherever such a block is freed or resized;
 * jemalloc_fork.c.
 */
#ifndef THREAD_SHELTER_H
#define THREAD_SHELTER_H

#include "meta/emap.h"
#include "util/compiler.h"

/* NULL: no memory, or too large. Zeroed. */
void *shelter_malloc(size_t size, size_t alignment);

static inline bool
shelter_owns(uint64_t elem) {
	return elem_state(elem) == extent_state_shelter;
}

/* Of the block's class; ptr: owned. 0: no block that is in use begins there. */
size_t shelter_usize(const void *ptr);
/* At any time, inside the gate or at it, also in handlers. What is no live block ends the process. */
void shelter_free(void *ptr);
/* The gate is open again: pages of slabs without a block go back to the system. */
void shelter_trim(void);

#endif
