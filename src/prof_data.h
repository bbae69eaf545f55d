/*
 * The books: which sites there are and what lives there, by thread and by rate.
 *
 * The sample path takes no lock as long as the site is known to the thread: it pins the epoch, finds
 * the count in a table and adds to it; where one backtrace follows on itself the thread keeps its
 * count, pinned, and neither hashes nor compares.  A new count or site is inserted under one of 256 locks.  A
 * free only subtracts from the count that the sample names.
 *
 * Counts that hold nothing for a while, and then sites without counts, are swept in small steps, a few for each
 * one that is made; so the books follow the program and nobody ever waits for a sweep.  The sweeper
 * marks a thing PROF_DEAD (under the lock of its table) before it takes it out; who finds the mark
 * looks again.  What was taken out is given back when every thread that was looking has gone on.
 */
#ifndef PROF_DATA_H
#define PROF_DATA_H

#include "os/mutex.h"
#include "prof_types.h"

int prof_data_boot(void);

/* A record for the calling thread; NULL: no memory. */
prof_tdata_t *prof_data_tdata_new(bool active);
/* The thread ends; its record goes when nothing that it sampled is left. */
void prof_data_tdata_exit(prof_tdata_t *td);

/*
 * Adds one sample; the count that it belongs to (the sample holds it until prof_data_sub), NULL
 * without memory.  weight: prof_weight() of the object.
 */
prof_cnt_t *prof_data_add(prof_tdata_t *td, const prof_bt_t *bt, uint64_t rate, size_t usize,
    uint64_t weight);
void prof_data_sub(prof_cnt_t *c, size_t usize, uint64_t weight);

/* The count of a backtrace that is no sample (where something was freed), pinned. */
prof_cnt_t *prof_data_note(prof_tdata_t *td, const prof_bt_t *bt);
/* While c has a live object or a pin: another pin. */
void prof_data_pin(prof_cnt_t *c);
void prof_data_unpin(prof_cnt_t *c);

/* Nothing that was sampled before is reported any more. */
void prof_data_reset(void);

static inline unsigned
prof_site_nframes(const prof_site_t *s) {
	return s->link.extra;
}

ALWAYS_INLINE uintptr_t
prof_site_frame(const prof_site_t *s, unsigned i) {
	uint32_t low;
	uint16_t high;
	memcpy(&low, &s->frames[i * PROF_FRAME_BYTES], sizeof(low));
	memcpy(&high, &s->frames[i * PROF_FRAME_BYTES + sizeof(low)], sizeof(high));
	return (uintptr_t)((uint64_t)high << 32 | low);
}

/*
 * A pass over everything: while it lasts nothing is taken out of the books; threads go on sampling.
 * What they add after the pass began may or may not be seen.  Held outside the fork gate.
 */
void prof_data_pass_begin(void);
void prof_data_pass_end(void);
prof_site_t *prof_data_sites(void);       /* chained by link.next */
prof_tdata_t *prof_data_tdatas(void);     /* chained by next */
/* Whether a count is of the present epoch, so may be reported. */
bool prof_data_is_current(const prof_cnt_t *c);
void prof_data_counts_read(const prof_cnt_t *c, prof_counts_t *cur, prof_counts_t *accum);

/* Name as text, tearing between its two halves is possible while the thread changes it. */
void prof_tdata_name_read(const prof_tdata_t *td, char name[PROF_THREAD_NAME_MAX]);
/* name: cut to what fits. */
void prof_tdata_name_write(prof_tdata_t *td, const char *name);

size_t prof_data_nsites(void);
void prof_data_mutex_read(mutex_prof_data_t *sites, mutex_prof_data_t *tdatas);
void prof_data_mutex_reset(void);
void prof_data_postfork_child(const prof_tdata_t *self);

#endif /* PROF_DATA_H */
