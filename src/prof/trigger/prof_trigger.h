/*
 * Triggers: conditions under which a profile is written automatically.
 *
 * The conditions are: allocated bytes since the last time (alloc), one large request (large),
 * memory above a level (highwater), and time (time_ms). Threads report their bytes at heartbeats
 * (periodic work by bytes allocated, thread/thread_event.h), so at most 128 KiB of each size class
 * of a thread are not counted yet. While all thresholds are 0 nothing is done: a heartbeat reads
 * one word, a request compares with another one (prof_trigger_large_bytes()). A profile is written
 * only while prof.active is true, the prefix is not empty, and prof_keep.h permits it.
 *
 * What highwater looks at is the metric. The mark is the metric at the last profile of highwater
 * (not the mark of prof_mark.h), also one that failed or that a limit on files forbade: the next
 * level is one step above it, or the threshold if there is no mark; the mark does not fall with the
 * metric. Of the metric `allocated` an upper bound is known between two reads: the last value plus
 * what was allocated since. The true figure is read only if the bound reaches the next level, and
 * that takes at most a fiftieth of the time on average. The other metrics are read at heartbeats
 * and by the profiler's thread, at most every 100 ms.
 *
 * Of its own it has one lock, `prof_trigger`, for changes of the settings; none is held while a
 * profile is written. Called by prof.c at boot, heartbeats and after fork, by imalloc.c for large
 * requests, by prof_control.c for the timer, highwater and what is pending, by ctl_prof.c,
 * prof_session.c and prof_request.c for the settings, by prof_auto.c for its kinds.
 */
#pragma once

#include "prof/file/prof_sys.h"
#include "util/atomic.h"

/* The settings, in the order of prof_threshold_names; bytes except time_ms; 0: off. */
typedef enum {
	prof_threshold_alloc,     /* a profile each time that so many bytes were allocated */
	prof_threshold_large,     /* a profile for each request of at least so many bytes */
	prof_threshold_highwater, /* a profile when the metric reaches this */
	prof_threshold_highwater_step, /* and at each further rise by this; 0: an eighth of highwater */
	prof_threshold_time_ms,   /* a profile each time that so much time has passed */
	prof_threshold_n
} prof_threshold_t;

/* What highwater looks at, in bytes. */
typedef enum {
	prof_metric_allocated, /* what the user's code holds, as prof_figures_live() */
	prof_metric_active,    /* pages in use, as prof_figures_active() */
	prof_metric_resident,  /* what the allocator estimates, as prof_figures_resident() */
	prof_metric_rss,       /* resident bytes of the process, by the kernel */
	prof_metric_cgroup,    /* bytes of its control group (os/room_group.h) */
	prof_metric_n
} prof_metric_t;
extern const char *const prof_metric_names[]; /* as the enum, then NULL */

/* Options: the values that prof_trigger_boot() starts with. */
extern uint64_t opt_prof_thresholds[prof_threshold_n];
extern prof_metric_t opt_prof_highwater_metric;
/*
 * Options: the thresholds highwater [0] and highwater_step [1] as percent; 0: they are given in
 * bytes. prof_trigger_boot() stores the bytes in opt_prof_thresholds; if it cannot, it prints why
 * and stores 0.
 */
extern uint32_t opt_prof_highwater_percent[2];
/*
 * *bytes becomes `percent` (1 to 100) of the control group's limit (metric cgroup) or of the memory
 * of the machine (rss). 0, or EINVAL if the metric has no such whole, and *why says why.
 */
int prof_threshold_of_percent(prof_metric_t metric, uint32_t percent, uint64_t *bytes,
    const char **why);
/* Whether the metric can be read here; if not, *why says why. */
bool prof_metric_is_there(prof_metric_t metric, const char **why);

/*
 * Stores the options as thresholds and arms the triggers. Called by prof_boot_conf(), if an option
 * needs it.
 */
void prof_trigger_boot(void);

/* Short names as in the options of a session: "alloc", "large" and so on, then NULL. */
extern const char *const prof_threshold_names[];
/*
 * Setting alloc, highwater, time_ms or the metric, also to the same value, starts that count, mark
 * or timer anew. The setters enter the gate (os/gate.h: fork waits until no thread is inside) where
 * they take a lock; that of a threshold calls prof_trigger_changed_hook().
 */
uint64_t prof_threshold_get(prof_threshold_t t);
void prof_threshold_set(prof_threshold_t t, uint64_t value);
prof_metric_t prof_threshold_metric_get(void);
void prof_threshold_metric_set(prof_metric_t metric);

/* Forgets the mark of highwater: a metric at or above the threshold is a crossing again. */
void prof_trigger_rearm(void);
/* Starts all counts anew and drops pending profiles, at the beginning of a session. */
void prof_trigger_restart(void);
/* In a forked child: starts all counts anew. */
void prof_trigger_postfork_child(void);

extern HIDDEN atomic_zu_t prof_trigger_large_min;
/*
 * Requests of at least so many bytes, as asked for, are sampled and are reported to
 * prof_trigger_large() after they are served; SIZE_MAX: none. While sampling is on, requests of the
 * size classes that can hold one take the slow path (tcache_slow_min in thread/tcache.h).
 */
ALWAYS_INLINE size_t
prof_trigger_large_bytes(void) {
	return atomic_load_zu(&prof_trigger_large_min, MO_RELAXED);
}
/*
 * Writes a profile of kind l if size reaches the threshold; leaves it pending while another one is
 * written. Called by imalloc.c after the request was served, without a lock, with `inside`
 * (os/tls.h) raised once; not for requests of hooks and of signal handlers that interrupted the
 * allocator.
 */
void prof_trigger_large(size_t size);

/*
 * Called at heartbeats, where a dump is safe, with the bytes that the thread has allocated since
 * its last one. Writes what is due or pending; the timer only without the profiler's thread.
 */
void prof_trigger_heartbeat(uint64_t bytes);
/*
 * Called by the profiler's thread in each round: writes what is pending, looks at highwater, and
 * serves the timer. Returns the ns until the timer is due next; UINT64_MAX: there is none, or no
 * profile may be written.
 */
uint64_t prof_trigger_tick(void);
/* Whether the timer is set and can fire, so that the profiler's thread is needed. */
bool prof_trigger_wants_thread(void);
/* Called after each change of a threshold or of a session's state; prof_control_wire() sets it. */
extern void (*prof_trigger_changed_hook)(void);
/* Returns whether the profiler's thread runs; prof_control_wire() sets it. */
extern bool (*prof_trigger_has_thread_hook)(void);
/*
 * Whether a step that takes the lock prof_dump must not be done now: a dump holds it, and the
 * caller is at a heartbeat, because the profiler's thread does not run; heartbeats do not wait for
 * a dump (prof_dump.h).
 */
bool prof_trigger_is_kept_off(void);

/*
 * Writes a profile of an automatic kind, which reports value (> 0), if the switches and prof_keep
 * permit it, or leaves it pending while another one is written: then the next heartbeat of any
 * thread or the profiler's thread tries again. What comes due while one of its kind is pending is
 * merged into it. Also called by prof_auto.c.
 */
void prof_trigger_due(prof_kind_t kind, uint64_t value);

/* ---------------------------------------------------------------- hooks that tests replace */

typedef struct {
	uint64_t (*now_ns)(void);                   /* monotonic time */
	bool (*is_on)(void);                        /* whether automatic profiles are wanted */
	uint64_t (*read)(prof_metric_t metric);     /* in bytes */
	int (*dump)(prof_kind_t kind, const char *metric, uint64_t value);
} prof_trigger_hooks_t;
/* The hooks of the library, and the pointer to the hooks in use. */
extern const prof_trigger_hooks_t prof_trigger_hooks_real;
extern const prof_trigger_hooks_t *prof_trigger_hooks;
