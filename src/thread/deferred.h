/*
 * Deferred frees, of blocks of arenas (not of the shelter). A free is deferred if the gate is
 * closed, because another thread forks or holds it by gate_try_stop(), or for ever in a lost child
 * (gate_is_lost()); or if it comes from a signal handler that interrupted its own thread inside the
 * gate. It is carried out inside the gate by the next thread that takes the slow path of malloc or
 * free, or that calls mallctl to reset or destroy an arena or to start or stop the prof log.
 *
 * The addresses are kept in hash tables of the process, without a lock. Nothing is written to a
 * block, because the pointer may be wrong or the block free already. An address is stored once, so
 * a second free is detected at once; if a thread takes addresses out just then, the second free is
 * stored, and detected when it is carried out. Called by imalloc.c, by icheck.c (deferred_has) and
 * by tsd.c (deferred_remind).
 */
#pragma once

#include "util/atomic.h"
#include "util/compiler.h"

extern HIDDEN atomic_b_t deferred_may_be;

/*
 * Whether there may be deferred frees, or in a forked child threads whose data are to be freed
 * (tsd_try_end_absent). True after deferred_add(), and after deferred_remind() for such threads.
 * This read is relaxed: if it misses a change, frees are carried out later, and a double free may
 * be found later. The store is ordered with deferred_take_all() (deferred.c).
 */
static inline bool
deferred_has_any(void) {
	return unlikely(atomic_load_b(&deferred_may_be, MO_RELAXED));
}

static inline void
deferred_remind(void) {
	atomic_store_b(&deferred_may_be, true, MO_SEQ_CST);
}

/*
 * Defers the free. 0; EEXIST if it was deferred already; ENOMEM if all tables (their number is
 * limited) are full at its hash, or the next one cannot be mapped: the free is lost and the block
 * stays allocated.
 */
int deferred_add(void *ptr);

/*
 * Whether the free of ptr is deferred. Without a lock: while other threads defer ptr or take any
 * addresses out, either answer is possible.
 */
bool deferred_has(const void *ptr);

/*
 * Takes all addresses out and calls fn(ptr, ctx) for each. Inside the gate; several threads may do
 * it at once.
 */
void deferred_take_all(void (*fn)(void *ptr, void *ctx), void *ctx);
