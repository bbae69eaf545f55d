/*
 * Limits automatic profiles: how often one may be written, and which files stay.
 *
 * Between two profiles of one kind a process leaves a minimum gap; what comes sooner is counted as
 * suppressed. The files of a process and of the children it forked are limited in number and in
 * bytes together; files over the limit are removed by a policy. Files that earlier processes left
 * under the same prefix count too, but only files of the family are removed, identified by name and
 * inode. Our own kinds (a, l, h, t) always obey the limits; jemalloc's automatic kinds (i, u) obey
 * only limits that the user has set. A limit that is lowered takes effect with the next file.
 */
#ifndef PROF_KEEP_H
#define PROF_KEEP_H

#include <sys/types.h>
#include <time.h>

#include "prof/file/prof_sys.h"
#include "util/atomic.h"

/*
 * Which file is removed first: the oldest that is neither the first, nor the one with the most live
 * bytes, nor the newest; or simply the oldest.
 */
typedef enum {
	prof_keep_first_peak_last,
	prof_keep_newest
} prof_keep_policy_t;
extern const char *const prof_keep_policy_names[]; /* as the enum, then NULL */

typedef enum {
	prof_keep_min_gap_ms,
	prof_keep_max_files,    /* 0: no limit, as for max_bytes */
	prof_keep_max_bytes,
	prof_keep_n
} prof_keep_limit_t;

/* Options: the values that prof_keep_boot() starts with. */
extern uint64_t opt_prof_dump_min_gap_ms;
extern uint64_t opt_prof_dump_max_files;
extern uint64_t opt_prof_dump_max_bytes;
extern prof_keep_policy_t opt_prof_dump_keep;
/* Whether the user set the limit, so that it holds for jemalloc's automatic kinds too. */
extern bool opt_prof_dump_given[prof_keep_n];

/* Stores the options as limits and policy. */
void prof_keep_boot(void);
/* Maps the table as soon as profiles may be written, so that children forked later share it. */
void prof_keep_prepare(void);

/* Read and set a limit; one that was set holds for jemalloc's automatic kinds too. */
uint64_t prof_keep_get(prof_keep_limit_t limit);
void prof_keep_set(prof_keep_limit_t limit, uint64_t value);
/* The policy by its name in prof_keep_policy_names. */
const char *prof_keep_policy_get(void);
int prof_keep_policy_set(const char *name); /* 0 or EINVAL */

/* Whether the limit applies to this kind of profile. */
bool prof_keep_governs(prof_kind_t kind, prof_keep_limit_t limit);
/* Whether files of this kind count for a limit on number or bytes. */
bool prof_keep_counts(prof_kind_t kind);
/* Permission to write one profile: its time, and the time of the profile before it. */
typedef struct {
	prof_kind_t kind;
	uint64_t now_ns;
	uint64_t last_ns;
} prof_keep_turn_t;

/*
 * Whether a profile of this kind may be written now; if so, *turn is the permission and the kind's
 * gap begins. If not, it is too soon, and the caller records that with prof_keep_suppress().
 * prof_keep_release() restores the previous gap if no profile was written, unless another thread
 * got a permission meanwhile.
 */
bool prof_keep_try_turn(prof_kind_t kind, uint64_t now_ns, prof_keep_turn_t *turn);
void prof_keep_release(const prof_keep_turn_t *turn);
void prof_keep_suppress(void);
/*
 * Counts a profile that came due while another was written and is pending. Its retry subtracts it
 * again.
 */
void prof_keep_overlap(void);
void prof_keep_overlap_retry(void);
/*
 * Whether there is room for one more file of this kind. If not, files that are not ours use up the
 * limit, which is reported once. This and prof_keep_written() need the prof_dump lock, outside the
 * gate.
 */
bool prof_keep_try_room(prof_kind_t kind);
/* Enters a profile that was written and removes files that are over the limit. */
void prof_keep_written(const char *path, prof_kind_t kind, uint64_t bytes, uint64_t live);

/*
 * Automatic profiles that were left out; and of these, the ones that came due while another was
 * written.
 */
uint64_t prof_keep_suppressed(void);
uint64_t prof_keep_overlapped(void);
/* Sets the counters of a forked child to 0. */
void prof_keep_postfork_child(void);

/* ---------------------------------------------------------------- the policy, on plain values */

/* Identifies a file: another one may have been put under the same name. */
typedef struct {
	dev_t dev;
	ino_t ino;
	struct timespec mtime; /* inode numbers are reused */
} prof_file_id_t;

/* One slot of the table; prof_keep.c says who may read and write it. */
typedef struct {
	atomic_u64_t word; /* order of writing, and state */
	prof_kind_t kind;
	uint64_t bytes;
	uint64_t live;     /* bytes in use when it was written */
	prof_file_id_t id;
	char path[960];
} prof_kept_t;
/* Makes the slot ready, as number `order`. */
void prof_keep_place_set(prof_kept_t *f, uint64_t order);

/*
 * Whether the gap since the last profile is over. Of two threads the one that read the clock first
 * may come last, so a time before the last one is too soon; unless it is earlier by more than any
 * thread is late, which means that the clock was set back.
 */
#define PROF_KEEP_LATE_NS (UINT64_C(60) * 1000000000)
static inline bool
prof_keep_gap_is_over(uint64_t last_ns, uint64_t now_ns, uint64_t gap_ns) {
	if (now_ns < last_ns) {
		return last_ns - now_ns >= PROF_KEEP_LATE_NS;
	}
	return last_ns == 0 || now_ns - last_ns >= gap_ns;
}

/*
 * Returns the index of the file in files[0..n), in any order, that is to be removed next; SIZE_MAX:
 * none. kinds has one bit for each kind that is considered.
 */
size_t prof_keep_victim(const prof_kept_t *files, size_t n, prof_keep_policy_t policy,
    uint32_t kinds);

#endif /* PROF_KEEP_H */
