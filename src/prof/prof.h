/*
 * The interface of the profiler for the floors above it.
 *
 * thread/thread_event draws the distances between samples; imalloc asks prof_should_sample()
 * whether one that is due is taken. The profiler records the samples, counts them by site and
 * writes them out. "Booted" means that the site tables exist, which then stay; "active"
 * (prof.active) means that new samples are taken. Neither changes how a sampled object is freed. So
 * the profiler may be booted (once) and prof.active may be switched at any time.
 *
 * An int result is an errno as mallctl returns it, unless its comment says otherwise. Locks: none
 * of its own. Called by jemalloc_init.c (boot), imalloc.c and irealloc.c (samples),
 * jemalloc_fork.c, ctl_prof.c, ctl_arena.c and ctl_snapshot.c, and thread_event (heartbeats, by a
 * hook). Others (stats.c, ctl_thread.c and so on) include it for the headers of the profiler below.
 */
#pragma once

#include "meta/edata.h"
#include "os/mutex.h"
#include "prof/control/prof_start.h"
#include "prof/file/prof_log.h"
#include "prof/file/prof_recent.h"
#include "prof/sites/prof_hook.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_stats.h"
#include "prof/sites/prof_switch.h"
#include "prof/sites/prof_thread.h"
#include "prof/trigger/prof_auto.h"

/* --------------------------------------------------------------- life */

/*
 * Runs during boot, after the options were read: applies the options that imply others, reports if
 * prof_leak_error is set but prof_final is not, makes the prefix absolute if opt_prof is set,
 * starts the modules whose options were given (prof_keep, prof_trigger) and opens the mailbox; a
 * set-user-ID process gets none, and prof_ctl_dir and prof_ctl_fd are unset there. Returns the
 * number of invalid settings that it has reported (0 or 1); with abort_conf the caller then aborts.
 * Prints a notice, which does not count, for an option without effect or a missing directory.
 */
int prof_boot_conf(void);
/*
 * Registers prof_fdump with atexit() if prof_final, prof_final_signals or prof_gdump is set. Called
 * during boot only, even if the profiler is not booted, because it may be booted later. If atexit()
 * fails, prints that, and aborts with abort:true.
 */
void prof_boot_exit(void);
/*
 * Called during boot if opt_prof is set: ends the black boxes that the process left before an exec
 * (prof_earlier.h) and opens the one that MALLOC_CONF asks for, before the first sample. If that
 * fails, prints why and goes on without one. Without prof_blackbox or the site tables does nothing.
 */
void prof_boot_box(void);
/*
 * Called by the library's constructor if opt_prof is set; does nothing without the site tables.
 * Selects the unwinder, and records the loaded objects in the black box if there is one. Other
 * threads lose the samples that they take while the unwinder is selected. So it is selected here,
 * where there rarely are other threads, and not at the first sample.
 */
void prof_boot_constructed(void);
/*
 * Writes a gdump that is due, the final profile and the leak summary, each if its option asks for
 * it; with prof_leak_error and leaks the process ends with status 1, after what is left of its
 * exit. An empty prefix means no final profile and no summary, so no such end. Nothing in a lost
 * child (os/gate.h). prof_boot_exit() registers it with atexit().
 */
void prof_fdump(void);
/*
 * In a forked child: initialises the locks of the profiler that are also held outside the gate,
 * because a thread of the parent may hold one, and drops what threads owned that do not exist in
 * the child.
 */
void prof_postfork_child(void);

/* --------------------------------------------------------------- sampled objects (from imalloc) */

/*
 * Whether the switches allow a sample: prof.active is set or a tracer is attached, and
 * thread.prof.active is set. Makes the thread's record if it has none; false if there is no memory
 * for it. Asked when a sample is due, before the object is allocated.
 */
static inline bool
prof_should_sample(tsd_t *tsd) {
	const prof_tdata_t *td = prof_switch_samples() ? prof_tdata(tsd) : NULL;
	return td != NULL && td->active;
}

/*
 * Records a sampled object of req requested bytes. The caller passes a rec without a count (tctx is
 * NULL) and without a link. Without memory or a backtrace it stays so, and the object counts as not
 * sampled. usize is the usable size that the request would have had without sampling. rate is the
 * interval in bytes with which this sample was drawn, whatever has been published since; it is 1
 * for a large request that is sampled for its size alone (prof_trigger_large_bytes), because that
 * sample stands for itself only. where is the point at which the user's code entered the allocator.
 * Called inside the gate (os/gate.h: fork waits until no thread is inside), without a lock, with
 * `inside` (os/tls.h) raised; leaves the gate while a hook runs.
 */
void prof_sample_alloc(tsd_t *tsd, void *ptr, sample_rec_t *rec, uint64_t rate, size_t req,
    size_t usize, const struct unwind_where_s *where);
/*
 * Subtracts a sampled object from the site tables, with the usize of its prof_sample_alloc(), and
 * makes rec->tctx NULL; does nothing if it is NULL. tsd may be NULL. Called inside the gate, at
 * frees, resizes, and the reset or end of an arena; leaves the gate while a hook runs.
 */
void prof_sample_free(tsd_t *tsd, const void *ptr, sample_rec_t *rec, size_t usize);
/* Whether the free of a sample may be recorded under the name of the thread that frees it. */
bool prof_free_names_thread(void);
/*
 * Called at each heartbeat of a thread (its periodic work by bytes allocated), inside the gate,
 * without a lock, with `inside` raised; bytes is what the thread has allocated since its previous
 * heartbeat. Writes dumps that are due, and leaves the gate meanwhile; lets the budget decide on
 * the sampling interval, and without the profiler's thread stores the course. Does nothing until
 * boot of the profiler is complete. Never nested: a handler that interrupts the allocator has no
 * heartbeat.
 */
void prof_heartbeat(tsd_t *tsd, uint64_t bytes);

/* --------------------------------------------------------------- dumps */

/*
 * "ERRNO-NAME PATH BYTES-WRITTEN" of the last failed dump; "" if there is none, before the profiler
 * is booted, and without memory. The text is valid until the same thread asks again or ends. This
 * and the next one begin anew in a forked child.
 */
const char *prof_last_error(void);
/*
 * Absolute path of the last profile written to a file (relative if the absolute one is too long);
 * "" if there is none, before the profiler is booted, and without memory. Valid as the text above.
 */
const char *prof_last_dump(void);

/* --------------------------------------------------------------- lock statistics */

/* In the order of SNAPSHOT_MUTEXES (ctl/ctl_snapshot.h). */
typedef struct {
	mutex_prof_data_t sites;     /* stats.mutexes.prof: all shards of sites and counts together */
	mutex_prof_data_t thds_data; /* the lock `pass` of prof_data.c, for the thread records */
	mutex_prof_data_t dump;
	mutex_prof_data_t recent_alloc;
	mutex_prof_data_t recent_dump;
} prof_mutexes_t;
/* Copies the contention counters of these locks; all 0 until the profiler is booted. */
void prof_mutex_stats_read(prof_mutexes_t *out);
/* Sets the counters of all these locks to 0; nothing until the profiler is booted. */
void prof_mutex_stats_reset(void);
