/*
 * The fork fallback heap ("shelter"): memory for threads that must not wait while another thread
 * forks, and for signal handlers that interrupted their own thread inside the gate.
 *
 * The forking thread may wait for a lock (for example of stdio) whose holder needs memory. If that
 * holder waited for the fork, both would wait for ever. So at a closed gate requests are served
 * from here. There is no lock: a thread inside the gate may use the shelter at the same time as one
 * outside, a handler at the same time as the thread it interrupted, and none waits for another.
 * With a lock that is taken on both sides of the gate, fork's prepare handler would wait for that
 * lock without knowing it.
 *
 * Blocks are regions of slabs, and sizes are those of the usual classes. All data about a block is
 * in the header of its slab, found through the page map; nothing is stored in the blocks. Free
 * regions are zero: if one is not zero when it is handed out, or when its empty slab is purged, it
 * was written to after its free. Freed large blocks are inaccessible. A forked child continues with
 * the shelter as it is, because each change is of one atomic word. Called by imalloc.c at a closed
 * gate, in handlers, and where such a block is freed or resized, and by jemalloc_fork.c.
 */
#ifndef THREAD_SHELTER_H
#define THREAD_SHELTER_H

#include "meta/emap.h"
#include "util/compiler.h"

/* Returns zeroed memory, or NULL without memory or if the size is too large. */
void *shelter_malloc(size_t size, size_t alignment);

/* Whether a page-map element is that of a block of the shelter. */
static inline bool
shelter_owns(uint64_t elem) {
	return elem_state(elem) == extent_state_shelter;
}

/* Whether a block of the shelter that is in use begins at ptr. */
bool shelter_is_live(const void *ptr);
/* Usable size of the block at ptr, which the shelter owns; 0 if no block in use begins there. */
size_t shelter_usize(const void *ptr);
/*
 * Frees a block of the shelter; may be called inside the gate, at the closed gate and in handlers.
 * Ends the process if ptr is not a block in use.
 */
void shelter_free(void *ptr);
/* Called when the gate is open again: returns the pages of slabs without a block to the system. */
void shelter_trim(void);

#endif
