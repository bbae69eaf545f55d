/*
 * The log: each sampled object that is freed while it runs, with where and when it was allocated and
 * freed; written as one JSON document when the log stops.
 *
 * A record pins the two counts that it names, so sites and threads stay until it is written.  One
 * lock, held for one record; stopping takes the records away first and writes without it.
 */
#ifndef PROF_LOG_H
#define PROF_LOG_H

#include "os/mutex.h"
#include "prof_types.h"

int prof_log_start(const char *path);	/* NULL: a name made from the prefix.  ENOENT, EFAULT */
int prof_log_stop(void);

bool prof_log_is_running(void);
/* An object of count c goes; td is the record of the freeing thread. c still holds the object. */
void prof_log_free(prof_tdata_t *td, prof_cnt_t *c, uint64_t alloc_ns, size_t usize);

/* The clock of log and recent list, as prof_time_resolution says. */
uint64_t prof_log_clock(void);
void prof_log_mutex_read(mutex_prof_data_t *out);
void prof_log_mutex_reset(void);
void prof_log_postfork_child(bool goes_on);

#endif /* PROF_LOG_H */
