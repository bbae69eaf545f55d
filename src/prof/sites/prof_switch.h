/*
 * The switches of the profiler: booted, ready, active, gdump, and the initial state of threads.
 *
 * These switches together decide whether samples are taken and whether pac reports new maxima. A
 * change is in effect when its setter returns.
 */
#ifndef PROF_SWITCH_H
#define PROF_SWITCH_H

#include "util/atomic.h"

/* Whether the site tables exist. */
bool prof_is_booted(void);
/*
 * Since when the counts count, on the monotonic clock: since sampling was first switched on, or the
 * last reset. 0: it never was.
 */
uint64_t prof_switch_begun_ns(void);

/*
 * Until booted, reads return false or 0 and writes ENOENT, but setting prof.active to false is
 * allowed.
 */
bool prof_active_get(void);
int prof_active_set(bool active);
bool prof_thread_active_init_get(void);
int prof_thread_active_init_set(bool active);
bool prof_gdump_get(void);
int prof_gdump_set(bool active);

uint64_t prof_interval_get(void);		/* bytes between interval dumps, 0: off */
size_t prof_lg_sample_get(void);		/* floor(lg) of the sample interval; 0 until booted */
size_t prof_sample_interval_get(void);		/* bytes; 0 until booted */
int prof_sample_interval_set(size_t bytes);	/* 0, ENOENT, or EINVAL for 0; keeps all samples */
/* Forgets all samples. lg_sample SIZE_MAX keeps the rate; 64 and above become 63. */
int prof_reset(size_t lg_sample);

/*
 * Called when the site tables exist: the switches take their configured values, but no sampling
 * starts.
 */
void prof_switch_boot(void);
/* Called when boot is complete: sampling may begin. gdump_due is called by pac at a new maximum. */
void prof_switch_ready(void (*gdump_due)(void));
/* Whether boot is complete, so that samples and dumps may begin. */
bool prof_switch_is_ready(void);
/*
 * Samples are taken for a tracer at this rate, in bytes, while prof.active is off; 0: for none.
 * Called when boot is complete.
 */
void prof_switch_listener_set(uint64_t rate);
/* Whether a tracer has samples taken. */
bool prof_switch_has_listener(void);
extern HIDDEN atomic_b_t prof_switch_active;
extern HIDDEN atomic_b_t prof_switch_wants_samples;
/* prof.active, without checking that the profiler is booted. */
static inline bool
prof_switch_is_active(void) {
	return atomic_load_b(&prof_switch_active, MO_RELAXED);
}

/* prof.active or a tracer. */
static inline bool
prof_switch_samples(void) {
	return atomic_load_b(&prof_switch_wants_samples, MO_RELAXED);
}

/* Publishes the new state to readers outside the process; prof_control_wire() fills it. */
extern void (*prof_switch_changed_hook)(void);

#endif /* PROF_SWITCH_H */
