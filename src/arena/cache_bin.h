/*
 * One bin of a thread cache: a stack of pointers to free objects of one class. Those of a large
 * class are pointers to the descriptors of the objects.
 *
 * The stack grows towards lower addresses: *head is the next object to hand out. Pops stop at
 * `empty`, which is the bottom or, between two steps of upkeep, a mark above it: if the mark is
 * still there at the next step, no object below it was used. Pushes stop at `full`. countdown
 * counts pops, never pushes, until the slow path is due, so that a tight loop of malloc and free
 * reaches it too. Invariant: an all-zero bin is empty for pops and full for pushes. Only the owning
 * thread calls these functions, from the fast path (imalloc.h), imalloc.c, jemalloc.c and tcache.c,
 * so there is no lock. A forked child may find the owner at any instruction of them: at each, all
 * slots from `head` to the bottom hold free objects, but for those that thread/claim.h took.
 */
#ifndef ARENA_CACHE_BIN_H
#define ARENA_CACHE_BIN_H

#include "meta/sc.h"
#include "util/assert.h"
#include "util/compiler.h"

typedef struct cache_bin_s {
	void **head;          /* the next object to pop */
	void **empty;         /* pops stop when head is here */
	void **full;          /* pushes stop when head is here: the lowest slot of the array */
	uint32_t countdown;   /* pops until the slow path is due */
	uint32_t size;        /* size of the class in bytes; 0: the bin never holds anything */
} cache_bin_t;
cassert(sizeof(cache_bin_t) == SC_BIN_STRIDE);

/* An atomic store, because statistics read the cursor of other threads' bins. */
ALWAYS_INLINE void
cache_bin_set_head(cache_bin_t *b, void **head) {
	__atomic_store_n(&b->head, head, __ATOMIC_RELAXED);
}

/*
 * Moves the cursor, which is at head, by n slots; on machines that add to memory by one
 * instruction without a load of the new value into a register.
 */
ALWAYS_INLINE void
cache_bin_move_head(cache_bin_t *b, void **head, ptrdiff_t n) {
	if (COMPILER_ADDS_TO_MEMORY) {
		OPAQUE_MEM(b->head);
		b->head += n;
	} else {
		cache_bin_set_head(b, head + n);
	}
}

/*
 * Pops an object. Returns false if the bin is empty (nothing changed), or if the slow path is due:
 * countdown reached 0, the pop is counted but nothing was taken. The order of the two tests means
 * that the all-zero bin of the boot block is never written.
 */
ALWAYS_INLINE bool
cache_bin_try_pop(cache_bin_t *b, void **p) {
	void **head = b->head;
	if (unlikely(head == b->empty)) {
		return false;
	}
	if (unlikely(--b->countdown == 0)) {
		return false;
	}
	cache_bin_move_head(b, head, 1);
	*p = *head;
	return true;
}

/* Pops an object that is counted already. Returns false if the bin is empty. */
ALWAYS_INLINE bool
cache_bin_try_take(cache_bin_t *b, void **p) {
	void **head = b->head;
	if (unlikely(head == b->empty)) {
		return false;
	}
	*p = *head;
	cache_bin_set_head(b, head + 1);
	return true;
}

/* Pushes an object. Returns false if the bin is full; nothing changed then. */
ALWAYS_INLINE bool
cache_bin_try_push(cache_bin_t *b, void *p) {
	void **head = b->head;
	if (unlikely(head == b->full)) {
		return false;
	}
	head[-1] = p;
	__atomic_signal_fence(__ATOMIC_RELEASE);
	cache_bin_move_head(b, head, -1);
	return true;
}

#endif
