/*
 * The peak of a thread's net allocation (allocated minus freed) since the last reset (peak.h).
 *
 * Invariant: peak_max is at least the net use above peak_base at each call of peak_update() since
 * the reset: at each read, at each heartbeat of a thread that has called thread.peak.reset, and at
 * each note after which the bytes that the thread has from arenas have grown by more than a 64th
 * (2^-PEAK_LG_STEP). Locks: none; only the thread itself uses these fields of its tsd. Called at
 * heartbeats, by imalloc.c for memory past the cache or above TCACHE_GRANT_ABOVE, and by
 * ctl_thread.c.
 */
#include "thread/peak.h"

#include "thread/recall.h"
#include "thread/tcache.h"

/* Minus log2 of the share by which the bytes from arenas must grow for a new measurement. */
#define PEAK_LG_STEP 6

/*
 * The net use in bytes: tsd_allocated() minus tsd_deallocated(). Bytes popped from the cache are
 * part of both, so the countdowns need not be folded for the difference.
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
 * The bytes that the thread has from the arenas, cached or not, are cheap to compute and an upper
 * bound of its net use. They rise all the time in a thread whose objects other threads free, so the
 * peak is updated only after a rise by 2^-PEAK_LG_STEP of them; never while they are below 0
 * (wrapped), in a thread that frees what others allocated. Net use that grows only by what the
 * cache already held does not raise them and is not seen here.
 */
void
peak_note(tsd_t *tsd) {
	uint64_t bound = tsd_held(tsd);
	int64_t rise = (int64_t)(bound - tsd->peak_bound);
	if (rise > 0 && (uint64_t)rise > bound >> PEAK_LG_STEP) {
		tsd->peak_bound = bound;
		peak_update(tsd);
	}
}

/*
 * An update reads all bins, which costs more than the rest of a heartbeat, so only threads that
 * measure their peak pay for it.
 */
void
peak_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	if (tsd->has_peak_reset) {
		peak_update(tsd);
	} else {
		peak_note(tsd);
	}
}

uint64_t
peak_read(tsd_t *tsd) {
	peak_update(tsd);
	return tsd->peak_max;
}

/*
 * Without cached objects above TCACHE_GRANT_ABOVE the next requests of such sizes come from an
 * arena, and each is noted. If calls or options have set the limits of such bins, objects stay.
 */
void
peak_reset(tsd_t *tsd) {
	if (tsd->tcache != NULL) {
		tcache_make_way(tsd, tsd->tcache, TCACHE_GRANT_ABOVE, SC_LARGE_MAXCLASS);
	}
	if (!tsd->has_peak_reset) {
		tsd->has_peak_reset = true;
		recall_one(tsd->tls, RECALL_SETTINGS); /* shortens the countdowns that run */
	}
	tsd->peak_base = peak_net(tsd);
	tsd->peak_max = 0;
	tsd->peak_bound = 0;
}
