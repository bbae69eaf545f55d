/* Net use of the thread against the mark of the last reset. */
#include "thread/peak.h"

/* Bytes in use above the mark; a thread that frees what others allocated can be below it. */
static int64_t
peak_net(tsd_t *tsd) {
	return (int64_t)(tsd_allocated(tsd) - tsd_deallocated(tsd) - tsd->peak_base);
}

static void
peak_update(tsd_t *tsd) {
	int64_t net = peak_net(tsd);
	if (net > 0 && (uint64_t)net > tsd->peak_max) {
		tsd->peak_max = (uint64_t)net;
	}
}

/* What the thread took from the arenas, cached or not, is cheap to know and never below the net use. */
void
peak_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	uint64_t bound = tsd_held(tsd);
	if ((int64_t)(bound - tsd->peak_bound) > 0) {
		tsd->peak_bound = bound;
		peak_update(tsd);
	}
}

uint64_t
peak_read(tsd_t *tsd) {
	peak_update(tsd);
	return tsd->peak_max;
}

void
peak_reset(tsd_t *tsd) {
	tsd->peak_base = tsd_allocated(tsd) - tsd_deallocated(tsd);
	tsd->peak_max = 0;
	tsd->peak_bound = 0;
}
