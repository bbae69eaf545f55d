/*
 * A black box and forks: a child has tables of its own, also when a handler of the fork, which runs
 * after the library's, forks in turn. A child that shared the box would write into its parent's.
 */
#include "test.h"

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

static const struct test_child children[] = {{"forks", run_forks}, {0}};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("forks", "prof:true,prof_blackbox:fd,prof_thread:false");
	return done_testing();
}
