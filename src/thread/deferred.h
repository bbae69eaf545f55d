/*
 * Frees that wait: blocks of arenas that were freed at a closed gate, or by a signal handler that
 * interrupted its own thread inside.  The next thread that is inside frees them.
 *
 * Their addresses are kept apart, in tables without a lock; nothing is written into a block, which may be
 * no block, or free already.  One address is kept once, so that a second free of it is found at once.
 * Callers: imalloc.c.
 */
#ifndef THREAD_DEFERRED_H
#define THREAD_DEFERRED_H

#include "util/atomic.h"
#include "util/compiler.h"

extern HIDDEN atomic_b_t deferred_are_there;

/* Perhaps some wait. */
static inline bool
deferred_has_any(void) {
	return unlikely(atomic_load_b(&deferred_are_there, MO_RELAXED));
}

/*
 * 0: it waits.  EEXIST: it did already.  ENOMEM: it is lost, its table being full and the system without
 * memory; the block stays taken.
 */
int deferred_add(void *ptr);

/* It waits; without a lock, so who asks for a block that others free meanwhile may be told either. */
bool deferred_has(const void *ptr);

/* Inside the gate: takes them out one after the other; all zero at first, NULL: no more. */
typedef struct {
	unsigned table;
	size_t slot;
} deferred_walk_t;
void *deferred_take(deferred_walk_t *walk);

#endif
