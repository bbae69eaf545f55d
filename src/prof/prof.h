/*
 * The interface of the profiler for the floors above it.
 *
 * Whether an allocation becomes a sample is decided by thread/thread_event (rate and distance). The
 * profiler records the samples, counts them by site and writes them out. "Booted" means that the
 * site tables exist, "active" that new samples are taken. Neither changes how a sampled object is
 * freed, so both may change at any time.
 *
 * An int result is an errno as mallctl returns it; a bool answers a question.
 */
#ifndef PROF_H
#define PROF_H

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
 * Runs after the options were read: applies the options that imply others, makes the prefix
 * absolute, reports prof_leak_error without prof_final, starts the modules whose options were given
 * (prof_keep, prof_trigger) and opens the mailbox. Returns the number of complaints for abort_conf.
 */
int prof_boot_conf(void);
/*
 * Registers prof_fdump with atexit(). Called only during boot, whoever starts the profiler later.
 */
void prof_boot_exit(void);
/*
 * Called by the library's constructor if opt_prof is set; makes backtraces ready. If the first
 * sample did that, samples that other threads take at the same time would be lost. Before main
 * there rarely are other threads.
 */
void prof_boot_constructed(void);
/* Writes the final dump and the leak summary; prof_boot_exit() registers it with atexit(). */
void prof_fdump(void);
/*
 * In a forked child: makes locks that a lost thread may hold new, and drops what such threads own.
 */
void prof_postfork_child(void);

/* --------------------------------------------------------------- sampled objects (from imalloc) */

/*
 * Whether the switches allow a sample; asked once per due sample, before the object is allocated.
 */
static inline bool
prof_should_sample(tsd_t *tsd) {
	const prof_tdata_t *td = prof_switch_samples() ? prof_tdata(tsd) : NULL;
	return td != NULL && td->active;
}

/*
 * Records a sampled object. rec has no count (tctx) and no link, and gets none on failure: the
 * object then counts as not sampled. usize is the usable size that the request would have had
 * without sampling. rate is the interval by which this sample was drawn, whatever has been
 * published since; 1 for an object that is sampled in any case. where is the point at which the
 * user's code entered the allocator.
 */
void prof_sample_alloc(tsd_t *tsd, void *ptr, sample_rec_t *rec, uint64_t rate, size_t req,
    size_t usize, const struct unwind_where_s *where);
/*
 * Subtracts a sampled object from the site tables, with the usize of its prof_sample_alloc(), and
 * makes rec->tctx NULL; does nothing if it is NULL. Called inside the gate.
 */
void prof_sample_free(tsd_t *tsd, const void *ptr, sample_rec_t *rec, size_t usize);
/*
 * Called at each heartbeat of a thread, outside of all locks and with `inside` raised; bytes is
 * what the thread has allocated since its previous heartbeat.
 */
/* Opens the black box of MALLOC_CONF, before the first sample. */
void prof_boot_box(void);
void prof_heartbeat(tsd_t *tsd, uint64_t bytes);

/* --------------------------------------------------------------- dumps */

/*
 * Copies the prefix and makes it absolute; "" disables automatic dumps. 0, ENOENT before the
 * profiler is booted, EINVAL if it is too long.
 */
int prof_prefix_set(const char *prefix);
/*
 * "errno-name path bytes-written" of the last failed dump, "" if none. The text is valid until the
 * same thread asks again.
 */
const char *prof_last_error(void);
/* Number of failed dumps since the start. */
uint64_t prof_dump_errors(void);
/*
 * Absolute path of the last profile written, "" if none; valid as long as that of
 * prof_last_error().
 */
const char *prof_last_dump(void);

/* --------------------------------------------------------------- lock statistics */

typedef enum {
	prof_mutex_sites,		/* stats.mutexes.prof: the sum over all shards */
	prof_mutex_thds_data,
	prof_mutex_dump,
	prof_mutex_recent_alloc,
	prof_mutex_recent_dump,
	prof_mutex_stats,
	prof_mutex_n
} prof_mutex_ind_t;
/* Copies the contention counters of one lock; all 0 until the profiler is booted. */
void prof_mutex_stats_read(prof_mutex_ind_t ind, mutex_prof_data_t *out);
void prof_mutex_stats_reset(void);

#endif /* PROF_H */
