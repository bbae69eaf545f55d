/*
 * thread.peak: the greatest number of bytes that a thread had in use since the last reset. It is
 * measured at heartbeats, at reads, and when large memory comes from an arena; between two
 * measurements a thread may have had up to 64 KiB more, or a few large blocks more that its cache
 * served.
 */
#ifndef THREAD_PEAK_H
#define THREAD_PEAK_H

#include "thread/tsd.h"

/* A hook of the heartbeat; imalloc.c calls it too. */
void peak_note(tsd_t *tsd, uint64_t bytes);
/* The peak in bytes above the net use at the last reset; 0 if that was never exceeded. */
uint64_t peak_read(tsd_t *tsd);
/* Starts a new measurement at the present net use. */
void peak_reset(tsd_t *tsd);

#endif
