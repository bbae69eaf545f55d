/*
 * thread.peak: the greatest growth, in bytes, of the net use of a thread (what it allocated minus
 * what it freed) since the last reset, or if there was none since its start.
 *
 * It is measured at reads, at heartbeats of a thread that has reset it, and, if the bytes that the
 * thread has from arenas have grown by more than a 64th since, at requests past the cache and at
 * those above TCACHE_LARGE_SOME bytes that take the slow path. So it may be too small: by that
 * 64th, and by what a thread allocates between two heartbeats. In a thread that has never reset it
 * heartbeats ask for that growth too, so what the cache held at the last measurement and has served
 * since is not seen. Only the thread itself calls, inside the gate; no lock. Called by imalloc.c,
 * ctl_thread.c, and at heartbeats.
 */
#ifndef THREAD_PEAK_H
#define THREAD_PEAK_H

#include "thread/tsd.h"

/* Measures if the bytes from arenas have grown enough; called at the requests named above. */
void peak_note(tsd_t *tsd);
/* A hook of the heartbeat: measures; in a thread without a reset as peak_note(). */
void peak_heartbeat(tsd_t *tsd, uint64_t bytes);
/*
 * Measures, and returns the peak in bytes above the net use at the last reset (at first: above 0);
 * 0 if that was never exceeded.
 */
uint64_t peak_read(tsd_t *tsd);
/*
 * Starts a new measurement at the present net use. Flushes cached objects above TCACHE_LARGE_SOME
 * (see tcache_make_way); from then on the cache fetches large ones one by one (has_peak_reset).
 */
void peak_reset(tsd_t *tsd);

#endif
