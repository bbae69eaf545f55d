/*
 * Limits how often automatic profiles are written and how many files stay (prof_keep.h). Limits and
 * counters are atomic words of the process. The files are listed in a table in memory that forked
 * children share, so that limits and policy hold for the whole family.
 *
 * No process that may die holds anything in that table. A slot is one word (state and order),
 * changed by compare-and-swap from free to claimed to ready and back. Only the claimer writes the
 * rest of the slot; a reader of a ready slot uses what it read only if the word is unchanged
 * afterwards. A process that dies with a claimed slot costs only that slot, because sums count
 * ready slots. A child may have other rights than its parent, so the table is not trusted: only a
 * file that has the name and first line of a profile is removed, and numbers are checked before
 * use.
 *
 * Locks: the caller's prof_dump lock, for writing and for the static buffers. Called by prof_dump.c
 * before and after each file and, for limits and gaps, by prof_trigger.c, prof_auto.c, ctl_prof.c
 * and prof_request.c.
 */
#include "prof/file/prof_keep.h"

#include <sys/stat.h>

#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "util/assert.h"
#include "util/atomic.h"
#include "util/hash.h"

uint64_t opt_prof_dump_min_gap_ms = 1000;
uint64_t opt_prof_dump_max_files = 100;
uint64_t opt_prof_dump_max_bytes = UINT64_C(1) << 30;
prof_keep_policy_t opt_prof_dump_keep = prof_keep_first_peak_last;
bool opt_prof_dump_given[prof_keep_n];

const char *const prof_keep_policy_names[] = {"first_peak_last", "newest", NULL};

/* Slots for files. A file that gets none stays on disk: it is counted but never removed. */
#define TABLE_FILES 4095
#define TABLE_BYTES ((size_t)1 << 22)
#define HEAD_BYTES 1024
/* Minimum time between two reads of the directory, which find files that others have removed. */
#define SCAN_GAP_NS NSTIME_PER_SEC
#define SCAN_BUF 4096

#define STATE_BITS 2
enum { STATE_FREE, STATE_CLAIMED, STATE_READY };

/* The table that the processes of a family share. */
typedef struct {
	atomic_u64_t order;    /* order of the next file */
	uint64_t birth_ns;     /* UTC of creation: older files are of earlier processes */
	atomic_u32_t n_used;   /* slots from this index on were never used */
	atomic_u32_t has_told; /* one of the processes has reported that the limit is used up */
	char rest[HEAD_BYTES - 24];
	prof_kept_t files[TABLE_FILES];
} table_t;

cassert(sizeof(prof_kept_t) == 1024 && sizeof(table_t) == TABLE_BYTES);

/* Number and bytes, by kind, of files that are counted but that we must not remove. */
typedef struct {
	uint64_t n[prof_kind_n];
	uint64_t bytes[prof_kind_n];
} others_t;

static struct {
	atomic_u64_t limits[prof_keep_n];
	atomic_u32_t policy;
	/* the user has set the limit, so it holds for kinds i and u too */
	atomic_b_t given[prof_keep_n];
	atomic_u64_t suppressed; /* profiles left out, without those of overlapped */
	atomic_u64_t overlapped; /* profiles that came due while another one was written */
	atomic_u64_t last_ns[prof_kind_n]; /* monotonic time of the last profile of each kind */
	table_t *table;    /* NULL: not made yet */
} kept = {.limits = {{1000}, {100}, {UINT64_C(1) << 30}}};

static LARGE_BSS struct {
	uint64_t prefix_hash; /* hash of the prefix whose directory was read; 0: none */
	uint64_t next_ns;     /* monotonic time of the next read */
	size_t dir_len;       /* length of the directory in path, with the slash */
	others_t before;      /* files of earlier processes, as found in the directory */
	others_t loose;       /* files of ours that have no slot in the table */
	char prefix[PROF_PATH_SIZE];
	char path[PROF_PATH_SIZE + 256];
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

/* The table of files, NULL before prof_keep_prepare() has made it. */
static table_t *
kept_table(void) {
	return __atomic_load_n(&kept.table, MO_ACQUIRE);
}

void
prof_keep_prepare(void) {
	if (kept_table() != NULL) {
		return;
	}
	table_t *none = NULL;
	table_t *table = pages_map_shared(TABLE_BYTES);
	if (table == NULL) {
		return; /* tried again for the first file */
	}
	table->birth_ns = nstime_realtime_coarse_ns();
	if (!__atomic_compare_exchange_n(&kept.table, &none, table, false, MO_ACQ_REL, MO_ACQUIRE)) {
		pages_unmap_in_time(table, TABLE_BYTES);
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

/* ---------------------------------------------------------------- places */

static uint64_t
word_make(uint64_t order, unsigned state) {
	assert(state <= STATE_READY && order <= UINT64_MAX >> STATE_BITS);
	return order << STATE_BITS | state;
}

static bool
word_is_ready(uint64_t word) {
	return (word & ((1u << STATE_BITS) - 1)) == STATE_READY;
}

void
prof_keep_place_set(prof_kept_t *f, uint64_t order) {
	atomic_store_u64(&f->word, word_make(order, STATE_READY), MO_RELEASE);
}

/* Number of slots that were ever used; the pages behind them are not touched. */
static size_t
n_used(void) {
	return kept_table() == NULL ? 0
	    : min_zu(atomic_load_u32(&kept_table()->n_used, MO_ACQUIRE), TABLE_FILES);
}

static bool
is_of_kinds(const prof_kept_t *f, uint32_t kinds) {
	prof_kind_t kind = f->kind;
	return kind < prof_kind_n && (kinds & 1u << kind) != 0;
}

/* Copies the path to memory that does not change, and terminates it. */
static const char *
path_of(const prof_kept_t *f) {
	memcpy(scan.path, f->path, sizeof(f->path));
	scan.path[sizeof(f->path)] = '\0';
	return scan.path;
}

/* Returns the next ready slot from index *i on and the value its word had; NULL at the end. */
static prof_kept_t *
place_next(size_t *i, uint64_t *word) {
	assert(*i <= TABLE_FILES);
	for (size_t n = n_used(); *i < n; ++*i) {
		prof_kept_t *f = &kept_table()->files[*i];
		*word = atomic_load_u64(&f->word, MO_ACQUIRE);
		if (word_is_ready(*word)) {
			++*i;
			return f;
		}
	}
	return NULL;
}

/* Claims a free slot; NULL if there is none. */
static prof_kept_t *
place_claim(void) {
	for (uint32_t i = 0; i < TABLE_FILES && kept_table() != NULL; i++) {
		prof_kept_t *f = &kept_table()->files[i];
		uint64_t word = word_make(0, STATE_FREE);
		if (atomic_load_u64(&f->word, MO_RELAXED) != word || !atomic_cas_strong_u64(&f->word, &word,
		    word_make(0, STATE_CLAIMED), MO_ACQUIRE, MO_RELAXED)) {
			continue;
		}
		uint32_t n = atomic_load_u32(&kept_table()->n_used, MO_RELAXED);
		while (n <= i && !atomic_cas_weak_u32(&kept_table()->n_used, &n, i + 1, MO_RELEASE,
		    MO_RELAXED)) {
		}
		return f;
	}
	return NULL;
}

/* Reads which file has the name now, and its size; false if there is no regular file. */
static bool
file_try_identify(const char *path, prof_file_id_t *id, uint64_t *bytes) {
	struct stat st;
	int saved = errno;
	bool is_there = lstat(path, &st) == 0 && S_ISREG(st.st_mode);
	errno = saved;
	if (is_there) {
		*id = (prof_file_id_t){st.st_dev, st.st_ino, st.st_mtim};
		*bytes = (uint64_t)st.st_size;
	}
	return is_there;
}

static bool
is_same_file(const char *path, const prof_file_id_t *id) {
	prof_file_id_t now;
	uint64_t bytes;
	return file_try_identify(path, &now, &bytes) && now.dev == id->dev && now.ino == id->ino
	    && now.mtime.tv_sec == id->mtime.tv_sec && now.mtime.tv_nsec == id->mtime.tv_nsec;
}

static void
others_add(others_t *o, prof_kind_t kind, uint64_t bytes) {
	assert(kind < prof_kind_n);
	o->n[kind]++;
	o->bytes[kind] += bytes;
}

/* Enters a file into a slot. Without a slot the file is counted in scan.loose and never removed. */
static void
place_add(const char *path, prof_kind_t kind, uint64_t bytes, uint64_t live, prof_file_id_t id) {
	assert(path[0] == '/');
	size_t size = strlen(path) + 1;
	prof_kept_t *f = size <= sizeof(f->path) ? place_claim() : NULL;
	if (f == NULL) {
		others_add(&scan.loose, kind, bytes);
		return;
	}
	f->kind = kind;
	f->bytes = bytes;
	f->live = live;
	f->id = id;
	memcpy(f->path, path, size);
	prof_keep_place_set(f, atomic_fetch_add_u64(&kept_table()->order, 1, MO_RELAXED));
}

/* Frees the slots of files that were removed or changed by others. */
static void
places_look(void) {
	prof_kept_t *f;
	uint64_t word;
	for (size_t i = 0; (f = place_next(&i, &word)) != NULL;) {
		prof_file_id_t id = f->id;
		const char *path = path_of(f);
		if (atomic_load_u64(&f->word, MO_ACQUIRE) == word && !is_same_file(path, &id)) {
			atomic_cas_strong_u64(&f->word, &word, word_make(0, STATE_FREE), MO_RELEASE,
			    MO_RELAXED);
		}
	}
}

/* ---------------------------------------------------------------- files of earlier processes */

static bool
table_has(const prof_file_id_t *id) {
	prof_kept_t *f;
	uint64_t word;
	for (size_t i = 0; (f = place_next(&i, &word)) != NULL;) {
		if (f->id.dev == id->dev && f->id.ino == id->ino) {
			return true;
		}
	}
	return false;
}

/*
 * Whether an earlier process wrote the file. A file of this process or its family may have the same
 * time stamp as the table, because the clock of the file system is coarse.
 */
static bool
is_from_before(const prof_file_id_t *id) {
	uint64_t mtime = (uint64_t)id->mtime.tv_sec * NSTIME_PER_SEC + (uint64_t)id->mtime.tv_nsec;
	uint64_t birth = kept_table() == NULL ? UINT64_MAX : kept_table()->birth_ns;
	return mtime < birth || (mtime == birth && !table_has(id));
}

static int
scan_entry(void *ctx, const char *name) {
	assert(scan.dir_len > 0 && scan.dir_len < sizeof(scan.path));
	const char *base = ctx;
	prof_kind_t kind = prof_sys_name_kind(name, base);
	size_t len = strlen(name);
	prof_file_id_t id;
	uint64_t bytes;
	if (kind == prof_kind_n || scan.dir_len + len >= sizeof(scan.path)) {
		return 0;
	}
	memcpy(scan.path + scan.dir_len, name, len + 1);
	if (file_try_identify(scan.path, &id, &bytes) && is_from_before(&id)) {
		others_add(&scan.before, kind, bytes);
	}
	return 0;
}

/*
 * Reads the directory of the prefix if that has not been done, or if `again` is set and it is time.
 */
static void
scan_update(bool again) {
	struct tls_s *t = tls_get();
	assert(!gate_is_entered(t));
	gate_enter(t);
	prof_sys_prefix_get(scan.prefix, sizeof(scan.prefix));
	gate_exit(t);
	uint64_t hash = hash64(scan.prefix, strlen(scan.prefix), 0) | 1;
	uint64_t now = nstime_monotonic_ns();
	const char *slash = strrchr(scan.prefix, '/');
	if (scan.prefix_hash == hash && (!again || now < scan.next_ns)) {
		return;
	}
	scan.prefix_hash = hash;
	scan.next_ns = now + SCAN_GAP_NS;
	memset(&scan.before, 0, sizeof(scan.before));
	if (slash == NULL) {
		return; /* a prefix that had to stay relative has no known directory */
	}
	scan.dir_len = (size_t)(slash - scan.prefix) + 1;
	memcpy(scan.path, scan.prefix, scan.dir_len);
	scan.path[scan.dir_len] = '\0';
	sys_dir_each(scan.path, scan.buf, sizeof(scan.buf), scan_entry, scan.prefix + scan.dir_len);
}

/* ---------------------------------------------------------------- removing files */

static uint64_t
others_sum(const others_t *o, prof_keep_limit_t limit) {
	assert(limit == prof_keep_max_files || limit == prof_keep_max_bytes);
	uint64_t sum = 0;
	for (unsigned i = 0; i < prof_kind_n; i++) {
		if (prof_keep_governs((prof_kind_t)i, limit)) {
			sum += limit == prof_keep_max_files ? o->n[i] : o->bytes[i];
		}
	}
	return sum;
}

/* Number or bytes of files that we must not remove. */
static uint64_t
fixed_sum(prof_keep_limit_t limit) {
	return others_sum(&scan.before, limit) + others_sum(&scan.loose, limit);
}

static bool
is_over(prof_keep_limit_t limit) {
	uint64_t max = prof_keep_get(limit);
	if (max == 0) {
		return false;
	}
	uint64_t sum = fixed_sum(limit);
	uint32_t kinds = kinds_of(limit);
	prof_kept_t *f;
	uint64_t word;
	for (size_t i = 0; (f = place_next(&i, &word)) != NULL;) {
		if (is_of_kinds(f, kinds)) {
			sum += limit == prof_keep_max_files ? 1 : f->bytes;
		}
	}
	return sum > max;
}

/* Finds a limit that is exceeded; false if none is. */
static bool
limit_try_find(prof_keep_limit_t *limit) {
	*limit = prof_keep_max_files;
	if (is_over(*limit)) {
		return true;
	}
	*limit = prof_keep_max_bytes;
	return is_over(*limit);
}

/* The result of judge() so far. first, last and peak are orders; UINT64_MAX: none yet. */
typedef struct {
	uint64_t first;
	uint64_t last;
	uint64_t peak;
	uint64_t peak_live;
	size_t n;
} judged_t;

/* Reads the order of a file that is one of these kinds; false if it is not. */
static bool
order_try_read(const prof_kept_t *f, uint32_t kinds, uint64_t *order) {
	uint64_t word = atomic_load_u64(&f->word, MO_ACQUIRE);
	*order = word >> STATE_BITS;
	return word_is_ready(word) && is_of_kinds(f, kinds);
}

/* Finds the first, the newest and the peak file of these kinds; see judged_t. */
static judged_t
judge(const prof_kept_t *files, size_t n, uint32_t kinds) {
	judged_t j = {UINT64_MAX, 0, UINT64_MAX, 0, 0};
	uint64_t order;
	for (size_t i = 0; i < n; i++) {
		if (!order_try_read(&files[i], kinds, &order)) {
			continue;
		}
		uint64_t live = files[i].live;
		if (j.n == 0 || live > j.peak_live || (live == j.peak_live && order < j.peak)) {
			j.peak = order;
			j.peak_live = live;
		}
		j.first = order < j.first ? order : j.first;
		j.last = order > j.last ? order : j.last;
		j.n++;
	}
	assert(j.n == 0 || (j.first <= j.peak && j.peak <= j.last));
	return j;
}

size_t
prof_keep_victim(const prof_kept_t *files, size_t n, prof_keep_policy_t policy, uint32_t kinds) {
	judged_t j = judge(files, n, kinds);
	size_t found = SIZE_MAX;
	size_t first = SIZE_MAX;
	uint64_t found_order = UINT64_MAX;
	uint64_t order;
	for (size_t i = 0; i < n; i++) {
		if (!order_try_read(&files[i], kinds, &order)) {
			continue;
		}
		if (order == j.first) {
			first = i;
		}
		if (order < found_order && order != j.first && order != j.peak && order != j.last) {
			found = i;
			found_order = order;
		}
	}
	/* If there are only the first, the peak and the newest, the first one goes. */
	return policy == prof_keep_newest || found == SIZE_MAX ? first : found;
}

/*
 * Removes the file of a slot that the caller claimed. If that fails, the file stays and is counted.
 */
static void
file_remove(const prof_kept_t *f) {
	prof_file_id_t id = f->id;
	prof_kind_t kind = f->kind;
	const char *path = path_of(f);
	if (!is_same_file(path, &id)) {
		return;
	}
	int err = prof_sys_is_profile(path) ? sys_unlink(path) : EACCES;
	if (err != 0 && kind < prof_kind_n) {
		others_add(&scan.loose, kind, f->bytes);
	}
}

/* Removes one file because of the limit; false if there is none that we may remove. */
static bool
victim_try_remove(prof_keep_limit_t limit) {
	prof_keep_policy_t policy = (prof_keep_policy_t)atomic_load_u32(&kept.policy, MO_RELAXED);
	size_t n = n_used();
	size_t i = n == 0 ? SIZE_MAX
	    : prof_keep_victim(kept_table()->files, n, policy, kinds_of(limit));
	assert(i == SIZE_MAX || i < n);
	if (i == SIZE_MAX) {
		return false;
	}
	prof_kept_t *f = &kept_table()->files[i];
	uint64_t word = atomic_load_u64(&f->word, MO_RELAXED);
	/* If this fails another process has just claimed the slot, and the caller looks again. */
	if (word_is_ready(word) && atomic_cas_strong_u64(&f->word, &word, word_make(0, STATE_CLAIMED),
	    MO_ACQUIRE, MO_RELAXED)) {
		file_remove(f);
		atomic_store_u64(&f->word, word_make(0, STATE_FREE), MO_RELEASE);
	}
	return true;
}

/* Whether files that we must not remove use up the limit alone. */
static bool
is_full(prof_kind_t kind, prof_keep_limit_t limit) {
	uint64_t max = prof_keep_get(limit);
	return max != 0 && prof_keep_governs(kind, limit) && fixed_sum(limit) >= max;
}

static bool
is_full_any(prof_kind_t kind) {
	return is_full(kind, prof_keep_max_files) || is_full(kind, prof_keep_max_bytes);
}

bool
prof_keep_try_room(prof_kind_t kind) {
	assert(!gate_is_entered(tls_get()));
	if (!prof_keep_counts(kind)) {
		return true;
	}
	prof_keep_prepare();
	scan_update(false);
	if (!is_full_any(kind)) {
		return true;
	}
	scan_update(true);
	bool has_room = !is_full_any(kind);
	if (!has_room && kept_table() != NULL
	    && atomic_exchange_u32(&kept_table()->has_told, 1, MO_RELAXED) == 0) {
		malloc_printf("<jemalloc>: profiles of earlier processes at \"%.*s\" are as many as "
		    "prof_dump_max_files or prof_dump_max_bytes allow: no more is written by itself "
		    "until some are removed\n", 800, scan.prefix);
	}
	return has_room;
}

void
prof_keep_written(const char *path, prof_kind_t kind, uint64_t bytes, uint64_t live) {
	prof_file_id_t id;
	uint64_t size;
	prof_keep_limit_t limit;
	assert(prof_keep_counts(kind));
	/* A relative name could stand for another file later. */
	if (path[0] != '/' || !file_try_identify(path, &id, &size)) {
		return;
	}
	prof_keep_prepare();
	place_add(path, kind, bytes, live, id);
	if (!limit_try_find(&limit)) {
		return;
	}
	/* The sums were those of known files; checks now which of them still exist. */
	places_look();
	scan_update(fixed_sum(limit) > 0);
	unsigned i = 0;
	while (i < TABLE_FILES && limit_try_find(&limit) && victim_try_remove(limit)) {
		i++;
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
