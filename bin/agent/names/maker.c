/*
 * Runs jeprof-symbolize --table as a child process, the maker of a table of names, and waits for
 * its end; kills it after a time limit. The child limits its own memory and CPU time before it
 * reads a file. Invariant: the child has ended when maker_run() returns. It inherits the addresses
 * as stdin, the table's file as stdout, and the files that its command line names, these by two
 * descriptors each (see descriptors_move()). It inherits no other file, as our descriptors are
 * close-on-exec, and of the environment only PATH, HOME and four variables that libdebuginfod
 * reads, XDG_CACHE_HOME among them. No locks, no state: several threads may run one each. Called by
 * names.c.
 */
#include "maker.h"

#include "client/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	/* descriptors that options name, at most: --root, --old and an --object for each candidate */
	OPTIONS = 2 + NAMES_CANDIDATES,
	/* the program, --table, key, path, these options, --servers, --symbols; and a NULL */
	WORDS_MAX = 4 + 2 * OPTIONS + 2 + 1,
	FIRST_FD = 3,     /* the child's descriptors have consecutive numbers from this one on */
};

/* The command line, and the descriptors that it names: fds[i] becomes FIRST_FD + i in the child. */
typedef struct command_s {
	const char *words[WORDS_MAX];
	unsigned nwords;
	char numbers[OPTIONS][12];
	int fds[OPTIONS];
	unsigned nfds;
} command_t;

/* Adds an option whose value is the child's number of this descriptor; nothing if fd is -1. */
static void
descriptor_add(command_t *c, const char *option, int fd) {
	if (fd < 0) {
		return;
	}
	snprintf(c->numbers[c->nfds], sizeof(c->numbers[0]), "%u", FIRST_FD + c->nfds);
	c->words[c->nwords++] = option;
	c->words[c->nwords++] = c->numbers[c->nfds];
	c->fds[c->nfds++] = fd;
}

static void
command_make(command_t *c, const maker_t *m, const char *program) {
	memset(c, 0, sizeof(*c));
	c->words[c->nwords++] = program;
	c->words[c->nwords++] = "--table";
	c->words[c->nwords++] = m->key;
	c->words[c->nwords++] = m->path;
	descriptor_add(c, "--root", m->root);
	descriptor_add(c, "--old", m->old);
	for (size_t i = 0; i < m->nobjects; i++) {
		descriptor_add(c, "--object", m->objects[i]);
	}
	if (m->use_servers) {
		c->words[c->nwords++] = "--servers";
	}
	if (m->symbols_only) {
		c->words[c->nwords++] = "--symbols";
	}
}

/* The configured program, else jeprof-symbolize in the directory of this one, else in $PATH. */
static void
program_find(const maker_t *m, char path[PATH_MAX]) {
	static const char name[] = "jeprof-symbolize";
	if (m->symbolizer != NULL) {
		snprintf(path, PATH_MAX, "%s", m->symbolizer);
		return;
	}
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - sizeof(name));
	while (len > 0 && path[len - 1] != '/') {
		len--;
	}
	memcpy(path + (len > 0 ? len : 0), name, sizeof(name));
	if (len <= 0 || access(path, X_OK) != 0) {
		memcpy(path, name, sizeof(name));
	}
}

/*
 * Lists only the variables that the child needs, because LD_PRELOAD and the like must have no
 * effect. The list points into our own environment, and ends in NULL.
 */
static void
environment_make(char *to[8]) {
	static const char *const names[] = {"PATH", "HOME", "DEBUGINFOD_URLS", "DEBUGINFOD_TIMEOUT",
	    "DEBUGINFOD_CACHE_PATH", "XDG_CACHE_HOME"};
	unsigned count = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *value = getenv(names[i]);
		if (value != NULL) {
			/* The entry NAME=VALUE begins before the value. */
			to[count++] = value - strlen(names[i]) - 1;
		}
	}
	to[count] = NULL;
}

/*
 * Adds actions that number the child's descriptors: `in` becomes 0, `out` 1 and c->fds[i] FIRST_FD
 * + i; 2 is /dev/null. A new number from FIRST_FD on may be in use as the old number of another
 * descriptor. So c->fds are first copied to numbers above all old and new ones, and from there to
 * the new ones; these copies stay open in the child. For 0 to 2 that is not needed: jeprofd keeps
 * them open (client_hold_standard()), so none of them is an old number. 0 or an errno.
 */
static int
descriptors_move(posix_spawn_file_actions_t *actions, const command_t *c, int in, int out) {
	int aside = in > out ? in : out, err = 0;
	for (unsigned i = 0; i < c->nfds; i++) {
		aside = c->fds[i] > aside ? c->fds[i] : aside;
	}
	aside = aside < FIRST_FD + OPTIONS ? FIRST_FD + OPTIONS : aside + 1;
	for (unsigned i = 0; i < c->nfds && err == 0; i++) {
		err = posix_spawn_file_actions_adddup2(actions, c->fds[i], aside + (int)i);
	}
	err = err != 0 ? err : posix_spawn_file_actions_adddup2(actions, in, STDIN_FILENO);
	err = err != 0 ? err : posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
	for (unsigned i = 0; i < c->nfds && err == 0; i++) {
		err = posix_spawn_file_actions_adddup2(actions, aside + (int)i, FIRST_FD + (int)i);
	}
	return err != 0 ? err
	    : posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
}

/* Starts the child, with all signals unblocked. 0 and its *pid, or an errno. */
static int
child_start(const command_t *c, int in, int out, pid_t *pid) {
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	char *environment[8];
	int err = posix_spawn_file_actions_init(&actions);
	if (err != 0) {
		return err;
	}
	(void)posix_spawnattr_init(&attributes);
	sigemptyset(&none);
	(void)posix_spawnattr_setsigmask(&attributes, &none);
	(void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	environment_make(environment);
	err = descriptors_move(&actions, c, in, out);
	if (err == 0) {
		err = posix_spawnp(pid, c->words[0], &actions, &attributes,
		    (char **)(uintptr_t)c->words, environment);
	}
	(void)posix_spawnattr_destroy(&attributes);
	(void)posix_spawn_file_actions_destroy(&actions);
	return err;
}

/* waitpid() that a signal does not end. */
static pid_t
reap(pid_t pid, int *status, int flags) {
	pid_t done;
	do {
		done = waitpid(pid, status, flags);
	} while (done < 0 && errno == EINTR);
	return done;
}

/*
 * Waits for the child's end, wait_ms at most, with poll() on a pidfd. Where no pidfd can be opened,
 * as on kernels before 5.3, it reads the state every 5 ms instead. True: the child has ended, and
 * *status is that of waitpid(). False: the time is over, or the wait failed.
 */
static bool
try_wait(pid_t pid, int wait_ms, int *status) {
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd one = {fd, POLLIN, 0};
	pid_t done = 0;
	if (fd >= 0) {
		int64_t until = client_now_ms() + wait_ms, left = wait_ms;
		int got;
		while ((got = poll(&one, 1, (int)left)) < 0 && errno == EINTR) {
			left = until - client_now_ms();
			left = left > 0 ? left : 0;
		}
		close(fd);
		return got > 0 && reap(pid, status, 0) == pid;
	}
	for (int waited = 0; waited < wait_ms && done == 0; waited += 5) {
		done = reap(pid, status, WNOHANG);
		if (done == 0) {
			nanosleep(&(struct timespec){0, 5000000}, NULL);
		}
	}
	return done == pid;
}

int
maker_run(const maker_t *m, const uint64_t *addresses, size_t count, int out) {
	char path[PATH_MAX];
	command_t command;
	pid_t pid;
	int status = 0;
	size_t bytes = count * sizeof(*addresses);
	int in = memfd_create("addresses", MFD_CLOEXEC);
	if (in < 0) {
		return errno;
	}
	program_find(m, path);
	command_make(&command, m, path);
	ssize_t written = pwrite(in, addresses, bytes, 0);
	int err = written < 0 ? errno : written != (ssize_t)bytes ? ENOSPC
	    : child_start(&command, in, out, &pid);
	close(in);
	if (err != 0) {
		return err;
	}
	if (!try_wait(pid, m->wait_ms, &status)) {
		(void)kill(pid, SIGKILL);
		(void)reap(pid, &status, 0);
		return ETIMEDOUT;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0
	    : WIFEXITED(status) && WEXITSTATUS(status) == 127 ? ENOENT : EIO;
}
