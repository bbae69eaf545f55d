/*
 * Reads the identity of processes from /proc: pid, start time, user, name (jeprof_client.h and
 * target.h have the contracts). Invariant: pid and start time together identify a process;
 * jeprof_check_same() fails once the pid belongs to another process. No locks and no state but the
 * target's. Called by the other files of this folder, by bin/ctl and by bin/agent.
 */
#include "client/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/proc_stat.h"
#include "client/removed.h"

int
client_fail(jeprof_target_t *t, int error, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(t->why, sizeof(t->why), format, args);
	va_end(args);
	return error;
}

ssize_t
client_read_file(const char *path, char *buf, size_t size) {
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		return -1;
	}
	size_t length = 0;
	ssize_t n = 0;
	while (length < size - 1 && (n = read(fd, buf + length, size - 1 - length)) > 0) {
		length += (size_t)n;
	}
	int error = errno;
	close(fd);
	errno = error;
	buf[length] = '\0';
	return n < 0 && length == 0 ? -1 : (ssize_t)length;
}

ssize_t
client_read_proc(int pid, const char *name, char *buf, size_t size) {
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return client_read_file(path, buf, size);
}

int
client_find_fd(int task, client_open_fd_t *open_it, void *arg) {
	char path[64];
	int fd = -1, error = ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/fd", task);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return -1;
	}
	struct dirent *e;
	for (int i = 0; fd < 0 && error == ENOENT && i < CLIENT_FDS_MAX
	    && (e = readdir(dir)) != NULL; i++) {
		if (isdigit((unsigned char)e->d_name[0])) {
			fd = open_it(dirfd(dir), e->d_name, arg);
			error = fd < 0 ? errno : error;
		}
	}
	closedir(dir);
	errno = error;
	return fd;
}

/* Whether a thread in this state has ended; /proc has it until its process is waited for. */
static bool
is_over(char state) {
	return state == 'Z' || state == 'X';
}

/*
 * Sets *task to the id of a thread that has not ended, and *state to its state. On entry *state is
 * that of the first thread, which is taken unless it has ended (pthread_exit() in main). ESRCH if
 * all threads have ended; the errno with which they cannot be listed; or, if none was found alive,
 * the lack (client_is_lack) for which one could not be looked at. Then *task is pid.
 */
static int
find_task(int pid, int *task, char *state) {
	char path[64];
	proc_stat_t stat;
	int error = ESRCH;
	*task = pid;
	if (!is_over(*state)) {
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return errno == ENOENT ? ESRCH : errno;
	}
	struct dirent *e;
	while (is_over(*state) && (e = readdir(dir)) != NULL) {
		int id = atoi(e->d_name); /* 0: "." and ".." */
		int failed = id > 0 ? proc_stat_read(id, &stat) : ESRCH;
		if (failed == 0 && !is_over(stat.state)) {
			*task = id;
			*state = stat.state;
		}
		error = client_is_lack(failed) ? failed : error;
	}
	closedir(dir);
	return is_over(*state) ? error : 0;
}

int
jeprof_task(int pid) {
	proc_stat_t stat;
	int task = pid;
	if (proc_stat_read(pid, &stat) == 0) {
		find_task(pid, &task, &stat.state);
	}
	return task;
}

const char *
client_status_line(const char *text, const char *key) {
	const char *at = strstr(text, key);
	return at != NULL ? at + strlen(key) : "";
}

uint64_t
client_rss(const jeprof_target_t *t) {
	char text[CLIENT_STATUS_BYTES];
	unsigned long long kib = client_read_proc(t->task, "status", text, sizeof(text)) > 0
	    ? strtoull(client_status_line(text, "\nVmRSS:"), NULL, 10) : 0;
	return kib * 1024;
}

unsigned
client_own_pid(const char *text, int pid, unsigned *levels) {
	unsigned own = (unsigned)pid;
	char *end;
	const char *at = client_status_line(text, "\nNSpid:");
	*levels = 0;
	for (unsigned long n = strtoul(at, &end, 10); end != at; n = strtoul(at, &end, 10)) {
		own = (unsigned)n;
		at = end;
		++*levels;
	}
	return own;
}

/* Whether /proc is mounted; only its own root directory has this link. */
static bool
has_proc(void) {
	struct stat st;
	return lstat("/proc/self", &st) == 0;
}

/*
 * Sets the sentence for a process of which /proc could not be read. `error` if that is a lack of
 * our own; EACCES if /proc does not show it to us, or is not mounted; else ESRCH.
 */
static int
hidden_or_gone(jeprof_target_t *t, int pid, int error) {
	if (client_is_lack(error)) {
		return client_fail(t, error, "%d: %s", pid, strerror(error));
	}
	if (!has_proc()) {
		return client_fail(t, EACCES, "/proc is not mounted here, so no process can be found");
	}
	if (pid > 0 && (kill(pid, 0) == 0 || errno == EPERM)) {
		char self[16];
		bool is_ours = atoi(client_read_link("/proc/self", self, sizeof(self))) == getpid();
		return client_fail(t, EACCES, is_ours
		    ? "%d exists, but /proc hides it from us (hidepid): use sudo"
		    : "%d exists, but /proc here is that of another pid namespace", pid);
	}
	return client_fail(t, ESRCH, "no process %d", pid);
}

/*
 * Clears *t, closing nothing, and sets pid, task, own_pid, start, state, uids, caps and name from
 * /proc/PID, with `pid` as task. *tgid: the pid of the process to which the thread with the id
 * `pid` belongs. 0, or as hidden_or_gone(): then only pid and task are set.
 */
static int
read_identity(jeprof_target_t *t, int pid, int *tgid) {
	char text[CLIENT_STATUS_BYTES];
	unsigned levels;
	memset(t, 0, offsetof(jeprof_target_t, dir));
	t->dir[0] = t->why[0] = '\0';
	memset(&t->head, 0, sizeof(t->head));
	memset(&t->fd, 0, sizeof(*t) - offsetof(jeprof_target_t, fd));
	t->pid = pid;
	t->task = pid;
	t->fd = -1;
	proc_stat_t stat;
	int error = proc_stat_read(pid, &stat);
	ssize_t n = error == 0 ? client_read_proc(pid, "status", text, sizeof(text)) : 0;
	if (n <= 0) {
		return hidden_or_gone(t, pid, error != 0 ? error : n < 0 ? errno : ESRCH);
	}
	t->state = stat.state;
	t->start = stat.start;
	*tgid = atoi(client_status_line(text, "\nTgid:"));
	sscanf(client_status_line(text, "\nUid:"), "%u %u %u", &t->uids[0], &t->uids[1], &t->uids[2]);
	t->caps = strtoull(client_status_line(text, "\nCapPrm:"), NULL, 16);
	t->own_pid = client_own_pid(text, pid, &levels);
	n = client_read_proc(pid, "comm", t->name, sizeof(t->name));
	if (n > 0 && t->name[n - 1] == '\n') {
		t->name[n - 1] = '\0'; /* the kernel's; the name may have more */
	}
	return 0;
}

int
jeprof_find(jeprof_target_t *t, int pid) {
	int tgid = pid;
	int error = read_identity(t, pid, &tgid);
	if (error == 0 && tgid > 0 && tgid != pid) { /* a thread was named */
		error = read_identity(t, tgid, &tgid);
	}
	if (error != 0) {
		return error;
	}
	error = find_task(t->pid, &t->task, &t->state);
	return error == 0 ? 0 : error == ESRCH ? client_fail(t, ESRCH,
	    "%d has ended; its parent has not yet fetched its exit status", pid)
	    : client_fail(t, error, "%d: its threads cannot be listed: %s", pid, strerror(error));
}

int
jeprof_check_same(jeprof_target_t *t) {
	proc_stat_t stat;
	int error = proc_stat_read(t->pid, &stat);
	if (error == 0 && stat.start != t->start) {
		return client_fail(t, ESRCH,
		    "%d %s has ended, and its pid belongs to another process now", t->pid, t->name);
	}
	error = error != 0 ? error : find_task(t->pid, &t->task, &stat.state);
	if (error == ESRCH || error == ENOENT) {
		return client_fail(t, ESRCH, "%d %s has ended", t->pid, t->name);
	}
	if (error != 0) {
		return client_fail(t, error, "%d %s: %s", t->pid, t->name, strerror(error));
	}
	t->state = stat.state;
	return 0;
}

bool
jeprof_is_named(const jeprof_target_t *t, const char *name) {
	char text[PATH_MAX + 1], link[64];
	if (strcmp(t->name, name) == 0) {
		return true;
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", t->task);
	client_read_link(link, text, sizeof(text));
	text[length_unmarked(text, strlen(text))] = '\0';
	const char *base = strrchr(text, '/');
	if (base != NULL && strcmp(base + 1, name) == 0) {
		return true;
	}
	if (client_read_proc(t->task, "cmdline", text, sizeof(text)) <= 0) {
		return false;
	}
	base = strrchr(text, '/');
	return strcmp(base != NULL ? base + 1 : text, name) == 0;
}

int
jeprof_each(void (*f)(jeprof_target_t *t, void *arg), void *arg) {
	DIR *dir = has_proc() ? opendir("/proc") : NULL;
	int error = dir != NULL ? 0 : errno;
	jeprof_target_t *t = malloc(sizeof(*t));
	if (dir == NULL || t == NULL) {
		error = error != 0 ? error : ENOMEM;
		free(t);
		if (dir != NULL) {
			closedir(dir);
		}
		return error;
	}
	for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
		int pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		int failed = pid > 0 && pid != getpid() ? jeprof_find(t, pid) : ESRCH;
		if (failed == 0) {
			f(t, arg);
		}
		error = client_is_lack(failed) ? failed : error;
	}
	closedir(dir);
	free(t);
	return error;
}
