/*
 * Writes one profile: copies the site tables, then formats and writes them.
 *
 * The lock, prof_dump, keeps dumps apart from each other. It is held while files are written and
 * therefore outside the gate (os/gate.h: fork waits until no thread is inside). A dump at an
 * interval, a maximum, a threshold or a timer does not wait for it: if another thread has it, the
 * dump returns EBUSY, and its caller (prof_auto, prof_trigger) retries it at a later heartbeat
 * (thread/thread_event.h) or in the profiler's thread. A dump that the user asked for, that of a
 * session, the final one and prof_dump_try_hold() wait. The dump hook runs under the lock, and may
 * wait for a lock of the program; so the wait is bounded in a signal handler and at a heartbeat,
 * which come while the thread may hold that lock. The dump for a signal that is to end the process,
 * if the profiler's thread writes it, waits as long as another is written, but not for a hook that
 * does not return.
 *
 * Called for dumps by prof_auto.c, prof_trigger.c, prof_session.c and prof_request.c, by prof_box.c
 * and prof_auto.c to keep dumps off, by prof.c, prof_course.c, prof_trigger.c and prof_request.c
 * for numbers and texts, by prof_control.c, prof_session.c and prof_trigger.c to ask who holds the
 * lock, by prof.c in a forked child and for the statistics of the lock, and by prof_start.c for the
 * reserve.
 */
#pragma once

#include "os/mutex.h"
#include "prof/file/prof_sys.h"
#include "prof/sites/prof_snap.h"

/* One dump: the caller fills in what is wanted; found_leak and told are results. */
typedef struct {
	prof_kind_t kind;
	const char *path;        /* explicit path; NULL: a name made from the prefix and the kind */
	prof_sink_t *sink;       /* NULL: a file; else it receives the profile, and path is NULL */
	bool may_wait;           /* wait for a dump in progress to end */
	/* that wait ends after two seconds: the program may hold here what its dump hook waits for */
	bool is_bounded;
	/* without is_bounded: ends when one dump hook has run for ten seconds; it may never return */
	bool is_hook_bounded;
	/* path was sent by a client outside the process, which may replace profiles only */
	bool is_confined;
	bool is_silent;          /* a session: no message on failure, as the caller gets the errno */
	/* called in a signal handler, where neither the loader nor the user's hook may be called */
	bool in_handler;
	const char *metric;      /* name of the figure that triggered the dump; NULL: none */
	uint64_t metric_value;   /* of that figure: bytes, ms, or the number of a signal */
	bool wants_leak;         /* print the leak summary */
	bool found_leak;         /* out: the leak summary was not empty */
	/*
	 * out, PROF_TEXT_SIZE bytes or NULL: the path written ("-": a sink), or what failed and why; ""
	 * if no dump was begun
	 */
	char *told;
} prof_dump_t;

/*
 * Writes a profile and then, also if that failed, calls the user's dump hook (not if in_handler).
 * May be called inside the gate, which it leaves meanwhile; the caller holds no lock. Preserves
 * errno. Returns 0 or the errno value of the call that failed. Neither writes nor calls the hook:
 * EBUSY if another thread has the lock and may_wait is false or the bounded wait is over, if called
 * from the dump hook, if another thread is ending the process, or in a lost child (gate_is_lost());
 * ENODATA if prof_kind_delta has no mark at the call; EAGAIN if a limit (prof_keep) or the wait
 * after failures (prof_dump.c) forbids an automatic dump.
 */
int prof_dump(prof_dump_t *d);

/* Whether this thread holds the lock: for a dump, its hook included, or a prof_dump_try_hold(). */
bool prof_dump_is_mine(void);
/* Whether any thread holds it; that may have changed on return. */
bool prof_dump_is_busy(void);

/*
 * Numbers, since the start of the process, of profiles written and of failed dumps; in a forked
 * child they begin at 0 again.
 */
uint64_t prof_dump_nwritten(void);
uint64_t prof_dump_nerrors(void);
/*
 * Copy into buf the last failure ("ERRNO-NAME PATH BYTES-WRITTEN") or the path of the last profile
 * in a file; an empty text if there is none. Called inside the gate.
 */
void prof_dump_last_error(char *buf, size_t size);
void prof_dump_last_path(char *buf, size_t size);
/* Visits the lock. */
void prof_dump_visit_mutex(mutex_visit_t *visit, mutex_prof_data_t *of);
/*
 * In a forked child: drops the dump of another thread, without touching its temporary file, sets
 * the numbers to 0 and forgets the last outcome.
 */
void prof_dump_postfork_child(void);

/*
 * Reserves 6 MiB of address space for dumps in a program that has reached its limit (RLIMIT_AS,
 * RLIMIT_DATA); nothing if it is there, or if the system refuses it. Called inside the gate.
 */
void prof_dump_reserve(void);

/*
 * Keep dumps from being made: prof_dump_try_hold() waits for the one in progress, is_bounded as in
 * prof_dump_t, and takes the lock; false, without the lock, if that wait is over or this thread
 * holds it (it runs in the dump hook). Called outside the gate.
 */
bool prof_dump_try_hold(bool is_bounded);
void prof_dump_release(void);
