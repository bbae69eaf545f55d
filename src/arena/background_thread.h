/*
 * Background threads: they return unused pages while the user's threads do something else, or
 * nothing.
 *
 * There are as many as automatic arenas, but at most `max`. Thread k of n serves the arenas whose
 * index is k modulo n, and their hidden arenas (of samples): it purges pages that are due
 * (pac_tick), trims bins and makes holes; the heartbeats of the user's threads (upkeep that each
 * thread does as it allocates: thread/thread_event.h) do not purge these arenas. All are started,
 * also for automatic arenas that are not made yet, when the library is loaded or when the user
 * switches them on or changes `max`; never later, because a program may forbid the system calls
 * that create a thread. A thread sleeps until pages are due, without a limit if none will be and
 * there are no huge slabs. From a sleep above 100 ms it is woken by the thread that makes 1 MiB
 * more unused or, if no dirty page will become due, by the one that frees the next page
 * (pac_serve); also by the one that puts small objects back into slabs when no pass over the slabs
 * is to come (holes.h). The first thread also takes back what idle threads cache, once a second
 * while there is something (background_thread_hook). With a dirty decay time of 0 (whoever frees
 * purges) or -1 freed pages do not wake it; with 0 it sleeps for at most 1 s. All its signals are
 * blocked, and it allocates only metadata (but it may call the user's hooks). If it is not started,
 * its arenas decay at heartbeats. When the first thread of the process has ended by pthread_exit(),
 * they look five times a second whether they are the last, and then end, since they would keep a
 * process alive that no signal but SIGKILL reaches.
 *
 * Locks: the lock `background_thread` is held while threads are started or ended, outside the gate
 * (os/gate.h: fork waits for threads inside) because that takes long; it is taken before the locks
 * of mallctl and of arenas. Each thread has a lock for its counters. In a forked child the threads
 * are off. Callers: boot, fork, mallctl; arenas and tcache_budget.c wake threads through hooks,
 * with any lock held.
 */
#pragma once

#include "os/mutex.h"
#include "util/compiler.h"

/* Maximum of opt_max_background_threads. */
#define BACKGROUND_THREADS_LIMIT 4096

extern bool opt_background_thread;
extern size_t opt_max_background_threads;
/*
 * The option abort. If a thread cannot be started, at load or later, a line is printed; if this is
 * set, the process ends then.
 */
extern bool background_thread_abort;

/*
 * Called by the first thread in each of its rounds, inside the gate; now: monotonic ns. Returns ns
 * until it wants to be called again; UINT64_MAX: pac_wake_hook(0) is called when it does. Set once,
 * at boot, or NULL.
 */
extern uint64_t (*background_thread_hook)(uint64_t now);

/* What stats.background_thread tells: X(name, type, text for the manual). */
#define BACKGROUND_STATS_FIELDS(X) \
	X(num_threads, size_t, "purging threads that run") \
	X(num_runs, uint64_t, "times that they woke up") \
	X(run_interval, uint64_t, "nanoseconds between two of them, on average")

typedef struct background_thread_stats_s {
#define BACKGROUND_STATS_FIELD(name, type, says) type name;
	BACKGROUND_STATS_FIELDS(BACKGROUND_STATS_FIELD)
#undef BACKGROUND_STATS_FIELD
	mutex_prof_data_t mutex;           /* of the lock `background_thread` */
	mutex_prof_data_t max_per_thread;  /* of one thread's lock: the one taken most often */
} background_thread_stats_t;

/* Called once, after arenas_boot(): sets the hooks by which arenas wake threads; starts none. */
void background_thread_boot(void);
/*
 * Called once, by the constructor: starts the threads if the option is set. If one cannot be
 * started, those before it go on, those after it are not tried, and the switch stays on.
 */
void background_thread_boot_late(void);

bool background_thread_is_on(void);
/*
 * Switches the threads on or off. 0, or EFAULT: a thread could not be started (all are off then),
 * or the caller is a background thread. To switch on what is on starts the threads that are
 * missing. Call it outside the gate. After switching off, all have ended.
 */
int background_thread_set(bool on);

/* The most threads at present. */
size_t background_thread_max(void);
/*
 * If max changes, ends all threads, and starts them anew if they are on. EINVAL: 0 or more than
 * opt_max_background_threads; EFAULT: as background_thread_set(); if a thread could not be started,
 * max is the new one, and all are off. Call it outside the gate.
 */
int background_thread_max_set(size_t max);

/* Called at the end of each thread, through tsd_cleanups (thread/tsd.h). */
struct tsd_s;
void background_thread_cleanup(struct tsd_s *tsd);

/* In a forked child, where the threads do not exist: switches them off. */
void background_thread_postfork_child(void);

/* Takes the lock of each thread, one at a time. */
void background_thread_stats_read(background_thread_stats_t *out);
/*
 * Zeroes the counters of the locks (of `background_thread` only if it is free), not those of the
 * runs.
 */
void background_thread_stats_reset(void);
