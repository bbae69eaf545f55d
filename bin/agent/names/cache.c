/*
 * The cache of tables of names: files KEY.names in a directory; without one, or where that has no
 * room, memory files (memfds) of this process. A table is made in a memory file, and gets its key
 * when it is complete. It is copied to the directory under the name of a draft (DRAFT_END), and the
 * copy gets the name with the key when it is complete. The least recently used tables are removed
 * when the limit of bytes or of tables is passed. Invariant: the contents of a table never change,
 * so a thread that has mapped it can read it without a lock; a file that another user owns or may
 * write is ignored. Lock: memory.mutex, for the tables in memory; under it no file is read or
 * written. Called by names.c; main.c checks the directory at the start by cache_begin() and
 * cache_doubt(); dead_store.c checks its own directory by cache_doubt().
 */
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table.h"

enum {
	DISK_BYTES = 256 << 20,  /* default limit of all tables in a directory */
	/* default limit in memory; with a directory, the most for tables that it has no room for */
	MEMORY_BYTES = 64 << 20,
	MEMORY_TABLES = 512,  /* in memory, at most: each has a descriptor */
	TOUCH_SECONDS = 60,   /* the access time of a file in use is set if older than this */
	DRAFT_SECONDS = 600,  /* an older draft was left by a process that has died */
	FILES_MAX = 20000,    /* most tables that dir_trim() looks at; it leaves at most half of it */
};

#define TABLE_END ".names" /* behind the key, in the name of a table's file */
#define DRAFT_END ".draft" /* in the name of the file of a draft */

static struct {
	pthread_mutex_t mutex;
	struct {
		char *key;
		int fd;
		uint64_t size; /* bytes */
		uint64_t used; /* the value of `uses` at the last use */
		time_t made;   /* seconds since 1970 */
	} tables[MEMORY_TABLES];
	size_t count;  /* of `tables`, in use */
	uint64_t uses; /* number of uses so far, of all tables */
} memory = {.mutex = PTHREAD_MUTEX_INITIALIZER};

int
cache_begin(cache_t *c, const char *dir, uint64_t bytes_max) {
	c->dir = -1;
	c->is_for_disk = dir != NULL;
	c->bytes_max = bytes_max != 0 ? bytes_max : dir != NULL ? DISK_BYTES : MEMORY_BYTES;
	if (dir == NULL) {
		return 0;
	}
	if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
		return errno;
	}
	c->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return c->dir < 0 ? errno : 0;
}

const char *
cache_doubt(int dir, char buf[80]) {
	struct stat st;
	if (fstat(dir, &st) != 0) {
		return strerror(errno);
	}
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		snprintf(buf, 80, "it belongs to another user (%u)", (unsigned)st.st_uid);
		return buf;
	}
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
		snprintf(buf, 80, "others may write there (mode %04o): chmod go-w",
		    (unsigned)(st.st_mode & 07777));
		return buf;
	}
	return NULL;
}

void
cache_end(cache_t *c) {
	if (c->dir >= 0) {
		close(c->dir);
	}
	c->dir = -1;
}

/* ---------------------------------------------------------------- in memory */

/* Removes the table with this index, which the last table gets. The lock is held. */
static void
memory_forget(size_t i) {
	close(memory.tables[i].fd);
	free(memory.tables[i].key);
	memory.tables[i] = memory.tables[--memory.count];
}

/* Index of a key, memory.count if it is not there. The lock is held. */
static size_t
memory_find(const char *key) {
	size_t i = 0;
	while (i < memory.count && strcmp(memory.tables[i].key, key) != 0) {
		i++;
	}
	return i;
}

/*
 * Removes least recently used tables until one more of `more` bytes fits, or none is left. The lock
 * is held.
 */
static void
memory_trim(uint64_t bytes_max, uint64_t more) {
	for (;;) {
		uint64_t sum = more;
		size_t oldest = 0;
		for (size_t i = 0; i < memory.count; i++) {
			sum += memory.tables[i].size;
			oldest = memory.tables[i].used < memory.tables[oldest].used ? i : oldest;
		}
		if (memory.count == 0 || (sum <= bytes_max && memory.count < MEMORY_TABLES)) {
			return;
		}
		memory_forget(oldest);
	}
}

static int
memory_open(const char *key, time_t *made) {
	pthread_mutex_lock(&memory.mutex);
	size_t i = memory_find(key);
	int fd = -1;
	if (i < memory.count) {
		memory.tables[i].used = ++memory.uses;
		*made = memory.tables[i].made;
		fd = fcntl(memory.tables[i].fd, F_DUPFD_CLOEXEC, 0);
	}
	pthread_mutex_unlock(&memory.mutex);
	return fd;
}

/* Removes the table with this key, if there is one. */
static void
memory_drop(const char *key) {
	pthread_mutex_lock(&memory.mutex);
	size_t i = memory_find(key);
	if (i < memory.count) {
		memory_forget(i);
	}
	pthread_mutex_unlock(&memory.mutex);
}

/* Adds a table to those in memory, in place of one with its key; takes fd. 0 or ENOMEM. */
static int
memory_keep(const cache_t *c, int fd, const char *key) {
	uint64_t most = c->is_for_disk && c->bytes_max > MEMORY_BYTES ? MEMORY_BYTES : c->bytes_max;
	struct stat st;
	char *copy = strdup(key);
	if (copy == NULL || fstat(fd, &st) != 0) {
		free(copy);
		close(fd);
		return ENOMEM;
	}
	pthread_mutex_lock(&memory.mutex);
	size_t i = memory_find(key);
	if (i < memory.count) {
		memory_forget(i);
	}
	memory_trim(most, (uint64_t)st.st_size);
	i = memory.count++;
	memory.tables[i].key = copy;
	memory.tables[i].fd = fd;
	memory.tables[i].size = (uint64_t)st.st_size;
	memory.tables[i].used = ++memory.uses;
	memory.tables[i].made = time(NULL);
	pthread_mutex_unlock(&memory.mutex);
	return 0;
}

/* ---------------------------------------------------------------- in a directory */

static bool
ends_with(const char *name, const char *end) {
	size_t len = strlen(name), tail = strlen(end);
	return len > tail && strcmp(name + len - tail, end) == 0;
}

/*
 * Sets the access time, by which dir_trim() knows the last use: to read the file does not set it
 * where the file system is mounted with noatime.
 */
static void
file_touch(int fd, const struct stat *st) {
	struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
	if (st->st_atime + TOUCH_SECONDS < time(NULL)) {
		(void)futimens(fd, times);
	}
}

static int
file_open(const cache_t *c, const char *key, time_t *made) {
	char name[NAMES_KEY_MAX + sizeof(TABLE_END)];
	struct stat st;
	snprintf(name, sizeof(name), "%s" TABLE_END, key);
	int fd = openat(c->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		return -1;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()
	    || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
		close(fd);
		return -1;
	}
	file_touch(fd, &st);
	*made = st.st_mtime;
	return fd;
}

/* A table in the directory. */
typedef struct entry_s {
	char *name;
	uint64_t size;
	time_t used; /* the access time */
} entry_t;

static int
by_use(const void *a, const void *b) {
	const entry_t *x = a, *y = b;
	return x->used < y->used ? -1 : x->used > y->used;
}

/* Adds the file to `all` if it is a table; removes it if it is an old draft. */
static void
entry_collect(const cache_t *c, const char *name, entry_t *all, size_t *count) {
	struct stat st;
	bool is_table = ends_with(name, TABLE_END);
	if ((!is_table && !ends_with(name, DRAFT_END))
	    || fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) {
		return;
	}
	if (!is_table) {
		if (st.st_mtime + DRAFT_SECONDS < time(NULL)) {
			(void)unlinkat(c->dir, name, 0);
		}
		return;
	}
	all[*count] = (entry_t){strdup(name), (uint64_t)st.st_size, st.st_atime};
	*count += all[*count].name != NULL;
}

/*
 * Removes the least recently used tables until the rest is within both limits, c->bytes_max and
 * FILES_MAX / 2; never the file `kept`, which was just added. Removes old drafts too.
 */
static void
dir_trim(const cache_t *c, const char *kept) {
	int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	entry_t *all = calloc(FILES_MAX, sizeof(*all));
	size_t count = 0;
	uint64_t sum = 0;
	if (dir == NULL || all == NULL) {
		free(all);
		(void)(dir != NULL ? closedir(dir) : fd >= 0 ? close(fd) : 0);
		return;
	}
	for (struct dirent *e; count < FILES_MAX && (e = readdir(dir)) != NULL;) {
		entry_collect(c, e->d_name, all, &count);
	}
	closedir(dir);
	qsort(all, count, sizeof(*all), by_use);
	for (size_t i = 0; i < count; i++) {
		sum += all[i].size;
	}
	for (size_t i = 0; i < count; i++) {
		if ((sum > c->bytes_max || count - i > FILES_MAX / 2) && strcmp(all[i].name, kept) != 0
		    && unlinkat(c->dir, all[i].name, 0) == 0) {
			sum -= all[i].size;
		}
		free(all[i].name);
	}
	free(all);
}

static bool
try_copy(int to, int from) {
	struct stat st;
	off_t at = 0;
	bool is_good = fstat(from, &st) == 0;
	while (is_good && at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));
		is_good = n > 0 || (n < 0 && errno == EINTR);
	}
	return is_good;
}

/* Copies a table to the directory; false: that cannot take it, and has nothing of it. */
static bool
try_file_keep(const cache_t *c, int fd, const char *key) {
	static _Atomic unsigned number;
	char draft[64], name[NAMES_KEY_MAX + sizeof(TABLE_END)];
	snprintf(name, sizeof(name), "%s" TABLE_END, key);
	snprintf(draft, sizeof(draft), "%d.%u.%lx" DRAFT_END, (int)getpid(), number++,
	    (unsigned long)time(NULL));
	int file = openat(c->dir, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0) {
		return false;
	}
	bool is_whole = try_copy(file, fd);
	/* Some file systems tell only here that they are full. */
	bool is_kept = close(file) == 0 && is_whole && renameat(c->dir, draft, c->dir, name) == 0;
	if (is_kept) {
		dir_trim(c, name);
	} else {
		(void)unlinkat(c->dir, draft, 0);
	}
	return is_kept;
}

/* ---------------------------------------------------------------- both */

int
cache_open(const cache_t *c, const char *key, time_t *made) {
	int fd = memory_open(key, made); /* newer than a file of this key */
	return fd < 0 && c->dir >= 0 ? file_open(c, key, made) : fd;
}

int
cache_draft(void) {
	return memfd_create("names", MFD_CLOEXEC);
}

int
cache_keep(const cache_t *c, int draft, const char *key) {
	if (c->dir < 0 || !try_file_keep(c, draft, key)) {
		return memory_keep(c, draft, key);
	}
	memory_drop(key);
	close(draft);
	return 0;
}
