/*
 * Heartbeats of a thread, their pace, and the distances to samples (thread_event.h).
 *
 * A heartbeat adjusts the pace (pace_keep), runs decay and the hooks. If it did a round of decay,
 * it looks whether much memory has become unused (pace_look); thread_event_unused_rose() does so
 * when pages are released. Invariant: outside other work of the library, a thread allocates between
 * two heartbeats less than twice beat_bytes from each of its bins, but up to 64 objects of a class
 * above 2 KiB, and about as many large objects past the cache. Locks: none, but a recall and
 * thread_event_try_end_last() take that of the gate's list; the fields are the thread's own, and
 * `pace` consists of atomic words. Called by tcache.c and imalloc.c inside the gate, by the page
 * cache (pac_rise_hook), by claim.c, and by tsd.c at a thread's start, recalls and end.
 */
#include "thread/thread_event.h"

#include "arena/arenas.h"
#include "os/nstime.h"
#include "thread/recall.h"
#include "util/prng.h"

atomic_u64_t thread_event_sample_interval;
atomic_b_t thread_event_is_wanted;
thread_event_hook_t *const *thread_event_hooks;
atomic_u32_t thread_event_waiting;

/* log2 of the unit of tls_s.beat in ns (about 1 ms); no heartbeat for BEAT_IDLE units: idle. */
#define BEAT_LG_NS 20
#define BEAT_IDLE 1000u
/* With more threads than this, thread_event_try_end_last() takes it that one is not idle. */
#define AWAKE_MAX 64u

/* Distances to a sample, in objects or bytes, are cut to this: no thread gets so far. */
#define GAP_MAX 1e18

/* Draws an exponential random number of this mean, rounded down; objects or bytes, as the mean. */
static uint64_t
thread_event_gap(tsd_t *tsd, double mean) {
	double gap = prng_exponential(&tsd->prng) * mean;
	return gap >= GAP_MAX ? (uint64_t)GAP_MAX : (uint64_t)(int64_t)gap;
}

void
thread_event_take_interval(tsd_t *tsd) {
	tsd->sample_interval = atomic_load_u64(&thread_event_sample_interval, MO_RELAXED);
	tsd->sample_gap = thread_event_draw_bytes(tsd);
}

bool
thread_event_wait_set(uint32_t who, bool waits) {
	uint32_t was = waits ? atomic_fetch_or_u32(&thread_event_waiting, who, MO_SEQ_CST)
	    : atomic_fetch_and_u32(&thread_event_waiting, ~who, MO_SEQ_CST);
	return ((was & who) != 0) != waits;
}

void
thread_event_take_strictness(tsd_t *tsd) {
	bool is_strict = thread_event_is_strict();
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
	return 1 + thread_event_gap(tsd, (double)interval / (double)(int64_t)usize);
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
thread_event_count_to_sample(tsd_t *tsd, size_t usize) {
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

/* ------------------------------------------------------------------ pace */

static struct {
	atomic_zu_t base;      /* unused bytes at the last recall by pace_look(), or the fewest since */
	atomic_zu_t told;      /* bytes that page caches reported since a report led to pace_look() */
	atomic_u64_t next_ns;  /* earliest time of the next recall; 0: there was none */
} pace;

void
thread_event_shorten_interval(tsd_t *tsd) {
	assert(tsd->beat_bytes >= THREAD_EVENT_BYTES_MIN && tsd->beat_bytes <= THREAD_EVENT_BYTES);
	tsd->beat_bytes = THREAD_EVENT_BYTES_MIN;
	tsd->n_direct = 0;
}

/*
 * Once there was a recall, a new thread starts at the shortest distance: pages may wait for its
 * heartbeats. The distance soon grows if the thread allocates quickly.
 */
void
thread_event_begin(tsd_t *tsd) {
	bool is_shortened = atomic_load_u64(&pace.next_ns, MO_RELAXED) != 0;
	tsd->beat_bytes = is_shortened ? THREAD_EVENT_BYTES_MIN : THREAD_EVENT_FIRST;
}

/* Recalls all threads, and returns true, unless that was done a short while ago. */
static bool
pace_try_recall(uint64_t now) {
	uint64_t next = atomic_load_u64(&pace.next_ns, MO_RELAXED);
	if (now < next || !atomic_cas_strong_u64(&pace.next_ns, &next,
	    now + THREAD_EVENT_TELL_NS, MO_RELAXED, MO_RELAXED)) {
		return false;
	}
	uint64_t gap = recall_all(RECALL_PACE) * THREAD_EVENT_TELL_EACH_NS;
	if (gap > THREAD_EVENT_TELL_NS) {
		atomic_store_u64(&pace.next_ns, now + gap, MO_RELAXED);
	}
	return true;
}

/* Recalls all threads if ARENAS_RISE bytes have become unused and it is time for that. */
static void
pace_look(uint64_t now) {
	size_t unused = arenas_decaying(), base = atomic_load_zu(&pace.base, MO_RELAXED);
	bool is_due = unused > base && unused - base >= ARENAS_RISE;
	if (unused < base || (is_due && pace_try_recall(now))) {
		atomic_store_zu(&pace.base, unused, MO_RELAXED);
	}
}

/*
 * Runs decay if that is due, and returns whether it did; not inside other work of the library,
 * which may be a pass of decay or a hook of the user.
 */
static bool
pace_try_tick(struct tls_s *t, uint64_t now) {
	if (t->inside != 0) {
		return false;
	}
	t->inside++;
	bool has_ticked = arenas_try_tick(now);
	t->inside--;
	return has_ticked;
}

/*
 * pace_look() reads words of all arenas, so it is called only after a round of decay, or when an
 * eighth of ARENAS_RISE was reported.
 */
void
thread_event_unused_rose(void) {
	struct tls_s *t = tls_get();
	uint64_t now = nstime_monotonic_coarse_ns();
	size_t told = atomic_fetch_add_zu(&pace.told, pac_rise_step, MO_RELAXED) + pac_rise_step;
	if (pace_try_tick(t, now) || told >= ARENAS_RISE / 8) {
		atomic_store_zu(&pace.told, 0, MO_RELAXED);
		pace_look(now);
	}
	if (t->tsd != NULL && t->tsd->beat_bytes > THREAD_EVENT_BYTES_MIN) {
		recall_one(t, RECALL_PACE);
	}
}

void
thread_event_freed_much(tsd_t *tsd) {
	tsd_assert_own(tsd);
	tsd->small_freed = 0;
	if (tsd->tls->inside == 0) {
		uint64_t now = nstime_monotonic_coarse_ns();
		pace_try_tick(tsd->tls, now);
		pace_try_recall(now);
	}
}

/*
 * Adjusts beat_bytes so that 4 to 16 heartbeats come in a second, or more at the greatest distance
 * THREAD_EVENT_BYTES.
 */
static void
pace_keep(tsd_t *tsd, uint64_t now) {
	assert(tsd->tls->inside > 0);
	uint64_t last = tsd->beat_ns, gap = nstime_ns_between(last, now);
	tsd->beat_ns = now;
	tsd->small_freed = 0;
	if (unlikely(gap >= THREAD_EVENT_SLOW_NS) && last != 0) {
		/* At most 2^16 * 2^28 bytes * ns, so no overflow. */
		uint64_t bytes = tsd->beat_bytes * THREAD_EVENT_SLOW_NS / gap;
		tsd->beat_bytes = bytes > THREAD_EVENT_BYTES_MIN ? bytes : THREAD_EVENT_BYTES_MIN;
	} else if (tsd->beat_bytes < THREAD_EVENT_BYTES && gap < THREAD_EVENT_QUICK_NS) {
		tsd->beat_bytes = tsd->beat_bytes < THREAD_EVENT_BYTES / 4 ? tsd->beat_bytes * 4
		    : THREAD_EVENT_BYTES;
	}
}

/* ------------------------------------------------------------------ the heartbeat */

static void
thread_event_heartbeat(tsd_t *tsd, uint64_t bytes) {
	tsd_assert_own(tsd);
	tsd->tls->inside++;
	uint64_t now = nstime_monotonic_coarse_ns();
	__atomic_store_n(&tsd->tls->beat, (uint32_t)(now >> BEAT_LG_NS), __ATOMIC_RELAXED);
	pace_keep(tsd, now);
	if (arenas_try_tick(now)) {
		pace_look(now);
	}
	for (thread_event_hook_t *const *h = thread_event_hooks; h != NULL && *h != NULL; h++) {
		(*h)(tsd, bytes);
	}
	tsd->tls->inside--;
}

bool
thread_event_is_idle(const struct tls_s *t, uint64_t now) {
	uint32_t beat = __atomic_load_n(&t->beat, __ATOMIC_SEQ_CST);
	/*
	 * A beat may be newer than `now`; one that is 26 to 52 days old is taken for that too, since
	 * the word has 32 bits.
	 */
	return beat == 0 || (int32_t)((uint32_t)(now >> BEAT_LG_NS) - beat) >= (int32_t)BEAT_IDLE;
}

typedef struct {
	uint64_t now;
	bool has_awake;
} awake_t;

static void
awake_look_at(struct tls_s *t, void *ctx) {
	awake_t *look = ctx;
	look->has_awake = look->has_awake || !thread_event_is_idle(t, look->now);
}

bool
thread_event_try_end_last(tsd_t *tsd, unsigned n) {
	awake_t look = {nstime_monotonic_coarse_ns(), n > AWAKE_MAX};
	__atomic_store_n(&tsd->tls->beat, 0, __ATOMIC_SEQ_CST);
	if (!look.has_awake) {
		gate_for_each(awake_look_at, &look);
	}
	return !look.has_awake;
}

void
thread_event_due(tsd_t *tsd) {
	tsd_assert_own(tsd);
	if (tsd->tls->inside == 0) {
		uint64_t bytes = tsd->event_bytes;
		tsd->event_bytes = 0;
		thread_event_heartbeat(tsd, bytes);
	}
}
