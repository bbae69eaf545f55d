/*
 * The memory of the profiler's tables: sites, counts, records of threads, of samples and of loaded
 * objects, labels, bucket arrays, the ring of the last hour's figures. It is apart from other
 * memory of the allocator so that another program can read the tables (meta/image.h), and so that
 * they can lie in a file, the box. Pieces are recycled by size class; the caller remembers the
 * size. One lock, `region`, under which no other is taken; it is taken inside the gate (os/gate.h:
 * fork waits meanwhile). Called by prof/sites/, meta/recs, unwind/module_history and prof_course.c
 * for memory, by prof_box.c and jemalloc_fork.c to move and copy it, and by prof_course.c,
 * prof/control/ and arena/inspect for its sizes.
 */
#pragma once

#include "meta/image.h"
#include "util/compiler.h"

/* Bytes of the smallest box that can be opened. */
#define REGION_BOX_MIN ((size_t)1 << 20)

/*
 * The root of the tables, which is at the start of the first part and never moves; maps that part
 * if there is none. NULL without memory.
 */
image_root_t *region_root(void);

/*
 * Returns size bytes (> 0), zeroed, aligned to 16 (to 64 from 64 bytes on); NULL if there is no
 * memory, a box is full, or size is above 64 MiB.
 */
void *region_alloc(size_t size);
/* size is what was passed to region_alloc(). ptr may be NULL. */
void region_free(void *ptr, size_t size);
/* Bytes that region_alloc() uses for size, which is at most 64 MiB. */
size_t region_good_size(size_t size);

/*
 * Puts an object at the front of a list whose head is a field of the root; the object's first word
 * becomes the address of the next one. By compare-and-swap, so no lock is needed.
 */
void region_list_push(uint64_t *list, void *object);

/*
 * region_alloc() for the few objects that stand for all that have no room in a full box: it may use
 * the last bytes of the box.
 */
void *region_alloc_last(size_t size);

/*
 * A move has three steps, by one thread, so that others wait for the second one only. The first
 * maps what the move needs and has pages made for the tables as they are now; `bytes` is the size
 * of the file. 0; or ENOMEM: then region_to_box() must not be called. region_ahead_private() is the
 * first step of the way back.
 */
int region_ahead_box(int fd, size_t bytes);
void region_ahead_private(void);
/*
 * Moves all that is and will be handed out into the file, which is mapped at the same addresses. 0;
 * ENOSPC if more is in use already, or another errno value, and nothing is moved (abort() if the
 * system then refuses to undo it). The caller has closed the gate, holds the lock of dumps, and
 * keeps module_history from writing. The root exists.
 */
int region_to_box(int fd);
/*
 * Moves it back into private memory. 0; or an errno value: the box stays, though some parts may be
 * private memory already. To be called under the same conditions.
 */
int region_to_private(void);
/*
 * The third step, also when a move failed: unmaps what is not needed any more. From the first step
 * to this one, and while there is a box, silent children are looked for (gate_watch()).
 */
void region_ahead_end(void);
/* Bytes of the box; 0: there is none. */
size_t region_box_bytes(void);
/* Bytes of the box divided by `parts`; without a box, REGION_BOX_MIN divided by it. */
static inline size_t
region_box_part(unsigned parts) {
	size_t box = region_box_bytes();
	return (box != 0 ? box : REGION_BOX_MIN) / parts;
}

/*
 * The handlers of fork(), called with the gate closed; they do nothing if there is no box and
 * nothing is mapped for one. A box is shared memory: the child gets a copy, made by the parent
 * before the fork, so that the two do not write into the same tables; without memory for that the
 * child ends by abort().
 */
void region_prefork(void);
void region_postfork_parent(void);
void region_postfork_child(void);

/*
 * Bytes in use, with rounding; bytes of the pages of which anything was ever handed out, which may
 * be in memory; bytes of all parts.
 */
size_t region_in_use(void);
size_t region_resident(void);
size_t region_mapped(void);
