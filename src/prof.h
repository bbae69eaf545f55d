/*
 * The profiler's face: everything that floors above the profiler program against.
 *
 * Sampling itself (rate, gaps, "is this allocation a sample?") is thread/thread_event; the profiler
 * records what was sampled, keeps the books and writes them out.  "Booted" means that the books
 * exist; "active" that new samples are taken.  Neither changes how a sampled object is freed, so
 * both may change at any time.
 *
 * Failure is an errno as a mallctl may return it; bool answers a question.
 */
#ifndef PROF_H
#define PROF_H

#include "meta/edata.h"
#include "os/mutex.h"
#include "prof_auto.h"
#include "prof_hook.h"
#include "prof_log.h"
#include "prof_opt.h"
#include "prof_recent.h"
#include "prof_start.h"
#include "prof_stats.h"
#include "prof_switch.h"
#include "prof_thread.h"

/* --------------------------------------------------------------- life */

/*
 * After the options were read: one implies another, prefix made absolute, message about
 * prof_leak_error without prof_final.  Returns how many complaints abort_conf should count.
 */
int prof_boot_conf(void);
/* Registers the end with libc (atexit): only while the allocator boots, whoever starts the profiler. */
void prof_boot_exit(void);
/*
 * By our constructor, where opt_prof is.  It makes backtraces ready: if the first samples did, those
 * that other threads take meanwhile would be lost, and before main there seldom are any.
 */
void prof_boot_constructed(void);
/* The final dump and the leak summary; prof_boot_exit registers it with atexit. */
void prof_fdump(void);
void prof_postfork_child(void);

/* --------------------------------------------------------------- sampled objects (from imalloc) */

/* Asked once per due sample, before the object is allocated: do the switches let it be one? */
bool prof_should_sample(tsd_t *tsd);
/*
 * rec is all zero; on failure it stays so and the object counts as not sampled.  usize is the usable
 * size that the request would have had without sampling; rate: the interval that it was drawn by,
 * whatever has been published since, 1 for what is a sample anyway; where: where the program came in.
 */
void prof_sample_alloc(tsd_t *tsd, void *ptr, sample_rec_t *rec, uint64_t rate, size_t req, size_t usize,
    const struct unwind_where_s *where);
void prof_sample_free(tsd_t *tsd, const void *ptr, sample_rec_t *rec, size_t usize);
/* thread_event's heartbeat: outside all locks, inside raised, bytes allocated since the last one. */
void prof_heartbeat(tsd_t *tsd, uint64_t bytes);

/* --------------------------------------------------------------- dumps */

/* "errno-name path bytes-written" of the last failed dump, "" if none; valid until the thread asks again. */
const char *prof_last_error(void);
uint64_t prof_dump_errors(void);
/* Absolute path of the last profile written, "" if none; lifetime as prof_last_error. */
const char *prof_last_dump(void);

/* --------------------------------------------------------------- lock statistics (stats.mutexes) */

typedef enum {
	prof_mutex_sites,		/* stats.mutexes.prof: all shards together */
	prof_mutex_thds_data,
	prof_mutex_dump,
	prof_mutex_recent_alloc,
	prof_mutex_recent_dump,
	prof_mutex_stats,
	prof_mutex_log,
	prof_mutex_n
} prof_mutex_ind_t;
void prof_mutex_stats_read(prof_mutex_ind_t ind, mutex_prof_data_t *out);
void prof_mutex_stats_reset(void);

#endif /* PROF_H */
