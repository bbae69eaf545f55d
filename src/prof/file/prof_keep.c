/*
 * Limits how often automatic profiles are written and how many files stay (prof_keep.h). Limits and
 * counters are atomic words of the process. Nothing is remembered of files: after each automatic
 * profile the directory of the prefix is read, their names and lengths, and their marks too if a
 * limit is reached.
 *
 * Invariant: only a regular file with a name of the prefix, the first line of a profile and the
 * mark of our family is removed. Processes that come to the limit at once agree, as each removes in
 * the order of the marks what is too much in the directory as it saw it: none removes one of the
 * newest that are to stay.
 *
 * Locks: the caller's prof_dump lock, for the static buffers. Called by prof_dump.c and prof_box.c
 * before and after each file and, for limits and gaps, by prof_trigger.c, prof_auto.c, ctl_prof.c
 * and prof_request.c.
 */
#include "prof/file/prof_keep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "util/assert.h"
#include "util/atomic.h"
#include "util/fmt.h"
#include "util/hash.h"
#include "util/mix.h"

uint64_t opt_prof_dump_min_gap_ms = 1000;
uint64_t opt_prof_dump_max_files = 100;
uint64_t opt_prof_dump_max_bytes = UINT64_C(1) << 30;
prof_keep_policy_t opt_prof_dump_keep = prof_keep_first_peak_last;
bool opt_prof_dump_given[prof_keep_n];

const char *const prof_keep_policy_names[] = {"first_peak_last", "newest", NULL};

/* Minimum time between two reads of the directory that find no room. */
#define SCAN_GAP_NS NSTIME_PER_SEC
#define SCAN_BUF 4096
/* The mark stands in the first lines of a file, before all that may be long. */
#define HEAD_BYTES 512
#define MARK_KEY "\n# jemalloc." PROF_KEEP_MARK "="

/* Number and bytes of files, by the limit for which they count. */
typedef struct {
	uint64_t v[prof_keep_n];
} sums_t;

static struct {
	atomic_u64_t limits[prof_keep_n];
	atomic_u32_t policy;
	/* the user has set the limit, so it holds for kinds i and u too */
	atomic_b_t given[prof_keep_n];
	atomic_u64_t suppressed; /* profiles left out, without those of overlapped */
	atomic_u64_t overlapped; /* profiles that came due while another one was written */
	atomic_u64_t last_ns[prof_kind_n]; /* monotonic time of the last profile of each kind */
	atomic_u64_t family;     /* in the marks of our files; 0: not drawn yet */
	atomic_b_t has_told;     /* that the limit is used up */
} kept = {.limits = {{1000}, {100}, {UINT64_C(1) << 30}}};

/* The directory of the prefix, as it was read last. */
static LARGE_BSS struct {
	uint64_t prefix_hash; /* of the prefix whose directory was read; 0: none */
	uint64_t next_ns;     /* monotonic time of the next read if there is no room */
	size_t dir_len;       /* length of the directory in path, with the slash */
	uint32_t wanted;      /* kinds to list with the next read; 0: none */
	uint32_t listed;      /* kinds whose files of ours are in `own`; 0: no mark was read */
	sums_t all;
	sums_t others;        /* of these, files that we must not remove; without marks all */
	prof_keep_list_t own;
	prof_kept_t found;
	char prefix[PROF_PATH_SIZE];
	char path[PROF_PATH_SIZE + 256];
	char head[HEAD_BYTES + 1];
	char buf[SCAN_BUF] ALIGNED(8);
} scan;

void
prof_keep_boot(void) {
	atomic_store_u64(&kept.limits[prof_keep_min_gap_ms], opt_prof_dump_min_gap_ms, MO_RELAXED);
	atomic_store_u64(&kept.limits[prof_keep_max_files], opt_prof_dump_max_files, MO_RELAXED);
	atomic_store_u64(&kept.limits[prof_keep_max_bytes], opt_prof_dump_max_bytes, MO_RELAXED);
	atomic_store_u32(&kept.policy, opt_prof_dump_keep, MO_RELAXED);
	for (unsigned i = 0; i < prof_keep_n; i++) {
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
	for (uint32_t i = 0; name != NULL && prof_keep_policy_names[i] != NULL; i++) {
		if (strcmp(name, prof_keep_policy_names[i]) == 0) {
			atomic_store_u32(&kept.policy, i, MO_RELAXED);
			return 0;
		}
	}
	return EINVAL;
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
	case prof_kind_box: /* counted; one that is open is never removed */
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

/* One bit for each kind to which the limit applies. */
static uint32_t
kinds_of(prof_keep_limit_t limit) {
	assert(limit < prof_keep_n);
	uint32_t kinds = 0;
	for (unsigned i = 0; i < prof_kind_n; i++) {
		kinds |= prof_keep_governs((prof_kind_t)i, limit) ? 1u << i : 0;
	}
	return kinds;
}

/* ---------------------------------------------------------------- how often */

bool
prof_keep_try_turn(prof_kind_t kind, uint64_t now_ns, prof_keep_turn_t *turn) {
	assert(kind < prof_kind_n);
	*turn = (prof_keep_turn_t){kind, now_ns, now_ns};
	if (!prof_keep_governs(kind, prof_keep_min_gap_ms)) {
		return true;
	}
	uint64_t gap = prof_keep_get(prof_keep_min_gap_ms);
	gap = gap > UINT64_MAX / NSTIME_PER_MSEC ? UINT64_MAX : gap * NSTIME_PER_MSEC;
	uint64_t last = atomic_load_u64(&kept.last_ns[kind], MO_RELAXED);
	turn->last_ns = last;
	/* Of two threads that come at once, one succeeds. */
	return prof_keep_gap_is_over(last, now_ns, gap) && atomic_cas_strong_u64(
	    &kept.last_ns[kind], &last, now_ns, MO_RELAXED, MO_RELAXED);
}

/*
 * Restores the previous time rather than 0: a thread that read the clock earlier may come only now,
 * and the last profile may be younger than its time.
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

static void
sums_add(sums_t *s, prof_kind_t kind, uint64_t bytes) {
	if (prof_keep_governs(kind, prof_keep_max_files)) {
		s->v[prof_keep_max_files]++;
	}
	if (prof_keep_governs(kind, prof_keep_max_bytes)) {
		s->v[prof_keep_max_bytes] += bytes;
	}
}

static void
sums_sub(sums_t *s, const prof_kept_t *f) {
	sums_t one = {{0}};
	sums_add(&one, f->kind, f->bytes);
	for (unsigned i = 0; i < prof_keep_n; i++) {
		assert(s->v[i] >= one.v[i]);
		s->v[i] -= one.v[i];
	}
}

void
prof_keep_mark(char out[PROF_KEEP_MARK_SIZE], uint64_t order, uint64_t live) {
	prof_keep_prepare();
	fmt_snprintf(out, PROF_KEEP_MARK_SIZE, "%016llx %llu %llu",
	    (unsigned long long)atomic_load_u64(&kept.family, MO_RELAXED), (unsigned long long)order,
	    (unsigned long long)live);
}

/* Reads order and live bytes from the file's mark; false if it is not of our family. */
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

/* Whether a process has the box open (prof_box.h): it counts once that has ended. */
static bool
is_open_box(const char *path) {
	int fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	bool is_open = fd >= 0 && syscall(SYS_flock, fd, LOCK_SH | LOCK_NB) != 0
	    && errno == EWOULDBLOCK;
	if (fd >= 0) {
		sys_close(fd);
	}
	return is_open;
}

static int
look_at(void *base, const char *name) {
	prof_kept_t *f = &scan.found;
	struct stat st;
	size_t len = strlen(name);
	assert(scan.dir_len > 0 && scan.dir_len < sizeof(scan.path));
	f->kind = prof_sys_name_kind(name, base);
	if (f->kind == prof_kind_n || !prof_keep_counts(f->kind) || len >= sizeof(f->name)
	    || scan.dir_len + len >= sizeof(scan.path)) {
		return 0;
	}
	memcpy(scan.path + scan.dir_len, name, len + 1);
	if (lstat(scan.path, &st) != 0 || !S_ISREG(st.st_mode)
	    || (f->kind == prof_kind_box && is_open_box(scan.path))) {
		return 0;
	}
	f->bytes = (uint64_t)st.st_size;
	memcpy(f->name, name, len + 1);
	sums_add(&scan.all, f->kind, f->bytes);
	if (scan.listed == 0 || !mark_try_read(scan.path, f)) {
		sums_add(&scan.others, f->kind, f->bytes);
	} else if ((scan.listed & 1u << f->kind) != 0) {
		prof_keep_list_add(&scan.own, f);
	}
	return 0;
}

/* Takes over the prefix as it is now; whether it has changed. */
static bool
prefix_try_update(void) {
	struct tls_s *t = tls_get();
	assert(!gate_is_entered(t));
	gate_enter(t);
	prof_sys_prefix_get(scan.prefix, sizeof(scan.prefix));
	gate_exit(t);
	uint64_t hash = hash64(scan.prefix, strlen(scan.prefix), 0) | 1;
	bool is_new = scan.prefix_hash != hash;
	scan.prefix_hash = hash;
	return is_new;
}

/*
 * Reads the directory, and the marks too if files of some kinds are to be listed. False if that
 * fails; the sums are those of before then.
 */
static bool
look(uint32_t kinds) {
	int saved = errno, err = 0;
	sums_t all = scan.all, others = scan.others;
	const char *slash = strrchr(scan.prefix, '/');
	scan.listed = kinds;
	scan.next_ns = nstime_monotonic_ns() + SCAN_GAP_NS;
	scan.own.n = scan.own.n_all = 0;
	memset(&scan.all, 0, sizeof(scan.all));
	memset(&scan.others, 0, sizeof(scan.others));
	if (slash != NULL) { /* a prefix that had to stay relative has no known directory */
		scan.dir_len = (size_t)(slash - scan.prefix) + 1;
		memcpy(scan.path, scan.prefix, scan.dir_len);
		scan.path[scan.dir_len] = '\0';
		err = sys_dir_each(scan.path, scan.buf, sizeof(scan.buf), look_at,
		    scan.prefix + scan.dir_len);
	}
	if (err != 0) {
		scan.all = all;
		scan.others = others;
		scan.own.n = scan.own.n_all = 0;
	}
	errno = saved;
	return err == 0;
}

/* ---------------------------------------------------------------- limits on files */

static bool
is_over(prof_keep_limit_t limit, uint64_t sum) {
	uint64_t max = prof_keep_get(limit);
	return max != 0 && sum > max;
}

static bool
has_limits(void) {
	return prof_keep_get(prof_keep_max_files) != 0 || prof_keep_get(prof_keep_max_bytes) != 0;
}

/* A limit that `more` files or bytes would exceed; prof_keep_n if there is none. */
static prof_keep_limit_t
limit_find(uint64_t more) {
	prof_keep_limit_t limit = prof_keep_max_files;
	while (limit < prof_keep_n && !is_over(limit, scan.all.v[limit] + more)) {
		limit++;
	}
	return limit;
}

/*
 * Reads the directory once, or twice if a limit is reached that was not the time before. Whether
 * that succeeded.
 */
static bool
survey(void) {
	bool is_read = look(scan.wanted);
	prof_keep_limit_t limit = limit_find(1);
	scan.wanted = limit == prof_keep_n ? 0 : kinds_of(limit);
	return is_read && (scan.wanted == 0 || scan.wanted == scan.listed || look(scan.wanted));
}

/* Whether files that we must not remove use up the limit alone. */
static bool
is_full(prof_kind_t kind, prof_keep_limit_t limit) {
	return prof_keep_governs(kind, limit) && is_over(limit, scan.others.v[limit] + 1);
}

static bool
is_full_any(prof_kind_t kind) {
	return is_full(kind, prof_keep_max_files) || is_full(kind, prof_keep_max_bytes);
}

bool
prof_keep_try_room(prof_kind_t kind) {
	assert(!gate_is_entered(tls_get()));
	if (!prof_keep_counts(kind) || !has_limits()) {
		return true;
	}
	if (prefix_try_update() || (is_full_any(kind) && nstime_monotonic_ns() >= scan.next_ns)) {
		survey();
	}
	bool has_room = !is_full_any(kind);
	if (!has_room && !atomic_exchange_b(&kept.has_told, true, MO_RELAXED)) {
		malloc_printf("<jemalloc>: files of other processes at \"%.*s\" are as many as "
		    "prof_dump_max_files or prof_dump_max_bytes allow: no more is written by itself "
		    "until some are removed\n", 800, scan.prefix);
	}
	return has_room;
}

/* Removes a file of ours; one that cannot be removed counts as one of others. */
static void
victim_remove(size_t i) {
	const prof_kept_t *f = &scan.own.oldest[i];
	memcpy(scan.path + scan.dir_len, f->name, strlen(f->name) + 1);
	int err = sys_unlink(scan.path);
	if (err == 0 || err == ENOENT) { /* another process was faster */
		sums_sub(&scan.all, f);
	} else {
		sums_add(&scan.others, f->kind, f->bytes);
	}
	prof_keep_list_drop(&scan.own, i);
}

/* Removes what is over the limit, as far as it is listed; whether there was anything. */
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
	bool may_go_on = true;
	assert(prof_keep_counts(kind));
	if (!has_limits()) {
		return;
	}
	if (!survey()) {
		sums_add(&scan.all, kind, bytes); /* what cannot be seen is limited all the same */
		sums_add(&scan.others, kind, bytes);
	}
	while (may_go_on && (limit = limit_find(0)) < prof_keep_n) {
		may_go_on = (scan.listed == kinds_of(limit) || look(kinds_of(limit)))
		    && victims_try_remove(limit);
		scan.listed = 0; /* or other kinds: what is still over is looked for again */
	}
}

/* Gaps and counters belong to the process; files and limits to the family. */
void
prof_keep_postfork_child(void) {
	for (unsigned i = 0; i < prof_kind_n; i++) {
		atomic_store_u64(&kept.last_ns[i], 0, MO_RELAXED);
	}
	atomic_store_u64(&kept.suppressed, 0, MO_RELAXED);
	atomic_store_u64(&kept.overlapped, 0, MO_RELAXED);
	if (scan.prefix_hash != 0) {
		scan.prefix_hash = 0; /* another thread may have been reading the directory */
	}
}
