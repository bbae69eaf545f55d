/*
 * thread.peak: the greatest number of bytes that a thread had in use since the last reset.
 *
 * It is measured at reads, at heartbeats of a thread that has reset it, and when large memory comes
 * from an arena if the bytes that the thread has from arenas have grown by more than a 64th since.
 * So it may be too small: by that 64th, and by what a thread allocates between two heartbeats. In a
 * thread that has never reset it heartbeats ask for that growth too, so what the cache held at the
 * last measurement and has served since is not seen. Only the thread itself calls, inside the gate;
 * no lock.
 */
#ifndef THREAD_PEAK_H
#define THREAD_PEAK_H

#include "thread/tsd.h"

/*
 * Measures if the bytes from arenas have grown enough; called when large memory comes from an
 * arena.
 */
void peak_note(tsd_t *tsd);
/* A hook of the heartbeat: measures; in a thread without a reset as peak_note(). */
void peak_heartbeat(tsd_t *tsd, uint64_t bytes);
/*
 * Measures, and returns the peak in bytes above the net use at the last reset; 0 if that was never
 * exceeded.
 */
uint64_t peak_read(tsd_t *tsd);
/* Starts a new measurement at the present net use. */
void peak_reset(tsd_t *tsd);

#endif
