/*
 * What a thread has freed and nobody gets for a while, to find writes after the free (option lg_san_uaf_align).
 *
 * A small object that its thread frees, and that touches a multiple of 2^lg_san_uaf_align, is filled with a stamp and waits
 * in the thread's quarantine, oldest first, until there are too many or too many bytes, or the thread's cache is flushed.
 * Then every byte must still be the stamp's, else the process ends; and it goes to its slab.  To the thread's counters it
 * is free when it comes in, to the arena's statistics when it goes.  Only the owner comes here, in the gate, no lock held.
 * Samples, and objects of arenas made by hand, whose end is not theirs alone, do not wait.
 * In builds with --enable-uaf-detection, and in debug builds.  With --enable-opt-safety-checks some objects of each small
 * class come here without the option, whatever they touch: see the look in thread/tcache.h.
 */
#ifndef THREAD_QUARANTINE_H
#define THREAD_QUARANTINE_H

#include "thread/tsd_types.h"

/* Objects of a thread that wait at most, and their bytes. */
#define QUARANTINE_MAX 256u
#define QUARANTINE_BYTES ((size_t)512 << 10)

/* -1: none waits. */
extern ssize_t opt_lg_san_uaf_align;

ALWAYS_INLINE bool
quarantine_is_on(void) {
	return config_uaf_detection && unlikely(opt_lg_san_uaf_align >= 0);
}

/*
 * An active object of e, usize bytes, no sample, that the thread frees.  false: it does not wait, and the caller frees it.
 * Ends the process if it waits here already.
 */
bool quarantine_has_taken(tsd_t *tsd, const edata_t *e, void *ptr, size_t usize);
/* Whether it waits here. */
bool quarantine_has(const tsd_t *tsd, const void *ptr);
/* All go. */
void quarantine_flush(tsd_t *tsd);
/* The same at the thread's end. */
void quarantine_delete(tsd_t *tsd);

#endif
