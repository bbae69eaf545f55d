/*
 * One bin of a thread cache: a stack of pointers to free objects of one class.
 *
 * The stack grows down: *head is the next object to hand out.  Popping stops at `empty`, which is
 * the bottom or, between two looks of the cache's upkeep, a mark above it (to learn how deep the
 * stack was used); pushing stops at `full`.  countdown counts pops until something is due; it never
 * counts pushes, so a tight malloc/free loop reaches it too.
 * An all-zero bin reads empty for pop and full for push.
 * Owned by one thread.
 */
#ifndef ARENA_CACHE_BIN_H
#define ARENA_CACHE_BIN_H

#include "meta/sc.h"
#include "util/assert.h"
#include "util/compiler.h"

typedef struct cache_bin_s {
	void **head;
	void **empty;
	void **full;
	uint32_t countdown;
	uint32_t size;        /* of its class, in bytes; 0: nothing is ever in it */
} cache_bin_t;
cassert(sizeof(cache_bin_t) == SC_BIN_STRIDE);

/* Statistics look at the cursor of other threads' bins. */
ALWAYS_INLINE void
cache_bin_set_head(cache_bin_t *b, void **head) {
	__atomic_store_n(&b->head, head, __ATOMIC_RELAXED);
}

/*
 * false: empty (nothing changed), or something is due (countdown reached 0; the pop has been counted
 * but nothing was taken).  The order makes the all-zero bin of the boot block read-only.
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
	cache_bin_set_head(b, head + 1);
	*p = *head;
	return true;
}

ALWAYS_INLINE bool
cache_bin_try_push(cache_bin_t *b, void *p) {
	void **head = b->head;
	if (unlikely(head == b->full)) {
		return false;
	}
	*--head = p;
	cache_bin_set_head(b, head);
	return true;
}

#endif
