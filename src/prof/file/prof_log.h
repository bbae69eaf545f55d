/*
 * The allocation log: for each sampled object that is freed while it runs, where and when it was
 * allocated and freed. The log is written as one JSON document when it stops.
 *
 * A record pins the two counts that it names, so sites and threads exist until it is written. There
 * is one lock, held for one record; a stop detaches the records first and writes without it.
 */
#ifndef PROF_LOG_H
#define PROF_LOG_H

#include "os/mutex.h"
#include "prof/sites/prof_types.h"

/*
 * Starts the log; path NULL: a name made from the prefix. 0, ENOENT until booted, EFAULT if it runs
 * already or the path is too long.
 */
int prof_log_start(const char *path);
/* Stops the log and writes it. 0, ENOENT, or EFAULT if none runs or the file cannot be written. */
int prof_log_stop(void);

enum {
	prof_log_stopped,
	prof_log_started,
	prof_log_dumping /* by the thread that stopped it */
};
extern HIDDEN atomic_u32_t prof_log_state;

/* Whether frees of samples are being recorded. */
static inline bool
prof_log_is_running(void) {
	return atomic_load_u32(&prof_log_state, MO_ACQUIRE) == prof_log_started;
}

/* Records that the thread of td frees an object of count c, which still includes the object. */
void prof_log_free(prof_tdata_t *td, prof_cnt_t *c, uint64_t alloc_ns, size_t usize);

/*
 * Time in ns for the log and the recent list: monotonic and coarse, or UTC and exact with
 * prof_time_resolution:high.
 */
uint64_t prof_log_clock(void);
/* In a forked child: drops a running log unless goes_on, and ends one that was being written. */
void prof_log_postfork_child(bool goes_on);

#endif /* PROF_LOG_H */
