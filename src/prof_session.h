/*
 * A session: the span between a start and a stop.  THE state machine behind all doors (mallctl, the
 * mailbox, the control directory).
 *
 *            start                    done
 *     idle ---------> starting -----------------> active
 *      ^                  | boot failed             |  stop, by anyone or by its number;
 *      |<-----------------'                         |  max_seconds are over
 *      |           profile written, or not          v
 *      '---------------------------------------- stopping
 *
 * State and number are one atomic word, changed by compare-and-swap only; who brings it into starting
 * or stopping owns everything else here until he takes it out.  A refused request changes nothing.
 * What a start's options change (prefix, rate, thresholds, prof.active) lasts until its stop, then the
 * values from before are back.
 */
#ifndef PROF_SESSION_H
#define PROF_SESSION_H

#include "prof_trigger.h"

typedef enum {
	prof_session_idle,
	prof_session_starting,
	prof_session_active,
	prof_session_stopping
} prof_session_state_t;

/* What happens to it in a forked child. */
typedef enum {
	prof_fork_auto,    /* what was configured at the start goes on, a session does not */
	prof_fork_inherit,
	prof_fork_idle
} prof_fork_t;
extern prof_fork_t opt_prof_fork;
extern const char *const prof_fork_names[]; /* as the enum, then NULL */

/*
 * options: NULL, or key:value pairs joined by commas: prefix, sample_interval, reset, max_seconds, and
 * the thresholds by their short names.  0; EALREADY, EBUSY by the state; EINVAL; ENOENT: the prefix has
 * no directory; ENOMEM.  why (may be NULL): a sentence about EINVAL and ENOENT.
 */
int prof_session_start(const char *options, const char **why);
/* The same, and which number the session has got; not that of one that follows soon. */
int prof_session_begin(const char *options, const char **why, uint64_t *id);
/* A number that no session has. */
#define PROF_SESSION_NONE UINT64_MAX
/* Writes the profile, then goes idle, even if it could not be written.  id 0: whichever it is. */
int prof_session_stop(uint64_t id);
/* told (PROF_TEXT_SIZE, or NULL): the path of its profile, or what kept it from being written; "": nothing was tried. */
int prof_session_stop_told(uint64_t id, char *told);
/* Changes values of a running process, session or not: as start, without reset. EINVAL, ENOENT. */
int prof_session_set(const char *options, const char **why);

prof_session_state_t prof_session_state(void);
bool prof_session_is_active(void);
uint64_t prof_session_id(void);       /* of the session, or the last one; 0 before the first */
uint64_t prof_session_start_ns(void); /* UTC; 0 before the first */
uint64_t prof_session_rejected(void);

/* Ends a session whose time is over.  Outside all locks. ns until its end, UINT64_MAX if it has none. */
uint64_t prof_session_tick(void);
/* For heartbeats: there is an end, and it is past. */
bool prof_session_is_over(void);
void prof_session_postfork_child(void);

/* ---------------------------------------------------------------- the rules, on plain values */

/* What start and stop (id 0: any) get in a state: 0 or the errno. */
int prof_session_may_start(prof_session_state_t state);
int prof_session_may_stop(prof_session_state_t state, uint64_t current, uint64_t id);

typedef struct {
	const char *prefix;      /* NULL: not given; not terminated */
	size_t prefix_len;
	uint64_t sample_interval; /* 0: not given */
	uint64_t max_seconds;     /* 0: no end */
	uint64_t thresholds[prof_threshold_n];
	uint32_t given;           /* bit per threshold */
	bool has_reset;
	bool reset;
	bool has_metric;
	bool has_max_seconds;
	prof_metric_t metric;
} prof_session_opts_t;
/* EINVAL and a sentence.  *out points into text. */
int prof_session_parse(prof_session_opts_t *out, const char *text, const char **why);

#endif /* PROF_SESSION_H */
