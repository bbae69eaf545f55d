/*
 * The site tables: which allocation sites there are, and how much is live at each, by thread and by
 * sampling rate. Called by prof.c for samples, frees, lock statistics and fork, by prof_log.c and
 * prof_recent.c for pins and the places of frees, by prof_snap.c, prof_age.c, prof_mark.c and
 * prof_dump.c to read them, by prof_thread.c for thread records, by prof_switch.c for prof.reset,
 * by prof_session.c for prof_accum and the mark, and by prof_start.c at boot.
 *
 * The sample path takes no lock if the thread has a count for the backtrace already. The thread
 * then announces that it reads the tables (the pin of a thread, td->pinned), so that nothing it may
 * find is freed; it finds the count in a table and adds to it. If the same backtrace comes twice in
 * a row, the thread keeps its count (by a pin of the count), and from the third time on neither
 * hashes nor compares. But it does both each time if the site lies in objects that can be unloaded.
 * A new count or site is inserted under one of 256 locks per table. A free only subtracts from the
 * count that the sample refers to.
 *
 * Counts that have been empty for a while, and then sites without counts, are swept in small steps:
 * one step for each new count, by the thread that made it, and one for each reset. So the tables
 * shrink only while there are new counts or resets, and no thread that samples waits for the sweep
 * of another. The sweeper marks an object PROF_DEAD under its shard's lock before it removes the
 * object; a thread that finds PROF_DEAD repeats the look-up under the lock. Memory is freed after
 * every thread that could see it has ended its pin.
 *
 * The epoch is the number of resets so far; a count belongs to the epoch in which it was made. A
 * pin on a count keeps it from being swept. What adds, notes, resets or makes a record is called
 * inside the gate (os/gate.h: fork waits until no thread is inside). `pass` is the lock of
 * prof_data_pass_begin().
 */
#pragma once

#include "os/mutex.h"
#include "prof/sites/prof_types.h"

/* Initialises the empty tables; 0 or ENOMEM. */
int prof_data_boot(void);

/*
 * Makes a record for the calling thread, with a number of its own (uid), and frees some records of
 * ended threads; active: its thread.prof.active. NULL without memory.
 */
prof_tdata_t *prof_data_tdata_new(bool active);
/*
 * Called at the end of the thread; the record is freed by a later prof_data_tdata_new(), when no
 * count refers to it.
 */
void prof_data_tdata_exit(prof_tdata_t *td);

/*
 * Adds one sample of usize bytes and returns its count, which stays valid until prof_data_sub();
 * NULL without memory. If the tables lie in a black box (a file: prof_box.h) that is full, the
 * result may be the thread's count at the site IMAGE_NO_ROOM instead of one for bt. rate is the
 * sampling interval in bytes, weight is prof_weight() of both. td->busy must be true:
 * prof_backtrace() sets it when it makes bt, and prof_backtrace_done() clears it.
 */
prof_cnt_t *prof_data_add(prof_tdata_t *td, const prof_bt_t *bt, uint64_t rate, size_t usize,
    uint64_t weight);
/* Subtracts a sample that prof_data_add() added with the same usize and weight; by any thread. */
void prof_data_sub(prof_cnt_t *c, size_t usize, uint64_t weight);
/*
 * Adds the life of a sample, from `from` to `to`, in ns by prof_log_clock(), to the lifetimes of
 * its count; called before prof_data_sub() of the sample. The count must keep lifetimes
 * (prof_cnt_has_accum()).
 */
void prof_data_add_life(prof_cnt_t *c, size_t usize, uint64_t weight, uint64_t from, uint64_t to);

/*
 * Returns the count of a backtrace that is not a sample (the place of a free), of rate 0, with a
 * pin for the caller; NULL without memory. A full box and td->busy: as for prof_data_add().
 */
prof_cnt_t *prof_data_note(prof_tdata_t *td, const prof_bt_t *bt);
/* Adds a pin; the count must have a live object or a pin already. */
void prof_data_pin(prof_cnt_t *c);
/* Takes one pin off; if nothing else keeps the count, it may be freed at any time after that. */
void prof_data_unpin(prof_cnt_t *c);

/*
 * Set and ask whether counts made from now on keep what was allocated in all, beside what is live
 * (prof_accum). Older counts stay as they are. A session that changes it at its start resets the
 * tables, unless its options say otherwise.
 */
void prof_data_accum_set(bool on);
bool prof_data_is_accum(void);

/*
 * The mark (prof_mark.h: what each site held at one moment) is on all sites or on none. A reset
 * takes it off, so does prof_data_unmark(); prof_data_mark_put(), called in a pass, puts it on,
 * unless there was a reset since prof_data_epoch() returned `epoch`. A site that held something at
 * the mark stays in the tables when all its objects are freed.
 */
bool prof_data_is_marked(void);
void prof_data_unmark(void);
uint32_t prof_data_epoch(void); /* resets so far, by prof.reset or a session */
void prof_data_mark_put(uint32_t epoch);

/* Forgets all samples: none that was taken before is in a later profile. */
void prof_data_reset(void);

/* Whether the count keeps what was allocated in all: then the sums follow the struct. */
static inline bool
prof_cnt_has_accum(const prof_cnt_t *c) {
	return c->link.bytes > sizeof(*c);
}

/* Number of frames of the site, at most prof_bt_max. */
static inline unsigned
prof_site_nframes(const prof_site_t *s) {
	return s->link.extra;
}

/*
 * The return address of frame i, 0 for the leaf. Reading a word at the last frame stays inside the
 * site because of PROF_FRAMES_PAD.
 */
ALWAYS_INLINE uintptr_t
prof_site_frame(const prof_site_t *s, unsigned i) {
	if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
		uint64_t word;
		memcpy(&word, &s->frames[i * PROF_FRAME_BYTES], sizeof(word));
		return (uintptr_t)(word << 16 >> 16);
	}
	uint32_t low;
	uint16_t high;
	memcpy(&low, &s->frames[i * PROF_FRAME_BYTES], sizeof(low));
	memcpy(&high, &s->frames[i * PROF_FRAME_BYTES + sizeof(low)], sizeof(high));
	return (uintptr_t)((uint64_t)high << 32 | low);
}

/*
 * A pass over all objects, of one thread at a time; _begin, called inside the gate, waits for the
 * lock `pass`, which a dump holds until its profile is written. Until its end nothing is removed
 * from the tables while threads continue to sample; what they add after the beginning may or may
 * not be seen. A pass may stay open outside the gate, because its lock is made new in a forked
 * child. Both lists are read in a pass only.
 */
void prof_data_pass_begin(void);
void prof_data_pass_end(void);
prof_site_t *prof_data_sites(void);       /* newest first, chained by link.next */
prof_tdata_t *prof_data_tdatas(void);     /* newest first, chained by next */
/* Whether the count was made since the last reset, so that it is reported. */
bool prof_data_is_current(const prof_cnt_t *c);
/* Copies the sums of live samples, and of all samples (0 if the count does not keep them). */
void prof_data_counts_read(const prof_cnt_t *c, prof_counts_t *cur, prof_counts_t *accum);

/* Reads the name. If the thread changes it meanwhile, the result may mix words of both names. */
void prof_tdata_name_read(const prof_tdata_t *td, char name[PROF_THREAD_NAME_MAX]);
/* Sets the name of the calling thread's record, cut to PROF_THREAD_NAME_MAX - 1 bytes. */
void prof_tdata_name_write(prof_tdata_t *td, const char *name);
/*
 * Visits the locks. sites: for those of both tables, of sites and of counts; tdatas: for the lock
 * `pass`, because thread records have no lock.
 */
void prof_data_visit_mutexes(mutex_visit_t *visit, mutex_prof_data_t *sites,
    mutex_prof_data_t *tdatas);
/*
 * In a forked child: makes the lock of passes new, and ends the records of all threads except self,
 * which may be NULL.
 */
void prof_data_postfork_child(const prof_tdata_t *self);
