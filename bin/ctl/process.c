/* What /proc tells of a process, and its paths: see process.h. */
#include "ctl.h"

#include "process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "talk.h"
#include "value.h"

ssize_t
read_proc(int pid, const char *name, char *buf, size_t size) {
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
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

/* State and start time; false if the process is gone. */
static bool
read_stat(int pid, char *state, uint64_t *start) {
	char text[1024];
	if (read_proc(pid, "stat", text, sizeof(text)) <= 0) {
		return false;
	}
	char *at = strrchr(text, ')'); /* the name before it may hold anything */
	if (at == NULL || at[1] == '\0') {
		return false;
	}
	*state = at[2];
	at += 2;
	for (int field = 3; field < 22 && at != NULL; field++) {
		at = strchr(at + 1, ' ');
	}
	*start = at != NULL ? strtoull(at + 1, NULL, 10) : 0;
	return at != NULL;
}

const char *
status_line(const char *text, const char *key) {
	const char *at = strstr(text, key);
	return at != NULL ? at + strlen(key) : "";
}

bool
read_process(process_t *p, int pid) {
	static char text[65536];
	memset(p, 0, sizeof(*p));
	p->pid = pid;
	p->fd = -1;
	if (!read_stat(pid, &p->state, &p->start) || read_proc(pid, "status", text, sizeof(text)) <= 0) {
		return false;
	}
	int tgid = atoi(status_line(text, "\nTgid:"));
	if (tgid > 0 && tgid != pid) {
		return read_process(p, tgid); /* a thread was named */
	}
	sscanf(status_line(text, "\nUid:"), "%u %u %u", &p->uids[0], &p->uids[1], &p->uids[2]);
	p->caps = strtoull(status_line(text, "\nCapPrm:"), NULL, 16);
	p->own_pid = (unsigned)pid;
	char *end;
	const char *at = status_line(text, "\nNSpid:");
	for (unsigned long n = strtoul(at, &end, 10); end != at; n = strtoul(at, &end, 10)) {
		p->own_pid = (unsigned)n;
		at = end;
	}
	if (read_proc(pid, "comm", p->name, sizeof(p->name)) > 0) {
		p->name[strcspn(p->name, "\n")] = '\0';
	}
	return p->state != 'Z' && p->state != 'X';
}

void
check_same(process_t *p) {
	char state;
	uint64_t start;
	if (!read_stat(p->pid, &state, &start) || state == 'Z' || state == 'X') {
		leave(EXIT_NO_WAY, "%d %s has ended", p->pid, p->name);
	}
	if (start != p->start) {
		leave(EXIT_NO_WAY, "%d %s has ended, and its pid belongs to another process now", p->pid, p->name);
	}
	p->state = state;
}

bool
is_named(const process_t *p, const char *name) {
	char text[PATH_MAX + 1], link[64];
	if (strcmp(p->name, name) == 0) {
		return true;
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", p->pid);
	ssize_t n = readlink(link, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	char *deleted = strstr(text, " (deleted)");
	if (deleted != NULL) {
		*deleted = '\0';
	}
	const char *base = strrchr(text, '/');
	if (base != NULL && strcmp(base + 1, name) == 0) {
		return true;
	}
	if (read_proc(p->pid, "cmdline", text, sizeof(text)) <= 0) {
		return false;
	}
	base = strrchr(text, '/');
	return strcmp(base != NULL ? base + 1 : text, name) == 0;
}

void
each_process(void (*f)(process_t *p, void *arg), void *arg) {
	DIR *dir = opendir("/proc");
	if (dir == NULL) {
		leave(EXIT_NO_WAY, "/proc: %s", strerror(errno));
	}
	for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
		static process_t p;
		int pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		if (pid > 0 && pid != getpid() && read_process(&p, pid)) {
			f(&p, arg);
		}
	}
	closedir(dir);
}

/* Is this file the one that the process means by `path`? */
static bool
is_same_file(const char *here, const struct stat *theirs) {
	struct stat st;
	return stat(here, &st) == 0 && st.st_dev == theirs->st_dev && st.st_ino == theirs->st_ino;
}

void
path_here(const process_t *p, const char *path, char *buf, size_t size) {
	char root[64], jail[PATH_MAX], inside[TEXT_BYTES];
	struct stat st;
	snprintf(root, sizeof(root), "/proc/%d/root", p->pid);
	print_to(inside, sizeof(inside), "%s%s", root, path);
	ssize_t n = readlink(root, jail, sizeof(jail) - 1);
	jail[n > 0 ? n : 0] = '\0';
	snprintf(buf, size, "%s", path);
	if (path[0] != '/' || stat(inside, &st) != 0 || is_same_file(path, &st)) {
		return;
	}
	snprintf(buf, size, "%s%s", strcmp(jail, "/") != 0 ? jail : "", path);
	if (!is_same_file(buf, &st)) {
		snprintf(buf, size, "%s", inside);
	}
}

void
path_there(const process_t *p, const char *path, char *buf, size_t size) {
	char root[64], here[PATH_MAX];
	struct stat ours;
	snprintf(root, sizeof(root), "/proc/%d/root", p->pid);
	if (path[0] == '/' || getcwd(here, sizeof(here)) == NULL) {
		print_to(buf, size, "%s", path);
		return;
	}
	char seen[PATH_MAX + 64];
	snprintf(seen, sizeof(seen), "%s%s", root, here);
	if (stat(seen, &ours) == 0 ? !is_same_file(here, &ours) : errno == ENOENT) {
		leave(EXIT_USAGE, "%d %s sees other files than this shell: give an absolute path, as it sees it", p->pid, p->name);
	}
	print_to(buf, size, "%s%s%s", here, strcmp(here, "/") != 0 ? "/" : "", path);
}

void
check_directory(const process_t *p, const char *path) {
	char there[TEXT_BYTES];
	struct stat st;
	print_to(there, sizeof(there), "/proc/%d/root", p->pid);
	if (stat(there, &st) != 0) {
		return;
	}
	print_to(there, sizeof(there), "/proc/%d/root%.*s", p->pid, (int)(strrchr(path, '/') - path + 1), path);
	if (stat(there, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
		leave(EXIT_USAGE, "--prefix: %d %s sees no directory %.*s", p->pid, p->name, (int)(strrchr(path, '/') - path + 1), path);
	}
}
