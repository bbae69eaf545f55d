/*
 * The most recent samples (experimental.prof_recent): a list of at most prof_recent_alloc_max
 * entries, oldest first. Each entry pins the count (prof_types.h; thread and stack) of the
 * allocation and, once freed, that of the free, so that these exist as long as the entry.
 *
 * An entry and its sample refer to each other (sample_rec_t.link) until the sample is freed or the
 * entry is dropped. One lock, prof_recent_alloc, protects the list; a dump copies the list under it
 * and prints without it. A second lock, prof_recent_dump, lets one dump run at a time; it may be
 * taken under prof_dump (a dump hook prints), so a dump in its callback waits for prof_dump for a
 * limited time. Called by prof.c, prof_start.c, prof_dump.c and ctl_experimental.c.
 */
#pragma once

#include "meta/edata.h"
#include "os/mutex.h"
#include "prof/sites/prof_types.h"

/* The limit in entries; -1: no limit, 0: the list is off, or the profiler is not booted. */
ssize_t prof_recent_alloc_max_get(void);
/*
 * Sets the limit and drops the oldest entries above it; inside the gate. 0, ENOENT until booted, or
 * EINVAL below -1.
 */
int prof_recent_alloc_max_set(ssize_t max);
/*
 * Writes the list as JSON by calls of write_cb, outside the gate (os/gate.h: fork waits until no
 * thread is inside); write_cb NULL: to malloc_message with this opaque. 0, ENOENT until booted,
 * EBUSY if called from the callback of a dump, or ENOMEM.
 */
int prof_recent_alloc_dump(void (*write_cb)(void *, const char *), void *opaque);
/* Whether this thread is in such a dump, thus in its callback. */
bool prof_recent_is_mine(void);

/* Makes the empty list with the limit of the option. */
void prof_recent_boot(void);
/* The limit, a signed number: -1 is stored as UINT64_MAX. */
extern HIDDEN atomic_u64_t prof_recent_max;
/* Whether samples are entered into the list. */
static inline bool
prof_recent_is_on(void) {
	return atomic_load_u64(&prof_recent_max, MO_RELAXED) != 0;
}

/*
 * Adds the new sample rec, whose count is c and whose req_size and time_ns are set, and drops the
 * oldest entry above the limit. Nothing without memory or if the list is off. Inside the gate.
 */
void prof_recent_alloc(sample_rec_t *rec, prof_cnt_t *c, size_t usize);
/*
 * Notes in the entry of rec that the sample is freed, and where; freed NULL: that is not known. The
 * entry may have been dropped meanwhile. Inside the gate.
 */
void prof_recent_free(sample_rec_t *rec, prof_cnt_t *freed);

/* Visits the two locks. */
void prof_recent_visit_mutexes(mutex_visit_t *visit, mutex_prof_data_t *alloc,
    mutex_prof_data_t *dump);
/* In a forked child: ends a dump of another thread and makes its lock new; the list stays. */
void prof_recent_postfork_child(void);
