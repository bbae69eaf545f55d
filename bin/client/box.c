/*
 * Finds the box (a file with the profiler's tables, meta/image.h) of a living process, so that it
 * can be read when the process is dead; jeprof_client.h has the contract. Invariant: what is handed
 * out is a memory file that cannot shrink. No locks, no state. Called by jeprofd
 * (bin/agent/dead_watch.c).
 */
#include "client/target.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meta/image.h"

enum { DESCRIPTORS_MOST = 1 << 17 }; /* descriptors of one process that are searched */

uint64_t
jeprof_box_opened(const jeprof_target_t *t) {
	image_root_t root;
	uint64_t at = 0;
	bool is_there = (t->way == jeprof_way_memory || t->way == jeprof_way_calls)
	    && client_read_memory(t, t->block + offsetof(prof_mailbox_t, root), &at, sizeof(at))
	    && at != 0 && client_read_memory(t, at, &root, sizeof(root))
	    && root.head.magic == IMAGE_MAGIC && root.version == IMAGE_VERSION;
	return is_there && root.box_bytes != 0 && root.state == image_open ? root.opened_ns : 0;
}

/*
 * Opens the file behind descriptor `number` of the process (`dir`: its /proc/PID/fd) if that is the
 * memory file of a box; -1: it is not.
 */
static int
open_if_box(int dir, const char *number) {
	static const char front[] = "/memfd:" IMAGE_FD_NAME;
	char name[sizeof(front)] = "";
	struct stat st;
	if (readlinkat(dir, number, name, sizeof(name) - 1) != sizeof(name) - 1
	    || memcmp(name, front, sizeof(name) - 1) != 0) {
		return -1;
	}
	int fd = openat(dir, number, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		return -1;
	}
	/* Only memory files have seals: a file of another kind may have that name too. */
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -1;
	}
	return fd;
}

int
jeprof_box_open(const jeprof_target_t *t) {
	char path[64];
	int fd = -1;
	snprintf(path, sizeof(path), "/proc/%d/fd", t->task);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return -1;
	}
	struct dirent *e;
	for (int i = 0; fd < 0 && i < DESCRIPTORS_MOST && (e = readdir(dir)) != NULL; i++) {
		if (isdigit((unsigned char)e->d_name[0])) {
			fd = open_if_box(dirfd(dir), e->d_name);
		}
	}
	closedir(dir);
	return fd;
}
