/*
 * Deferred frees: blocks of arenas that were freed at a closed gate, or by a signal handler that
 * interrupted its own thread inside the gate. The next thread inside frees them.
 *
 * Their addresses are kept apart, in tables without a lock. Nothing is written to a block, because
 * it may not be a block or may be free already. An address is stored once, so that a second free is
 * found at once. Called by imalloc.c.
 */
#ifndef THREAD_DEFERRED_H
#define THREAD_DEFERRED_H

#include "util/atomic.h"
#include "util/compiler.h"

extern HIDDEN atomic_b_t deferred_are_there;

/* Whether there may be deferred frees. */
static inline bool
deferred_has_any(void) {
	return unlikely(atomic_load_b(&deferred_are_there, MO_RELAXED));
}

/*
 * Defers the free. 0; EEXIST if it was deferred already; ENOMEM if the tables are full and the
 * system has no memory: the free is lost and the block stays allocated.
 */
int deferred_add(void *ptr);

/*
 * Whether ptr is deferred. Without a lock, so either answer may be given while others defer or take
 * it.
 */
bool deferred_has(const void *ptr);

/*
 * Takes deferred frees out one after the other, inside the gate. All fields are 0 at first; NULL at
 * the end.
 */
typedef struct {
	unsigned table;
	size_t slot;
} deferred_walk_t;
void *deferred_take(deferred_walk_t *walk);

#endif
