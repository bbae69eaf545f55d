/*
 * What a thread does now and then: the heartbeat, and the distance to the next sample.
 *
 * Each class of a cache counts its pops down; allocations past the cache count bytes.  At the end of
 * a countdown, at most 64 KiB of allocation apart, comes the heartbeat: upkeep of the cache, decay,
 * whoever else has put itself into the table.
 * Samples: a Poisson process over bytes with mean `interval`, split by class: the gaps of each class
 * are independent and exponential, so a request of z bytes is a sample with probability 1-exp(-z/interval).
 */
#ifndef THREAD_THREAD_EVENT_H
#define THREAD_THREAD_EVENT_H

#include "thread/tsd_types.h"

#define THREAD_EVENT_BYTES ((uint64_t)64 << 10)

/* Mean bytes between samples; 0: none. Whoever changes it calls tsd_recall_all() afterwards. */
extern atomic_u64_t thread_event_sample_interval;

/* Called at heartbeats, in the gate, no lock held, nested events off; last entry NULL. */
typedef void thread_event_hook_t(tsd_t *tsd, uint64_t bytes);
extern thread_event_hook_t *const *thread_event_hooks;

/* Objects of usize until the next sample, that one included (>= 1); UINT64_MAX: none. */
uint64_t thread_event_draw_objects(tsd_t *tsd, size_t usize);
uint64_t thread_event_draw_bytes(tsd_t *tsd);

/* bytes were allocated; runs the heartbeat when enough have come together. */
void thread_event_advance(tsd_t *tsd, uint64_t bytes);
/* An allocation past the cache: is it a sample? */
bool thread_event_is_sample(tsd_t *tsd, size_t usize);

#endif
