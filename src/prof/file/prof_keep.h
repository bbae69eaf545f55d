/*
 * Limits automatic profiles: how often one may be written, and which files stay.
 *
 * Between two profiles of one kind a process leaves a minimum gap; what comes sooner is counted as
 * suppressed. The files with the prefix are limited in number and in bytes together. A profile to
 * which a limit on files applies has a mark, which is a line in it (prof_keep_mark()). Only a
 * process that has the number in the mark may remove the profile; a process and the children that
 * it forks, the family, have the same number. Others of these kinds, without our mark, count and
 * are never removed; so do boxes (prof_box.h) that no process has open. Our own kinds (letters a,
 * l, h, t in names; b, a box, has no gap) always obey the limits; jemalloc's automatic kinds (i, u)
 * obey only limits that the user has set. Profiles of all other kinds neither count nor are
 * removed. A lowered limit on files takes effect after the next profile that counts.
 *
 * Limits and counters are atomic, without a lock; functions that read the directory need the lock
 * prof_dump. Called by prof_dump.c, prof_box.c, prof_trigger.c, prof_request.c,
 * prof_course.c, ctl_prof.c and prof.c.
 */
#pragma once

#include "os/nstime.h"
#include "prof/file/prof_sys.h"

/*
 * Which file is removed next: the oldest that is neither the first, nor the one with the most live
 * bytes, nor the newest (if there are only these, the first); or simply the oldest.
 */
typedef enum {
	prof_keep_first_peak_last,
	prof_keep_newest
} prof_keep_policy_t;
extern const char *const prof_keep_policy_names[]; /* as the enum, then NULL */

typedef enum {
	prof_keep_min_gap_ms,   /* ms between two profiles of one kind; 0: no gap */
	prof_keep_max_files,    /* with the prefix; 0: no limit, as for max_bytes */
	prof_keep_max_bytes,    /* bytes of these files together */
	prof_keep_n
} prof_keep_limit_t;

/* Options: the values that prof_keep_boot() starts with. */
extern uint64_t opt_prof_dump_limits[prof_keep_n];
extern prof_keep_policy_t opt_prof_dump_keep;
/* Whether the user set the limit, so that it holds for jemalloc's automatic kinds too. */
extern bool opt_prof_dump_given[prof_keep_n];

/* Stores the options as limits and policy. Boot may skip it if none of these options is given. */
void prof_keep_boot(void);
/*
 * Draws the number of the family, once. Called when limits are set or triggers armed, so that the
 * number is drawn before a child is forked, and the child has the same number.
 */
void prof_keep_prepare(void);

/* Read and set a limit; one that was set holds for jemalloc's automatic kinds too. */
uint64_t prof_keep_get(prof_keep_limit_t limit);
void prof_keep_set(prof_keep_limit_t limit, uint64_t value);
/* The policy by its name in prof_keep_policy_names. */
const char *prof_keep_policy_get(void);
int prof_keep_policy_set(const char *name); /* 0 or EINVAL */

/* Whether the limit applies to files of this kind. */
bool prof_keep_governs(prof_kind_t kind, prof_keep_limit_t limit);
/* Whether files of this kind count for a limit on number or bytes. */
bool prof_keep_counts(prof_kind_t kind);
/*
 * Permission to write one profile: its kind, its time, and the time of the profile of that kind
 * before it (0: none; its own time if the kind has no gap). Times are monotonic, in ns.
 */
typedef struct {
	prof_kind_t kind;
	uint64_t now_ns;
	uint64_t last_ns;
} prof_keep_turn_t;

/*
 * Whether a profile of this kind may be written now; if so, *turn is the permission and the kind's
 * gap begins. If not, it is too soon, or another thread got the permission; the caller counts that
 * with prof_keep_suppress(). prof_keep_release() gives the permission back, if another dump was in
 * the way or the trigger was rearmed: the previous gap holds again, unless another thread got a
 * permission meanwhile. After a failed dump the caller keeps it, so the gap holds.
 */
bool prof_keep_try_turn(prof_kind_t kind, uint64_t now_ns, prof_keep_turn_t *turn);
void prof_keep_release(const prof_keep_turn_t *turn);
void prof_keep_suppress(void);
/*
 * Counts a profile that came due while another was written, and that its caller keeps pending. The
 * retry subtracts it again; so what stays counted was merged into another pending one, or dropped
 * with it (prof_trigger_restart()).
 */
void prof_keep_overlap(void);
void prof_keep_overlap_retry(void);
/*
 * Whether there is room for one more file of this kind; true if no limit on files applies to it. If
 * not, files that we must not remove use up the limit; a message says so once, and not again in a
 * forked child. This and prof_keep_written() need the prof_dump lock, outside the fork gate
 * (os/gate.h).
 */
bool prof_keep_try_room(prof_kind_t kind);
/* Whether that message was written, here or in the process that forked. */
bool prof_keep_has_told(void);
/* After a file of this kind and length was written: removes our family's files over the limit. */
void prof_keep_written(prof_kind_t kind, uint64_t bytes);

/*
 * Makes the mark, the value of the line "# jemalloc.retention" in a profile: the number of the
 * family, the monotonic time of the dump in ns, by which files are ordered, and the bytes in use.
 */
#define PROF_KEEP_MARK "retention" /* key of that line */
#define PROF_KEEP_MARK_SIZE 64
void prof_keep_mark(char out[PROF_KEEP_MARK_SIZE], uint64_t order, uint64_t live);

/*
 * The number of automatic profiles that were left out; and how many of these came due while another
 * was written (prof_keep_overlap(): one that is still pending counts too).
 */
uint64_t prof_keep_suppressed(void);
uint64_t prof_keep_overlapped(void);
/* In a forked child: sets the counters to 0 and ends the gaps; limits and family stay. */
void prof_keep_postfork_child(void);

/* ---------------------------------------------------------------- the policy, on plain values */

/* A file, of our family if it is in a list. */
typedef struct {
	uint64_t order;    /* of its mark: monotonic time of the dump in ns */
	uint64_t live;     /* bytes in use when it was written */
	uint64_t bytes;    /* its length */
	prof_kind_t kind;
	char name[NAME_MAX + 1];
} prof_kept_t;

/*
 * Facts about all files that were added, and the PROF_KEEP_OLDEST oldest of them. All zeros: an
 * empty list.
 */
#define PROF_KEEP_OLDEST 16
typedef struct {
	size_t n_all;       /* files added, without dropped ones */
	uint64_t peak;      /* order of the file with most live bytes; of several, of the oldest */
	uint64_t peak_live; /* its live bytes */
	uint64_t last;      /* order of the newest */
	size_t n;           /* number in oldest[], which is sorted by order */
	prof_kept_t oldest[PROF_KEEP_OLDEST];
} prof_keep_list_t;

/* Adds a file. Of more than PROF_KEEP_OLDEST only the oldest stay in oldest[]. */
void prof_keep_list_add(prof_keep_list_t *l, const prof_kept_t *f);
/*
 * The index in oldest[] of the file that is to be removed next; SIZE_MAX: it is not in oldest[], or
 * the list is empty.
 */
size_t prof_keep_list_victim(const prof_keep_list_t *l, prof_keep_policy_t policy);
/* Takes file i of oldest[] out of the list; peak and last stay. */
void prof_keep_list_drop(prof_keep_list_t *l, size_t i);

/*
 * Whether the gap since the last profile is over. A thread may read the clock before another one
 * and come here after it, so a time before the last one is too soon; but if it is earlier by
 * PROF_KEEP_LATE_NS, longer than any thread takes, the clock was set back and the gap is over.
 */
#define PROF_KEEP_LATE_NS (60 * NSTIME_PER_SEC)
static inline bool
prof_keep_gap_is_over(uint64_t last_ns, uint64_t now_ns, uint64_t gap_ns) {
	if (now_ns < last_ns) {
		return last_ns - now_ns >= PROF_KEEP_LATE_NS;
	}
	return last_ns == 0 || now_ns - last_ns >= gap_ns;
}
