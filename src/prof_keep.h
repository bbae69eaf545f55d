/*
 * The storm guard: how often a profile may be written by itself, and which files stay.
 *
 * Between two profiles of one kind in a process lies at least a gap; what comes sooner is counted as
 * suppressed.  Of the files written by a process and the children it has forked, so many and so many
 * bytes are kept together: what is over that is removed, by a policy.  Files that processes before
 * them have left under the same prefix count too, but only files of the family are ever removed, by
 * name and inode.  Our own kinds (a, l, h, t) are always held to this; the old automatic ones (i, u)
 * to each limit that somebody has set.  A limit that is set lower counts from the next file on.
 */
#ifndef PROF_KEEP_H
#define PROF_KEEP_H

#include <sys/types.h>
#include <time.h>

#include "prof_sys.h"
#include "util/atomic.h"

/* Which goes first when there are too many: not the first, the peak, the newest; or just the oldest. */
typedef enum {
	prof_keep_first_peak_last,
	prof_keep_newest
} prof_keep_policy_t;
extern const char *const prof_keep_policy_names[]; /* as the enum, then NULL */

typedef enum {
	prof_keep_min_gap_ms,
	prof_keep_max_files,    /* 0: no limit; so too for bytes */
	prof_keep_max_bytes,
	prof_keep_n
} prof_keep_limit_t;

/* Options, read by prof_keep_boot(). */
extern uint64_t opt_prof_dump_min_gap_ms;
extern uint64_t opt_prof_dump_max_files;
extern uint64_t opt_prof_dump_max_bytes;
extern prof_keep_policy_t opt_prof_dump_keep;
/* Which limits were given: those hold for the old kinds too. */
extern bool opt_prof_dump_given[prof_keep_n];

void prof_keep_boot(void);
/* Profiles may come to be written: what forked children share is made now, not after the first fork. */
void prof_keep_prepare(void);

uint64_t prof_keep_get(prof_keep_limit_t limit);
void prof_keep_set(prof_keep_limit_t limit, uint64_t value);
const char *prof_keep_policy_get(void);
int prof_keep_policy_set(const char *name); /* EINVAL */

/* A kind of profile that is held to the limit now. */
bool prof_keep_governs(prof_kind_t kind, prof_keep_limit_t limit);
/* Files of the kind count for some cap. */
bool prof_keep_counts(prof_kind_t kind);
/* Leave to write one profile: when it was given, and when the one before it. */
typedef struct {
	prof_kind_t kind;
	uint64_t now_ns;
	uint64_t last_ns;
} prof_keep_turn_t;

/*
 * May a profile of this kind be written now?  Then its gap begins.  false: too soon; the caller says
 * by prof_keep_suppress() that one was left out.  prof_keep_release(): none was written, the gap is again the
 * one from before; unless another turn has been given meanwhile, which then stands.
 */
bool prof_keep_may(prof_kind_t kind, uint64_t now_ns, prof_keep_turn_t *turn);
void prof_keep_release(const prof_keep_turn_t *turn);
void prof_keep_suppress(void);
/* One came due while another was written; it waits, and may be tried again, which takes it out of the count. */
void prof_keep_overlap(void);
void prof_keep_overlap_retry(void);
/*
 * May a file of this kind stay at all?  false: what lies there already, and is not ours, fills the cap;
 * said once.  This and prof_keep_written(): under the dump's lock, outside the gate.
 */
bool prof_keep_try_room(prof_kind_t kind);
/* One of a kind that counts was written: what is over the caps goes. */
void prof_keep_written(const char *path, prof_kind_t kind, uint64_t bytes, uint64_t live);

/* All that were left out; of these, those that came due while another was written. */
uint64_t prof_keep_suppressed(void);
uint64_t prof_keep_overlapped(void);
/* A forked child has left out nothing yet. */
void prof_keep_postfork_child(void);

/* ---------------------------------------------------------------- the policy, on plain values */

/* How to know a file again: somebody may have put another one there. */
typedef struct {
	dev_t dev;
	ino_t ino;
	struct timespec mtime; /* inode numbers are used again */
} prof_file_id_t;

/* One file; prof_keep.c says who may read and write it. */
typedef struct {
	atomic_u64_t word; /* its place in the order of writing, and state */
	prof_kind_t kind;
	uint64_t bytes;
	uint64_t live;     /* bytes in use when it was written */
	prof_file_id_t id;
	char path[960];
} prof_kept_t;
/* It is there, as number `order`. */
void prof_keep_place_set(prof_kept_t *f, uint64_t order);

/*
 * Of two threads the one that read the clock first may come last: a time before the last one is too
 * soon, but for a clock that went back by more than any thread is late.
 */
#define PROF_KEEP_LATE_NS (UINT64_C(60) * 1000000000)
static inline bool
prof_keep_gap_is_over(uint64_t last_ns, uint64_t now_ns, uint64_t gap_ns) {
	if (now_ns < last_ns) {
		return last_ns - now_ns >= PROF_KEEP_LATE_NS;
	}
	return last_ns == 0 || now_ns - last_ns >= gap_ns;
}

/* Which of files[0..n), in any order, of these kinds (a bit each) is to go next; SIZE_MAX: none. */
size_t prof_keep_victim(const prof_kept_t *files, size_t n, prof_keep_policy_t policy, uint32_t kinds);

#endif /* PROF_KEEP_H */
