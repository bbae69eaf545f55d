/*
 * Opens files whose paths come from an untrusted process, below that process's root directory:
 * openat2() resolves symbolic links inside that root; before Linux 5.6, without it, each such open
 * fails. With AT_FDCWD as the root the path is one of our own, and nothing is confined. Invariant:
 * only regular files are opened, because opening a device or a pipe may have effects or block. So a
 * file is first opened with O_PATH, which has no effect; if it is a regular one, it is opened again
 * for reading, by /proc/self/fd. No locks, no state. Called by object.c and debug.c; file_reopen()
 * by table.c.
 */
#include "symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int
file_reopen(int named) {
	struct stat st;
	char path[32];

	if (fstat(named, &st) != 0 || !S_ISREG(st.st_mode))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", named);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int
file_open(int root, const char *path) {
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	int named, fd;

	if (root == AT_FDCWD)
		named = open(path, O_PATH | O_CLOEXEC);
	else
		named = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (named < 0)
		return -1;
	fd = file_reopen(named);
	close(named);
	return fd;
}
