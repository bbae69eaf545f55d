/*
 * What a thread does regularly: the heartbeat, and the distance to the next sample.
 *
 * Each class of a cache counts its pops down; allocations past the cache count bytes. A countdown
 * ends after at most 64 KiB of allocation, or a few large requests; then comes the heartbeat:
 * upkeep of the cache, decay, and the hooks in the table. Decay depends on time, so in a thread
 * that allocates little heartbeats move closer together, down to THREAD_EVENT_LEAST bytes, and
 * apart again when it gets faster. A thread that has freed much may become slow at once, with
 * countdowns set for its old pace, so these are cut short (tcache_note_freed). It may also stop or
 * end while another thread goes on that was always slow. So when threads have released much memory,
 * each alone or all together, the others are recalled (thread/recall.h) and start with the shortest
 * distance.
 *
 * Samples: a Poisson process over bytes with mean `interval`, split by class. The distances of each
 * class are independent and exponential, so a request of z bytes is a sample with probability
 * 1-exp(-z/interval).
 */
#ifndef THREAD_THREAD_EVENT_H
#define THREAD_THREAD_EVENT_H

#include "thread/tsd_types.h"

/* Bytes between two heartbeats: the maximum; after much was freed; the minimum. */
#define THREAD_EVENT_BYTES ((uint64_t)64 << 10)
#define THREAD_EVENT_SOON ((uint64_t)1 << 10)
#define THREAD_EVENT_LEAST ((uint64_t)64)
/*
 * Net bytes a thread must release before its countdowns are cut short (8 MiB; its cache may keep
 * 16 MiB more, see TCACHE_GRANT_LARGE), and those that all threads must release together before the
 * countdowns of all are (16 MiB). Both are well below what may remain when decay is over.
 * THREAD_EVENT_SOME is the step in which a thread adds to the sum; with many threads it is smaller,
 * so that together they do not keep more than that unreported. A thread that frees as much as it
 * allocates keeps its pages and its pace.
 */
#define THREAD_EVENT_OWN ((uint64_t)8 << 20)
#define THREAD_EVENT_MUCH ((uint64_t)16 << 20)
#define THREAD_EVENT_SOME ((uint64_t)1 << 20)
/* Minimum time between two recalls of all threads: a constant, and more for each thread. */
#define THREAD_EVENT_TELL_NS ((uint64_t)50 * 1000 * 1000)
#define THREAD_EVENT_TELL_EACH_NS ((uint64_t)100 * 1000)
/* Bytes by which a thread decreases between two looks at the clock, at least. */
#define THREAD_EVENT_FREED ((uint64_t)128 << 10)
/*
 * Time between two heartbeats that is too long; and one that is short enough to become four times
 * as long.
 */
#define THREAD_EVENT_SLOW_NS ((uint64_t)250 * 1000 * 1000)
#define THREAD_EVENT_QUICK_NS (THREAD_EVENT_SLOW_NS / 4)
/*
 * While nobody waits for a number of bytes or a large request, a few large requests may pass
 * without a heartbeat each: at most this many of a cached class, and past the cache. After a change
 * of thread_event_is_strict call recall_all(RECALL_SETTINGS).
 */
extern HIDDEN atomic_b_t thread_event_is_strict;
#define THREAD_EVENT_CACHED 32u
#define THREAD_EVENT_DIRECT 16u

/*
 * Requests of `size` until the next heartbeat at the thread's own pace (>= 1), and large ones past
 * the cache. At THREAD_EVENT_BYTES these are the constants above, at a shorter distance
 * proportionally fewer.
 */
ALWAYS_INLINE uint64_t
thread_event_requests(const tsd_t *tsd, size_t size) {
	const uint64_t step = THREAD_EVENT_BYTES / THREAD_EVENT_CACHED;
	uint64_t least = (tsd->beat_bytes + step - 1) / step, n = tsd->beat_bytes / size;
	assert(tsd->beat_bytes >= THREAD_EVENT_LEAST && tsd->beat_bytes <= THREAD_EVENT_BYTES
	    && least > 0);
	if (unlikely(n < least)) {
		n = !atomic_load_b(&thread_event_is_strict, MO_RELAXED) ? least : n + (n == 0);
	}
	return n;
}

ALWAYS_INLINE uint32_t
thread_event_direct_requests(const tsd_t *tsd) {
	bool is_strict = atomic_load_b(&thread_event_is_strict, MO_RELAXED);
	return is_strict ? 0 : (uint32_t)(tsd->beat_bytes / (THREAD_EVENT_BYTES / THREAD_EVENT_DIRECT));
}

/*
 * Whether the next thread should have a heartbeat, however little it has allocated. After a change
 * call recall_all(RECALL_SETTINGS).
 */
extern HIDDEN atomic_b_t thread_event_is_wanted;

/*
 * Mean bytes between samples; 0: no samples. After a change call recall_all(RECALL_SETTINGS). Each
 * thread copies it (tsd->sample_interval) when it looks, and draws new distances, so that a sample
 * is always weighed by the interval it was drawn by.
 */
extern HIDDEN atomic_u64_t thread_event_sample_interval;

/* Sets the pace of a new thread; draws no distances. */
void thread_event_begin(tsd_t *tsd);
/*
 * The part of tcache_hasten() that does not concern the cache: running countdowns stay as they are.
 */
void thread_event_hasten(tsd_t *tsd, uint64_t beat_bytes);
/*
 * Compares what the thread has from the arenas, in the gate without a lock. Returns true if it has
 * decreased by much, which the caller handles. Recalls the other threads if it is time, and sets
 * where the next look is due.
 */
bool thread_event_came_down(tsd_t *tsd, uint64_t now);
/*
 * Notes what the thread has from the arenas now, as the maximum from which a decrease counts. At
 * heartbeats, and where large objects come from an arena: several pass between two heartbeats.
 */
void thread_event_note_held(tsd_t *tsd);
/* At the end of the thread, whose decrease would not be seen otherwise. */
void thread_event_note_end(tsd_t *tsd);
void thread_event_postfork_child(void);

/*
 * Hooks called at heartbeats, in the gate, without a lock, with nested events off; the last entry
 * is NULL.
 */
typedef void thread_event_hook_t(tsd_t *tsd, uint64_t bytes);
extern HIDDEN thread_event_hook_t *const *thread_event_hooks;

/* Copies the published interval; all distances must then be drawn again. */
void thread_event_take_interval(tsd_t *tsd);
/*
 * Copies whether somebody waits for bytes. What the thread did before that, perhaps many large
 * requests, is not counted for it.
 */
void thread_event_take_strictness(tsd_t *tsd);
/* Objects of usize until the next sample, including it (>= 1); UINT64_MAX: no sample. */
uint64_t thread_event_draw_objects(tsd_t *tsd, size_t usize);
/* The same in bytes, for allocations past the cache. */
uint64_t thread_event_draw_bytes(tsd_t *tsd);

/* Counts allocated bytes and runs the heartbeat when enough have come together. */
void thread_event_advance(tsd_t *tsd, uint64_t bytes);
/* Whether an allocation past the cache is a sample. */
bool thread_event_count_to_sample(tsd_t *tsd, size_t usize);

#endif
