/*
 * One bin of a thread cache: a stack of pointers to free objects of one class. In a bin of a large
 * class a pointer does not point to the object but to its descriptor (edata_t).
 *
 * The stack grows towards lower addresses: *head is the next object to hand out. Pops stop at
 * `empty`. That is the bottom (the high end of the array) or a mark between the top and the bottom,
 * which a step of upkeep (tcache.c) sets. If the mark is still there at the next step, no object
 * between the mark and the bottom was used in that time. A pop that meets the mark takes the slow
 * path (tcache.c), which removes it. Pushes stop at `full`, the lowest slot. In builds with safety
 * checks tcache.c sometimes sets `full`, or `empty` and `full`, to the place of head, so that a
 * push or pop takes the slow path. countdown counts pops until the slow path is due. A push does
 * not count back, so that a tight loop of malloc and free reaches the slow path too.
 * Invariant: an all-zero bin is empty for pops and full for pushes. One thread at a time calls
 * these functions for a bin, so there is no lock: the owner of the cache, or the thread that names
 * it if it is an explicit one (tcache.create). Callers are the fast path (imalloc.h), imalloc.c,
 * jemalloc.c and tcache.c. Another thread may take objects below the top of a stack
 * (thread/claim.h); it writes nothing that these functions read or write. A fork in another thread
 * copies the bin as it is between any two instructions of these functions. So after each
 * instruction all slots from `head` to the bottom hold free objects, except those that were taken
 * that way.
 */
#pragma once

#include "meta/sc.h"
#include "util/compiler.h"

typedef struct cache_bin_s {
	void **head;          /* the next object to pop */
	void **empty;         /* pops stop when head is here: the bottom, or a mark above it */
	void **full;          /* pushes stop when head is here: the lowest slot */
	uint32_t countdown;   /* pops until the slow path is due */
	uint32_t size;        /* size of the class in bytes; 0: the bin never holds anything */
} cache_bin_t;
cassert(sizeof(cache_bin_t) == SC_BIN_STRIDE);

/* Stores the cursor as a whole, because statistics read the cursors of other threads' bins. */
ALWAYS_INLINE void
cache_bin_set_head(cache_bin_t *b, void **head) {
	__atomic_store_n(&b->head, head, __ATOMIC_RELAXED);
}

/*
 * Moves the cursor, which is at head, by n slots. A processor that can add to a word in memory does
 * so by one instruction, which needs no register for the new value. It stores the aligned word as a
 * whole too, so readers in other threads see the old cursor or the new one.
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
 * Pops an object. Returns false if head is at `empty` (nothing changed), or the slow path is due:
 * countdown reached 0, the pop is counted but nothing was taken. The slow path must then start the
 * next countdown, because the next pop would lower a countdown of 0 to 2^32 - 1. The order of the
 * two tests means that the bins of the boot block (os/tls.h), which are all zero and read-only and
 * serve threads without a cache, are never written.
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

/*
 * Pops an object that is counted already. Returns false, and changes nothing, if head is at
 * `empty`.
 */
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

/* Pushes an object. Returns false, and changes nothing, if head is at `full`. */
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
