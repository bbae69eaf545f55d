/*
 * A black box and forks: a child has tables of its own, also when a handler of the fork, which runs
 * after the library's, forks in turn. A child that shared the box would write into its parent's.
 * So would one of which the library is not told (a clone() of its own): it leaves the profiler. And
 * each other child gets a box, also that of one that had none yet, and during a long dump.
 */
#include "ctl.h"
#include "dir.h"

#include <glob.h>
#include <pthread.h>
#include <sys/syscall.h>

static bool is_nesting, is_exchanging;
static void exchange(unsigned rounds);

/* Shared mappings of boxes: of memory files, "memfd:", or of files, ".box". */
static unsigned
n_shared(const char *of) {
	static char text[1 << 18];
	unsigned n = 0;
	size_t len = 0;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	for (ssize_t got; len < sizeof(text) - 1
	    && (got = read(fd, text + len, sizeof(text) - 1 - len)) > 0;)
		len += (size_t)got;
	close(fd);
	text[len] = '\0';
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
		n += strstr(line, " rw-s ") != NULL && strstr(line, of) != NULL;
	return n;
}

/* Exit status of a child, which is the number of its shared mappings. */
static int
shared_in_child(void) {
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit((int)n_shared("memfd:"));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static void
prepare(void) {
	if (is_exchanging)
		exchange(1);
	if (is_nesting) {
		is_nesting = false;
		is_int(shared_in_child(), 0, "the child of the fork in the handler");
	}
}

/* In the child before the library's own handler. */
static void
begin_child(void) {
	if (is_exchanging)
		exchange(1);
}

/* Before the library's own handlers, so that this one runs after that of prepare. */
static void
register_first(void) {
	pthread_atfork(prepare, NULL, begin_child);
}
__attribute__((section(".preinit_array"), used)) static void (*const registers)(void) =
    register_first;

static int
run_forks(void) {
	ok(n_shared("memfd:") > 0, "the box is open");
	is_int(shared_in_child(), 0, "a child shares nothing of it");
	is_nesting = true;
	is_int(shared_in_child(), 0, "nor where a handler has forked meanwhile");
	ok(n_shared("memfd:") > 0, "the parent has its box");
	return done_testing();
}

/*
 * A child that starts a session with a box while the profiler's thread opens the one that the child
 * is due. Its exit status.
 */
static int
start_in_child(unsigned n) {
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		const char *options = "blackbox:true";

		for (unsigned i = 0; i < 3000; i++)
			keep(malloc(100));
		usleep(n % 8 * 500);
		int err = n % 2 == 0 ? 0 : ctl_write("prof.session.start", options);
		exit(err);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static int
run_short_lives(void) {
	unsigned failed = 0;
	glob_t found = {0};

	for (unsigned i = 0; i < 40; i++)
		failed += start_in_child(i) != 0;
	is_uint(failed, 0, "no start meets a box that is being opened");
	glob("*.box", 0, NULL, &found);
	is_uint(found.gl_pathc, 1, "no exit leaves one: there is that of the parent");
	globfree(&found);
	return done_testing();
}

static bool
has_own_box(void) {
	char pattern[40];
	glob_t found = {0};

	snprintf(pattern, sizeof(pattern), "*.%d.*.box", (int)getpid());
	glob(pattern, 0, NULL, &found);
	size_t n = found.gl_pathc;
	globfree(&found);
	return n != 0;
}

/* Allocates until the box is there; its exit status if it does not come. */
static int
comes_to_box(void) {
	for (unsigned i = 0; i < 20000 && !has_own_box(); i++)
		for (unsigned k = 0; k < 100; k++)
			free(keep(malloc(1000)));
	return has_own_box() ? 0 : 3;
}

static int
status_of(int (*run)(void)) {
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(run());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static int
fork_again(void) {
	return status_of(comes_to_box);
}

/* As a daemon does, before the child between has had a heartbeat. */
static int
run_daemon(void) {
	is_int(status_of(fork_again), 0, "the child of a child has a box");
	return done_testing();
}

static void *
allocate(void *arg) {
	for (unsigned i = 0; i < 250; i++) {
		for (unsigned k = 0; k < 1000; k++)
			free(keep(malloc(1000)));
		usleep(10000);
	}
	return arg;
}

/* Meanwhile the profiler's thread is made, which waits two seconds for a dump at most. */
static void
allocate_elsewhere(const char *path) {
	pthread_t t;

	(void)path;
	pthread_create(&t, NULL, allocate, NULL);
	pthread_join(t, NULL);
}

static int
dump_for_long(void) {
	return mallctl("prof.dump", NULL, NULL, NULL, 0) != 0 ? 4 : comes_to_box();
}

static int
run_long_dump(void) {
	void (*hook)(const char *) = allocate_elsewhere;

	mallctl("experimental.hooks.prof_dump", NULL, NULL, &hook, sizeof(hook));
	is_int(status_of(dump_for_long), 0, "a child that dumps for long has one afterwards");
	return done_testing();
}

static void *blocks[5000];

/* Exchanges all blocks some times, each a sample. */
static void
exchange(unsigned rounds) {
	for (unsigned n = 0; n < rounds; n++) {
		for (unsigned i = 0; i < 5000; i++) {
			free(blocks[i]);
			blocks[i] = malloc(50 + (i * 7 + n) % 5000);
			memset(blocks[i], (int)n, 50);
		}
	}
}

/* What a child does of which the library is not told; its exit status. */
static int
live_in_silence(unsigned n) {
	pid_t pid;
	int status = -1;

	if (n == 1) { /* it forks before it allocates */
		pid = fork();
		if (pid == 0)
			_exit((int)n_shared(".box"));
		waitpid(pid, &status, 0);
		if (status != 0)
			return 10;
	} else if (n == 2) {
		return 0;
	}
	exchange(4);
	if (n_shared(".box") != 0)
		return 11;
	return mallctl("prof.dump", NULL, NULL, NULL, 0) == EAGAIN ? 0 : 12;
}

/* Handlers that allocate while the child still has the parent's box. */
static int
run_handlers(void) {
	unsigned bad = 0;

	exchange(1);
	ok(has_own_box() && n_shared(".box") > 0, "the box is open");
	is_exchanging = true;
	for (unsigned n = 0; n < 10; n++) {
		int status = -1;
		pid_t pid = fork();

		if (pid == 0) {
			exchange(2);
			_exit(mallctl("prof.dump", NULL, NULL, NULL, 0));
		}
		exchange(2);
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	is_uint(bad, 0, "10 children live and dump");
	is_int(mallctl("prof.dump", NULL, NULL, NULL, 0), 0, "the parent dumps");
	return done_testing();
}

static int
run_silent(void) {
	exchange(1);
	ok(has_own_box() && n_shared(".box") > 0, "the box is open");
	for (unsigned n = 0; n < 4; n++) {
		int status = -1;
		pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (pid == 0)
			exit(live_in_silence(n));
		exchange(4);
		waitpid(pid, &status, 0);
		is_int(status, 0, "silent child %u leaves the box", n);
	}
	exchange(2);
	ok(has_own_box() && n_shared(".box") > 0, "the parent still has it");
	is_int(mallctl("prof.dump", NULL, NULL, NULL, 0), 0, "and dumps");
	return done_testing();
}

static bool is_closing;

/* Opens and closes a box, one after the other; counts the boxes. */
static void *
open_boxes(void *arg) {
	unsigned *n = arg;
	const char *options = "blackbox:true";

	while (!__atomic_load_n(&is_closing, __ATOMIC_SEQ_CST)) {
		bool is_begun = ctl_write("prof.session.start", options) == 0;

		if (is_begun && mallctl("prof.session.stop", NULL, NULL, NULL, 0) == 0)
			__atomic_fetch_add(n, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* Children made while a box is opened or closed: whoever closed the gate does not exist in them. */
static int
run_moves(void) {
	pthread_t t;
	unsigned n_boxes = 0, n_children = 0, bad = 0;

	pthread_create(&t, NULL, open_boxes, &n_boxes);
	while (__atomic_load_n(&n_boxes, __ATOMIC_SEQ_CST) < 150 && n_children < 50000) {
		int status = -1;
		pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (pid == 0) {
			size_t bytes = 0, len = sizeof(bytes);

			alarm(20);
			int err = mallctl("stats.allocated", &bytes, &len, NULL, 0);
			free(keep(malloc(100)));
			_exit(err == 0 || err == EAGAIN ? 0 : 1);
		}
		waitpid(pid, &status, 0);
		bad += status != 0;
		n_children++;
	}
	__atomic_store_n(&is_closing, true, __ATOMIC_SEQ_CST);
	pthread_join(t, NULL);
	is_uint(bad, 0, "%u children of which the library is not told end", n_children);
	ok(n_boxes >= 150, "meanwhile %u boxes were opened and closed", n_boxes);
	return done_testing();
}

/* The parent's box is the only file that the limits allow. */
static int
run_full(void) {
	FILE *f;
	int saved = dup(STDERR_FILENO), said = open("said", O_CREAT | O_RDWR, 0600), c;
	unsigned n = 0;

	exchange(1);
	ok(has_own_box(), "the box is open");
	dup2(said, STDERR_FILENO);
	for (unsigned i = 0; i < 5; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			exchange(50);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	dup2(saved, STDERR_FILENO);
	f = fopen("said", "r");
	while (f != NULL && (c = getc(f)) != EOF)
		n += c == '\n';
	ok(n > 0 && n <= 5, "five children without room for a box say a line at most (%u)", n);
	return done_testing();
}

static const struct test_child children[] = {{"forks", run_forks},
    {"short lives", run_short_lives}, {"silent", run_silent}, {"handlers", run_handlers},
    {"daemon", run_daemon}, {"long dump", run_long_dump}, {"moves", run_moves},
    {"full", run_full}, {0}};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("built without the profiler");
	child_runs("forks", "prof:true,prof_blackbox:fd,prof_thread:false");
	dir_enter();
	child_runs("short lives", "prof:true,prof_blackbox:true,prof_prefix:short");
	child_runs("silent", "prof:true,prof_blackbox:true,prof_prefix:silent,lg_prof_sample:0");
	child_runs("handlers", "prof:true,prof_blackbox:true,prof_prefix:handlers,lg_prof_sample:0");
	child_runs("daemon", "prof:true,prof_blackbox:true,prof_prefix:daemon,prof_thread:false");
	child_runs("full",
	    "prof:true,prof_blackbox:true,prof_prefix:full,prof_thread:false,prof_dump_max_files:1");
	child_runs("moves", "prof:true,prof_active:false,prof_prefix:moves,lg_prof_sample:0");
	child_runs("long dump", "prof:true,prof_blackbox:true,prof_prefix:long");
	dir_leave();
	return done_testing();
}
