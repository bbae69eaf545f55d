/*
 * The switches of the profiler: booted (the site tables exist), ready (boot is complete), active
 * (prof.active), gdump, whether a tracer wants samples, and the initial thread.prof.active.
 *
 * Together with thread.prof.active they decide whether samples are taken, and whether pac reports
 * new maxima of mapped memory. When a setter returns, the new state is published: whether a sample
 * that is due is taken follows it at once; each thread takes over a new sampling interval in its
 * next malloc or free. Setters of switches take the lock `prof_switch`, and under it those of
 * prof_sample.c; prof_sample_interval_set() takes only the latter, prof_reset() also those of
 * prof_data.c. All enter the gate themselves (os/gate.h: fork waits until no thread is inside);
 * readers take no lock. Set by ctl_prof.c, prof_session.c, prof_start.c and prof_listen.c; read by
 * most of the profiler, ctl and stats.c.
 */
#pragma once

#include "util/atomic.h"

/* Whether the site tables exist. */
bool prof_is_booted(void);
/*
 * When sampling was first switched on, for profiles or for a tracer, or the last reset after that,
 * in ns on the monotonic clock; 0: it never was. Since then the counts have been growing. Called
 * once the tables exist.
 */
uint64_t prof_switch_begun_ns(void);

/*
 * Read (prof.active: prof_switch_is_active()) and set prof.active, thread.prof.active of threads
 * that get their record from now on (prof.thread_active_init), and prof.gdump. Until booted, reads
 * return false or 0 and writes ENOENT; but setting prof.active to false returns 0 and does nothing.
 * Otherwise writes return 0.
 */
int prof_active_set(bool active);
bool prof_thread_active_init_get(void);
int prof_thread_active_init_set(bool active);
bool prof_gdump_get(void);
int prof_gdump_set(bool active);

uint64_t prof_interval_get(void);		/* bytes between interval dumps; 0: off, or not booted */
size_t prof_lg_sample_get(void);		/* floor(log2) of the sample interval; 0 until it is set */
size_t prof_sample_interval_get(void);		/* bytes; 0 until set, at the end of boot */
int prof_sample_interval_set(size_t bytes);	/* 0, ENOENT, or EINVAL for 0; keeps all samples */
/*
 * Forgets all samples and the mark (prof_mark.h), and sets the sample interval to 2^lg_sample
 * bytes; SIZE_MAX keeps it, and 64 and above become 63. 0, or ENOENT until booted. Called by
 * ctl_prof.c and, inside the gate, by prof_session.c.
 */
int prof_reset(size_t lg_sample);

/*
 * Called by prof_start.c when the site tables exist: the switches take their configured values and
 * booted becomes true, but no sampling starts.
 */
void prof_switch_boot(void);
/*
 * Called by prof_start.c when boot is complete: sampling begins if prof.active is true. pac calls
 * gdump_due at a new maximum of mapped memory while gdump is on.
 */
void prof_switch_set_ready(void (*gdump_due)(void));
/* Whether boot is complete, so that samples and dumps may begin. */
bool prof_switch_is_ready(void);
/*
 * From now on samples are taken for a tracer, with this mean of bytes between them while
 * prof.active is off; 0: no longer. Does not call prof_switch_changed_hook: the mailbox tells
 * nothing of tracers. Called by prof_listen.c when boot is complete.
 */
void prof_switch_listener_set(uint64_t interval);
/* Whether a tracer has samples taken. */
bool prof_switch_has_listener(void);
extern HIDDEN atomic_b_t prof_switch_active;
extern HIDDEN atomic_b_t prof_switch_wants_samples;
/* prof.active; false until booted. */
static inline bool
prof_switch_is_active(void) {
	return atomic_load_b(&prof_switch_active, MO_RELAXED);
}

/* prof.active or a tracer; false from prof_switch_boot() to prof_switch_set_ready() or a setter. */
static inline bool
prof_switch_samples(void) {
	return atomic_load_b(&prof_switch_wants_samples, MO_RELAXED);
}

/*
 * Called without the lock `prof_switch` (prof_start.c may hold its own) after each setting of
 * prof.active, gdump or the initial state once booted, also if that changed nothing, and by
 * prof_switch_set_ready(): copies the state into the mailbox, for readers outside the process.
 * prof_control_wire() sets it before the profiler can be booted.
 */
extern void (*prof_switch_changed_hook)(void);
