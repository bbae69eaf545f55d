/*
 * The most memory a thread held at once, net of what it freed, since its last reset: looked at at each
 * heartbeat and at each question, so a peak between two looks may be missed by what one heartbeat lets
 * through.  Only the thread itself asks.  Counters wrap; differences are signed.
 */
#ifndef THREAD_PEAK_H
#define THREAD_PEAK_H

#include "thread/tsd.h"

static inline void
peak_update(tsd_t *tsd) {
	uint64_t net = tsd_allocated(tsd) - tsd_deallocated(tsd);
	if ((int64_t)(net - tsd->peak_max) > 0) {
		tsd->peak_max = net;
	}
}

/* Bytes above the last reset; 0 if it never got there again. */
static inline uint64_t
peak_read(tsd_t *tsd) {
	peak_update(tsd);
	int64_t above = (int64_t)(tsd->peak_max - tsd->peak_base);
	return above > 0 ? (uint64_t)above : 0;
}

static inline void
peak_reset(tsd_t *tsd) {
	tsd->peak_base = tsd_allocated(tsd) - tsd_deallocated(tsd);
	tsd->peak_max = tsd->peak_base;
}

/* For the table of heartbeat hooks. */
static inline void
peak_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	peak_update(tsd);
}

#endif
