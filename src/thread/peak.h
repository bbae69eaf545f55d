/*
 * The most memory a thread held at once, net of what it freed, since its last reset: looked at at each
 * heartbeat and at each question.  Only the thread itself asks.
 */
#ifndef THREAD_PEAK_H
#define THREAD_PEAK_H

#include "thread/tsd.h"

/* Among the hooks of the heartbeat.  A thread that frees what others allocated can be below its mark. */
static inline void
peak_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	int64_t net = (int64_t)(tsd_allocated(tsd) - tsd_deallocated(tsd) - tsd->peak_base);
	if (net > 0 && (uint64_t)net > tsd->peak_max) {
		tsd->peak_max = (uint64_t)net;
	}
}

/* Bytes above the last reset; 0 if it never got there again. */
static inline uint64_t
peak_read(tsd_t *tsd) {
	peak_heartbeat(tsd, 0);
	return tsd->peak_max;
}

static inline void
peak_reset(tsd_t *tsd) {
	tsd->peak_base = tsd_allocated(tsd) - tsd_deallocated(tsd);
	tsd->peak_max = 0;
}

#endif
