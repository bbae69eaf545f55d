/*
 * Limits how often automatic profiles are written and how many files stay (prof_keep.h). Limits and
 * counters are atomic words of the process. There is no record of the files: the directory of the
 * prefix is read after each profile to which a limit on files applies. That reads names and
 * lengths, and, if a limit is reached, also the marks in the files. Before such a profile the
 * directory is read only if the prefix has changed, or if there was no room.
 *
 * Invariant: only a regular file with a name of the prefix, the first line of a profile and the
 * mark of our family is removed; a box is never removed. Processes of a family that reach the limit
 * at once agree on the files to remove: each removes as many as are too many in the directory that
 * it has read, in the order of the marks. So none of the newest, which are to stay, is removed.
 *
 * Locks: `scan` is used under the caller's lock prof_dump; the other state is atomic. Called by
 * prof_dump.c before and after each profile and by prof_box.c before a box; for gaps and counters
 * by prof_trigger.c, prof_request.c and prof_course.c; for settings by ctl_prof.c; by
 * prof.c at boot and in a forked child.
 */
#include "prof/file/prof_keep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "os/sys_call.h"
#include "prof/file/prof_dir.h"
#include "util/atomic.h"
#include "util/fmt.h"
#include "util/mix.h"

/* ms, files, bytes. */
uint64_t opt_prof_dump_limits[prof_keep_n] = {1000, 100, UINT64_C(1) << 30};
prof_keep_policy_t opt_prof_dump_keep = prof_keep_first_peak_last;
bool opt_prof_dump_given[prof_keep_n];

const char *const prof_keep_policy_names[] = {"first_peak_last", "newest", NULL};

/* While there is no room, the minimum time in ns between two reads of the directory. */
#define SCAN_GAP_NS NSTIME_PER_SEC
/* Bytes of a file that are read for its mark, which stands before all lines that may be long. */
#define HEAD_BYTES 512
/* The text before the mark: the end of the line before, and the key. */
#define MARK_KEY "\n# jemalloc." PROF_KEEP_MARK "="

/*
 * v[prof_keep_max_files]: number of the files that count for that limit; v[prof_keep_max_bytes]:
 * bytes of the files that count for that one.
 */
typedef struct {
	uint64_t v[prof_keep_n];
} sums_t;

static struct {
	atomic_u64_t limits[prof_keep_n];
	atomic_u32_t policy;     /* a prof_keep_policy_t */
	/* the user has set the limit, so it holds for kinds i and u too */
	atomic_b_t given[prof_keep_n];
	/* profiles left out for a gap, a limit or failures; without overlapped ones */
	atomic_u64_t suppressed;
	atomic_u64_t overlapped; /* profiles that came due while another one was written */
	atomic_u64_t last_ns[prof_kind_n]; /* monotonic time of the last permission (turn); 0: none */
	atomic_u64_t family;     /* random number in the marks of our files; 0: not drawn yet */
	/* reported that there is no room, or that a profile is too large; both stay in a child */
	atomic_b_t has_told;
	atomic_b_t has_told_large;
} kept = {.limits = {{1000}, {100}, {UINT64_C(1) << 30}}}; /* boot without prof_keep_boot() */

/* The directory of the prefix, as look() read it last; used under the lock prof_dump. */
static LARGE_BSS struct {
	uint64_t next_ns;     /* monotonic time of the next read if there is no room */
	/* the limit for which the files in `own` count; prof_keep_n: no mark was read */
	prof_keep_limit_t listed;
	/* it could not be read; the sums are of the last read, with what this process wrote since */
	bool is_blind;
	sums_t all;           /* of all files that count */
	sums_t others;        /* of those that we must not remove; like `all` if no mark was read */
	prof_keep_list_t own; /* the files of our family that count for the limit `listed` */
	prof_kept_t found;    /* the file that is looked at */
	prof_dir_t dir;
	char head[HEAD_BYTES + 1]; /* its first bytes, as a text */
} scan;

void
prof_keep_boot(void) {
	atomic_store_u32(&kept.policy, opt_prof_dump_keep, MO_RELAXED);
	for (unsigned i = 0; i < prof_keep_n; i++) {
		atomic_store_u64(&kept.limits[i], opt_prof_dump_limits[i], MO_RELAXED);
		atomic_store_b(&kept.given[i], opt_prof_dump_given[i], MO_RELAXED);
		if (opt_prof_dump_given[i]) {
			prof_keep_prepare();
		}
	}
}

void
prof_keep_prepare(void) {
	uint64_t none = 0;
	if (atomic_load_u64(&kept.family, MO_RELAXED) == 0) {
		/* Two processes that start in one nanosecond differ by where the stack lies. */
		uint64_t drawn = hash_mix64(nstime_realtime_ns() ^ (uintptr_t)&none) | 1;
		atomic_cas_strong_u64(&kept.family, &none, drawn, MO_RELAXED, MO_RELAXED);
	}
}

/* ---------------------------------------------------------------- limits */

uint64_t
prof_keep_get(prof_keep_limit_t limit) {
	assert(limit < prof_keep_n);
	return atomic_load_u64(&kept.limits[limit], MO_RELAXED);
}

void
prof_keep_set(prof_keep_limit_t limit, uint64_t value) {
	assert(limit < prof_keep_n);
	atomic_store_u64(&kept.limits[limit], value, MO_RELAXED);
	atomic_store_b(&kept.given[limit], true, MO_RELAXED);
	prof_keep_prepare();
}

const char *
prof_keep_policy_get(void) {
	return prof_keep_policy_names[atomic_load_u32(&kept.policy, MO_RELAXED)];
}

int
prof_keep_policy_set(const char *name) {
	int i = name == NULL ? -1 : fmt_find_word(prof_keep_policy_names, name, strlen(name));
	if (i < 0) {
		return EINVAL;
	}
	atomic_store_u32(&kept.policy, (uint32_t)i, MO_RELAXED);
	return 0;
}

uint64_t
prof_keep_suppressed(void) {
	return atomic_load_u64(&kept.suppressed, MO_RELAXED) + prof_keep_overlapped();
}

uint64_t
prof_keep_overlapped(void) {
	return atomic_load_u64(&kept.overlapped, MO_RELAXED);
}

void
prof_keep_suppress(void) {
	atomic_fetch_add_u64(&kept.suppressed, 1, MO_RELAXED);
}

void
prof_keep_overlap(void) {
	atomic_fetch_add_u64(&kept.overlapped, 1, MO_RELAXED);
}

void
prof_keep_overlap_retry(void) {
	uint64_t n = atomic_fetch_sub_u64(&kept.overlapped, 1, MO_RELAXED);
	assert(n > 0);
	(void)n;
}

bool
prof_keep_governs(prof_kind_t kind, prof_keep_limit_t limit) {
	switch (kind) {
	case prof_kind_alloc:
	case prof_kind_large:
	case prof_kind_highwater:
	case prof_kind_timer:
	case prof_kind_box: /* counted unless a process has it open; never removed */
		return true;
	case prof_kind_interval:
	case prof_kind_gdump:
		return atomic_load_b(&kept.given[limit], MO_RELAXED);
	default:
		return false;
	}
}

bool
prof_keep_counts(prof_kind_t kind) {
	return prof_keep_governs(kind, prof_keep_max_files)
	    || prof_keep_governs(kind, prof_keep_max_bytes);
}

/* ---------------------------------------------------------------- how often */

bool
prof_keep_try_turn(prof_kind_t kind, uint64_t now_ns, prof_keep_turn_t *turn) {
	assert(kind < prof_kind_n);
	*turn = (prof_keep_turn_t){kind, now_ns, now_ns};
	uint64_t gap = prof_keep_get(prof_keep_min_gap_ms);
	if (gap == 0 || !prof_keep_governs(kind, prof_keep_min_gap_ms)) {
		return true;
	}
	gap = gap > UINT64_MAX / NSTIME_PER_MSEC ? UINT64_MAX : gap * NSTIME_PER_MSEC;
	uint64_t last = atomic_load_u64(&kept.last_ns[kind], MO_RELAXED);
	turn->last_ns = last;
	/* Of two threads that come at once, one succeeds. */
	return prof_keep_gap_is_over(last, now_ns, gap) && atomic_cas_strong_u64(
	    &kept.last_ns[kind], &last, now_ns, MO_RELAXED, MO_RELAXED);
}

/*
 * Restores the time of the permission before this one, and not 0, so that the gap after that still
 * has to pass. If another thread has got a permission meanwhile, the time of that one stays.
 */
void
prof_keep_release(const prof_keep_turn_t *turn) {
	assert(turn->kind < prof_kind_n);
	uint64_t now = turn->now_ns;
	atomic_cas_strong_u64(&kept.last_ns[turn->kind], &now, turn->last_ns, MO_RELAXED, MO_RELAXED);
}

/* ---------------------------------------------------------------- the policy */

void
prof_keep_list_add(prof_keep_list_t *l, const prof_kept_t *f) {
	assert(l->n <= l->n_all && l->n <= PROF_KEEP_OLDEST);
	if (l->n_all == 0 || f->live > l->peak_live
	    || (f->live == l->peak_live && f->order < l->peak)) {
		l->peak = f->order;
		l->peak_live = f->live;
	}
	l->last = f->order > l->last ? f->order : l->last;
	l->n_all++;
	size_t at = l->n;
	while (at > 0 && l->oldest[at - 1].order > f->order) {
		at--;
	}
	if (at == PROF_KEEP_OLDEST) {
		return;
	}
	size_t stay = min_zu(l->n, PROF_KEEP_OLDEST - 1);
	memmove(&l->oldest[at + 1], &l->oldest[at], (stay - at) * sizeof(*f));
	l->oldest[at] = *f;
	l->n = stay + 1;
}

size_t
prof_keep_list_victim(const prof_keep_list_t *l, prof_keep_policy_t policy) {
	for (size_t i = 1; i < l->n && policy == prof_keep_first_peak_last; i++) {
		if (l->oldest[i].order != l->peak && l->oldest[i].order != l->last) {
			return i;
		}
	}
	/* If there are only the first, the peak and the newest, the first one goes. */
	return l->n > 0 && (policy == prof_keep_newest || l->n == l->n_all) ? 0 : SIZE_MAX;
}

void
prof_keep_list_drop(prof_keep_list_t *l, size_t i) {
	assert(i < l->n);
	memmove(&l->oldest[i], &l->oldest[i + 1], (l->n - i - 1) * sizeof(l->oldest[0]));
	l->n--;
	l->n_all--;
}

/* ---------------------------------------------------------------- reading the directory */

/*
 * Adds n files of a kind, with these bytes in all, to the sums of the limits that apply to the
 * kind. To subtract, pass the negatives of both modulo 2^64.
 */
static void
sums_add(sums_t *s, prof_kind_t kind, uint64_t n, uint64_t bytes) {
	s->v[prof_keep_max_files] += prof_keep_governs(kind, prof_keep_max_files) ? n : 0;
	s->v[prof_keep_max_bytes] += prof_keep_governs(kind, prof_keep_max_bytes) ? bytes : 0;
	assert(s->v[prof_keep_max_files] <= INT64_MAX && s->v[prof_keep_max_bytes] <= INT64_MAX);
}

void
prof_keep_mark(char out[PROF_KEEP_MARK_SIZE], uint64_t order, uint64_t live) {
	prof_keep_prepare();
	fmt_snprintf(out, PROF_KEEP_MARK_SIZE, "%016llx %llu %llu",
	    (unsigned long long)atomic_load_u64(&kept.family, MO_RELAXED), (unsigned long long)order,
	    (unsigned long long)live);
}

/*
 * Reads order and live bytes from the mark of a profile; false if it has none or one of another
 * family.
 */
static bool
mark_try_read(const char *path, prof_kept_t *f) {
	int err = 0;
	scan.head[prof_sys_head_read(path, scan.head, HEAD_BYTES)] = '\0';
	char *at = strstr(scan.head, MARK_KEY);
	if (at == NULL) {
		return false;
	}
	uint64_t family = fmt_parse_uint(at + sizeof(MARK_KEY) - 1, &at, 16, &err);
	f->order = fmt_parse_uint(at, &at, 10, &err);
	f->live = fmt_parse_uint(at, &at, 10, &err);
	return err == 0 && *at == '\n' && family == atomic_load_u64(&kept.family, MO_RELAXED);
}

/*
 * Whether a process has the box open, by its lock (prof_box.h); such a box does not count. False on
 * a file system without locks.
 */
static bool
is_open_box(const char *path) {
	int fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	bool is_open = fd >= 0 && sys_call(SYS_flock, fd, LOCK_SH | LOCK_NB) != 0
	    && errno == EWOULDBLOCK;
	if (fd >= 0) {
		sys_close(fd);
	}
	return is_open;
}

/* Called for each file of the prefix: adds it to the sums, and to the list if it is ours. */
static void
look_at(prof_dir_t *d, prof_kind_t kind, const char *name) {
	prof_kept_t *f = &scan.found;
	struct stat st;
	if (!prof_keep_counts(kind) || lstat(d->path, &st) != 0 || !S_ISREG(st.st_mode)
	    || (kind == prof_kind_box && is_open_box(d->path))) {
		return;
	}
	f->kind = kind;
	f->bytes = (uint64_t)st.st_size;
	memcpy(f->name, name, strlen(name) + 1);
	sums_add(&scan.all, kind, 1, f->bytes);
	if (scan.listed == prof_keep_n || !mark_try_read(d->path, f)) {
		sums_add(&scan.others, kind, 1, f->bytes);
	} else if (prof_keep_governs(kind, scan.listed)) {
		prof_keep_list_add(&scan.own, f);
	}
}

/*
 * Reads the directory. If `limit` is not prof_keep_n, reads the marks too, and lists in scan.own
 * the files of our family that count for this limit. False if the directory cannot be read; then
 * the sums stay as they were.
 */
static bool
look(prof_keep_limit_t limit) {
	sums_t all = scan.all, others = scan.others;
	scan.listed = limit;
	scan.next_ns = nstime_monotonic_ns() + SCAN_GAP_NS;
	scan.own.n = scan.own.n_all = 0;
	memset(&scan.all, 0, sizeof(scan.all));
	memset(&scan.others, 0, sizeof(scan.others));
	if (prof_dir_each(&scan.dir, look_at) == 0) {
		return true;
	}
	scan.all = all;
	scan.others = others;
	scan.own.n = scan.own.n_all = 0;
	return false;
}

/* ---------------------------------------------------------------- limits on files */

/* Whether this sum exceeds the limit; 0 means no limit. */
static bool
is_over(prof_keep_limit_t limit, uint64_t sum) {
	uint64_t max = prof_keep_get(limit);
	return max != 0 && sum > max;
}

static bool
has_limits(void) {
	return prof_keep_get(prof_keep_max_files) != 0 || prof_keep_get(prof_keep_max_bytes) != 0;
}

/* A limit that would be exceeded with so many files and bytes more; prof_keep_n: none. */
static prof_keep_limit_t
limit_find(uint64_t files, uint64_t bytes) {
	return is_over(prof_keep_max_files, scan.all.v[prof_keep_max_files] + files)
	    ? prof_keep_max_files
	    : is_over(prof_keep_max_bytes, scan.all.v[prof_keep_max_bytes] + bytes)
	    ? prof_keep_max_bytes : prof_keep_n;
}

/*
 * Reads the directory; also the marks, if a limit leaves no room for one more file. Whether it does
 * is guessed from the sums of the last read and `bytes`, the length of the file written since. If
 * the guess was "room" and the read shows that there is none, the directory is read again, with the
 * marks. False if it cannot be read.
 */
static bool
survey(uint64_t bytes) {
	bool is_read = look(limit_find(1, bytes));
	prof_keep_limit_t limit = limit_find(1, 1);
	scan.is_blind = !is_read
	    || (limit != prof_keep_n && scan.listed == prof_keep_n && !look(limit));
	return !scan.is_blind;
}

/* Whether files that we must not remove alone use up a limit that applies to this kind. */
static bool
is_full(prof_kind_t kind) {
	prof_keep_limit_t i = prof_keep_max_files;
	while (i < prof_keep_n
	    && !(prof_keep_governs(kind, i) && is_over(i, scan.others.v[i] + 1))) {
		i++;
	}
	return i < prof_keep_n;
}

bool
prof_keep_try_room(prof_kind_t kind) {
	if (!prof_keep_counts(kind) || !has_limits()) {
		return true;
	}
	if (prof_dir_try_update(&scan.dir)
	    || (is_full(kind) && nstime_monotonic_ns() >= scan.next_ns)) {
		survey(1);
	}
	bool has_room = !is_full(kind);
	if (!has_room && !atomic_exchange_b(&kept.has_told, true, MO_RELAXED)) {
		malloc_printf(scan.is_blind ? "<jemalloc>: the directory of \"%.*s\" cannot be read, so "
		    "old files are not found there: as many as prof_dump_max_files or prof_dump_max_bytes "
		    "allow were written, and no more is by itself\n"
		    : "<jemalloc>: files of other processes at \"%.*s\" are as many as "
		    "prof_dump_max_files or prof_dump_max_bytes allow: no more is written by itself "
		    "until some are removed\n", 800, scan.dir.prefix);
	}
	return has_room;
}

bool
prof_keep_has_told(void) {
	return atomic_load_b(&kept.has_told, MO_RELAXED);
}

/* Removes file i of the list; one that cannot be removed counts as one that is not ours. */
static void
victim_remove(size_t i) {
	const prof_kept_t *f = &scan.own.oldest[i];
	memcpy(scan.dir.path + scan.dir.dir_len, f->name, strlen(f->name) + 1);
	int err = sys_unlink(scan.dir.path);
	if (err == 0 || err == ENOENT) { /* another process was faster */
		sums_add(&scan.all, f->kind, -UINT64_C(1), -f->bytes);
	} else {
		sums_add(&scan.others, f->kind, 1, f->bytes);
	}
	prof_keep_list_drop(&scan.own, i);
}

/*
 * Removes listed files until the limit is met, or until the next one to remove is not in the list.
 * Returns whether any was removed.
 */
static bool
victims_try_remove(prof_keep_limit_t limit) {
	prof_keep_policy_t policy = (prof_keep_policy_t)atomic_load_u32(&kept.policy, MO_RELAXED);
	uint64_t before = scan.all.v[limit];
	size_t i;
	while (is_over(limit, scan.all.v[limit])
	    && (i = prof_keep_list_victim(&scan.own, policy)) != SIZE_MAX) {
		victim_remove(i);
	}
	return scan.all.v[limit] < before;
}

void
prof_keep_written(prof_kind_t kind, uint64_t bytes) {
	prof_keep_limit_t limit;
	assert(prof_keep_counts(kind));
	if (!has_limits()) {
		return;
	}
	if (!survey(bytes)) {
		sums_add(&scan.all, kind, 1, bytes); /* so that limits hold although it cannot be read */
		sums_add(&scan.others, kind, 1, bytes);
	}
	while ((limit = limit_find(0, 0)) != prof_keep_n
	    && (scan.listed == limit || look(limit)) && victims_try_remove(limit)) {
		scan.listed = prof_keep_n; /* look() again if a limit is still exceeded */
	}
	if (prof_keep_governs(kind, prof_keep_max_bytes) && is_over(prof_keep_max_bytes, bytes)
	    && !atomic_exchange_b(&kept.has_told_large, true, MO_RELAXED)) {
		malloc_printf("<jemalloc>: a profile of %llu bytes was removed at once, as are others like "
		    "it: prof_dump_max_bytes is smaller\n", (unsigned long long)bytes);
	}
}

/* The child has gaps and counters of its own; it keeps the limits and the number of the family. */
void
prof_keep_postfork_child(void) {
	for (unsigned i = 0; i < prof_kind_n; i++) {
		atomic_store_u64(&kept.last_ns[i], 0, MO_RELAXED);
	}
	atomic_store_u64(&kept.suppressed, 0, MO_RELAXED);
	atomic_store_u64(&kept.overlapped, 0, MO_RELAXED);
	if (scan.dir.prefix_hash != 0) {
		scan.dir.prefix_hash = 0; /* another thread may have been reading the directory */
	}
}
