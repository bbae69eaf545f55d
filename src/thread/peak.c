/*
 * The peak of a thread's net allocation since the last reset (peak.h).
 *
 * Invariant: peak_max is at least the net use at each read so far, and that at each heartbeat less
 * one part in 2^PEAK_LG_STEP of what the thread had. Locks: none; only the thread itself uses these
 * fields of its tsd. Called at heartbeats, by imalloc.c for large memory, and by ctl_thread.c.
 */
#include "thread/peak.h"

#include "thread/tcache.h"

#define PEAK_LG_STEP 6

/*
 * tsd_allocated() less tsd_deallocated(): what the cache handed out is in both, so its countdowns
 * need not be folded for the difference.
 */
static uint64_t
peak_net(const tsd_t *tsd) {
	return tsd_held(tsd) - (tsd->tcache == NULL ? 0 : tcache_cached_bytes(tsd->tcache));
}

static void
peak_update(tsd_t *tsd) {
	/* Below 0 in a thread that frees what others allocated. */
	int64_t net = (int64_t)(peak_net(tsd) - tsd->peak_base);
	if (net > 0 && (uint64_t)net > tsd->peak_max) {
		tsd->peak_max = (uint64_t)net;
	}
}

/*
 * The bytes that the thread has from the arenas, cached or not, are cheap to know and an upper
 * bound of its net use. They rise all the time in a thread whose objects others free, so that only
 * a rise by a part of them is looked at.
 */
void
peak_note(tsd_t *tsd, uint64_t bytes UNUSED) {
	uint64_t bound = tsd_held(tsd);
	int64_t rise = (int64_t)(bound - tsd->peak_bound);
	if (rise > 0 && (uint64_t)rise > bound >> PEAK_LG_STEP) {
		tsd->peak_bound = bound;
		peak_update(tsd);
	}
}

uint64_t
peak_read(tsd_t *tsd) {
	peak_update(tsd);
	return tsd->peak_max;
}

/* Without cached large blocks each of the next large requests comes from an arena and is noted. */
void
peak_reset(tsd_t *tsd) {
	if (tsd->tcache != NULL) {
		tcache_make_way(tsd, tsd->tcache, SC_LARGE_MAXCLASS);
	}
	tsd->has_peak_reset = true;
	tsd->peak_base = peak_net(tsd);
	tsd->peak_max = 0;
	tsd->peak_bound = 0;
}
