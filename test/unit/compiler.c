/* util/compiler.h: what a failed assertion writes and how it ends; a release build has none. */
#include "test.h"

#include "util/compiler.h"

static void
child_fail(void *arg UNUSED) {
	int one = 1;
	assert(one == 2);
	_exit(7);
}

static void
child_direct(void *arg UNUSED) {
	assert_fail("room/file.c", 12, "a % b == 0");
}

static void
child_not_reached(void *arg UNUSED) {
	assert_fail_not_reached("room/file.c", 13);
}

static char seen[600];

static void
keep_text(const char *s) {
	strncpy(seen, s, sizeof(seen) - 1);
	write(STDOUT_FILENO, "kept\n", 5) == 5 ? (void)0 : _exit(9);
}

static void
child_own_writer(void *arg UNUSED) {
	assert_write = keep_text;
	assert_fail("f.c", 1, "x");
}

static bool
died_of_abort(const struct test_result *r) {
	return !r->timed_out && WIFSIGNALED(r->status) && WTERMSIG(r->status) == SIGABRT;
}

/* The output begins with want; an emulator adds a line of its own about the signal. */
static bool
begins_with(const struct test_result *r, const char *want) {
	return strncmp(r->out, want, strlen(want)) == 0;
}

int
main(void) {
	static struct test_result r;

	test_fork(&r, child_fail, NULL);
	if (config_debug) {
		ok(died_of_abort(&r), "a false assertion aborts");
		contains(r.out, "Failed assertion: \"one == 2\"\n", "and shows its text");
	} else {
		ok(exited_with(&r, 7), "a release build goes on");
		is_str(r.out, "", "and says nothing");
	}
	test_fork(&r, child_direct, NULL);
	ok(died_of_abort(&r), "assert_fail aborts");
	ok(begins_with(&r, "<jemalloc>: room/file.c:12: Failed assertion: \"a % b == 0\"\n"),
	    "the line, a percent sign in it kept");
	test_fork(&r, child_not_reached, NULL);
	ok(died_of_abort(&r), "unreachable code aborts");
	contains(r.out, "<jemalloc>: room/file.c:13: ", "and says where");
	test_fork(&r, child_own_writer, NULL);
	ok(begins_with(&r, "kept\n"), "the text goes through assert_write");

	int calls = 0;
	assert(calls++ == 0);
	is_int(calls, config_debug ? 1 : 0, "the expression is evaluated in debug builds only");
	return done_testing();
}
