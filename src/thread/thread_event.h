/*
 * The heartbeat of a thread, which is periodic work by bytes allocated, and its distances to
 * samples.
 *
 * Each bin of a cache counts its pops down (countdown); allocations past the cache count bytes. A
 * countdown ends after at most 128 KiB of allocation, or for sizes above 2 KiB after at most 64
 * requests. If the thread has then allocated beat_bytes (at most 64 KiB) since its last heartbeat,
 * the next one runs: decay, and the hooks in thread_event_hooks, of which one is the upkeep of the
 * cache. Decay depends on time, so heartbeats follow after fewer bytes in a thread that allocates
 * slowly, down to THREAD_EVENT_BYTES_MIN, and after more bytes again when it gets faster (its
 * pace); a new thread begins at THREAD_EVENT_FIRST or, once there was a recall, at
 * THREAD_EVENT_BYTES_MIN. A thread may suddenly become slow, with countdowns set for its old pace,
 * or end, while the pages that it freed wait for some thread's heartbeat. So the thread that makes
 * pages unused reports it: when ARENAS_RISE bytes have become unused, all threads are recalled
 * (thread/recall.h; not more often than THREAD_EVENT_TELL_NS says), which sets them to the shortest
 * distance. They are recalled too when a thread has returned ARENAS_RISE bytes (arenas.h) of small
 * objects between two heartbeats, which may have left free regions in slabs instead of unused
 * pages.
 *
 * Samples: a Poisson process over bytes with mean `interval`, split by class. The distances of each
 * class are independent and exponential, so a request of z bytes is a sample with probability
 * 1-exp(-z/interval).
 *
 * A thread calls these functions for its own tsd, inside the gate, without a lock. Four need no
 * tsd: thread_event_wait_set() and thread_event_is_strict() concern all threads,
 * thread_event_is_idle() is about any one, and thread_event_unused_rose() is for each thread that
 * releases pages, also one without a tsd. A recall of all threads, which these functions may make,
 * and thread_event_try_end_last() take the lock of the gate's list; decay takes those of arenas.
 * Called by tcache.c, imalloc.c, tsd.c, claim.c (thread_event_is_idle) and, by a hook, the page
 * cache; the profiler, jemalloc_init.c and user_event.c write the settings.
 */
#pragma once

#include "thread/tsd_types.h"

/*
 * The distance of heartbeats in bytes (tsd_t.beat_bytes): the maximum; that of a new thread, whose
 * pace is not known yet, so that one which makes few large requests a second also has its first
 * heartbeat soon; the minimum.
 */
#define THREAD_EVENT_BYTES ((uint64_t)64 << 10)
#define THREAD_EVENT_FIRST ((uint64_t)16 << 10)
#define THREAD_EVENT_BYTES_MIN ((uint64_t)64)
/* Least time between two RECALL_PACE of all threads: 50 ms, or 0.1 ms for each thread if more. */
#define THREAD_EVENT_TELL_NS ((uint64_t)50 * 1000 * 1000)
#define THREAD_EVENT_TELL_EACH_NS ((uint64_t)100 * 1000)
/*
 * If the time between two heartbeats was at least SLOW, the distance in bytes shrinks in
 * proportion; if it was below QUICK, it grows fourfold. A thread's first heartbeat changes nothing.
 */
#define THREAD_EVENT_SLOW_NS ((uint64_t)250 * 1000 * 1000)
#define THREAD_EVENT_QUICK_NS (THREAD_EVENT_SLOW_NS / 4)
/*
 * Who waits for a number of allocated bytes, or for a large request: bits of thread_event_waiting.
 * Each client sets and clears its own by thread_event_wait_set(). While there is one, heartbeats
 * are strict: no request of 64 KiB or more passes without one. Otherwise up to
 * THREAD_EVENT_REQUESTS of one cached class above 2 KiB do, and as many past the cache or that are
 * large samples.
 */
#define THREAD_EVENT_FOR_PROF 1u  /* a threshold of the profiler */
#define THREAD_EVENT_FOR_STATS 2u /* stats_interval */
#define THREAD_EVENT_FOR_USER 4u  /* functions of the user (thread/user_event.h) */
extern HIDDEN atomic_u32_t thread_event_waiting;
#define THREAD_EVENT_REQUESTS 64u
ALWAYS_INLINE bool
thread_event_is_strict(void) {
	return atomic_load_u32(&thread_event_waiting, MO_RELAXED) != 0;
}
/* Sets or clears the bit `who`. True if that bit changed: call recall_all(RECALL_SETTINGS) then. */
bool thread_event_wait_set(uint32_t who, bool waits);
/*
 * Bytes of one class between two looks whether a heartbeat is due, in a thread that measures its
 * peak (thread/peak.h): what it has in many classes is seen before it is freed.
 */
#define THREAD_EVENT_PEAK_BYTES ((uint64_t)4 << 10)
/* Bytes that requests past the cache, and large samples, allocate at most without a heartbeat. */
#define THREAD_EVENT_DIRECT_BYTES ((uint64_t)128 << 20)

/*
 * Requests of `size` bytes from a bin until the countdown ends (>= 1): as many as fit the distance
 * beat_bytes, but unless strict at least THREAD_EVENT_REQUESTS, or proportionally fewer at a
 * shorter distance; in a thread that measures its peak, as many as fit THREAD_EVENT_PEAK_BYTES, or
 * one. It is rounded down, so where it is not exact the first end of a countdown falls short of the
 * distance, and a thread that uses one class has a heartbeat at every second end.
 */
ALWAYS_INLINE uint64_t
thread_event_requests(const tsd_t *tsd, size_t size) {
	const uint64_t step = THREAD_EVENT_BYTES / THREAD_EVENT_REQUESTS;
	bool is_short = unlikely(tsd->has_peak_reset) && tsd->beat_bytes > THREAD_EVENT_PEAK_BYTES;
	uint64_t least = (tsd->beat_bytes + step - 1) / step;
	uint64_t n = (is_short ? THREAD_EVENT_PEAK_BYTES : tsd->beat_bytes) / size;
	assert(tsd->beat_bytes >= THREAD_EVENT_BYTES_MIN && tsd->beat_bytes <= THREAD_EVENT_BYTES
	    && least > 0);
	if (unlikely(n < least)) {
		bool is_strict = tsd->has_peak_reset || thread_event_is_strict();
		n = is_strict ? n + (n == 0) : least;
	}
	return n;
}

/*
 * Requests past the cache, and large samples, that may follow one another without a look whether a
 * heartbeat is due; 0: none.
 */
ALWAYS_INLINE uint32_t
thread_event_direct_requests(const tsd_t *tsd) {
	bool is_strict = tsd->has_peak_reset || thread_event_is_strict();
	return is_strict ? 0
	    : (uint32_t)(tsd->beat_bytes / (THREAD_EVENT_BYTES / THREAD_EVENT_REQUESTS));
}

/*
 * While this is set, a thread that takes the slow path of an allocation has a heartbeat, however
 * little it has allocated. The profiler sets it, then calls recall_all(RECALL_SETTINGS), and clears
 * it at the heartbeat that follows.
 */
extern HIDDEN atomic_b_t thread_event_is_wanted;

/*
 * Mean bytes between samples; 0: no samples. After a change call recall_all(RECALL_SETTINGS). Each
 * thread then copies it (tsd->sample_interval) and draws new distances, so that a sample is always
 * weighed by the interval with which its distance was drawn.
 */
extern HIDDEN atomic_u64_t thread_event_sample_interval;

/* Sets the pace (beat_bytes) of a new thread; draws no distances to samples. */
void thread_event_begin(tsd_t *tsd);
/*
 * Sets the shortest distance of the thread's heartbeats. Running countdowns of bins stay as they
 * are; tcache_shorten_interval() shortens these too.
 */
void thread_event_shorten_interval(tsd_t *tsd);
/*
 * The hook of the page caches (pac_rise_hook), called by a thread that has made pages unused, once
 * for each pac_rise_step bytes: runs decay if that is due (not inside other work of the library),
 * recalls all threads if ARENAS_RISE bytes have become unused since the last recall, and otherwise
 * this one, if it has a tsd, so that its own next heartbeat is near.
 */
void thread_event_unused_rose(void);
/*
 * Called when ARENAS_RISE bytes of small objects have left full bins of the thread's cache, or of
 * explicit ones, since its last heartbeat or call: runs decay if that is due, and recalls all
 * threads, unless that was done a short while ago. Inside other work of the library it does
 * neither, and the bytes are forgotten. Inside the gate, without a lock.
 */
void thread_event_freed_much(tsd_t *tsd);
/*
 * Called at the end of a thread, when its cache is empty: whether all other threads are idle
 * (thread_event_is_idle) or at their end like this one. This thread counts as ending from then on.
 * So if only threads that end are awake, at least one of them gets true; but not if n, the number
 * of threads, is above 64, because then the answer is false without a look. Takes the lock of the
 * gate's list.
 */
bool thread_event_try_end_last(tsd_t *tsd, unsigned n);
/*
 * Whether a thread had no heartbeat within the last second, or none at all, or is ending; now:
 * monotonic time in ns. Any thread may ask.
 */
bool thread_event_is_idle(const struct tls_s *t, uint64_t now);

/*
 * Hooks called at heartbeats, in the gate, without a lock, with tls_s.inside raised against nested
 * heartbeats; the last is NULL. bytes: what the thread allocated since the last one, as counted.
 */
typedef void thread_event_hook_t(tsd_t *tsd, uint64_t bytes);
extern HIDDEN thread_event_hook_t *const *thread_event_hooks;

/*
 * Copies the published interval, and draws the distance past the cache; the caller draws those of
 * the bins (tcache_retune).
 */
void thread_event_take_interval(tsd_t *tsd);
/*
 * Copies thread_event_is_strict() to the tsd. If it becomes true, the bytes allocated since the
 * last heartbeat are forgotten, because they belong to the time before a client waited.
 */
void thread_event_take_strictness(tsd_t *tsd);
/* Objects of usize until the next sample, including it (>= 1); UINT64_MAX: no sample. */
uint64_t thread_event_draw_objects(tsd_t *tsd, size_t usize);
/*
 * Bytes of requests past the cache that are no sample yet: the next sample is the request that
 * exceeds what is left of them. UINT64_MAX: no sample.
 */
uint64_t thread_event_draw_bytes(tsd_t *tsd);

/* Runs the heartbeat, unless the thread is inside other work of the library (tls_s.inside). */
void thread_event_due(tsd_t *tsd);
/* Counts allocated bytes; runs the heartbeat if due (beat_bytes) or wanted, unless nested. */
ALWAYS_INLINE void
thread_event_advance(tsd_t *tsd, uint64_t bytes) {
	tsd_assert_own(tsd);
	tsd->event_bytes += bytes;
	if (unlikely(tsd->event_bytes >= tsd->beat_bytes)
	    || unlikely(atomic_load_b(&thread_event_is_wanted, MO_RELAXED))) {
		thread_event_due(tsd);
	}
}
/*
 * Counts a request past the cache, or a large sample, if it needs no look whether a heartbeat is
 * due: the first few after such a look (tsd_t.n_direct). Otherwise returns false, and the caller
 * calls thread_event_advance_large(), which looks.
 */
ALWAYS_INLINE bool
thread_event_try_pass(tsd_t *tsd, uint64_t bytes) {
	if (tsd->n_direct == 0 || tsd->event_bytes + bytes >= THREAD_EVENT_DIRECT_BYTES) {
		return false;
	}
	tsd->n_direct--;
	tsd->event_bytes += bytes;
	return true;
}
/* thread_event_advance() for such a request; allows thread_event_try_pass() for the next ones. */
ALWAYS_INLINE void
thread_event_advance_large(tsd_t *tsd, uint64_t bytes) {
	thread_event_advance(tsd, bytes);
	tsd->n_direct = thread_event_direct_requests(tsd);
}
/* Counts usize bytes, allocated past the cache, towards the next sample; whether it is that one. */
bool thread_event_count_to_sample(tsd_t *tsd, size_t usize);
