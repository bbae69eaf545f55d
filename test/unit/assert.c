/* util/assert.h: what a failed assertion writes and how it ends; a release build has none of it. */
#include "test.h"

#include "util/assert.h"

static int
child_fail(void) {
	int one = 1;
	assert(one == 2);
	return 7;
}

static int
child_direct(void) {
	assert_fail("room/file.c", 12, "a % b == 0");
}

static int
child_not_reached(void) {
	assert_fail_not_reached("room/file.c", 13);
}

static char seen[600];

static void
keep_text(const char *s) {
	strncpy(seen, s, sizeof(seen) - 1);
	write(STDOUT_FILENO, "kept\n", 5) == 5 ? (void)0 : _exit(9);
}

static int
child_own_writer(void) {
	assert_write = keep_text;
	assert_fail("f.c", 1, "x");
}

static const struct test_child children[] = {
	{"fail", child_fail},
	{"direct", child_direct},
	{"not_reached", child_not_reached},
	{"own_writer", child_own_writer},
	{NULL, NULL},
};

static bool
died_of_abort(const struct test_result *r) {
	return !r->timed_out && WIFSIGNALED(r->status) && WTERMSIG(r->status) == SIGABRT;
}

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	static struct test_result r;
	const char *env[] = {NULL};

	run_child_env(&r, "fail", env);
	if (config_debug) {
		ok(died_of_abort(&r), "a false assertion aborts");
		contains(r.out, "Failed assertion: \"one == 2\"\n", "and shows its text");
	} else {
		ok(exited_with(&r, 7), "a release build goes on");
		is_str(r.out, "", "and says nothing");
	}
	run_child_env(&r, "direct", env);
	ok(died_of_abort(&r), "assert_fail aborts");
	is_str(r.out, "<jemalloc>: room/file.c:12: Failed assertion: \"a % b == 0\"\n",
	    "the line, a percent sign in it kept");
	run_child_env(&r, "not_reached", env);
	ok(died_of_abort(&r), "unreachable code aborts");
	contains(r.out, "<jemalloc>: room/file.c:13: ", "and says where");
	run_child_env(&r, "own_writer", env);
	is_str(r.out, "kept\n", "the text goes through assert_write");

	int calls = 0;
	assert(calls++ == 0);
	is_int(calls, config_debug ? 1 : 0, "the expression is evaluated in debug builds only");
	return done_testing();
}
