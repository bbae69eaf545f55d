/*
 * Triggers: reasons to write a profile by itself, as rows.
 *
 * Allocated bytes since the last time, one large request, live memory above a mark, time.  What
 * threads do is told at their heartbeats, so every figure is right within 64 KiB per thread.  Nothing
 * is done anywhere while all thresholds are 0: one word says whether any is set.
 * A profile goes out only while prof.active holds, and as the storm guard (prof_keep.h) allows.
 *
 * Live memory (what the program holds, not what lies in thread caches) is known as an upper bound
 * between two looks: what the last look said plus what was allocated since.  Only when the bound passes the mark is the true figure read, and never so often
 * that reading costs more than a fiftieth of the time in the long run.
 */
#ifndef PROF_TRIGGER_H
#define PROF_TRIGGER_H

#include "prof_sys.h"
#include "util/atomic.h"

typedef enum {
	prof_threshold_alloc,
	prof_threshold_large,
	prof_threshold_highwater,
	prof_threshold_highwater_step, /* 0: an eighth of the threshold */
	prof_threshold_time_ms,
	prof_threshold_n
} prof_threshold_t;

typedef enum {
	prof_metric_allocated,
	prof_metric_active,
	prof_metric_resident,
	prof_metric_rss,
	prof_metric_n
} prof_metric_t;
extern const char *const prof_metric_names[]; /* as the enum, then NULL */

/* Options: values that prof_trigger_boot() starts with. */
extern uint64_t opt_prof_thresholds[prof_threshold_n];
extern prof_metric_t opt_prof_highwater_metric;

void prof_trigger_boot(void);

/* Short names, as in the options of a session: "alloc", "large" ... NULL at the end. */
extern const char *const prof_threshold_names[];
uint64_t prof_threshold_get(prof_threshold_t t);
void prof_threshold_set(prof_threshold_t t, uint64_t value);
prof_metric_t prof_threshold_metric_get(void);
void prof_threshold_metric_set(prof_metric_t metric);
int prof_metric_by_name(const char *name, size_t len, prof_metric_t *out); /* EINVAL */

/* The mark falls to nothing: the next crossing of the threshold counts again. */
void prof_trigger_rearm(void);
/* Counting starts anew: a session begins. */
void prof_trigger_restart(void);
/* A forked child counts for itself. */
void prof_trigger_postfork_child(void);

extern HIDDEN atomic_zu_t prof_trigger_large_min;
/*
 * Requests of at least this size go to prof_trigger_large(), once they are served; SIZE_MAX: none.
 * Classes that may hold one are watched (thread/tcache.h): their requests take the slow path.
 */
ALWAYS_INLINE size_t
prof_trigger_large_bytes(void) {
	return atomic_load_zu(&prof_trigger_large_min, MO_RELAXED);
}
void prof_trigger_large(size_t size);

/* At heartbeats. */
void prof_trigger_heartbeat(uint64_t bytes);
/*
 * On the profiler's thread: also what only time brings about. ns until it wants to be called again.
 * Without that thread the timer is looked at by heartbeats.
 */
uint64_t prof_trigger_tick(void);
/* Something needs the profiler's thread. */
bool prof_trigger_wants_thread(void);
/* Called after each change of a threshold or of the state of a session; defined by prof_control. */
extern void (*const prof_trigger_changed)(void);
/* The profiler's thread runs; from there too. */
extern bool (*const prof_trigger_has_thread)(void);

/*
 * A profile of an automatic kind, if switches and guard let it: 0, EBUSY (another dump runs, ask
 * again), EAGAIN (left out), or why it could not be written.
 */
int prof_trigger_fire(prof_kind_t kind, const char *metric, uint64_t value);

/* Profiles written, of any kind. */
uint64_t prof_trigger_ndumps(void);

/* ---------------------------------------------------------------- what tests bring their own of */

typedef struct {
	uint64_t (*now_ns)(void);
	bool (*is_on)(void);                        /* automatic files are wanted */
	uint64_t (*read)(prof_metric_t metric);     /* bytes */
	int (*dump)(prof_kind_t kind, const char *metric, uint64_t value);
	bool (*has_thread)(void);                   /* the profiler's own thread looks after the timer */
} prof_trigger_hooks_t;
extern const prof_trigger_hooks_t prof_trigger_hooks_real;
extern const prof_trigger_hooks_t *prof_trigger_hooks;

#endif /* PROF_TRIGGER_H */
