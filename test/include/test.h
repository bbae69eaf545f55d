/*
 * A small test harness with TAP output, whole in this header.
 *
 * A test program calls plan() or done_testing(), and the checks in between; each check
 * prints one "ok" or "not ok" line. A program with children begins main() with
 * test_children(): the same program is then run again, with another environment, to do
 * one named job, and its output and status are what the parent looks at.
 *
 * Nothing here allocates: output goes by write(2) from a buffer on the stack, so that a
 * test that counts allocations counts only its own.
 */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TEST_FN static __attribute__((unused))
#define TEST_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* One job that the program does when it is run again as a child. */
struct test_child {
	const char *name;
	int (*run)(void);
};

/* What a child left behind. */
struct test_result {
	int status;		/* as waitpid gives it */
	bool timed_out;		/* it was killed after test_timeout_s */
	size_t len;
	char out[65536];	/* stdout and stderr together, NUL at the end */
};

struct test_state {
	int planned;		/* 0: printed at the end */
	int run;
	int failed;
	/* limit of one child: far beyond what it takes, for it counts only if the child hangs */
	int timeout_s;
	pid_t pid;		/* the process that may print */
};

static struct test_state test_state __attribute__((unused)) = {0, 0, 0, 400, 0};

/* -------------------------------------------------------------- output */

TEST_FN void
test_write(int fd, const char *text, size_t len) {
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

/* What has failed is said on standard error too: prove shows that, and keeps the rest to itself. */
TEST_FN TEST_PRINTF(2, 3) void
test_tell(bool is_failure, const char *fmt, ...) {
	char line[4096];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n <= 0)
		return;
	n = (size_t)n < sizeof(line) ? n : (int)sizeof(line) - 1;
	test_write(STDOUT_FILENO, line, (size_t)n);
	if (is_failure)
		test_write(STDERR_FILENO, line, (size_t)n);
}

#define test_say(...) test_tell(false, __VA_ARGS__)

/* A remark: every line of it begins with "# ". After a failure it is taken for a part of it. */
TEST_FN TEST_PRINTF(1, 2) void
diag(const char *fmt, ...) {
	char text[4096];
	char *line = text;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	while (line != NULL && *line != '\0') {
		char *end = strchr(line, '\n');

		if (end != NULL)
			*end++ = '\0';
		test_tell(test_state.failed > 0, "# %s\n", line);
		line = end;
	}
}

TEST_FN void
plan(int n) {
	test_state.planned = n;
	test_say("1..%d\n", n);
}

TEST_FN void
plan_skip_all(const char *why) {
	test_say("1..0 # SKIP %s\n", why);
	_exit(0);
}

/* The value for main() to return; prints the plan if none was given. */
TEST_FN int
done_testing(void) {
	if (test_state.planned == 0)
		test_say("1..%d\n", test_state.run);
	if (test_state.failed > 0)
		diag("%d of %d failed", test_state.failed, test_state.run);
	if (test_state.planned != 0 && test_state.planned != test_state.run)
		diag("planned %d, ran %d", test_state.planned, test_state.run);
	return test_state.failed > 0;
}

TEST_FN bool
test_vresult(bool good, const char *fmt, va_list ap) {
	char name[1024];

	vsnprintf(name, sizeof(name), fmt, ap);
	for (char *c = name; *c != '\0'; c++) {
		if (*c == '\n' || *c == '#')
			*c = ' ';
	}
	test_state.run++;
	if (!good)
		test_state.failed++;
	test_tell(!good, "%s %d - %s\n", good ? "ok" : "not ok", test_state.run, name);
	return good;
}

/* -------------------------------------------------------------- checks */

TEST_FN TEST_PRINTF(4, 5) bool
test_ok(bool good, const char *file, int line, const char *fmt, ...) {
	va_list ap;

	va_start(ap, fmt);
	test_vresult(good, fmt, ap);
	va_end(ap);
	if (!good)
		diag("at %s:%d", file, line);
	return good;
}

TEST_FN TEST_PRINTF(5, 6) bool
test_is_int(long long got, long long want, const char *file, int line, const char *fmt, ...) {
	va_list ap;

	va_start(ap, fmt);
	test_vresult(got == want, fmt, ap);
	va_end(ap);
	if (got != want)
		diag("at %s:%d: got %lld, want %lld", file, line, got, want);
	return got == want;
}

TEST_FN TEST_PRINTF(5, 6) bool
test_is_uint(unsigned long long got, unsigned long long want, const char *file, int line,
    const char *fmt, ...) {
	va_list ap;

	va_start(ap, fmt);
	test_vresult(got == want, fmt, ap);
	va_end(ap);
	if (got != want)
		diag("at %s:%d: got %llu (0x%llx), want %llu (0x%llx)", file, line, got, got,
		    want, want);
	return got == want;
}

TEST_FN TEST_PRINTF(5, 6) bool
test_is_str(const char *got, const char *want, const char *file, int line, const char *fmt, ...) {
	bool good = got == NULL || want == NULL ? got == want : strcmp(got, want) == 0;
	va_list ap;

	va_start(ap, fmt);
	test_vresult(good, fmt, ap);
	va_end(ap);
	if (!good)
		diag("at %s:%d:\n got: %s\nwant: %s", file, line, got ? got : "(NULL)",
		    want ? want : "(NULL)");
	return good;
}

TEST_FN TEST_PRINTF(5, 6) bool
test_contains(const char *text, const char *part, const char *file, int line,
    const char *fmt, ...) {
	bool good = strstr(text, part) != NULL;
	va_list ap;

	va_start(ap, fmt);
	test_vresult(good, fmt, ap);
	va_end(ap);
	if (!good)
		diag("at %s:%d: no \"%s\" in:\n%s", file, line, part, text);
	return good;
}

/* Says that a condition of a sum of faults held, the first 8 times in the process. Returns true. */
TEST_FN bool
test_wrong(const char *cond, const char *file, int line) {
	static unsigned said;

	if (__atomic_fetch_add(&said, 1, __ATOMIC_RELAXED) < 8)
		test_tell(true, "# wrong at %s:%d: %s\n", file, line, cond);
	return true;
}

/*
 * cond as a bool, to be added up in a loop; if it is true, a remark names the condition and its
 * line.
 */
#define wrong_if(cond) ((cond) && test_wrong(#cond, __FILE__, __LINE__))
#define ok(cond, ...) test_ok((cond), __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, ...) \
	test_is_int((long long)(got), (long long)(want), __FILE__, __LINE__, __VA_ARGS__)
#define is_uint(got, want, ...) \
	test_is_uint((unsigned long long)(got), (unsigned long long)(want), __FILE__, \
	    __LINE__, __VA_ARGS__)
#define is_str(got, want, ...) test_is_str((got), (want), __FILE__, __LINE__, __VA_ARGS__)
#define contains(text, part, ...) \
	test_contains((text), (part), __FILE__, __LINE__, __VA_ARGS__)
#define is_ptr_aligned(ptr, align, ...) \
	test_ok((ptr) != NULL && ((uintptr_t)(ptr) & ((uintptr_t)(align) - 1)) == 0, \
	    __FILE__, __LINE__, __VA_ARGS__)
#define fail(...) test_ok(false, __FILE__, __LINE__, __VA_ARGS__)
#define pass(...) test_ok(true, __FILE__, __LINE__, __VA_ARGS__)

/* Counts n checks as skipped. */
TEST_FN void
skip(int n, const char *why) {
	while (n-- > 0)
		test_say("ok %d # SKIP %s\n", ++test_state.run, why);
}

/* The program cannot go on at all. */
TEST_FN void
bail_out(const char *why) {
	test_tell(true, "Bail out! %s\n", why);
	_exit(2);
}

/* -------------------------------------------------------------- children */

TEST_FN int64_t
test_now_ms(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Reads the child's output to its end or to the deadline; what does not fit is dropped. */
TEST_FN void
test_drain(int fd, struct test_result *r, pid_t pid) {
	int64_t end = test_now_ms() + (int64_t)test_state.timeout_s * 1000;
	char waste[4096];

	for (;;) {
		size_t room = sizeof(r->out) - 1 - r->len;
		int64_t left = end - test_now_ms();
		struct pollfd p = {fd, POLLIN, 0};
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)left) == 0) {
			r->timed_out = true;
			kill(pid, SIGKILL);
			return;
		}
		n = read(fd, room > 0 ? r->out + r->len : waste, room > 0 ? room : sizeof(waste));
		if (n == 0 || (n < 0 && errno != EINTR))
			return;
		if (n > 0 && room > 0)
			r->len += (size_t)n;
	}
}

/* Waits for pid, with a deadline also for one that closed its output but lives on. */
TEST_FN void
test_reap(pid_t pid, struct test_result *r) {
	int64_t end = test_now_ms() + (int64_t)test_state.timeout_s * 1000;

	while (waitpid(pid, &r->status, WNOHANG) == 0) {
		if (test_now_ms() > end) {
			r->timed_out = true;
			kill(pid, SIGKILL);
		}
		usleep(1000);
	}
	r->out[r->len] = '\0';
}

/*
 * The default action for each: whoever started the test may ignore some, as nohup and a shell's "&"
 * do.
 */
TEST_FN void
default_signals(void) {
	static const int each[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1};

	for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++)
		signal(each[i], SIG_DFL);
}

typedef void test_prepare_fn(void *arg);

/* Forks; in the child: output into the pipe, then prepare(arg), which need not return. */
TEST_FN void
test_fork(struct test_result *r, test_prepare_fn *prepare, void *arg) {
	int fds[2];
	pid_t pid;

	memset(r, 0, offsetof(struct test_result, out));
	if (pipe2(fds, O_CLOEXEC) != 0)
		bail_out("pipe");
	pid = fork();
	if (pid < 0)
		bail_out("fork");
	if (pid == 0) {
		struct rlimit no_core = {0, 0};

		setrlimit(RLIMIT_CORE, &no_core);
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		prepare(arg);
		_exit(0);
	}
	close(fds[1]);
	test_drain(fds[0], r, pid);
	close(fds[0]);
	test_reap(pid, r);
}

struct test_exec {
	const char *const *env;	/* "NAME=value" sets, "NAME" removes; ends with NULL */
	const char *const *argv;
};

TEST_FN void
test_exec_now(void *arg) {
	struct test_exec *e = (struct test_exec *)arg;

	for (size_t i = 0; e->env != NULL && e->env[i] != NULL; i++) {
		if (strchr(e->env[i], '=') != NULL)
			putenv((char *)(uintptr_t)e->env[i]);
		else
			unsetenv(e->env[i]);
	}
	execvp(e->argv[0], (char *const *)(uintptr_t)e->argv);
	_exit(127);
}

/* Runs a program with a changed environment. */
TEST_FN void
run_program(struct test_result *r, const char *const *argv, const char *const *env) {
	struct test_exec e = {env, argv};

	test_fork(r, test_exec_now, &e);
}

/* Whether the run has the full counts (scripts/check-long). */
static inline bool
test_is_full(void) {
	return getenv("TEST_FULL") != NULL;
}

/*
 * How often a test repeats what it does: `full` with TEST_FULL in the environment, else `brief`.
 */
static inline unsigned
test_rounds(unsigned brief, unsigned full) {
	return test_is_full() ? full : brief;
}

/*
 * The same of rounds that write whole pages: a quarter where a debug build pretends larger ones,
 * because each round writes to more memory then.
 */
static inline unsigned
test_page_rounds(unsigned brief, unsigned full) {
	return test_rounds(getenv("JEMALLOC_TEST_PAGE") != NULL ? (brief + 3) / 4 : brief, full);
}

/*
 * Runs this program again as the named child, see test_children(). Under an emulator the system
 * cannot start it by itself: TEST_EMULATOR is the command, words separated by single blanks, and
 * the emulator knows what its /proc/self/exe is.
 */
TEST_FN void
run_child_env(struct test_result *r, const char *name, const char *const *env) {
	static char emulator[1024], self[PATH_MAX];
	const char *argv[20];
	char arg[256];
	int n = 0;

	snprintf(arg, sizeof(arg), "--child=%s", name);
	snprintf(self, sizeof(self), "/proc/self/exe");
	if (getenv("TEST_EMULATOR") != NULL) {
		ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

		self[length > 0 ? length : 0] = '\0';
		snprintf(emulator, sizeof(emulator), "%s", getenv("TEST_EMULATOR"));
		for (char *word = strtok(emulator, " "); word != NULL && n < 16; word = strtok(NULL, " "))
			argv[n++] = word;
	}
	argv[n++] = self;
	argv[n++] = arg;
	argv[n] = NULL;
	run_program(r, argv, env);
}

/* The same, with one MALLOC_CONF, under both names that it may have; NULL takes it away. */
TEST_FN void
run_child_conf(struct test_result *r, const char *name, const char *conf) {
	char set[8192];
	const char *env[] = {set + 3, set, NULL};

	if (conf == NULL)
		snprintf(set, sizeof(set), "JE_MALLOC_CONF");
	else
		snprintf(set, sizeof(set), "JE_MALLOC_CONF=%s", conf);
	run_child_env(r, name, env);
}

/* To be called first in main(): does not return if this process is a child. */
TEST_FN void
test_children(int argc, char **argv, const struct test_child *children) {
	if (argc < 2 || strncmp(argv[1], "--child=", 8) != 0)
		return;
	for (; children->name != NULL; children++) {
		if (strcmp(children->name, argv[1] + 8) == 0)
			exit(children->run());
	}
	_exit(126);
}

TEST_FN bool
exited_with(const struct test_result *r, int code) {
	return !r->timed_out && WIFEXITED(r->status) && WEXITSTATUS(r->status) == code;
}

TEST_FN bool
died_of(const struct test_result *r, int sig) {
	return !r->timed_out && WIFSIGNALED(r->status) && WTERMSIG(r->status) == sig;
}

/* One line that says how a child ended. */
TEST_FN void
diag_result(const struct test_result *r) {
	if (r->timed_out)
		diag("timed out");
	else if (WIFSIGNALED(r->status))
		diag("killed by signal %d", WTERMSIG(r->status));
	else
		diag("exit status %d", WEXITSTATUS(r->status));
	if (r->len > 0) {
		const char *bad = strstr(r->out, "not ok");

		diag("its output: %.3000s", bad != NULL ? bad : r->out);
	}
}

TEST_FN TEST_PRINTF(5, 6) bool
test_child_exits(const struct test_result *r, int code, const char *file, int line,
    const char *fmt, ...) {
	bool good = exited_with(r, code);
	va_list ap;

	va_start(ap, fmt);
	test_vresult(good, fmt, ap);
	va_end(ap);
	if (!good) {
		diag("at %s:%d, want exit status %d", file, line, code);
		diag_result(r);
	}
	return good;
}

#define child_exits(r, code, ...) \
	test_child_exits((r), (code), __FILE__, __LINE__, __VA_ARGS__)

/* A test: the child ends with status 0 under these options (NULL: none). What it prints is told. */
TEST_FN void
child_runs(const char *child, const char *conf) {
	static struct test_result r;

	run_child_conf(&r, child, conf);
	if (!child_exits(&r, 0, "%s: %s", child, conf != NULL ? conf : "default options"))
		return;
	for (char *line = strtok(r.out, "\n"); line != NULL; line = strtok(NULL, "\n"))
		diag("%s", line);
}

struct test_call {
	void (*fn)(void *);
	void *arg;
};

TEST_FN void
test_call_now(void *arg) {
	struct test_call *c = (struct test_call *)arg;

	c->fn(c->arg);
	_exit(0);
}

/* Runs fn(arg) in a forked child (no exec). */
TEST_FN void
run_forked(struct test_result *r, void (*fn)(void *), void *arg) {
	struct test_call c = {fn, arg};

	test_fork(r, test_call_now, &c);
}

/* True if fn(arg) dies of sig and said text (NULL: anything). */
TEST_FN TEST_PRINTF(5, 6) bool
dies(int sig, const char *text, void (*fn)(void *), void *arg, const char *fmt, ...) {
	static struct test_result r;
	bool good;
	va_list ap;

	run_forked(&r, fn, arg);
	good = died_of(&r, sig) && (text == NULL || strstr(r.out, text) != NULL);
	va_start(ap, fmt);
	test_vresult(good, fmt, ap);
	va_end(ap);
	if (!good) {
		diag("want signal %d and \"%s\"", sig, text ? text : "");
		diag_result(&r);
	}
	return good;
}

/* -------------------------------------------------------------- facts about the process */

/* One "Name:  N kB" line of a file of /proc in bytes, 0 if there is none. */
TEST_FN size_t
proc_line_bytes(const char *path, const char *name) {
	char text[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *at;

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strstr(text, name);
	if (at == NULL)
		return 0;
	at += strlen(name);
	while (*at == ':' || *at == ' ' || *at == '\t')
		at++;
	return (size_t)strtoull(at, NULL, 10) * 1024;
}

TEST_FN size_t
proc_status_bytes(const char *name) {
	return proc_line_bytes("/proc/self/status", name);
}

/* Entries of a directory, without . and ..; -1 if it cannot be read. */
TEST_FN int
files_in(const char *path) {
	DIR *d = opendir(path);
	int n = -2;

	if (d == NULL)
		return -1;
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

TEST_FN size_t
rss_bytes(void) {
	return proc_status_bytes("VmRSS");
}

/* Hides a value from the optimizer, which knows too much about malloc and free. */
TEST_FN void *
keep(void *p) {
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

TEST_FN size_t
hide(size_t n) {
	__asm__ volatile("" : "+r"(n));
	return n;
}

/* True if the n bytes at p all are c. */
TEST_FN bool
is_filled(const void *p, int c, size_t n) {
	const unsigned char *b = (const unsigned char *)p;

	for (size_t i = 0; i < n; i++) {
		if (b[i] != (unsigned char)c)
			return false;
	}
	return true;
}

/* A generator whose sequence is the same everywhere. */
TEST_FN uint64_t
test_random(uint64_t *state) {
	uint64_t x = (*state += UINT64_C(0x9e3779b97f4a7c15));

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* A pseudo-random number below n, nearly even. */
TEST_FN uint64_t
draw_below(uint64_t *state, uint64_t n) {
	return test_random(state) % n;
}
