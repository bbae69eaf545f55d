/*
 * Triggers: conditions under which a profile is written automatically.
 *
 * The conditions are allocated bytes since the last profile, one large request, live memory above a
 * mark, and time. Threads report at their heartbeats, so each figure is exact to 64 KiB per thread.
 * While all thresholds are 0 nothing is done; one word says whether any is set. A profile is
 * written only while prof.active is true and prof_keep.h permits it.
 *
 * Live memory means what the user's code holds, without thread caches. Between two reads an upper
 * bound is known: the last value plus what was allocated since. The true figure is read only if the
 * bound passes the mark, and on average takes at most a fiftieth of the time.
 */
#ifndef PROF_TRIGGER_H
#define PROF_TRIGGER_H

#include "prof/file/prof_sys.h"
#include "util/atomic.h"

/* The settings, in the order of prof_threshold_names; bytes except time_ms. */
typedef enum {
	prof_threshold_alloc,
	prof_threshold_large,
	prof_threshold_highwater,
	prof_threshold_highwater_step, /* 0: an eighth of the threshold */
	prof_threshold_time_ms,
	prof_threshold_n
} prof_threshold_t;

typedef enum {
	prof_metric_allocated, /* bytes that the user's code holds (prof_figures_live) */
	prof_metric_active,    /* pages in use */
	prof_metric_resident,  /* the allocator's own estimate of memory in use */
	prof_metric_rss,       /* resident bytes of the process, by the kernel */
	prof_metric_cgroup,    /* bytes of its control group (os/room.h) */
	prof_metric_n
} prof_metric_t;
extern const char *const prof_metric_names[]; /* as the enum, then NULL */

/* Options: the values that prof_trigger_boot() starts with. */
extern uint64_t opt_prof_thresholds[prof_threshold_n];
extern prof_metric_t opt_prof_highwater_metric;
/*
 * Options: the threshold highwater, or its step, as percent; 0: given in bytes. prof_trigger_boot()
 * replaces it by bytes, or says why it cannot.
 */
extern uint32_t opt_prof_highwater_percent[2];
/*
 * Bytes of so many percent of the group's limit (metric cgroup) or of the machine (rss). 0, or
 * EINVAL and a sentence, if the metric has no such whole.
 */
int prof_threshold_of_percent(prof_metric_t metric, uint32_t percent, uint64_t *bytes,
    const char **why);
/* Whether the metric can be read here; if not, *why says why. */
bool prof_metric_is_there(prof_metric_t metric, const char **why);

/* Stores the options as thresholds and arms the triggers. */
void prof_trigger_boot(void);

/* Short names as in the options of a session: "alloc", "large" and so on, then NULL. */
extern const char *const prof_threshold_names[];
/* Setting a threshold or the metric starts its count, mark or timer anew. */
uint64_t prof_threshold_get(prof_threshold_t t);
void prof_threshold_set(prof_threshold_t t, uint64_t value);
prof_metric_t prof_threshold_metric_get(void);
void prof_threshold_metric_set(prof_metric_t metric);
int prof_metric_by_name(const char *name, size_t len, prof_metric_t *out); /* 0 or EINVAL */

/* Forgets the mark, so that the next crossing of the threshold counts again. */
void prof_trigger_rearm(void);
/* Starts all counts anew at the beginning of a session. */
void prof_trigger_restart(void);
/* In a forked child: starts all counts anew. */
void prof_trigger_postfork_child(void);

extern HIDDEN atomic_zu_t prof_trigger_large_min;
/*
 * Requests of at least this size are reported to prof_trigger_large() after they are served;
 * SIZE_MAX: none. Size classes that can hold such a request are watched (thread/tcache.h): they
 * take the slow path.
 */
ALWAYS_INLINE size_t
prof_trigger_large_bytes(void) {
	return atomic_load_zu(&prof_trigger_large_min, MO_RELAXED);
}
/* Writes a profile of kind l if size reaches the threshold; called after the request is served. */
void prof_trigger_large(size_t size);

/* Called at heartbeats with the bytes allocated since the last one. */
void prof_trigger_heartbeat(uint64_t bytes);
/*
 * Called by the profiler's thread; also handles what depends on time alone. Returns the ns until it
 * must be called again. Without that thread heartbeats check the timer.
 */
uint64_t prof_trigger_tick(void);
/* Whether a setting needs the profiler's thread. */
bool prof_trigger_wants_thread(void);
/* Called after each change of a threshold or of a session's state; prof_control_wire() fills it. */
extern void (*prof_trigger_changed_hook)(void);
/* Returns whether the profiler's thread runs; prof_control_wire() fills it. */
extern bool (*prof_trigger_has_thread_hook)(void);

/*
 * Writes a profile of an automatic kind if the switches and prof_keep permit it. Returns 0, EBUSY
 * (another dump runs, try again), EAGAIN (left out), or the errno of the failed write.
 */
int prof_trigger_fire(prof_kind_t kind, const char *metric, uint64_t value);

/* Number of profiles written, of any kind. */
uint64_t prof_trigger_ndumps(void);

/* ---------------------------------------------------------------- hooks that tests replace */

typedef struct {
	uint64_t (*now_ns)(void);
	bool (*is_on)(void);                        /* whether automatic profiles are wanted */
	uint64_t (*read)(prof_metric_t metric);     /* in bytes */
	int (*dump)(prof_kind_t kind, const char *metric, uint64_t value);
	/* whether the profiler's thread runs, which then serves the timer */
	bool (*has_thread)(void);
} prof_trigger_hooks_t;
/* The hooks of the library, and the pointer to the hooks in use. */
extern const prof_trigger_hooks_t prof_trigger_hooks_real;
extern const prof_trigger_hooks_t *prof_trigger_hooks;

#endif /* PROF_TRIGGER_H */
