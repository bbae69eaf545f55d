/*
 * thread.peak: the most bytes that a thread had in use at once, since the last reset, as seen at
 * heartbeats and reads; in between it may have been up to 64 KiB, or a few large requests, more.
 */
#ifndef THREAD_PEAK_H
#define THREAD_PEAK_H

#include "thread/tsd.h"

/* Among the hooks of the heartbeat. */
void peak_heartbeat(tsd_t *tsd, uint64_t bytes);
/* Bytes above the last reset; 0 if it never got there again. */
uint64_t peak_read(tsd_t *tsd);
void peak_reset(tsd_t *tsd);

#endif
