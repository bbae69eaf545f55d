/*
 * Limits are atomic words.  The list of files is an array, oldest first, under one short lock, taken
 * inside the gate; files are removed without it.
 */
#include "prof_keep.h"

#include <sys/stat.h>

#include "meta/freepool.h"
#include "os/gate.h"
#include "os/mutex.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "util/assert.h"
#include "util/atomic.h"

uint64_t opt_prof_dump_min_gap_ms = 1000;
uint64_t opt_prof_dump_max_files = 100;
uint64_t opt_prof_dump_max_bytes = UINT64_C(1) << 30;
prof_keep_policy_t opt_prof_dump_keep = prof_keep_first_peak_last;
bool opt_prof_dump_limited = false;

const char *const prof_keep_policy_names[] = {"first_peak_last", "newest", NULL};

static struct {
	atomic_u64_t limits[prof_keep_n];
	atomic_u32_t policy;
	atomic_b_t is_limited;  /* also the kinds i and u */
	atomic_u64_t suppressed;
	atomic_u64_t last_ns[prof_kind_n];
	mutex_t mtx; /* the rest */
	prof_kept_t *files;
	size_t n;
	size_t room;
	uint64_t bytes;
} kept = {
	.limits = {{1000}, {100}, {UINT64_C(1) << 30}},
	.mtx = MUTEX_INITIALIZER("prof_keep", WITNESS_RANK_PROF_MISC)
};

void
prof_keep_boot(void) {
	atomic_store_u64(&kept.limits[prof_keep_min_gap_ms], opt_prof_dump_min_gap_ms, MO_RELAXED);
	atomic_store_u64(&kept.limits[prof_keep_max_files], opt_prof_dump_max_files, MO_RELAXED);
	atomic_store_u64(&kept.limits[prof_keep_max_bytes], opt_prof_dump_max_bytes, MO_RELAXED);
	atomic_store_u32(&kept.policy, opt_prof_dump_keep, MO_RELAXED);
	atomic_store_b(&kept.is_limited, opt_prof_dump_limited, MO_RELAXED);
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
	atomic_store_b(&kept.is_limited, true, MO_RELAXED);
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
			atomic_store_b(&kept.is_limited, true, MO_RELAXED);
			return 0;
		}
	}
	return EINVAL;
}

uint64_t
prof_keep_suppressed(void) {
	return atomic_load_u64(&kept.suppressed, MO_RELAXED);
}

void
prof_keep_suppress(void) {
	atomic_fetch_add_u64(&kept.suppressed, 1, MO_RELAXED);
}

/* ---------------------------------------------------------------- how often */

bool
prof_keep_governs(prof_kind_t kind) {
	switch (kind) {
	case prof_kind_alloc:
	case prof_kind_large:
	case prof_kind_highwater:
	case prof_kind_timer:
		return true;
	case prof_kind_interval:
	case prof_kind_gdump:
		return atomic_load_b(&kept.is_limited, MO_RELAXED);
	default:
		return false;
	}
}

bool
prof_keep_may(prof_kind_t kind, uint64_t now_ns, prof_keep_turn_t *turn) {
	*turn = (prof_keep_turn_t){kind, now_ns, now_ns};
	if (!prof_keep_governs(kind)) {
		return true;
	}
	uint64_t gap = prof_keep_get(prof_keep_min_gap_ms);
	gap = gap > UINT64_MAX / NSTIME_PER_MSEC ? UINT64_MAX : gap * NSTIME_PER_MSEC;
	uint64_t last = atomic_load_u64(&kept.last_ns[kind], MO_RELAXED);
	turn->last_ns = last;
	/* Of two that come at once, one may. */
	return prof_keep_gap_is_over(last, now_ns, gap) && atomic_cas_strong_u64(
	    &kept.last_ns[kind], &last, now_ns, MO_RELAXED, MO_RELAXED);
}

/* Not "no gap at all": who read the clock a while ago may come just now, and the last profile may be younger than that. */
void
prof_keep_release(const prof_keep_turn_t *turn) {
	uint64_t now = turn->now_ns;
	atomic_cas_strong_u64(&kept.last_ns[turn->kind], &now, turn->last_ns, MO_RELAXED, MO_RELAXED);
}

/* ---------------------------------------------------------------- what stays */

size_t
prof_keep_victim(const prof_kept_t *files, size_t n, prof_keep_policy_t policy) {
	assert(n > 0);
	if (policy == prof_keep_newest || n == 1) {
		return 0;
	}
	size_t peak = 0;
	for (size_t i = 1; i < n; i++) {
		if (files[i].live > files[peak].live) {
			peak = i;
		}
	}
	for (size_t i = 1; i + 1 < n; i++) {
		if (i != peak) {
			return i;
		}
	}
	return 0; /* nothing but first, peak and newest */
}

static bool
kept_room_locked(void) {
	if (kept.n < kept.room) {
		return true;
	}
	size_t room = kept.room == 0 ? 16 : kept.room * 2;
	prof_kept_t *files = meta_alloc(room * sizeof(*files));
	if (files == NULL) {
		return false;
	}
	if (kept.n > 0) {
		memcpy(files, kept.files, kept.n * sizeof(*files));
	}
	meta_free(kept.files, kept.room * sizeof(*files));
	kept.files = files;
	kept.room = room;
	return true;
}

/* Which file has the name now; outside the gate. */
static bool
file_is_there(const char *path, prof_file_id_t *id) {
	struct stat st;
	int saved = errno;
	bool is_there = lstat(path, &st) == 0;
	errno = saved;
	if (is_there) {
		*id = (prof_file_id_t){st.st_dev, st.st_ino, st.st_mtim};
	}
	return is_there;
}

static void
file_remove(const prof_kept_t *f) {
	prof_file_id_t now;
	if (file_is_there(f->path, &now) && now.dev == f->id.dev && now.ino == f->id.ino
	    && now.mtime.tv_sec == f->id.mtime.tv_sec && now.mtime.tv_nsec == f->id.mtime.tv_nsec) {
		sys_unlink(f->path);
	}
}

/* Without memory for it a file stays on disk, uncounted. */
static void
kept_add(const char *path, prof_kept_t f) {
	f.path = meta_alloc(f.path_size);
	if (f.path == NULL) {
		return;
	}
	memcpy(f.path, path, f.path_size);
	mutex_lock(&kept.mtx);
	bool has_room = kept_room_locked();
	if (has_room) {
		kept.files[kept.n++] = f;
		kept.bytes += f.bytes;
	}
	mutex_unlock(&kept.mtx);
	if (!has_room) {
		meta_free(f.path, f.path_size);
	}
}

static bool
kept_is_over_locked(void) {
	uint64_t max_files = prof_keep_get(prof_keep_max_files);
	uint64_t max_bytes = prof_keep_get(prof_keep_max_bytes);
	return kept.n > 0 && ((max_files != 0 && kept.n > max_files)
	    || (max_bytes != 0 && kept.bytes > max_bytes));
}

/* Takes one that is over the limits off the list. */
static bool
kept_take(prof_kept_t *out) {
	mutex_lock(&kept.mtx);
	bool is_over = kept_is_over_locked();
	if (is_over) {
		size_t i = prof_keep_victim(kept.files, kept.n,
		    (prof_keep_policy_t)atomic_load_u32(&kept.policy, MO_RELAXED));
		*out = kept.files[i];
		kept.bytes -= out->bytes;
		kept.n--;
		memmove(&kept.files[i], &kept.files[i + 1], (kept.n - i) * sizeof(kept.files[0]));
	}
	mutex_unlock(&kept.mtx);
	return is_over;
}

void
prof_keep_written(const char *path, uint64_t bytes, uint64_t live) {
	struct tls_s *t = tls_get();
	prof_kept_t f = {.path_size = strlen(path) + 1, .bytes = bytes, .live = live};
	assert(!gate_is_entered(t));
	/* A relative name may mean another file later. */
	bool is_known = path[0] == '/' && file_is_there(path, &f.id);
	gate_enter(t);
	if (is_known) {
		kept_add(path, f);
	}
	prof_kept_t victim;
	while (kept_take(&victim)) {
		uint32_t depth = gate_leave_all(t);
		file_remove(&victim);
		gate_reenter(t, depth);
		meta_free(victim.path, victim.path_size);
	}
	gate_exit(t);
}

/* The lock is free here; the memory of the list is given back, the files stay the parent's. */
void
prof_keep_postfork_child(void) {
	for (size_t i = 0; i < kept.n; i++) {
		meta_free(kept.files[i].path, kept.files[i].path_size);
	}
	kept.n = 0;
	kept.bytes = 0;
	for (unsigned i = 0; i < prof_kind_n; i++) {
		atomic_store_u64(&kept.last_ns[i], 0, MO_RELAXED);
	}
	atomic_store_u64(&kept.suppressed, 0, MO_RELAXED);
}
