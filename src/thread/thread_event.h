/*
 * What a thread does now and then: the heartbeat, and the distance to the next sample.
 *
 * Each class of a cache counts its pops down; allocations past the cache count bytes.  At the end of
 * a countdown, at most 64 KiB of allocation (or a few large requests) apart, comes the heartbeat: upkeep of the cache, decay,
 * whoever else has put itself into the table.  Decay goes by time: where a thread allocates so little that its heartbeats
 * come slowly, they move together, down to THREAD_EVENT_LEAST bytes, and apart again as it gets faster.  A thread that
 * has freed much may get slow just now, with its countdowns set at its old pace: they are cut short (tcache_note_freed).
 * It may also stop altogether, or end, while another one goes on that was always slow: when threads have come down by much,
 * each by itself or all together, the others are told (thread/recall.h), and begin at the least.
 * Samples: a Poisson process over bytes with mean `interval`, split by class: the gaps of each class
 * are independent and exponential, so a request of z bytes is a sample with probability 1-exp(-z/interval).
 */
#ifndef THREAD_THREAD_EVENT_H
#define THREAD_THREAD_EVENT_H

#include "thread/tsd_types.h"

/* Bytes from heartbeat to heartbeat: most; after much was freed; least. */
#define THREAD_EVENT_BYTES ((uint64_t)64 << 10)
#define THREAD_EVENT_SOON ((uint64_t)1 << 10)
#define THREAD_EVENT_LEAST ((uint64_t)64)
/*
 * Bytes that a thread has of the arenas less than it had before: much, after which its countdowns are cut short, or those
 * of all if they add up to it: well under what may stay when decay is over.  And what one adds at a time, less where so
 * many threads together would keep more than that to themselves.
 * A thread that frees as much as it allocates leaves its pages to itself, and keeps its pace.
 */
#define THREAD_EVENT_MUCH ((uint64_t)16 << 20)
#define THREAD_EVENT_SOME ((uint64_t)1 << 20)
/* From one time that all are told to the next: at least, and for each of them. */
#define THREAD_EVENT_TELL_NS ((uint64_t)50 * 1000 * 1000)
#define THREAD_EVENT_TELL_EACH_NS ((uint64_t)100 * 1000)
/* Bytes that a thread frees past its caches from one look at the clock to the next. */
#define THREAD_EVENT_FREED ((uint64_t)128 << 10)
/* A pause between two heartbeats that is too long, and one that may be four times as long. */
#define THREAD_EVENT_SLOW_NS ((uint64_t)250 * 1000 * 1000)
#define THREAD_EVENT_QUICK_NS (THREAD_EVENT_SLOW_NS / 4)
/*
 * While nobody waits for a number of bytes or a large request, a few large requests may come without a heartbeat each: at
 * most so many of a class that is cached, so many past the cache.  Whoever changes it calls recall_all(RECALL_SETTINGS).
 */
extern HIDDEN atomic_b_t thread_event_is_strict;
#define THREAD_EVENT_CACHED 16u
#define THREAD_EVENT_LARGE 128u

/*
 * The same at the thread's own pace: requests of size until the next heartbeat (>= 1); and large ones past the cache.
 * At THREAD_EVENT_BYTES the constants are what they say; at less they are as much smaller.
 */
ALWAYS_INLINE uint64_t
thread_event_requests(const tsd_t *tsd, size_t size) {
	const uint64_t step = THREAD_EVENT_BYTES / THREAD_EVENT_CACHED;
	uint64_t least = (tsd->beat_bytes + step - 1) / step, n = tsd->beat_bytes / size;
	assert(tsd->beat_bytes >= THREAD_EVENT_LEAST && tsd->beat_bytes <= THREAD_EVENT_BYTES && least > 0);
	if (unlikely(n < least)) {
		n = !atomic_load_b(&thread_event_is_strict, MO_RELAXED) ? least : n + (n == 0);
	}
	return n;
}

ALWAYS_INLINE uint32_t
thread_event_hot_requests(const tsd_t *tsd) {
	bool is_strict = atomic_load_b(&thread_event_is_strict, MO_RELAXED);
	return is_strict ? 0 : (uint32_t)(tsd->beat_bytes / (THREAD_EVENT_BYTES / THREAD_EVENT_LARGE));
}

/* A heartbeat is wanted from whoever comes next, however little he has allocated.  Whoever sets it calls recall_all(RECALL_SETTINGS). */
extern HIDDEN atomic_b_t thread_event_is_wanted;

/*
 * Mean bytes between samples; 0: none.  Whoever changes it calls recall_all(RECALL_SETTINGS) afterwards: each
 * thread takes it over (tsd->sample_interval) when it looks, together with new gaps, so that an
 * object is never weighed by another interval than the one it was drawn by.
 */
extern HIDDEN atomic_u64_t thread_event_sample_interval;

/* Sets the pace of a new thread; draws no gaps. */
void thread_event_begin(tsd_t *tsd);
/* The part of tcache_hasten() that is not the cache's: countdowns that run stay as they are. */
void thread_event_hasten(tsd_t *tsd, uint64_t beat_bytes);
/*
 * Looks at what the thread has of the arenas, in the gate, no lock held: true if it has come down by much, which the caller
 * sees to.  The others are told if it is time.
 */
bool thread_event_came_down(tsd_t *tsd, uint64_t now);
/* The same at the thread's end: whatever it came down by is no longer seen otherwise. */
void thread_event_note_end(tsd_t *tsd);
void thread_event_postfork_child(void);

/* Called at heartbeats, in the gate, no lock held, nested events off; last entry NULL. */
typedef void thread_event_hook_t(tsd_t *tsd, uint64_t bytes);
extern HIDDEN thread_event_hook_t *const *thread_event_hooks;

/* Takes the published interval over; all gaps are to be drawn again. */
void thread_event_take_interval(tsd_t *tsd);
/* Whether somebody waits for bytes: what came before he did, by many large requests perhaps, is not counted for him. */
void thread_event_take_strictness(tsd_t *tsd);
/* Objects of usize until the next sample, that one included (>= 1); UINT64_MAX: none. */
uint64_t thread_event_draw_objects(tsd_t *tsd, size_t usize);
uint64_t thread_event_draw_bytes(tsd_t *tsd);

/* bytes were allocated; runs the heartbeat when enough have come together. */
void thread_event_advance(tsd_t *tsd, uint64_t bytes);
/* An allocation past the cache: is it a sample? */
bool thread_event_is_sample(tsd_t *tsd, size_t usize);

#endif
