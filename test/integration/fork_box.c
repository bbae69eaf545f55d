/*
 * A black box and forks: a child has tables of its own, also when a handler of the fork, which runs
 * after the library's, forks in turn. A child that shared the box would write into its parent's.
 */
#include "ctl.h"
#include "dir.h"

#include <glob.h>
#include <pthread.h>

static bool is_nesting;

/* Shared mappings of memory files. */
static unsigned
n_shared(void) {
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
		n += strstr(line, " rw-s ") != NULL && strstr(line, "memfd:") != NULL;
	return n;
}

/* Exit status of a child, which is the number of its shared mappings. */
static int
shared_in_child(void) {
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit((int)n_shared());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static void
prepare(void) {
	if (is_nesting) {
		is_nesting = false;
		is_int(shared_in_child(), 0, "the child of the fork in the handler");
	}
}

/* Before the library's own handler, so that this one runs after it. */
static void
register_first(void) {
	pthread_atfork(prepare, NULL, NULL);
}
__attribute__((section(".preinit_array"), used)) static void (*const registers)(void) =
    register_first;

static int
run_forks(void) {
	ok(n_shared() > 0, "the box is open");
	is_int(shared_in_child(), 0, "a child shares nothing of it");
	is_nesting = true;
	is_int(shared_in_child(), 0, "nor where a handler has forked meanwhile");
	ok(n_shared() > 0, "the parent has its box");
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

static const struct test_child children[] = {{"forks", run_forks}, {"short lives", run_short_lives},
    {0}};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("forks", "prof:true,prof_blackbox:fd,prof_thread:false");
	dir_enter();
	child_runs("short lives", "prof:true,prof_blackbox:true,prof_prefix:short");
	dir_leave();
	return done_testing();
}
