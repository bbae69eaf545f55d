/*
 * The dead that are kept (dead.h: processes that ended and had a box, the tables of their profiler
 * in a memory file), and their files: KEY.box, which is a copy of the box and behind it the record
 * (dead_t), and KEY.pprof, the profile. They lie in the directory "dead" below --cache, where a
 * later jeprofd finds them, or are memory files. Pieces of a box that are zeros become holes.
 *
 * Invariant: the record of an element of `all` does not change; after each addition dead_expire()
 * leaves at most DEAD_MAX, whose files take at most bytes_max() bytes. First go those that ended
 * more than DEAD_MS ago, then those that exited with status 0 or an unknown one, then others; among
 * equals first those of the program and user of which most are kept, however they ended, and of
 * these the oldest. So a program that crashes again and again does not push out the others. Lock:
 * `lock`, for `all`, `kept` and `ended`; under it no file is read or written. Only one thread at a
 * time adds to `all`: first the main thread, by dead_start() and dead_open(); later that of
 * dead_watch.c, by dead_keep(). So a key that set_key() found free is still free in add(), though
 * the lock is given up in between. draft_lock: one thread at a time writes a profile, as two
 * writers of one key would share a draft; `lock` is not held then. Called by dead_watch.c,
 * dead_profile.c and dead_pages.c, and by metrics.c and pages.c for the counts.
 */
#include "dead.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/clock.h"
#include "names/cache.h"

enum {
	DISK_BYTES = 256 << 20,   /* that all files together take at most */
	MEMORY_BYTES = 64 << 20,  /* the same without --cache */
	COPY_MAX = 32 << 20,     /* bytes of a box, in pieces that are not all zeros, at most */
	BOX_MAX = 1 << 30,       /* bytes of a box with its zeros, at most, for it to be copied */
	PIECE = 4096,             /* bytes that are copied at once, or skipped if all are zeros */
	FILES_READ = 1024,        /* newest boxes that are read at the start; others are removed */
	DRAFT_SECONDS = 60,       /* an older draft was left by a jeprofd that was killed */
};

/* At the end of KEY.box, behind the dead_t. */
typedef struct tail_s {
	char magic[12];
	uint32_t size; /* of the dead_t: another version may have another */
} tail_t;
#define TAIL_MAGIC "jeprofdead1" /* with its NUL, 12 bytes */

/* A file's name is the key and one of these ends, then DRAFT_END until the file is complete. */
static const char *const ends[dead_files] = {".box", ".pprof"};
#define DRAFT_END ".draft"

/* One of the dead. */
typedef struct entry_s {
	dead_t *d;                   /* owned by the entry */
	uint64_t until_ms;           /* it is kept until then, by now_ms() */
	int fds[dead_files];         /* of memory files; -1: none, or it lies in the directory */
	uint64_t bytes[dead_files];  /* that the file takes on disk or in memory; 0: there is none */
} entry_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t draft_lock = PTHREAD_MUTEX_INITIALIZER;
static entry_t all[DEAD_MAX + 1]; /* in the order of addition; of an earlier jeprofd by key */
static unsigned kept;              /* elements of `all` in use */
/* By end_t: ends of processes whose box jeprofd held, also of those that are not in `all`. */
static uint64_t ended[end_count];
static int dir = -1;              /* "dead" below --cache; -1: there is none, files are in memory */

/* Bytes that the files of all elements may take. */
static uint64_t
bytes_max(void) {
	return dir >= 0 ? DISK_BYTES : MEMORY_BYTES;
}

/* Milliseconds since boot, sleep included: a clock that is set changes nothing of what is kept. */
static uint64_t
now_ms(void) {
	return client_clock_ns(CLOCK_BOOTTIME) / 1000000;
}

/* ---- files ---- */

/* Bytes that a file takes; never 0, which means no file, as some file systems tell no blocks. */
static uint64_t
bytes_taken(const struct stat *st) {
	return st->st_blocks > 0 ? (uint64_t)st->st_blocks * 512 : 1;
}

/* Makes an empty file, in the directory a draft, for finish_file(); -1 and errno if it cannot. */
static int
create_file(const char *key, dead_file_t which) {
	char name[64];
	if (dir < 0) {
		return memfd_create("jeprofd-dead", MFD_CLOEXEC);
	}
	snprintf(name, sizeof(name), "%s%s" DRAFT_END, key, ends[which]);
	unlinkat(dir, name, 0); /* what an earlier jeprofd was writing when it was killed */
	return openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/*
 * Ends the writing of a file. In the directory it gets its final name and is closed, and -1 is
 * returned; a memory file stays open, and its descriptor is returned. If not is_good, or if that
 * fails, removes it and returns -1, and errno stays that of the failure. *bytes: what it takes on
 * disk or in memory; 0: it is removed.
 */
static int
finish_file(int fd, const char *key, dead_file_t which, bool is_good, uint64_t *bytes) {
	char draft[64], name[64];
	struct stat st;
	snprintf(draft, sizeof(draft), "%s%s" DRAFT_END, key, ends[which]);
	snprintf(name, sizeof(name), "%s%s", key, ends[which]);
	is_good = is_good && fstat(fd, &st) == 0
	    && (dir < 0 || renameat(dir, draft, dir, name) == 0);
	int error = errno;
	*bytes = is_good ? bytes_taken(&st) : 0;
	if (is_good && dir < 0) {
		return fd;
	}
	if (!is_good && dir >= 0) {
		unlinkat(dir, draft, 0);
	}
	close(fd);
	errno = error;
	return -1;
}

/* Removes the files of an element that is no longer in the list, and frees its record. */
static void
drop(entry_t *e) {
	char name[64];
	for (int i = 0; i < dead_files; i++) {
		snprintf(name, sizeof(name), "%s%s", e->d->key, ends[i]);
		if (dir >= 0) {
			unlinkat(dir, name, 0);
		}
		if (e->fds[i] >= 0) {
			close(e->fds[i]);
		}
	}
	free(e->d);
}

/* Writes all `size` bytes at the offset `at`; false and errno if that fails. */
static bool
try_write(int fd, const void *from, size_t size, off_t at) {
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(fd, (const char *)from + done, size - done, at + (off_t)done);
		if (n <= 0 && !(n < 0 && errno == EINTR)) {
			errno = n < 0 ? errno : EIO;
			return false;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/*
 * Copies the box up to `size`, but for pieces of zeros. If it ends before that, the rest counts as
 * zeros. False and errno: EFBIG, the other pieces have more than COPY_MAX bytes; or a read or a
 * write fails.
 */
static bool
try_copy(int to, int box, off_t size) {
	static const char zeros[PIECE];
	char piece[PIECE];
	off_t copied = 0;
	for (off_t at = 0; at < size;) {
		off_t data = lseek(box, at, SEEK_DATA);
		if (data < 0) {
			return errno == ENXIO; /* zeros up to the end */
		}
		if (data >= size) {
			break; /* it has grown since its size was read */
		}
		at = data / PIECE * PIECE;
		ssize_t n = pread(box, piece, size - at < PIECE ? (size_t)(size - at) : PIECE, at);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			errno = n < 0 ? errno : EIO;
			return false;
		}
		if (memcmp(piece, zeros, (size_t)n) != 0) {
			copied += n;
			errno = EFBIG; /* try_write() sets its own */
			if (copied > COPY_MAX || !try_write(to, piece, (size_t)n, at)) {
				return false;
			}
		}
		at += n;
	}
	return true;
}

/*
 * Writes the box, unless d->why is set, and behind it the record and a tail_t. If the box is too
 * large or cannot be copied, sets d->why and writes the other two alone; if the copy cannot be cut
 * off again, it writes them behind the size of the box. If fstat() of the box fails, d->why stays
 * "" although there is no copy. False and errno: the record or the tail_t could not be written.
 */
static bool
try_fill(int fd, dead_t *d, int box) {
	struct stat st;
	tail_t tail = {.magic = TAIL_MAGIC, .size = sizeof(*d)};
	bool has_box = d->why[0] == '\0' && fstat(box, &st) == 0;
	errno = EFBIG; /* the other two set their own */
	if (has_box && (st.st_size > BOX_MAX || ftruncate(fd, st.st_size) != 0
	    || !try_copy(fd, box, st.st_size))) {
		snprintf(d->why, sizeof(d->why), "its box could not be copied: %s", strerror(errno));
		has_box = ftruncate(fd, 0) != 0;
	}
	d->box_bytes = has_box ? (uint64_t)st.st_size : 0;
	return try_write(fd, d, sizeof(*d), (off_t)d->box_bytes)
	    && try_write(fd, &tail, sizeof(tail), (off_t)(d->box_bytes + sizeof(*d)));
}

/* ---- the list; the caller holds the lock ---- */

static entry_t *
find(const char *key) {
	for (unsigned i = 0; i < kept; i++) {
		if (strcmp(all[i].d->key, key) == 0) {
			return &all[i];
		}
	}
	return NULL;
}

static uint64_t
bytes_of_all(void) {
	uint64_t sum = 0;
	for (unsigned i = 0; i < kept; i++) {
		sum += all[i].bytes[dead_box] + all[i].bytes[dead_pprof];
	}
	return sum;
}

/* How many of the dead ran the same program for the same user. */
static unsigned
count_alike(const dead_t *d) {
	unsigned n = 0;
	for (unsigned i = 0; i < kept; i++) {
		n += strcmp(all[i].d->labels.exe, d->labels.exe) == 0
		    && strcmp(all[i].d->labels.user, d->labels.user) == 0;
	}
	return n;
}

/* The index of the one to remove if none is too old: see the Invariant at the top. */
static unsigned
choose(void) {
	unsigned best = 0, best_weight = 0;
	for (unsigned i = 0; i < kept; i++) {
		const dead_t *d = all[i].d;
		unsigned weight = count_alike(d) + (d->how == end_exit && d->code <= 0 ? DEAD_MAX : 0);
		best = weight > best_weight ? i : best;
		best_weight = weight > best_weight ? weight : best_weight;
	}
	return best;
}

/* Moves one that is too old or too many out of the list into *to; false: there is none. */
static bool
try_take_out(entry_t *to) {
	uint64_t now = now_ms();
	unsigned i = 0;
	while (i < kept && all[i].until_ms > now) {
		i++;
	}
	if (i == kept && kept <= DEAD_MAX && bytes_of_all() <= bytes_max()) {
		return false;
	}
	i = i < kept ? i : choose();
	*to = all[i];
	kept--;
	memmove(&all[i], &all[i + 1], (kept - i) * sizeof(*all));
	return true;
}

/* ---- what a killed jeprofd leaves ---- */

/* Whether nobody but us and root can have written the file. */
static bool
is_ours(const struct stat *st) {
	return S_ISREG(st->st_mode) && st->st_uid == geteuid()
	    && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Copies the key of a name that is a key followed by `end`; false: the name is another one. */
static bool
try_take_key(const char *name, const char *end, char key[DEAD_KEY]) {
	size_t length = strspn(name, DEAD_KEY_CHARS);
	length -= length > 0 && name[length - 1] == '.';
	if (length == 0 || length >= DEAD_KEY || strcmp(name + length, end) != 0) {
		return false;
	}
	memcpy(key, name, length);
	key[length] = '\0';
	return true;
}

/*
 * Whether a file belongs to none of the dead: a draft that nobody has written to for DRAFT_SECONDS,
 * or a profile without a box. A box gets its name before its profile does, also if another jeprofd
 * with the same cache writes them; so such a profile is not on its way. False for a box, a file
 * with another name, and a file that is_ours() refuses.
 */
static bool
is_left_over(const char *name) {
	struct stat st, box;
	char key[DEAD_KEY], path[DEAD_KEY + 16];
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !is_ours(&st)) {
		return false;
	}
	for (int i = 0; i < dead_files; i++) {
		snprintf(path, sizeof(path), "%s" DRAFT_END, ends[i]);
		if (try_take_key(name, path, key)) {
			return st.st_mtime + DRAFT_SECONDS < time(NULL);
		}
	}
	if (!try_take_key(name, ends[dead_pprof], key)) {
		return false;
	}
	snprintf(path, sizeof(path), "%s%s", key, ends[dead_box]);
	return fstatat(dir, path, &box, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

/* ---- for others ---- */

void
dead_expire(void) {
	entry_t e;
	for (bool is_one = true; is_one;) {
		pthread_mutex_lock(&lock);
		is_one = try_take_out(&e);
		pthread_mutex_unlock(&lock);
		if (is_one) {
			drop(&e);
		}
	}
}

void
dead_sweep(void) {
	int fd = dir >= 0 ? openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (stream == NULL) {
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	for (const struct dirent *e; (e = readdir(stream)) != NULL;) {
		if (is_left_over(e->d_name)) {
			unlinkat(dir, e->d_name, 0);
		}
	}
	closedir(stream);
}

/*
 * Sets a key that no element has: time of the end (if taken, some ms later) and pid, so that keys
 * sort by time. On entry d->key is "".
 */
static void
set_key(dead_t *d) {
	char stamp[32];
	pthread_mutex_lock(&lock);
	for (uint64_t ms = d->ended_ms; d->key[0] == '\0' || find(d->key) != NULL; ms++) {
		snprintf(d->key, sizeof(d->key), "%s.%d", client_stamp(ms * 1000000, stamp), d->pid);
	}
	pthread_mutex_unlock(&lock);
}

/*
 * Adds an element, for which `all` has room in any case, and removes what is too many then. Its
 * process ended age_ms ago.
 */
static void
add(const entry_t *e, uint64_t age_ms) {
	pthread_mutex_lock(&lock);
	all[kept] = *e;
	all[kept++].until_ms = now_ms() + (age_ms < DEAD_MS ? DEAD_MS - age_ms : 0);
	pthread_mutex_unlock(&lock);
	dead_expire();
}

bool
dead_keep(dead_t *d, int box) {
	entry_t e = {.d = malloc(sizeof(*d)), .fds = {-1, -1}};
	pthread_mutex_lock(&lock);
	ended[d->how]++;
	pthread_mutex_unlock(&lock);
	if (e.d == NULL) {
		return false; /* before a file is made: no entry would own it */
	}
	set_key(d);
	int fd = create_file(d->key, dead_box);
	if (fd >= 0) {
		bool is_good = try_fill(fd, d, box);
		e.fds[dead_box] = finish_file(fd, d->key, dead_box, is_good, &e.bytes[dead_box]);
	}
	if (e.bytes[dead_box] == 0 && d->why[0] == '\0') {
		snprintf(d->why, sizeof(d->why), "its box could not be written: %s", strerror(errno));
	}
	*e.d = *d;
	add(&e, 0);
	return true;
}

bool
dead_find(const char *key, dead_t *to) {
	pthread_mutex_lock(&lock);
	const entry_t *e = find(key);
	if (e != NULL) {
		*to = *e->d;
	}
	pthread_mutex_unlock(&lock);
	return e != NULL;
}

void
dead_each(void (*f)(const dead_t *d, void *arg), void *arg) {
	pthread_mutex_lock(&lock);
	for (unsigned i = kept; i > 0; i--) {
		f(all[i - 1].d, arg);
	}
	pthread_mutex_unlock(&lock);
}

int
dead_file(const char *key, dead_file_t which) {
	char name[64];
	pthread_mutex_lock(&lock);
	const entry_t *e = find(key);
	bool is_there = e != NULL && e->bytes[which] > 0;
	int fd = is_there && e->fds[which] >= 0 ? fcntl(e->fds[which], F_DUPFD_CLOEXEC, 0) : -1;
	pthread_mutex_unlock(&lock);
	if (is_there && dir >= 0) {
		snprintf(name, sizeof(name), "%s%s", key, ends[which]);
		fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}
	return fd;
}

void
dead_keep_pprof(const char *key, const char *bytes, size_t length) {
	uint64_t taken = 0;
	pthread_mutex_lock(&draft_lock);
	int fd = create_file(key, dead_pprof);
	bool is_made = fd >= 0;
	if (is_made) {
		fd = finish_file(fd, key, dead_pprof, try_write(fd, bytes, length, 0), &taken);
	}
	pthread_mutex_unlock(&draft_lock);
	if (!is_made) {
		return;
	}
	pthread_mutex_lock(&lock);
	entry_t *e = find(key);
	bool is_first = e != NULL && e->bytes[dead_pprof] == 0;
	if (is_first) {
		e->bytes[dead_pprof] = taken;
		e->fds[dead_pprof] = fd;
	}
	pthread_mutex_unlock(&lock);
	if (!is_first && fd >= 0) {
		close(fd);
	}
	dead_expire(); /* if e is NULL, the element is gone: dead_sweep() removes this file */
}

void
dead_count(dead_counts_t *to) {
	pthread_mutex_lock(&lock);
	memcpy(to->ended, ended, sizeof(ended));
	to->kept = kept;
	to->bytes = bytes_of_all();
	pthread_mutex_unlock(&lock);
}

/* ---- what an earlier jeprofd has left ---- */

/* Reads `size` bytes. 0; EINVAL: the file has not so many there; or the errno of the read. */
static int
read_whole(int fd, void *to, size_t size, off_t at) {
	ssize_t n = at >= 0 ? pread(fd, to, size, at) : 0;
	return n < 0 ? errno : (size_t)n == size ? 0 : EINVAL;
}

/*
 * Whether the record is one that this version has written into the file `name`, before `tail`.
 * A label without a NUL runs on to that of `why`, as `why` follows `labels` in dead_t.
 */
static bool
is_record(const dead_t *d, const tail_t *tail, uint64_t at, const char *name) {
	return memcmp(tail->magic, TAIL_MAGIC, sizeof(tail->magic)) == 0 && tail->size == sizeof(*d)
	    && d->box_bytes == at - sizeof(*d) && d->how < end_count && d->points <= HISTORY_POINTS
	    && memchr(d->why, '\0', sizeof(d->why)) != NULL
	    && memchr(d->key, '\0', sizeof(d->key)) != NULL
	    && strncmp(name, d->key, strlen(d->key)) == 0
	    && strcmp(name + strlen(d->key), ends[dead_box]) == 0;
}

/*
 * Reads the record at the end of the file `name`. 0; EINVAL: it has none of this version; or
 * another errno value, if that cannot be known now. After a failure *record is NULL.
 */
static int
read_record(int fd, const struct stat *st, const char *name, dead_t **record) {
	tail_t tail;
	dead_t *d = malloc(sizeof(*d));
	off_t at = st->st_size - (off_t)sizeof(tail);
	int err = d == NULL ? ENOMEM : read_whole(fd, &tail, sizeof(tail), at);
	err = err != 0 ? err : read_whole(fd, d, sizeof(*d), at - (off_t)sizeof(*d));
	if (err == 0 && !is_record(d, &tail, (uint64_t)at, name)) {
		err = EINVAL;
	}
	if (err != 0) {
		free(d);
		d = NULL;
	}
	*record = d;
	return err;
}

/* Bytes that the profile beside a box takes; 0: there is none, or others own it. */
static uint64_t
pprof_bytes(const char *key) {
	char name[64];
	struct stat st;
	snprintf(name, sizeof(name), "%s%s", key, ends[dead_pprof]);
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_ours(&st)
	    ? bytes_taken(&st) : 0;
}

/*
 * Adds the record of one box. Removes a file that others own or may write, and one without a record
 * of this version. One that cannot be read now, for want of a descriptor or of memory, stays for a
 * later start. False: others own the file or may write it, and it has been removed; true in all
 * other cases.
 */
static bool
read_one(const char *name) {
	struct stat st;
	dead_t *d = NULL;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		return true;
	}
	if (!is_ours(&st)) {
		return unlinkat(dir, name, 0) != 0;
	}
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int err = fd < 0 ? errno : read_record(fd, &st, name, &d);
	if (fd >= 0) {
		close(fd);
	}
	if (err == EINVAL) {
		unlinkat(dir, name, 0);
	}
	if (err == 0) {
		uint64_t now = client_clock_ns(CLOCK_REALTIME) / 1000000;
		add(&(entry_t){.d = d, .fds = {-1, -1}, .bytes = {bytes_taken(&st), pprof_bytes(d->key)}},
		    now > d->ended_ms ? now - d->ended_ms : 0);
	}
	return true;
}

static int
is_box(const struct dirent *e) {
	char key[DEAD_KEY];
	return try_take_key(e->d_name, ends[dead_box], key);
}

/* Makes and opens the directory "dead" in that of --cache; without it all is kept in memory. */
static void
open_dir(int cache) {
	char buf[80];
	const char *why = NULL;
	if (mkdirat(cache, "dead", 0700) == 0 || errno == EEXIST) {
		dir = openat(cache, "dead", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	}
	why = dir >= 0 ? cache_doubt(dir, buf) : strerror(errno);
	if (why != NULL) {
		talk("--cache %s/dead: %s; processes that end are kept in memory", options.cache_dir, why);
	}
	if (why != NULL && dir >= 0) {
		close(dir);
		dir = -1;
	}
}

void
dead_open(void) {
	struct dirent **names;
	unsigned others = 0;
	int cache = options.cache_dir != NULL
	    ? open(options.cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (cache < 0) {
		return;
	}
	open_dir(cache);
	/* Sorted by name, that is, by time: the newest come last. */
	int n = dir >= 0 ? scandirat(cache, "dead", &names, is_box, alphasort) : -1;
	for (int i = 0; i < n; i++) {
		if (i + FILES_READ >= n) {
			others += !read_one(names[i]->d_name);
		} else {
			unlinkat(dir, names[i]->d_name, 0);
		}
		free(names[i]);
	}
	if (n >= 0) {
		free(names);
	}
	if (others > 0) {
		talk("--cache %s/dead: removed %u files that others own or may write", options.cache_dir,
		    others);
	}
	close(cache);
}
