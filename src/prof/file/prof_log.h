/*
 * The allocation log: for each sampled object that is freed while it runs, where and when it was
 * allocated and freed. The log is written as one JSON document when it stops, which exit does too.
 *
 * A record pins the two counts that it names (prof_types.h: each has the thread and the stack of
 * the allocation or the free), so these exist until it is written. There is one lock, `prof_log`,
 * held for one record; a stop detaches the records first and writes without it. Called by prof.c
 * for frees and in a forked child, by ctl_prof.c, prof_start.c and prof_auto.c for start and stop,
 * by prof_dump.c at exit; the clock by prof.c, prof_dump.c and prof_recent.c, which also prints by
 * functions of the log.
 */
#pragma once

#include "os/mutex.h"
#include "prof/sites/prof_types.h"
#include "util/emitter.h"

/*
 * Starts the log; path NULL: a name made from the prefix. The path is copied and made absolute
 * (prof_sys_path_absolute), and first tried at the stop. 0, ENOENT until booted,
 * EFAULT if it runs or is being written, or if the path is too long.
 */
int prof_log_start(const char *path);
/*
 * Stops the log and writes it, outside the gate. 0, ENOENT until booted, or EFAULT if none runs or
 * it cannot be written; in that case its records are lost.
 */
int prof_log_stop(void);

/* Values of prof_log_state. */
enum {
	prof_log_stopped,
	prof_log_started,
	prof_log_dumping /* the thread that stopped it writes it */
};
extern HIDDEN atomic_u32_t prof_log_state;

/* Whether frees of samples are being recorded. */
static inline bool
prof_log_is_running(void) {
	return atomic_load_u32(&prof_log_state, MO_ACQUIRE) == prof_log_started;
}

/*
 * Records that an object of count c, which still includes the object, is freed where `freed` says:
 * it was allocated at alloc_ns (prof_log_clock) and has usize usable bytes. Nothing without memory,
 * or once the log is stopped. Inside the gate (os/gate.h: fork waits for threads inside).
 */
void prof_log_free(prof_cnt_t *c, prof_cnt_t *freed, uint64_t alloc_ns, size_t usize);

/* JSON of a number with its key, and of a stack as an array of addresses. */
void prof_log_emit(emitter_t *em, const char *key, uint64_t v);
void prof_log_emit_trace(emitter_t *em, const prof_site_t *s);

/*
 * The time in ns by which samples are dated, in their records, the log and the recent list:
 * monotonic and coarse, or UTC and exact with prof_time_resolution:high. May change errno.
 */
uint64_t prof_log_clock(void);
/*
 * At exit, after prof_sys_end(), if the state is prof_log_dumping: removes the temporary file of
 * the log if another thread writes it.
 */
void prof_log_abandon(void);
/* In a forked child: drops a running log unless goes_on; ends one that another thread wrote. */
void prof_log_postfork_child(bool goes_on);
