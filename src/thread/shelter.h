/*
 * The shelter, or fork fallback heap: memory for threads that must not wait at a closed gate
 * (os/gate.h), and for signal handlers that interrupted their own thread inside the gate. The gate
 * is closed while another thread forks or has stopped the others; in a lost child it stays closed.
 *
 * The forking thread may wait for a lock (for example of stdio) whose holder needs memory. If that
 * holder waited for the fork, both would wait for ever. So at a closed gate requests are served
 * from here. There is no lock: a thread inside the gate may free a block here at the same time as a
 * thread outside uses the shelter, a handler may use it at the same time as the thread it
 * interrupted, and none waits for another. A mutex would not do: a thread outside the gate could
 * hold it, and the fork handler, which waits only for threads inside, would not know that.
 *
 * Blocks are regions of slabs, and usable sizes are the usual ones (sz.h); a large block is a slab
 * of one region. What is needed to find and free a block is in the header of its slab, which is
 * found through the page map; no links are in the blocks. A mark, in every build, follows each
 * large block, and hardened builds put a canary, with the requested size, behind the bytes of small
 * ones; a free ends the process if they have changed. A free zeroes a small block. The process ends
 * if a region is not zero when it is handed out again, or if a slab without a block is not zero
 * when it is purged: the program has written to a freed block. Of freed large blocks of up to 8 MiB
 * each, the last eight stay mapped without access; others are unmapped. A forked child continues
 * with the shelter as it is: a block or slab that another thread was changing at the fork stays
 * unused in the child.
 *
 * Called by imalloc.c (requests at a closed gate and in handlers; each free of such a block),
 * irealloc.c and icheck.c; shelter_trim() by jemalloc_fork.c after a fork in the parent, and by
 * prof_box.c after it has opened the gate again.
 */
#pragma once

#include "meta/emap.h"
#include "util/compiler.h"

/*
 * Returns zeroed memory of at least size bytes; alignment: a power of two, in bytes, or 0 for the
 * natural one. NULL without memory, or if the size or alignment is above 2^40 bytes.
 */
void *shelter_malloc(size_t size, size_t alignment);

/* Whether a page-map element is that of a block of the shelter. */
static inline bool
shelter_owns(uint64_t elem) {
	return elem_state(elem) == extent_state_shelter;
}

/*
 * Whether a block of the shelter that is in use begins at ptr. Ends the process, as shelter_usize()
 * and shelter_free() do, if the mark in front of the slab's regions has changed.
 */
bool shelter_is_live(const void *ptr);
/*
 * Usable size of the block at ptr, which the shelter owns; 0 if no block in use begins there
 * (shelter_is_live() tells). With canaries it is the requested size of a small block, which may be
 * 0 too.
 */
size_t shelter_usize(const void *ptr);
/*
 * Frees a block of the shelter; may be called inside the gate, at the closed gate and in handlers.
 * Ends the process if ptr is not a block in use, or marks or canaries around it have changed.
 */
void shelter_free(void *ptr);
/*
 * Returns the pages of slabs without a block to the system. Called outside the gate, after a fork
 * or a stop of the other threads has ended. At that time another fork may have the gate closed. Its
 * child finds each slab either unchanged or claimed, because one atomic step claims a slab for
 * this; the child never uses a claimed slab.
 */
void shelter_trim(void);
