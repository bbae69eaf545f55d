/*
 * thread.peak: the greatest growth, in bytes, of the net use of a thread (what it allocated minus
 * what it freed) since the last reset, or if there was none since its start.
 *
 * It is measured at reads, at heartbeats of a thread that has reset it, and, if the bytes that the
 * thread has from arenas have grown by more than a 64th since, at requests past the cache and at
 * those above TCACHE_GRANT_ABOVE bytes that take the slow path. So it may be too small: by what a
 * thread that has reset it allocates between two heartbeats, which is THREAD_EVENT_BYTES, a block,
 * and THREAD_EVENT_PEAK_BYTES of each class. In a thread that has never reset it heartbeats are
 * farther apart and ask for that growth too, so a 64th is not seen either, nor what the cache held
 * at the last measurement and has served since. Only the thread itself calls, inside the gate; no
 * lock. Called by imalloc.c, ctl_thread.c, and at heartbeats.
 */
#pragma once

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
 * Starts a new measurement at the present net use. Flushes cached objects above TCACHE_GRANT_ABOVE
 * (see tcache_make_way); from then on the cache fetches large ones one by one, and the thread looks
 * more often whether a heartbeat is due (has_peak_reset).
 */
void peak_reset(tsd_t *tsd);
