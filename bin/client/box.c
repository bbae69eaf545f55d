/*
 * Finds the box (a file with the profiler's tables, meta/image.h) of a living process, so that it
 * can be read when the process is dead, and tells whether a process can have one; jeprof_client.h
 * has the contract. Invariant: what is handed out is a memory file that cannot shrink. No locks, no
 * state. Called by jeprofd (bin/agent/dead_watch.c, scrape.c) and jeprofctl (bin/ctl/session.c).
 */
#include "client/target.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/cgroup.h"
#include "meta/image.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438 /* on every architecture; headers before Linux 5.6 lack it */
#endif

/* A process may have a box if its memory cgroup has room for this many boxes of that size. */
enum { ROOM_TIMES = 4 };

uint64_t
jeprof_box_opened(const jeprof_target_t *t) {
	image_root_t root;
	uint64_t at = 0;
	bool is_there = (t->way == jeprof_way_memory || t->way == jeprof_way_calls)
	    && client_read_memory(t, t->block + offsetof(prof_mailbox_t, root), &at, sizeof(at))
	    && at != 0 && client_read_memory(t, at, &root, sizeof(root))
	    && root.head.magic == IMAGE_MAGIC && root.version == IMAGE_VERSION
	    /* A child of clone() has the root of its parent until its library notices that. */
	    && (root.pid == 0 || root.pid == t->own_pid);
	return is_there && root.box_bytes != 0 && root.state == image_open ? root.opened_ns : 0;
}

static double
mebibytes(uint64_t bytes) {
	return (double)bytes / (1 << 20);
}

int
jeprof_check_box(jeprof_target_t *t, uint64_t bytes) {
	client_room_t room;
	if (jeprof_box_opened(t) != 0) {
		return 0;
	}
	if (client_has_own_filter(t->pid)) {
		return client_fail(t, EPERM, "%d %s: system calls are filtered (seccomp), by a filter of "
		    "its own or one that is not known to be its container's: a call that it does not "
		    "permit may end the process, and a box takes memfd_create, ftruncate, fallocate, flock "
		    "and fcntl", t->pid, t->name);
	}
	client_find_room(t->task, &room);
	if (room.bytes / ROOM_TIMES < bytes) {
		return client_fail(t, ENOSPC, "%d %s: the memory cgroup %s has room for %.1fM (%.1fM of "
		    "%.1fM are used): a box of %.1fM takes as much memory and wants %d times of it, since "
		    "the kernel kills when the limit is reached", t->pid, t->name, room.cgroup[0] != '\0'
		    ? room.cgroup : "/", mebibytes(room.bytes), mebibytes(room.used),
		    mebibytes(room.limit), mebibytes(bytes), ROOM_TIMES);
	}
	return 0;
}

/*
 * A client_open_fd_t: opens the file behind the descriptor if that is the memory file of a box. -1
 * and errno; ENOENT: it is none, or may not be opened. Another errno (client_is_lack): memory or
 * descriptors lack.
 */
static int
open_if_box(int dir, const char *number, void *arg) {
	static const char front[] = "/memfd:" IMAGE_FD_NAME;
	char name[sizeof(front)] = "";
	struct stat st;
	(void)arg;
	if (readlinkat(dir, number, name, sizeof(name) - 1) != sizeof(name) - 1
	    || memcmp(name, front, sizeof(name) - 1) != 0) {
		errno = ENOENT;
		return -1;
	}
	int fd = openat(dir, number, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		errno = client_is_lack(errno) ? errno : ENOENT;
		return -1;
	}
	/* Only memory files have seals: a file of another kind may have that name too. */
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		errno = ENOENT;
		return -1;
	}
	return fd;
}

/*
 * Copies descriptor `number` of a process, and opens the file behind the copy anew if that is a
 * box. own: our /proc/self/fd; process: a pidfd. The copy is closed again: it shares the open file
 * description of the process, so it would keep the library's lock (flock) on the box, and a lock of
 * ours would change that one. -1 and errno; ENOENT: there is no such descriptor, it is no box, or
 * it may not be copied (EACCES), though other descriptors of the process may.
 */
static int
open_copied(int own, int process, int number) {
	char name[16];
	int copy = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	if (copy < 0) {
		errno = errno == EBADF || errno == EACCES ? ENOENT : errno;
		return -1;
	}
	snprintf(name, sizeof(name), "%d", copy);
	int fd = open_if_box(own, name, NULL), error = errno;
	close(copy);
	errno = error;
	return fd;
}

/*
 * As client_find_fd(), for a process of another user: even root may not list its /proc/PID/fd
 * without CAP_DAC_READ_SEARCH, but who may trace a process may copy its descriptors (Linux 5.6).
 */
static int
search_copies(const jeprof_target_t *t) {
	char status[CLIENT_STATUS_BYTES];
	int fd = -1, error = ENOENT;
	if (client_read_proc(t->task, "status", status, sizeof(status)) <= 0) {
		return -1;
	}
	int most = atoi(client_status_line(status, "\nFDSize:"));
	int process = (int)syscall(SYS_pidfd_open, t->pid, 0);
	int own = process >= 0 ? open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	error = own < 0 ? errno : error;
	for (int i = 0; fd < 0 && error == ENOENT && i < most && i < CLIENT_FDS_MAX; i++) {
		fd = open_copied(own, process, i);
		error = fd < 0 ? errno : error;
	}
	if (own >= 0) {
		close(own);
	}
	if (process >= 0) {
		close(process);
	}
	errno = error;
	return fd;
}

int
jeprof_box_open(const jeprof_target_t *t) {
	int fd = client_find_fd(t->task, open_if_box, NULL);
	return fd < 0 && errno == EACCES ? search_copies(t) : fd;
}
