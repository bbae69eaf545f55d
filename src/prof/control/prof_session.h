/*
 * A session: the time between a start and a stop of profiling. This is the one state machine behind
 * mallctl, the mailbox and the control directory.
 *
 *            start                    done
 *     idle ---------> starting -----------------> active
 *      ^                  | start failed            |  stop, by anyone or by its number;
 *      |<-----------------'                         |  max_seconds are over
 *      |           profile written, or not          v
 *      '---------------------------------------- stopping ---> active: at a heartbeat another dump
 *                                        takes too long, or max_seconds was set anew meanwhile
 *
 * State and number are one atomic word. The thread that moves it to starting or stopping, by
 * compare-and-swap, owns the saved values until it moves it on. A refused request changes nothing.
 * What a start changes (prefix, rate, budget, thresholds, metric, prof.accum, prof.active) lasts
 * until the stop, which restores the previous values; prof.accum becomes what the option says, and
 * prof.active is only switched off if it was off before.
 *
 * Locks: none of its own. Called by ctl_prof.c, prof_request.c and prof_control.c, and by prof.c in
 * a forked child; conf_table.c and prof.c use the option.
 */
#pragma once

#include "prof/file/prof_box.h"
#include "prof/trigger/prof_budget.h"
#include "prof/trigger/prof_trigger.h"

typedef enum {
	prof_session_idle,
	prof_session_starting,
	prof_session_active,
	prof_session_stopping
} prof_session_state_t;

/* Values of the option prof_fork: profiling in a forked child. */
typedef enum {
	/* profiling continues as it was before the session, if one runs; the session ends */
	prof_fork_auto,
	prof_fork_inherit, /* profiling continues, and a session unless it is just being stopped */
	prof_fork_idle     /* no samples are taken; a session ends */
} prof_fork_t;
extern prof_fork_t opt_prof_fork;
extern const char *const prof_fork_names[]; /* as the enum, then NULL */

/*
 * Starts a session. options is NULL or key:value pairs separated by commas: prefix,
 * sample_interval, budget, reset, accum, max_seconds, final, blackbox, blackbox_size,
 * highwater_metric, and the thresholds by their short names. Returns 0; EALREADY (a session runs or
 * starts); EBUSY (one is being stopped); EINVAL, also if the directory of the prefix does not
 * exist; ENOMEM; or the errno of a black box that could not be opened, EFAULT for one that has
 * another meaning here. *why (why may be NULL) becomes a sentence about EINVAL or the black box,
 * else "". begun is NULL, or for a client outside the process: then, if 0 is returned, *begun is
 * the number of the session; and without a profiler's thread, when it runs at a heartbeat, a start
 * with a black box waits for a dump for a bounded time only (prof_dump_t), then fails with EFAULT.
 * May be called inside the gate (os/gate.h: fork waits until no thread is inside), with no lock
 * held.
 */
int prof_session_start(const char *options, const char **why, uint64_t *begun);
/* A number that no session has. */
#define PROF_SESSION_NONE UINT64_MAX
/*
 * Writes the profile and becomes idle, even if it could not be written. id 0: any session. Returns
 * 0; EALREADY (no session), EBUSY (a start or stop is under way, or the dump hook calls) or EPERM
 * (another session runs), and then nothing is changed; or the errno of the write, EFAULT for an
 * errno that has another meaning here or an empty prefix. told is NULL, or for a client outside the
 * process: it (PROF_TEXT_SIZE bytes) becomes the path of the profile, or why it could not be
 * written; "" if no write was tried. Then, without a profiler's thread, also EBUSY if a bounded
 * wait (prof_dump_t) for another dump is over, and the session goes on.
 */
int prof_session_stop(uint64_t id, char *told);
/*
 * Changes values with or without a session: options as for start, without prefix, reset, accum,
 * final, blackbox and blackbox_size. max_seconds counts from this call (0: no end), and needs a
 * session. Returns 0, or EINVAL or ENOENT (no session or no profiler to change) and a sentence in
 * *why; after an error nothing is changed. A stop does not take back what only this changed.
 */
int prof_session_set(const char *options, const char **why);

/* Questions that any thread may ask. */
prof_session_state_t prof_session_state(void);
/* Whether the state is active or stopping. */
bool prof_session_is_active(void);
uint64_t prof_session_id(void);       /* number of this or the last session; 0 before the first */
uint64_t prof_session_start_ns(void); /* its start, UTC in ns; 0 before the first */
uint64_t prof_session_rejected(void); /* number of starts and stops refused because of the state */

/*
 * Stops a session whose time is over; called without any lock, outside the gate, by the profiler's
 * thread or at heartbeats (prof_control.h). Returns the ns until the session's time is over;
 * UINT64_MAX: there is no limit, or it is over.
 */
uint64_t prof_session_tick(void);
/* Whether the session has a time limit that has passed; for heartbeats. */
bool prof_session_is_over(void);
/*
 * In a forked child: ends a start or stop under way, and a running session unless prof_fork is
 * inherit; with prof_fork:idle switches sampling off.
 */
void prof_session_postfork_child(void);

/* ---------------------------------------------------------------- the rules, on plain values */

/*
 * The result of a start, or of a stop of session id (0: any) while session `current` is in this
 * state: 0, or the errno value of prof_session_start() or prof_session_stop().
 */
int prof_session_may_start(prof_session_state_t state);
int prof_session_may_stop(prof_session_state_t state, uint64_t current, uint64_t id);

/*
 * The options of a session whose value is a number: first the thresholds (prof_threshold_t), then
 * these. Those up to prof_session_nsettings are settings, which can be changed at any time.
 */
typedef enum {
	prof_session_metric = prof_threshold_n, /* a prof_metric_t: of the high-water threshold */
	prof_session_budget,          /* fxp_t, percent */
	prof_session_sample_interval, /* bytes */
	prof_session_nsettings,
	prof_session_max_seconds = prof_session_nsettings, /* 0, also if not given: no limit */
	/* samples taken before are forgotten; not given: if sampling was off, or accum changes */
	prof_session_reset,
	prof_session_accum, /* sums of all that was allocated are kept too, as with prof_accum */
	prof_session_final, /* a profile is written when the time is over; not given: it is */
	prof_session_box,             /* prof_box_t: whether the session has a black box */
	prof_session_box_size,        /* bytes */
	prof_session_noptions
} prof_session_option_t;

/* The parsed options of a start or set. */
typedef struct {
	const char *prefix;      /* NULL: not given; not NUL-terminated */
	size_t prefix_len;
	uint32_t given;          /* bit i: option i was given */
	/* bit i: threshold i is in percent (1 to 100), which start and set turn into bytes */
	uint32_t percent;
	uint64_t values[prof_session_noptions]; /* 0: not given */
} prof_session_opts_t;
/* Parses options (NULL: none); 0, or EINVAL and a sentence in *why. *out points into text. */
int prof_session_parse(prof_session_opts_t *out, const char *text, const char **why);
