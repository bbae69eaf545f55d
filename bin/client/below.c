/*
 * Finds files as another process sees them: below its root directory, which a chroot or a mount
 * namespace may have changed. The process takes an absolute symbolic link in such a path from its
 * root; opening /proc/PID/root/PATH takes it from ours. So the kernel is asked to resolve it
 * (openat2, Linux 5.6). Where that is not permitted, only a path without links and ".." is
 * followed. Invariant: what is found is what the process sees. No locks, no state. Called by way.c
 * and bin/ctl/paths.c.
 */
#include "client/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IN_ROOT = 0x10 }; /* RESOLVE_IN_ROOT */

/*
 * Opens one part of a path, with O_PATH, below the directory, which it closes. -1 and errno;
 * ENOSYS: the part is a link or "..", whose end is not known here.
 */
static int
open_part(int directory, const char *part, bool is_last) {
	struct stat st;
	bool is_up = strcmp(part, "..") == 0;
	int fd = is_up ? -1 : openat(directory, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int error = is_up ? ENOSYS : fd < 0 || fstat(fd, &st) != 0 ? errno : S_ISLNK(st.st_mode)
	    ? ENOSYS : !is_last && !S_ISDIR(st.st_mode) ? ENOTDIR : 0;
	close(directory);
	if (error != 0 && fd >= 0) {
		close(fd);
	}
	errno = error;
	return error == 0 ? fd : -1;
}

/* As open_in_root(), without openat2. */
static int
walk_in_root(int directory, const char *path) {
	char part[NAME_MAX + 1];
	int fd = fcntl(directory, F_DUPFD_CLOEXEC, 0);
	for (path += strspn(path, "/"); fd >= 0 && *path != '\0'; path += strspn(path, "/")) {
		size_t length = strcspn(path, "/");
		if (length > NAME_MAX) {
			close(fd);
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(part, path, length);
		part[length] = '\0';
		path += length;
		fd = open_part(fd, part, *path == '\0');
	}
	return fd;
}

/*
 * Opens the path, with O_PATH, from the directory on as if that were the root. Returns the
 * descriptor, or -1 and errno; ENOSYS: there is a link or ".." in it, and the kernel or a filter of
 * system calls does not permit openat2 (EPERM counts as that too).
 */
static int
open_in_root(int directory, const char *path) {
#ifdef SYS_openat2
	struct { uint64_t flags, mode, resolve; } how = {O_PATH | O_CLOEXEC, 0, IN_ROOT};
	int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
	if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) {
		return fd;
	}
#endif
	return walk_in_root(directory, path);
}

bool
jeprof_leads_to(const char *path, const struct stat *file) {
	struct stat st;
	return stat(path, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/*
 * Sets buf to the path of an open file: root (/proc/TASK/root), then the file's name below that
 * root, without links. False if that path does not lead to the file; then buf has no meaning.
 */
static bool
name_below(const char *root, int fd, const struct stat *file, char *buf, size_t size) {
	char link[64], top[PATH_MAX], name[PATH_MAX];
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	client_read_link(link, name, sizeof(name));
	client_read_link(root, top, sizeof(top));
	size_t length = strcmp(top, "/") != 0 ? strlen(top) : 0;
	if (strncmp(name, top, length) != 0 || (name[length] != '/' && name[length] != '\0')) {
		return false;
	}
	int n = snprintf(buf, size, "%s%s", root, name + length);
	return n > 0 && (size_t)n < size && jeprof_leads_to(buf, file);
}

int
jeprof_find_below(const jeprof_target_t *t, const char *path, char *buf, size_t size,
    struct stat *file) {
	char root[64];
	snprintf(root, sizeof(root), "/proc/%d/root", t->task);
	int n = snprintf(buf, size, "%s%s", root, path), error = 0;
	int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (n < 0 || (size_t)n >= size || directory < 0) {
		error = directory < 0 && errno == ENOENT ? ESRCH : directory < 0 ? errno : ENAMETOOLONG;
	}
	int fd = error == 0 ? open_in_root(directory, path) : -1;
	if (fd >= 0) {
		error = fstat(fd, file) != 0 ? errno : 0;
		if (error == 0 && !name_below(root, fd, file, buf, size)) {
			snprintf(buf, size, "%s%s", root, path);
			error = jeprof_leads_to(buf, file) ? 0 : ENOSYS;
		}
		close(fd);
	} else if (error == 0) {
		error = errno;
	}
	if (directory >= 0) {
		close(directory);
	}
	return error;
}
