/*
 * Objects that a thread has freed and that are not reused for a while, to detect writes after the
 * free (option lg_san_uaf_align).
 *
 * A small object that its thread frees, and that covers a multiple of 2^lg_san_uaf_align, is filled
 * with a stamp and waits in the thread's quarantine, oldest first, until there are too many objects
 * or bytes, or the thread's cache is flushed. Then every byte must still have the stamp, otherwise
 * the process ends; the object returns to its slab. The thread's counters count it as free when it
 * comes in, the arena's statistics when it leaves. Only the owner calls, inside the gate, without a
 * lock. Samples, and objects of arenas made by the user, do not wait. In builds with
 * --enable-uaf-detection and debug builds. With --enable-opt-safety-checks some objects of each
 * small class come here without the option (thread/tcache.h).
 */
#ifndef THREAD_QUARANTINE_H
#define THREAD_QUARANTINE_H

#include "thread/tsd_types.h"

/* Most objects in a thread's quarantine, and their bytes. */
#define QUARANTINE_MAX 256u
#define QUARANTINE_BYTES ((size_t)512 << 10)

/* -1: no quarantine. */
extern ssize_t opt_lg_san_uaf_align;

ALWAYS_INLINE bool
quarantine_is_on(void) {
	return config_uaf_detection && unlikely(opt_lg_san_uaf_align >= 0);
}

/*
 * Puts an object into quarantine: one in use, of slab e, usize bytes, not a sample, freed by its
 * owner. Returns false if it does not wait; the caller then frees it. Ends the process if it waits
 * here already.
 */
bool quarantine_try_add(tsd_t *tsd, const edata_t *e, void *ptr, size_t usize);
/* Whether ptr is in quarantine. */
bool quarantine_has(const tsd_t *tsd, const void *ptr);
/* Returns all objects to their slabs. */
void quarantine_flush(tsd_t *tsd);
/* Flushes and frees the quarantine at the end of the thread. */
void quarantine_delete(tsd_t *tsd);

#endif
