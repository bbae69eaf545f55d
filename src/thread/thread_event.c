/*
 * Heartbeats of a thread, their pace, and the distances to samples (thread_event.h).
 *
 * A heartbeat adjusts the pace (pace_keep), recalls all threads if they have released much memory
 * together (pace_recall), and runs decay and the hooks. Invariant: between two heartbeats a thread
 * allocates about beat_bytes, from each of its bins, and a few large requests. Locks: none; the
 * fields are the thread's own, and `pace` consists of atomic words. Called by tcache.c and
 * imalloc.c inside the gate, and by tsd.c at a thread's start and end.
 */
#include "thread/thread_event.h"

#include "arena/arenas.h"
#include "os/nstime.h"
#include "thread/recall.h"
#include "util/prng.h"

atomic_u64_t thread_event_sample_interval;
atomic_b_t thread_event_is_wanted;
thread_event_hook_t *const *thread_event_hooks;
atomic_b_t thread_event_is_strict;

/* The unit of tls_s.beat (about 1 ms); an idle thread had no heartbeat for so many of them. */
#define BEAT_LG_NS 20
#define BEAT_IDLE 1000u
/* Among more threads than this one is taken for awake, without a look. */
#define AWAKE_MAX 64u

/* A larger distance, in its unit, is practically infinite. */
#define GAP_MAX 1e18

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
	/* net bytes returned to arenas, by all threads since the last recall; see pace_add_down() */
	atomic_u64_t down;
	atomic_u64_t told_ns;  /* monotonic time of the last recall; 0: never */
	atomic_u64_t next_ns;  /* earliest time of the next recall */
} pace;

void
thread_event_hasten(tsd_t *tsd, uint64_t beat_bytes) {
	assert(tsd->beat_bytes <= THREAD_EVENT_BYTES);
	assert(beat_bytes >= THREAD_EVENT_LEAST);
	tsd->beat_bytes = tsd->beat_bytes < beat_bytes ? tsd->beat_bytes : beat_bytes;
	uint32_t n_direct = thread_event_direct_requests(tsd);
	tsd->n_direct = tsd->n_direct < n_direct ? tsd->n_direct : n_direct;
}

/*
 * Whether all threads were recalled within the last decay time. Then memory that was released
 * before may depend on the heartbeats of a new thread, so it starts with the pace of the recalled
 * ones.
 */
static bool
pace_is_new_hurried(void) {
	uint64_t told = atomic_load_u64(&pace.told_ns, MO_RELAXED);
	if (likely(told == 0)) {
		return false;
	}
	ssize_t dirty = arenas_decay_ms_default_get(true), muzzy = arenas_decay_ms_default_get(false);
	uint64_t wait_ms = (dirty > 0 ? (uint64_t)dirty : 0) + (muzzy > 0 ? (uint64_t)muzzy : 0);
	return nstime_ns_between(told, nstime_monotonic_coarse_ns()) / NSTIME_PER_MSEC <= wait_ms;
}

void
thread_event_begin(tsd_t *tsd) {
	tsd->beat_bytes = pace_is_new_hurried() ? THREAD_EVENT_LEAST : THREAD_EVENT_BYTES;
	tsd->look_below = 0 - THREAD_EVENT_FREED;
}

/* Raises a maximum or another limit. A comparison by difference, because the values wrap. */
static void
pace_raise(uint64_t *most, uint64_t held) {
	if ((int64_t)(held - *most) > 0) {
		*most = held;
	}
}

/*
 * Raises *most, the maximum, to held if that is more. If held is below it by at least `least`
 * bytes, sets the maximum to held and returns the difference, otherwise 0.
 */
static uint64_t
pace_take_decrease(uint64_t *most, uint64_t held, uint64_t least) {
	pace_raise(most, held);
	uint64_t down = *most - held;
	if (down < least) {
		return 0;
	}
	*most = held;
	return down;
}

/*
 * Adds to pace.down unless that is large enough already: threads that start and end all the time
 * would contend for the word.
 */
static void
pace_add_down(uint64_t bytes) {
	if (bytes > 0 && atomic_load_u64(&pace.down, MO_RELAXED) < THREAD_EVENT_MUCH) {
		atomic_fetch_add_u64(&pace.down,
		    bytes < THREAD_EVENT_MUCH ? bytes : THREAD_EVENT_MUCH, MO_RELAXED);
	}
}

/*
 * Recalls all threads if pace.down has reached THREAD_EVENT_MUCH and the least time since the last
 * recall has passed.
 */
static void
pace_recall(uint64_t now) {
	if (likely(atomic_load_u64(&pace.down, MO_RELAXED) < THREAD_EVENT_MUCH)) {
		return;
	}
	uint64_t next = atomic_load_u64(&pace.next_ns, MO_RELAXED);
	if (now < next || !atomic_cas_strong_u64(&pace.next_ns, &next,
	    now + THREAD_EVENT_TELL_NS, MO_RELAXED, MO_RELAXED)) {
		return;
	}
	atomic_store_u64(&pace.told_ns, now, MO_RELAXED);
	atomic_store_u64(&pace.down, 0, MO_RELAXED);
	uint64_t gap = recall_all(RECALL_PACE) * THREAD_EVENT_TELL_EACH_NS;
	if (gap > THREAD_EVENT_TELL_NS) {
		atomic_store_u64(&pace.next_ns, now + gap, MO_RELAXED);
	}
}

/*
 * Bytes by which a thread may decrease without reporting, so that all threads together stay below
 * THREAD_EVENT_MUCH as far as possible. The number of threads is estimated from those of its arena.
 */
static uint64_t
pace_share(const tsd_t *tsd) {
	uint64_t n = (uint64_t)atomic_load_u32(&tsd->arena->nthreads, MO_RELAXED)
	    * arenas_narenas_auto();
	uint64_t share = THREAD_EVENT_MUCH / (n + 1);
	return share < THREAD_EVENT_FREED ? THREAD_EVENT_FREED
	    : share < THREAD_EVENT_SOME ? share : THREAD_EVENT_SOME;
}

/* The value of look_below: less than `held` by the share, or by a 16th of held if that is more. */
static uint64_t
pace_look_below(uint64_t held, uint64_t share) {
	uint64_t part = (int64_t)held > 0 ? held / 16 : 0;
	return held - (part > share ? part : share);
}

bool
thread_event_came_down(tsd_t *tsd, uint64_t now) {
	tsd_assert_own(tsd);
	uint64_t held = tsd_held(tsd), share = pace_share(tsd);
	tsd->look_below = pace_look_below(held, share);
	pace_add_down(pace_take_decrease(&tsd->told_most, held, share));
	pace_recall(now);
	return pace_take_decrease(&tsd->held_most, held, THREAD_EVENT_OWN) != 0;
}

void
thread_event_note_held(tsd_t *tsd) {
	uint64_t held = tsd_held(tsd);
	pace_raise(&tsd->told_most, held);
	pace_raise(&tsd->held_most, held);
	pace_raise(&tsd->look_below, pace_look_below(held, THREAD_EVENT_FREED));
}

void
thread_event_note_end(tsd_t *tsd) {
	tsd_assert_own(tsd);
	assert(tsd->tls->inside > 0);
	pace_add_down(pace_take_decrease(&tsd->told_most, tsd_held(tsd), 0));
	if (unlikely(atomic_load_u64(&pace.down, MO_RELAXED) >= THREAD_EVENT_MUCH)) {
		pace_recall(nstime_monotonic_coarse_ns());
	}
}

void
thread_event_postfork_child(void) {
	atomic_store_u64(&pace.down, 0, MO_RELAXED);
	atomic_store_u64(&pace.told_ns, 0, MO_RELAXED);
	atomic_store_u64(&pace.next_ns, 0, MO_RELAXED);
}

/*
 * Adjusts beat_bytes so that about four heartbeats come in a second, or more at the greatest
 * distance THREAD_EVENT_BYTES. The distance does not grow in a thread that frees more than eight
 * times what it allocates (`allocated`: bytes since the last heartbeat), because it may soon
 * allocate hardly at all.
 */
static void
pace_keep(tsd_t *tsd, uint64_t now, uint64_t allocated) {
	assert(tsd->tls->inside > 0);
	uint64_t last = tsd->beat_ns, gap = nstime_ns_between(last, now);
	tsd->beat_ns = now;
	if (unlikely(gap >= THREAD_EVENT_SLOW_NS) && last != 0) {
		/* At most 2^16 * 2^28 bytes * ns, so no overflow. */
		uint64_t bytes = tsd->beat_bytes * THREAD_EVENT_SLOW_NS / gap;
		tsd->beat_bytes = bytes > THREAD_EVENT_LEAST ? bytes : THREAD_EVENT_LEAST;
	} else if (unlikely(tsd->beat_bytes < THREAD_EVENT_BYTES)) {
		uint64_t freed = tsd_returned(tsd);
		bool is_shrinking = freed - tsd->beat_freed > 8 * allocated;
		tsd->beat_freed = freed;
		if (gap < THREAD_EVENT_QUICK_NS && !is_shrinking) {
			tsd->beat_bytes = tsd->beat_bytes < THREAD_EVENT_BYTES / 4 ? tsd->beat_bytes * 4
			    : THREAD_EVENT_BYTES;
		}
	}
}

/* ------------------------------------------------------------------ the heartbeat */

static void
thread_event_heartbeat(tsd_t *tsd, uint64_t bytes) {
	tsd_assert_own(tsd);
	tsd->tls->inside++;
	uint64_t now = nstime_monotonic_coarse_ns();
	__atomic_store_n(&tsd->tls->beat, (uint32_t)(now >> BEAT_LG_NS), __ATOMIC_RELAXED);
	pace_keep(tsd, now, bytes);
	thread_event_note_held(tsd);
	pace_recall(now);
	arenas_tick(now);
	for (thread_event_hook_t *const *h = thread_event_hooks; h != NULL && *h != NULL; h++) {
		(*h)(tsd, bytes);
	}
	tsd->tls->inside--;
}

bool
thread_event_is_idle(const struct tls_s *t, uint64_t now) {
	uint32_t beat = __atomic_load_n(&t->beat, __ATOMIC_SEQ_CST);
	/* A beat may be newer than `now`. */
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
