/*
 * Finds files as another process sees them: below its root directory, which a chroot or a mount
 * namespace may have changed. An absolute symbolic link in such a path begins at that root again,
 * but at ours when /proc/PID/root/PATH is opened; so the kernel is asked to resolve it (openat2,
 * Linux 5.6). No locks, no state. Called by way.c and bin/ctl/paths.c.
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
 * Opens the path, with O_PATH, from the directory on as if that were the root. Returns the
 * descriptor, or -1 and errno; ENOSYS: the kernel or a filter of system calls does not permit it.
 */
static int
open_in_root(int directory, const char *path) {
	errno = ENOSYS;
#ifdef SYS_openat2
	struct { uint64_t flags, mode, resolve; } how = {O_PATH | O_CLOEXEC, 0, IN_ROOT};
	int fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
	errno = fd < 0 && errno == EPERM ? ENOSYS : errno;
	return fd;
#else
	return -1;
#endif
}

bool
jeprof_leads_to(const char *path, const struct stat *file) {
	struct stat st;
	return stat(path, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/*
 * Sets buf to root, which is /proc/PID/root, and the name without links of the open file below it.
 * False if that does not lead to the file.
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
		}
		close(fd);
	} else if (error == 0) {
		error = errno != ENOSYS ? errno : stat(buf, file) != 0 ? ENOSYS : 0;
	}
	if (directory >= 0) {
		close(directory);
	}
	return error;
}
