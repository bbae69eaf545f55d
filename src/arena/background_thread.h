/*
 * Background threads: they give unused pages back while the program does something else, or nothing.
 *
 * Thread k of at most `max` serves the arenas whose index is k modulo max; an arena that is served is
 * passed over by the program's own heartbeats.  A thread is made when its first arena is there, at a
 * heartbeat of the program (never at load), or at once when the program switches the threads on.
 * It sleeps until pages are due, for ever when none are unused; then the thread that frees the next
 * page wakes it (pac_serve).  All its signals are blocked, and it allocates nothing.
 * A thread that cannot be made harms nobody: its arenas decay at the program's own calls.
 *
 * Locks: background_thread, the outermost of all, is held by who starts or stops threads, outside the
 * gate since that takes long; one for each thread covers its counters.  Not inherited by a forked
 * child, which makes its own at its first heartbeat.
 */
#ifndef ARENA_BACKGROUND_THREAD_H
#define ARENA_BACKGROUND_THREAD_H

#include "os/mutex.h"
#include "util/compiler.h"

#define BACKGROUND_THREADS_LIMIT 4096

extern bool opt_background_thread;
extern size_t opt_max_background_threads;
/* The option abort, for a thread that cannot be made. */
extern bool background_thread_abort;

typedef struct background_thread_stats_s {
	size_t num_threads;
	uint64_t num_runs;
	uint64_t run_interval;             /* mean time between two runs of a thread, ns */
	mutex_prof_data_t mutex;           /* of the lock of all */
	mutex_prof_data_t max_per_thread;  /* of the busiest thread's */
} background_thread_stats_t;

/* Once, after the arenas. */
void background_thread_boot(void);

bool background_thread_is_on(void);
/* 0 or EFAULT (nothing changed).  Outside the gate; when off, all threads have ended. */
int background_thread_set(bool on);

size_t background_thread_max(void);
/* 0; EINVAL: 0 or more than opt_max_background_threads; EFAULT.  Outside the gate. */
int background_thread_max_set(size_t max);

/* At a heartbeat of the program, in the gate: makes threads that are due. */
void background_thread_heartbeat(void);

void background_thread_postfork_child(void);

void background_thread_stats_read(background_thread_stats_t *out);
void background_thread_stats_reset(void);

#endif
