/* Heartbeats and gaps. */
#include "thread/thread_event.h"

#include "arena/arenas.h"
#include "os/nstime.h"
#include "util/prng.h"

atomic_u64_t thread_event_sample_interval;
atomic_b_t thread_event_is_wanted;
thread_event_hook_t *const *thread_event_hooks;
atomic_b_t thread_event_is_strict;

/* Gaps beyond this many units are as good as never. */
#define GAP_MAX 1e18

static uint64_t
thread_event_gap(tsd_t *tsd, double mean) {
	double gap = prng_exponential(&tsd->prng) * mean;
	return gap >= GAP_MAX ? (uint64_t)GAP_MAX : (uint64_t)gap;
}

void
thread_event_take_interval(tsd_t *tsd) {
	tsd->sample_interval = atomic_load_u64(&thread_event_sample_interval, MO_RELAXED);
	tsd->sample_gap = thread_event_draw_bytes(tsd);
}

void
thread_event_take_strictness(tsd_t *tsd) {
	bool is_strict = atomic_load_b(&thread_event_is_strict, MO_RELAXED);
	if (is_strict && !tsd->is_strict) {
		tsd->event_bytes = 0;
	}
	tsd->is_strict = is_strict;
}

uint64_t
thread_event_draw_objects(tsd_t *tsd, size_t usize) {
	uint64_t interval = tsd->sample_interval;
	assert(usize > 0);
	if (likely(interval == 0)) {
		return UINT64_MAX;
	}
	if (interval == 1) {
		return 1;
	}
	return 1 + thread_event_gap(tsd, (double)interval / (double)usize);
}

uint64_t
thread_event_draw_bytes(tsd_t *tsd) {
	uint64_t interval = tsd->sample_interval;
	if (likely(interval == 0)) {
		return UINT64_MAX;
	}
	return interval == 1 ? 0 : thread_event_gap(tsd, (double)interval);
}

bool
thread_event_is_sample(tsd_t *tsd, size_t usize) {
	if (likely(tsd->sample_gap == UINT64_MAX)) {
		return false;
	}
	if (usize <= tsd->sample_gap) {
		tsd->sample_gap -= usize;
		return false;
	}
	tsd->sample_gap = thread_event_draw_bytes(tsd);
	return true;
}

/*
 * So that heartbeats come some four times a second, or as often as the bytes allow.  They stay together in a thread that
 * frees far more than it allocates (the bytes since the last one): when it is done, it may have little left to do.
 */
static void
thread_event_keep_pace(tsd_t *tsd, uint64_t now, uint64_t allocated) {
	uint64_t last = tsd->beat_ns, gap = nstime_ns_between(last, now);
	tsd->beat_ns = now;
	if (unlikely(gap >= THREAD_EVENT_SLOW_NS) && last != 0) {
		/* 2^16 * 2^28 bytes * ns. */
		uint64_t bytes = tsd->beat_bytes * THREAD_EVENT_SLOW_NS / gap;
		tsd->beat_bytes = bytes > THREAD_EVENT_LEAST ? bytes : THREAD_EVENT_LEAST;
	} else if (unlikely(tsd->beat_bytes < THREAD_EVENT_BYTES)) {
		uint64_t freed = tsd_returned(tsd);
		bool is_shrinking = freed - tsd->beat_freed > 8 * allocated;
		tsd->beat_freed = freed;
		if (gap < THREAD_EVENT_QUICK_NS && !is_shrinking) {
			tsd->beat_bytes = tsd->beat_bytes < THREAD_EVENT_BYTES / 4 ? tsd->beat_bytes * 4 : THREAD_EVENT_BYTES;
		}
	}
}

static void
thread_event_heartbeat(tsd_t *tsd, uint64_t bytes) {
	assert(tsd->tls == tls_get() && tsd->tls->gate_depth > 0);
	tsd->tls->inside++;
	uint64_t now = nstime_monotonic_coarse_ns();
	thread_event_keep_pace(tsd, now, bytes);
	arenas_tick(now);
	for (thread_event_hook_t *const *h = thread_event_hooks; h != NULL && *h != NULL; h++) {
		(*h)(tsd, bytes);
	}
	tsd->tls->inside--;
}

void
thread_event_advance(tsd_t *tsd, uint64_t bytes) {
	tsd->event_bytes += bytes;
	bool is_due = tsd->event_bytes >= tsd->beat_bytes || atomic_load_b(&thread_event_is_wanted, MO_RELAXED);
	if (!is_due || tsd->tls->inside != 0) {
		return;
	}
	bytes = tsd->event_bytes;
	tsd->event_bytes = 0;
	thread_event_heartbeat(tsd, bytes);
}
