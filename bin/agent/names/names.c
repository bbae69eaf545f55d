/*
 * Finds the table of names for an object (mapped file) of a process: opens the object's files below
 * the root of the process, derives the cache keys, opens the cached table, and runs a maker, a
 * child process (maker.h), for the addresses that the table lacks. A table with lines (NAMES_LINES:
 * from DWARF) serves all files with its build-id (of the same root and owner); one without lines
 * only the files that were read. Invariant: at most one thread makes a table for an own key
 * (keys_t), and at most MAKING_MAX makers run; an own key that failed is not tried again for
 * FAILED_MS. Lock: making.mutex; a thread that holds it waits for nothing but making.done.
 * Called by pprof_names.c.
 */
#include "names.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/proc_stat.h"
#include "maker.h"

enum {
	MAKING_MAX = 4,       /* makers that run at the same time */
	FAILED_MAX = 256,     /* failed keys that are remembered */
	FAILED_MS = 600000,   /* a failed key is not tried again for this time */
	RETRY_SECONDS = 3600, /* a table without lines that is older is made again */
	NEWS_SECONDS = 60,    /* so is one older than this, if a debug file was installed since then */
	ADDRESSES_MAX = 1 << 20, /* that one maker is given, at most */
	/* no table is begun after so many makers for one profile; the next one gets the other tables */
	MADE_MAX = 64,
	ALL_MS = 20000,       /* from names_begin() until no more makers are begun for the profile */
	/*
	 * Time limit of a maker without DWARF, which may run past ALL_MS; one with DWARF is killed at
	 * ALL_MS - SYMBOLS_MS.
	 */
	SYMBOLS_MS = 3000,
};

/* The keys whose tables are being made, and a ring of those that failed. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t done; /* a maker has ended */
	char keys[MAKING_MAX][NAMES_KEY_MAX + 1]; /* "": a free slot */
	struct {
		char key[NAMES_KEY_MAX + 1];
		int64_t at_ms; /* on the monotonic clock */
	} failed[FAILED_MAX];
	size_t next_failed; /* keys that ever failed; the next goes to this index modulo FAILED_MAX */
} making = {.mutex = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

/* Files that may be the object (O_PATH); the maker takes the first one that has the build-id. */
typedef struct candidates_s {
	int fds[NAMES_CANDIDATES];
	size_t count;
	bool is_root;    /* root owns them, nobody else may write them: the keys name no owner */
	unsigned uid;    /* owner of the first */
	bool has_owners; /* another one has another owner */
	bool is_mapped;  /* the first has the inode number of the memory map */
	uint64_t sum;    /* hash of their devices, inodes, sizes and times of modification */
} candidates_t;

/* The keys of the two tables that an object may have. */
typedef struct keys_s {
	char common[NAMES_KEY_MAX + 1]; /* table with lines; see try_keys() */
	char own[NAMES_KEY_MAX + 1];    /* table without lines, for these candidates only */
} keys_t;

/* An open table of the cache. */
typedef struct kept_s {
	names_table_t table; /* mapped; base NULL: there is none */
	int fd;              /* of its file; -1: there is none */
	time_t made;         /* when its file was written; seconds since 1970 */
	bool is_common;      /* it has the common key */
} kept_t;

/* ---------------------------------------------------------------- the process */

/* The start time, in ticks since boot; 0 if it cannot be read. */
static unsigned long long
start_of(pid_t pid) {
	proc_stat_t stat;
	return proc_stat_read(pid, &stat) == 0 ? stat.start : 0;
}

/*
 * If the root is not ours, n->root_id identifies it by device, inode and time of change, so that
 * its files get tables of their own.
 */
static void
root_id_set(names_t *n) {
	struct stat here, there;
	if (stat("/", &here) == 0 && fstat(n->root, &there) == 0
	    && (here.st_dev != there.st_dev || here.st_ino != there.st_ino)) {
		snprintf(n->root_id, sizeof(n->root_id), "-r%llx.%llx.%llx",
		    (unsigned long long)there.st_dev, (unsigned long long)there.st_ino,
		    (unsigned long long)there.st_ctim.tv_sec);
	}
}

int
names_begin(names_t *n, const struct pprof_request *request) {
	char path[64];
	memset(n, 0, sizeof(*n));
	n->request = request;
	n->root = -1;
	n->cache.dir = -1;
	n->deadline_ms = client_now_ms() + ALL_MS;
	if (request->pid <= 0 && request->root == NULL) {
		return ESRCH;
	}
	snprintf(path, sizeof(path), "/proc/%d/root", (int)request->pid);
	n->root = open(request->pid > 0 ? path : request->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (n->root < 0) {
		return errno;
	}
	/* If the directory is gone since main.c checked it, the tables are in memory, as without it. */
	(void)cache_begin(&n->cache, request->cache_dir, request->cache_bytes);
	root_id_set(n);
	snprintf(n->process, sizeof(n->process), "x%d.%llx", (int)request->pid, start_of(request->pid));
	return 0;
}

void
names_end(names_t *n) {
	if (n->root >= 0) {
		close(n->root);
	}
	n->root = -1;
	cache_end(&n->cache);
}

/* ---------------------------------------------------------------- the object */

/* The hash `sum` with a value added. */
static uint64_t
sum_add(uint64_t sum, uint64_t value) {
	return (sum ^ value ^ value >> 32) * 0x9e3779b97f4a7c15u + 1;
}

/* Takes the descriptor: adds it to *c if it is of a regular file, else closes it; ignores -1. */
static void
candidate_add(candidates_t *c, int fd, const names_object_t *object) {
	struct stat st;
	if (fd < 0) {
		return;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return;
	}
	if (c->count == 0) {
		c->uid = st.st_uid;
		c->is_root = true;
		c->is_mapped = object->inode != 0 && st.st_ino == object->inode;
	}
	c->has_owners = c->has_owners || st.st_uid != c->uid;
	c->is_root = c->is_root && st.st_uid == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
	c->sum = sum_add(sum_add(c->sum, st.st_dev), st.st_ino);
	c->sum = sum_add(sum_add(c->sum, (uint64_t)st.st_size), (uint64_t)st.st_mtim.tv_sec);
	c->sum = sum_add(c->sum, (uint64_t)st.st_mtim.tv_nsec);
	c->fds[c->count++] = fd;
}

/*
 * Opens the file at the object's path below the root of the process; RESOLVE_IN_ROOT keeps links
 * from leading out of it. If that has not the inode number of the mapped file, adds those that, for
 * a living process, /proc gives: exe, if it is the program, and the file of map_files.
 */
static void
candidates_open(const names_t *n, const names_object_t *object, candidates_t *c) {
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char path[96];
	memset(c, 0, sizeof(*c));
	candidate_add(c, (int)syscall(SYS_openat2, n->root, object->path, &how, sizeof(how)), object);
	if (c->is_mapped || n->request->pid <= 0) {
		return;
	}
	if (object->is_main) {
		snprintf(path, sizeof(path), "/proc/%d/exe", (int)n->request->pid);
		candidate_add(c, open(path, O_PATH | O_CLOEXEC), object);
	}
	if (object->map_start != 0) {
		snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)n->request->pid,
		    (unsigned long long)object->map_start, (unsigned long long)object->map_end);
		candidate_add(c, open(path, O_PATH | O_CLOEXEC), object);
	}
}

static void
candidates_close(candidates_t *c) {
	while (c->count > 0) {
		close(c->fds[--c->count]);
	}
}

/*
 * The common key consists of the build-id, the root and the owner of the file. Without a build-id
 * the inode stands in its place, and with it the process, so that no other one uses that table, or,
 * if the process has ended, the hash of the files. If the files have several owners, that hash is
 * in it too, because the file of one must not name another one's functions. The own key is the
 * common one with that hash added. False: no file was opened, nothing identifies the object, or the
 * key is too long.
 */
static bool
try_keys(const names_t *n, const names_object_t *object, const candidates_t *c, keys_t *keys) {
	char owner[40] = "", ended[24];
	int len;
	if (c->count == 0 || (*object->id == '\0' && !c->is_mapped)) {
		return false;
	}
	if (c->has_owners) { /* the maker may take a file of any of them */
		snprintf(owner, sizeof(owner), "-u%x.%016llx", c->uid, (unsigned long long)c->sum);
	} else if (!c->is_root) {
		snprintf(owner, sizeof(owner), "-u%x", c->uid);
	}
	if (*object->id != '\0') {
		len = snprintf(keys->common, sizeof(keys->common), "%s%s%s", object->id, n->root_id, owner);
	} else {
		snprintf(ended, sizeof(ended), "x%016llx", (unsigned long long)c->sum);
		len = snprintf(keys->common, sizeof(keys->common), "%s.%llx%s%s",
		    n->request->pid > 0 ? n->process : ended, (unsigned long long)object->inode, n->root_id,
		    owner);
	}
	if (len <= 0 || len > NAMES_KEY_MAX) {
		return false;
	}
	len = snprintf(keys->own, sizeof(keys->own), "%s-f%016llx", keys->common,
	    (unsigned long long)c->sum);
	return len > 0 && len <= NAMES_KEY_MAX;
}

/* ---------------------------------------------------------------- one maker for each key */

/*
 * Whether a thread makes this table. If not, *place is a free slot, or MAKING_MAX if there is none.
 * The lock is held.
 */
static bool
making_find(const char *key, size_t *place) {
	*place = MAKING_MAX;
	for (size_t i = 0; i < MAKING_MAX; i++) {
		if (strcmp(making.keys[i], key) == 0) {
			return true;
		}
		*place = making.keys[i][0] == '\0' ? i : *place;
	}
	return false;
}

/* Waits until any maker ends, at most a second; false after the deadline. The lock is held. */
static bool
making_try_wait(const names_t *n) {
	struct timespec until;
	int64_t left = n->deadline_ms - client_now_ms();
	if (left <= 0) {
		return false;
	}
	/* The condition uses the wall clock, which may be set: so waits are short. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += left < 1000 ? 0 : 1;
	until.tv_nsec += left < 1000 ? left * 1000000 : 0;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	(void)pthread_cond_timedwait(&making.done, &making.mutex, &until);
	return true;
}

/*
 * Takes a slot to make this table, and waits for a free one; false if none is free by the deadline.
 * If another thread makes the table meanwhile, waits for its end, or the deadline, and returns
 * false. In both cases the caller opens the table anew.
 */
static bool
making_try_begin(const names_t *n, const char *key, size_t *place) {
	bool is_others = false, is_time = true, is_made;
	pthread_mutex_lock(&making.mutex);
	while (((is_made = making_find(key, place)) || (!is_others && *place == MAKING_MAX))
	    && is_time) {
		is_others = is_others || is_made;
		is_time = making_try_wait(n);
	}
	bool is_ours = !is_made && !is_others && *place < MAKING_MAX;
	if (is_ours) {
		memcpy(making.keys[*place], key, strlen(key) + 1);
	}
	pthread_mutex_unlock(&making.mutex);
	return is_ours;
}

/* Frees the slot and wakes those that wait; remembers the key if it failed. */
static void
making_end(size_t place, bool has_failed) {
	pthread_mutex_lock(&making.mutex);
	if (has_failed) {
		size_t i = making.next_failed++ % FAILED_MAX;
		memcpy(making.failed[i].key, making.keys[place], sizeof(making.keys[place]));
		making.failed[i].at_ms = client_now_ms();
	}
	making.keys[place][0] = '\0';
	pthread_cond_broadcast(&making.done);
	pthread_mutex_unlock(&making.mutex);
}

/* Whether making this table failed less than FAILED_MS ago. */
static bool
has_failed_lately(const char *key) {
	bool has_failed = false;
	int64_t now_ms = client_now_ms();
	pthread_mutex_lock(&making.mutex);
	for (size_t i = 0; i < FAILED_MAX && !has_failed; i++) {
		has_failed = making.failed[i].at_ms + FAILED_MS > now_ms
		    && strcmp(making.failed[i].key, key) == 0;
	}
	pthread_mutex_unlock(&making.mutex);
	return has_failed;
}

/* ---------------------------------------------------------------- the table */

static void
kept_close(kept_t *k) {
	names_table_close(&k->table);
	if (k->fd >= 0) {
		close(k->fd);
	}
	k->fd = -1;
}

/* Opens the table of a key; a table whose flag NAMES_LINES differs from has_lines is not used. */
static void
kept_open(const names_t *n, const char *key, bool has_lines, kept_t *k) {
	*k = (kept_t){.is_common = has_lines};
	k->fd = cache_open(&n->cache, key, &k->made);
	if (k->fd < 0) {
		return;
	}
	if (!names_table_try_map(&k->table, k->fd, key)
	    || ((k->table.head.flags & NAMES_LINES) != 0) != has_lines) {
		kept_close(k);
	}
}

/* The time of the last change (ctime) of a file below a root; 0 if there is none. */
static time_t
changed_at(int root, const char *path) {
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	struct stat st;
	int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	time_t when = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_ctim.tv_sec : 0;
	if (fd >= 0) {
		close(fd);
	}
	return when;
}

/* Has a debug file of this build-id, below the process's root or ours, changed since `made`? */
static bool
has_newer_debug_file(const names_t *n, const char *id, time_t made) {
	char path[NAMES_KEY_MAX + 64];
	struct stat st;
	if (strlen(id) <= 2) {
		return false;
	}
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%.200s.debug", id, id + 2);
	return changed_at(n->root, path) >= made
	    || (stat(path, &st) == 0 && st.st_ctim.tv_sec >= made);
}

/*
 * Is the table without lines so old that lines are searched for again? One from the future, since
 * the wall clock was set back, may be of any age.
 */
static bool
is_outdated(const names_t *n, const names_object_t *object, const kept_t *own) {
	time_t now = time(NULL);
	return own->made + RETRY_SECONDS < now || own->made > now + NEWS_SECONDS
	    || (own->made + NEWS_SECONDS < now
	    && has_newer_debug_file(n, object->id, own->made));
}

/* Writes the first ADDRESSES_MAX addresses that the table lacks to `missing`; returns how many. */
static size_t
missing_collect(const names_table_t *table, const uint64_t *addresses, size_t count,
    uint64_t *missing) {
	size_t found = 0;
	names_row_t row;
	for (size_t i = 0; i < count && found < ADDRESSES_MAX; i++) {
		if (!names_table_find(table, addresses[i], &row)) {
			missing[found++] = addresses[i];
		}
	}
	return found;
}

/*
 * Opens the table with lines (common key) if it has all addresses. Else opens the one without lines
 * (own key) if it is newer than the other, and not outdated. Else leaves that with lines open, if
 * there is one. may_be_old: makers had their chance, so an outdated table is taken too. Returns the
 * number of addresses that the table lacks, at most ADDRESSES_MAX, which are in `missing`.
 */
static size_t
table_open(const names_t *n, const names_object_t *object, const keys_t *keys,
    const uint64_t *addresses, size_t count, bool may_be_old, kept_t *k, uint64_t *missing) {
	kept_t own;
	kept_open(n, keys->common, true, k);
	size_t nmissing = missing_collect(&k->table, addresses, count, missing);
	if (nmissing == 0) {
		return 0;
	}
	kept_open(n, keys->own, false, &own);
	if (own.fd < 0 || (k->fd >= 0 && own.made <= k->made)
	    || (!may_be_old && is_outdated(n, object, &own))) {
		kept_close(&own);
		return nmissing;
	}
	kept_close(k);
	*k = own;
	return missing_collect(&k->table, addresses, count, missing);
}

/* Has any of these addresses a line? */
static bool
has_any_line(const names_table_t *table, const uint64_t *addresses, size_t count) {
	names_row_t row;
	names_frame_t frame;
	for (size_t i = 0; i < count; i++) {
		if (names_table_find(table, addresses[i], &row)
		    && names_table_frame(table, &row, 0, &frame) && frame.line != 0) {
			return true;
		}
	}
	return false;
}

/* Writes another key into the head of a draft, and sets or clears NAMES_LINES. 0 or EIO. */
static int
head_change(int draft, names_head_t head, const char *key, bool with_lines) {
	head.flags = with_lines ? head.flags | NAMES_LINES : head.flags & ~(uint32_t)NAMES_LINES;
	memset(head.key, 0, sizeof(head.key));
	memcpy(head.key, key, strlen(key));
	head.sum = names_head_sum(&head);
	return pwrite(draft, &head, sizeof(head), 0) == (ssize_t)sizeof(head) ? 0 : EIO;
}

/*
 * Checks a new table and chooses its *key: the common one if it has lines, else the own one; writes
 * it into the head if that has the other. 0, or: ENODATA, no object was read; ESTALE, there are
 * lines, but rows copied from an older table have none, so that it must be made without that one;
 * EIO, it is malformed or cannot be written.
 */
static int
draft_check(const maker_t *m, const keys_t *keys, const uint64_t *missing, size_t count, int draft,
    const char **key) {
	names_table_t made;
	bool is_carried = m->old >= 0, is_common = m->key == keys->common;
	if (!names_table_try_map(&made, draft, m->key)) {
		return EIO;
	}
	/*
	 * NAMES_LINES may come from the older table, so the new rows are checked: if none has a line,
	 * the table gets the own key, so that lines are searched for again.
	 */
	bool with_lines = (made.head.flags & NAMES_LINES) != 0
	    && (!is_common || has_any_line(&made, missing, count));
	*key = with_lines ? keys->common : keys->own;
	int err = (made.head.flags & NAMES_OBJECT) == 0 ? ENODATA
	    : with_lines && is_carried && !is_common ? ESTALE
	    : *key == m->key ? 0 : head_change(draft, made.head, *key, with_lines);
	names_table_close(&made);
	return err;
}

/* Runs the maker for the addresses `missing` and adds its table to the cache. 0 or an errno. */
static int
draft_make(names_t *n, const maker_t *m, const keys_t *keys, const uint64_t *missing,
    size_t count) {
	const char *key;
	int draft = cache_draft();
	if (draft < 0) {
		return errno;
	}
	n->nmade++;
	int err = maker_run(m, missing, count, draft);
	err = err != 0 ? err : draft_check(m, keys, missing, count, draft, &key);
	if (err != 0) {
		close(draft);
		return err;
	}
	return cache_keep(&n->cache, draft, key);
}

/* The addresses that are asked of an object, and those that its cached table lacks. */
typedef struct order_s {
	const names_object_t *object;
	const uint64_t *addresses, *missing;
	size_t count, nmissing;
} order_t;

/*
 * Makes the table with DWARF, anew if the rows of the older one are stale (ESTALE); if that takes
 * too long or the maker fails (EIO), with the symbol table only. 0 or an errno.
 */
static int
table_make(names_t *n, const order_t *o, const candidates_t *c, const keys_t *keys,
    const kept_t *old) {
	const struct pprof_request *r = n->request;
	maker_t m = {.symbolizer = r->symbolizer, .path = o->object->path, .root = n->root,
	    .nobjects = c->count, .old = old->fd, .use_servers = r->use_debuginfod};
	m.key = old->fd >= 0 && old->is_common ? keys->common : keys->own;
	memcpy(m.objects, c->fds, sizeof(m.objects));
	m.wait_ms = (int)(n->deadline_ms - client_now_ms()) - SYMBOLS_MS;
	int err = m.wait_ms <= 0 ? ETIMEDOUT : draft_make(n, &m, keys, o->missing, o->nmissing);
	if (err == ESTALE) {
		m.old = -1;
		m.wait_ms = (int)(n->deadline_ms - client_now_ms()) - SYMBOLS_MS;
		size_t count = o->count < ADDRESSES_MAX ? o->count : ADDRESSES_MAX;
		err = m.wait_ms <= 0 ? ETIMEDOUT : draft_make(n, &m, keys, o->addresses, count);
	}
	if (err == EIO || err == ETIMEDOUT) {
		m.old = old->fd; /* after ESTALE too: its rows lack lines, as the new ones will */
		m.symbols_only = true;
		m.wait_ms = SYMBOLS_MS;
		err = draft_make(n, &m, keys, o->missing, o->nmissing);
	}
	return err;
}

/*
 * Makes the table with the missing addresses, or waits for another thread that makes it. Does
 * nothing after MADE_MAX makers or the deadline, or if the key has failed lately.
 */
static void
table_complete(names_t *n, const order_t *o, const candidates_t *c, const keys_t *keys,
    const kept_t *old) {
	size_t place;
	if (n->nmade >= MADE_MAX || client_now_ms() >= n->deadline_ms || has_failed_lately(keys->own)
	    || !making_try_begin(n, keys->own, &place)) {
		return;
	}
	int err = table_make(n, o, c, keys, old);
	making_end(place, err != 0);
}

bool
names_try_table(names_t *n, const names_object_t *object, const uint64_t *addresses, size_t count,
    names_table_t *table) {
	keys_t keys;
	candidates_t c;
	kept_t k = {.fd = -1};
	uint64_t *missing = malloc((count + 1) * sizeof(*missing));
	candidates_open(n, object, &c);
	if (missing != NULL && try_keys(n, object, &c, &keys)) {
		size_t nmissing = table_open(n, object, &keys, addresses, count, false, &k, missing);
		if (nmissing > 0) {
			order_t order = {object, addresses, missing, count, nmissing};
			table_complete(n, &order, &c, &keys, &k);
			kept_close(&k);
			(void)table_open(n, object, &keys, addresses, count, true, &k, missing);
		}
	}
	candidates_close(&c);
	free(missing);
	*table = k.table;
	if (k.fd >= 0) {
		close(k.fd);
	}
	return table->base != NULL;
}
