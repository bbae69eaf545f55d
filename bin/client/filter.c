/*
 * Whose filter of system calls (seccomp) a process is under, as the kernel tells it in /proc. The
 * process itself is not asked: it would need a system call to find out, and the filter may kill it
 * for that. Invariant: what cannot be read or is not known counts as a filter of its own; but on a
 * kernel without filters there is none. No locks, no state. Called by box.c.
 */
#include "client/target.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ANCESTORS_MAX = 4096, /* steps from a process up to process 1 of its pid namespace */
	CAP_ADMIN = 21,        /* the bit of CAP_SYS_ADMIN */
};

/* The filters of the threads of a process. */
typedef struct filters_s {
	bool is_strict;      /* a thread may only read, write and exit */
	bool is_filtered;    /* a thread has filters */
	bool is_counted;     /* the kernel tells how many (Linux 5.9) */
	unsigned long count; /* the most that one of them has */
} filters_t;

/* Adds a thread, by its file below /proc/PID. False: it cannot be read though it has not ended. */
static bool
add_thread(int pid, const char *file, filters_t *f) {
	char text[CLIENT_STATUS_BYTES];
	ssize_t n = client_read_proc(pid, file, text, sizeof(text));
	if (n <= 0) {
		return n < 0 && (errno == ENOENT || errno == ESRCH);
	}
	const char *mode = client_status_line(text, "\nSeccomp:");
	const char *count = client_status_line(text, "\nSeccomp_filters:");
	if (*mode == '\0') { /* this kernel has no filters, if the text is all there */
		return (size_t)n < sizeof(text) - 1;
	}
	unsigned long filters = strtoul(count, NULL, 10);
	f->is_strict = f->is_strict || atoi(mode) == 1;
	f->is_filtered = f->is_filtered || atoi(mode) != 0 || filters != 0;
	f->is_counted = f->is_counted && *count != '\0';
	f->count = filters > f->count ? filters : f->count;
	return true;
}

/* Sets *f to those of all threads. False: a thread cannot be read. */
static bool
read_filters(int pid, filters_t *f) {
	char path[64];
	bool is_read = true;
	*f = (filters_t){.is_counted = true};
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *dir = opendir(path);
	if (dir == NULL) {
		return false;
	}
	for (struct dirent *e = readdir(dir); is_read && e != NULL; e = readdir(dir)) {
		if (isdigit((unsigned char)e->d_name[0])) {
			snprintf(path, sizeof(path), "task/%.20s/status", e->d_name);
			is_read = add_thread(pid, path, f);
		}
	}
	closedir(dir);
	return is_read;
}

/* Where a process stands among the pid namespaces, and what it may do. */
typedef struct place_s {
	int pid;
	unsigned own;    /* its pid in the innermost of them */
	unsigned levels; /* of namespaces, from ours down to that one; 1: that is ours */
	int parent;      /* 0: we do not see it */
	/*
	 * It cannot have put a filter on itself: that takes the flag no_new_privs, which nobody can
	 * clear and it does not have, or CAP_SYS_ADMIN, which the runtime has taken out of its bounding
	 * set for good. False also if the runtime itself has set no_new_privs.
	 */
	bool cannot_filter;
	char pid_space[64]; /* name of its pid namespace in the kernel, "pid:[NUMBER]" */
} place_t;

/* Sets *p. False: the process has ended, or /proc does not show us what is needed. */
static bool
read_place(int pid, place_t *p) {
	char text[CLIENT_STATUS_BYTES], path[64];
	if (client_read_proc(pid, "status", text, sizeof(text)) <= 0) {
		return false;
	}
	const char *flag = client_status_line(text, "\nNoNewPrivs:");
	const char *bound = client_status_line(text, "\nCapBnd:");
	p->pid = pid;
	p->own = client_own_pid(text, pid, &p->levels);
	p->parent = atoi(client_status_line(text, "\nPPid:"));
	p->cannot_filter = *flag != '\0' && atoi(flag) == 0 && *bound != '\0'
	    && (strtoull(bound, NULL, 16) >> CAP_ADMIN & 1) == 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return client_read_link(path, p->pid_space, sizeof(p->pid_space))[0] != '\0';
}

/* Sets *at to process 1 of the pid namespace of a process; false: it is not found. */
static bool
find_first(int pid, place_t *at) {
	place_t above;
	bool is_known = read_place(pid, at);
	for (int i = 0; is_known && at->own != 1; i++) {
		is_known = i < ANCESTORS_MAX && at->parent != 0 && read_place(at->parent, &above)
		    && strcmp(above.pid_space, at->pid_space) == 0;
		*at = above;
	}
	return is_known;
}

/*
 * Whether the parent of this process 1 is the runtime of a container, outside of the namespace, and
 * has given it the filter. The filters of runtimes refuse a call that they do not permit with an
 * errno and do not kill, unless one was written for that. So if the box cannot be made, the process
 * lives on and answers with an errno and the reason.
 */
static bool
is_of_runtime(const place_t *first) {
	/* The kernel keeps 15 bytes of a name. '*': each name that begins so. */
	static const char *const runtimes[] = {"containerd-shim*", "conmon", "docker-containe*",
	    "lxc-start", "systemd-nspawn"};
	char name[JEPROF_NAME];
	bool is_one = false;
	if (!first->cannot_filter || first->levels < 2 || first->parent == 0
	    || client_read_proc(first->parent, "comm", name, sizeof(name)) <= 0) {
		return false;
	}
	name[strcspn(name, "\n")] = '\0';
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]) && !is_one; i++) {
		size_t length = strcspn(runtimes[i], "*");
		is_one = strncmp(name, runtimes[i], length) == 0
		    && (runtimes[i][length] == '*' || name[length] == '\0');
	}
	return is_one;
}

bool
client_has_own_filter(int pid) {
	filters_t of_it, of_first;
	place_t first;
	if (!read_filters(pid, &of_it) || of_it.is_strict) {
		return true;
	}
	if (!of_it.is_filtered) {
		return false;
	}
	/*
	 * It has exactly one, and so has process 1, to which the runtime gave it. Children inherit that
	 * filter; so one that the process had put on itself would be its second.
	 */
	return !of_it.is_counted || of_it.count != 1 || !find_first(pid, &first)
	    || !is_of_runtime(&first) || !read_filters(first.pid, &of_first) || of_first.count != 1;
}
