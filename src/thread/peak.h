/*
 * The most memory a thread held at once, net of what it freed, since its last reset: looked at at each
 * heartbeat and at each question.  Only the thread itself asks.
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
