/*
 * Whose filter of system calls a process is under (client_has_own_filter()), for a /proc of this
 * program's own: a container in which a process may have a box, and the same with one thing other,
 * one at a time; each number on both sides of what it is compared with. Prints what is wrong. Built
 * by units.t with the rooms of jeprofctl, in which what reads /proc is wrapped.
 */
#include "client/target.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SHIM = 30,      /* the runtime, which is in our pid namespace */
	FIRST = 40,     /* process 1 of the container */
	IT = 5,         /* the process, a descendant of FIRST */
	MOST = 4096,    /* generations that are looked at */
	NTHREADS = 3,
	SYS_ADMIN = 21, /* a capability */
};

/* What a thread's status says. */
typedef struct thread_s {
	int mode;        /* -1: the kernel has no filters */
	int filters;     /* -1: the kernel does not tell how many */
	int error;       /* of reading it */
	int is_empty;
	int fills;       /* the text is as long as the reader's buffer permits */
} thread_t;

static struct state_s {
	thread_t of_it[NTHREADS], of_first[NTHREADS];
	int no_new_privs;         /* of FIRST; -1: not told */
	unsigned long long bound; /* its capabilities; 0: not told */
	int own, levels, parent;  /* as FIRST has them */
	int generations;          /* from IT up to FIRST */
	int is_gone;              /* the process that cannot be read; 0: none */
	int is_in_other;          /* the process that is in another pid namespace */
	int is_unnamed;           /* the process whose namespace cannot be read */
	int has_no_tasks;         /* the process whose threads cannot be listed */
	const char *runtime;      /* its name, with its line end; NULL: none */
} s;

/* What is wrapped. */
ssize_t __wrap_client_read_proc(int pid, const char *name, char *buf, size_t size);
ssize_t __wrap_readlink(const char *path, char *buf, size_t size);
DIR *__wrap_opendir(const char *path);
struct dirent *__wrap_readdir(DIR *dir);
struct dirent *__wrap_readdir64(DIR *dir); /* the same, as some C libraries name it */
int __wrap_closedir(DIR *dir);

static int
generation_of(int pid) { /* above IT; those between it and FIRST have pids from 1000 on */
	return pid == FIRST ? s.generations : pid == IT ? 0 : pid - 1000;
}

static int
pid_of(int generation) {
	return generation == 0 ? IT : generation == s.generations ? FIRST : 1000 + generation;
}

static ssize_t
fail(int error) {
	errno = error;
	return -1;
}

static ssize_t
read_thread(const thread_t *t, char *buf, size_t size) {
	size_t n = 0;
	if (t->error != 0) {
		return fail(t->error);
	}
	memset(buf, 0, size);
	if (t->is_empty) {
		errno = ENOENT; /* of before */
		return 0;
	}
	n += (size_t)snprintf(buf, size, "Name:\tx\nUmask:\t0022");
	if (t->fills) {
		memset(buf + n, ' ', size - 1 - n - (size_t)(t->fills - 1));
		return (ssize_t)(size - 1 - (size_t)(t->fills - 1));
	}
	if (t->mode >= 0) {
		n += (size_t)snprintf(buf + n, size - n, "\nSeccomp:\t%d", t->mode);
	}
	if (t->filters >= 0) {
		n += (size_t)snprintf(buf + n, size - n, "\nSeccomp_filters:\t%d", t->filters);
	}
	return (ssize_t)(n + (size_t)snprintf(buf + n, size - n, "\nEnd:\t0\n"));
}

static ssize_t
read_status(int pid, char *buf, size_t size) {
	int n = generation_of(pid) + 1, of_first = pid == FIRST;
	int length = snprintf(buf, size, "Name:\tx\nPPid:\t%d\nNSpid:\t%d",
	    of_first ? s.parent : pid_of(n), pid);
	for (int i = 1; i < s.levels; i++) {
		length += sprintf(buf + length, "\t%d", i < s.levels - 1 ? 7 : of_first ? s.own : 5);
	}
	if (s.no_new_privs >= 0 || !of_first) {
		length += sprintf(buf + length, "\nNoNewPrivs:\t%d", of_first ? s.no_new_privs : 0);
	}
	if (s.bound != 0 || !of_first) {
		length += sprintf(buf + length, "\nCapBnd:\t%016llx", of_first ? s.bound : 1);
	}
	return length + sprintf(buf + length, "\n");
}

ssize_t
__wrap_client_read_proc(int pid, const char *name, char *buf, size_t size) {
	int tid = 0, is_thread = sscanf(name, "task/%d/status", &tid) == 1;
	if (pid <= 0 || (pid == s.is_gone && !is_thread)) {
		return fail(ENOENT);
	}
	if (is_thread) {
		return read_thread(&(pid == IT ? s.of_it : s.of_first)[tid - pid], buf, size);
	}
	if (strcmp(name, "comm") == 0) {
		return s.runtime == NULL || (pid != SHIM && pid != 1) ? fail(ENOENT)
		    : (ssize_t)snprintf(buf, size, "%s", s.runtime);
	}
	return read_status(pid, buf, size);
}

ssize_t
__wrap_readlink(const char *path, char *buf, size_t size) {
	int pid = 0;
	sscanf(path, "/proc/%d/ns/pid", &pid);
	return pid == s.is_unnamed ? fail(EACCES)
	    : (ssize_t)snprintf(buf, size, "pid:[%d]", pid == s.is_in_other ? 2 : 1);
}

static int listed, next, nopen;

DIR *
__wrap_opendir(const char *path) {
	sscanf(path, "/proc/%d/task", &listed);
	next = -2;
	nopen += listed != s.has_no_tasks;
	return listed == s.has_no_tasks ? NULL : (DIR *)&listed;
}

struct dirent *
__wrap_readdir(DIR *dir) {
	static struct dirent e;
	(void)dir;
	if (next == NTHREADS) {
		return NULL;
	}
	snprintf(e.d_name, sizeof(e.d_name), next == -2 ? "." : next == -1 ? ".." : "%d",
	    listed + next);
	next++;
	return &e;
}

struct dirent *
__wrap_readdir64(DIR *dir) {
	return __wrap_readdir(dir);
}

int
__wrap_closedir(DIR *dir) {
	(void)dir;
	nopen--;
	return 0;
}

static unsigned count, bad;

/* The state is tried, and is the container's again. */
static void
try(const char *what, bool want) {
	count++;
	if (client_has_own_filter(IT) != want || nopen != 0) {
		bad++;
		printf("# %s: %s\n", what, want ? "not told" : "told");
	}
	s = (struct state_s){.bound = ~0ULL ^ 1ULL << SYS_ADMIN, .own = 1, .levels = 2,
	    .parent = SHIM, .generations = 2, .runtime = "conmon\n"};
	for (unsigned i = 0; i < NTHREADS; i++) {
		s.of_it[i] = s.of_first[i] = (thread_t){.mode = 2, .filters = 1};
	}
}

/* Of each thread alone. */
static void
try_threads(void) {
	static const struct {
		const char *what;
		thread_t thread;
		bool of_it, of_first; /* whether this is a filter of its own */
	} rows[] = {
	    {"one more filter", {.mode = 2, .filters = 2}, true, true},
	    {"no filter", {.mode = 0, .filters = 0}, false, false},
	    {"strict", {.mode = 1, .filters = 0}, true, false},
	    {"an unknown mode", {.mode = 3, .filters = 1}, false, false},
	    {"not counted", {.mode = 2, .filters = -1}, true, false},
	    {"a kernel without filters", {.mode = -1, .filters = -1}, false, false},
	    {"a text that ends early", {.fills = 1}, true, true},
	    {"the longest that does not", {.fills = 2}, false, false},
	    {"an empty text", {.is_empty = 1}, true, true},
	    {"a thread that ends", {.error = ENOENT}, false, false},
	    {"a thread that has ended", {.error = ESRCH}, false, false},
	    {"a thread that cannot be read", {.error = EACCES}, true, true},
	};
	for (unsigned i = 0; i < NTHREADS; i++) {
		for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
			s.of_it[i] = rows[k].thread;
			try(rows[k].what, rows[k].of_it);
			s.of_first[i] = rows[k].thread;
			try(rows[k].what, rows[k].of_first);
		}
	}
}

/* The same of all threads of the process. */
static void
try_all(thread_t thread, const char *what, bool want) {
	for (unsigned i = 0; i < NTHREADS; i++) {
		s.of_it[i] = thread;
	}
	try(what, want);
}

static void
try_runtimes(void) {
	static const struct {
		const char *name;
		bool is_runtime;
	} rows[] = {{"containerd-shim\n", true}, {"containerd-shi\n", false}, {"conmon\n", true},
	    {"conmon", true}, {"conmo\n", false}, {"conmonx\n", false}, {"xconmon\n", false},
	    {"docker-containe\n", true}, {"docker-contain\n", false}, {"lxc-start\n", true},
	    {"lxc-star\n", false}, {"lxc-start2\n", false}, {"systemd-nspawn\n", true},
	    {"systemd-nspaw\n", false}, {"systemd-nspawns\n", false}, {"\n", false}, {"", false},
	    {NULL, false}, {"sh\n", false}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		s.runtime = rows[i].name;
		try(rows[i].name == NULL ? "no name" : rows[i].name, !rows[i].is_runtime);
	}
}

static void
try_places(void) {
	static const struct {
		const char *what;
		int *field, value;
		bool want;
	} rows[] = {
	    {"its first process may filter", &s.no_new_privs, 1, true},
	    {"that is not told", &s.no_new_privs, -1, true},
	    {"process 1 is ours too", &s.levels, 1, true},
	    {"a namespace in a namespace", &s.levels, 3, false},
	    {"no process 1", &s.own, 2, true},
	    {"a parent that we do not see", &s.parent, 0, true},
	    {"a runtime that is process 1 of ours", &s.parent, 1, false},
	    {"another parent", &s.parent, SHIM + 1, true},
	    {"a child of process 1", &s.generations, 1, false},
	    {"the most generations", &s.generations, MOST, false},
	    {"one more", &s.generations, MOST + 1, true},
	    {"it is gone", &s.is_gone, IT, true},
	    {"its parent is gone", &s.is_gone, 1001, true},
	    {"its first process is gone", &s.is_gone, FIRST, true},
	    {"its runtime is gone", &s.is_gone, SHIM, true},
	    {"its parent is elsewhere", &s.is_in_other, 1001, true},
	    {"its first process is elsewhere", &s.is_in_other, FIRST, true},
	    {"its place is not known", &s.is_unnamed, IT, true},
	    {"that of its first process is not", &s.is_unnamed, FIRST, true},
	    {"its threads are not listed", &s.has_no_tasks, IT, true},
	    {"those of its first process are not", &s.has_no_tasks, FIRST, true},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		*rows[i].field = rows[i].value;
		try(rows[i].what, rows[i].want);
	}
	for (int bit = SYS_ADMIN - 1; bit <= SYS_ADMIN + 1; bit++) {
		s.bound = 1ULL << bit;
		try("capabilities", bit == SYS_ADMIN);
	}
	s.bound = 0;
	try("no capabilities told", true);
}

int
main(void) {
	s.has_no_tasks = IT;
	try("nothing is there", true);
	try("in a container", false);
	try_threads();
	try_all((thread_t){.mode = 0, .filters = 0}, "no filters", false);
	try_all((thread_t){.mode = -1, .filters = -1}, "a kernel without filters", false);
	try_all((thread_t){.mode = 0, .filters = -1}, "none, on a kernel that does not count", false);
	try_all((thread_t){.mode = 2, .filters = -1}, "filters that nobody counts", true);
	try_all((thread_t){.mode = 0, .filters = 2}, "filters by their number alone", true);
	try_runtimes();
	try_places();
	printf("# %u tried, %u wrong\n", count, bad);
	return bad != 0;
}
