/*
 * The most recent samples (experimental.prof_recent): a list of at most prof_recent_alloc_max
 * entries, oldest first. Each entry pins the place of the allocation and, once freed, the place of
 * the free.
 *
 * An entry and its sample refer to each other (sample_rec_t.link) until the sample is freed or
 * the entry is dropped. One lock protects the list and is taken only while the list is in use; a
 * dump copies the list under it and prints without it. A second lock lets one dump run at a time.
 */
#ifndef PROF_RECENT_H
#define PROF_RECENT_H

#include "meta/edata.h"
#include "os/mutex.h"
#include "prof/sites/prof_types.h"

ssize_t prof_recent_alloc_max_get(void);	/* entries; -1: no limit, 0: the list is off */
int prof_recent_alloc_max_set(ssize_t max);	/* 0, ENOENT, or EINVAL below -1 */
/*
 * Writes the list as JSON; write_cb NULL: to malloc_message. 0, ENOENT until booted, EBUSY if
 * called from the callback of a dump, or ENOMEM.
 */
int prof_recent_alloc_dump(void (*write_cb)(void *, const char *), void *opaque);

/* Makes the empty list with the limit of the option. */
void prof_recent_boot(void);
/* The limit, a signed number. */
extern HIDDEN atomic_u64_t prof_recent_max;
/* Whether samples are entered into the list. */
static inline bool
prof_recent_is_on(void) {
	return atomic_load_u64(&prof_recent_max, MO_RELAXED) != 0;
}

/* Adds the new sample rec, whose count is c. */
void prof_recent_alloc(sample_rec_t *rec, prof_cnt_t *c, size_t usize);
/*
 * Notes that the sample was freed here. Its entry may have been dropped meanwhile. td may be NULL.
 */
void prof_recent_free(prof_tdata_t *td, sample_rec_t *rec);

void prof_recent_mutex_read(mutex_prof_data_t *alloc, mutex_prof_data_t *dump);
void prof_recent_mutex_reset(void);
/* In a forked child: makes the lock of dumps new; the list stays. */
void prof_recent_postfork_child(void);

#endif /* PROF_RECENT_H */
