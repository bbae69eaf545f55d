/*
 * A directory of the test's own: entered at the beginning, removed with what is in it at the end.
 */
#pragma once

#include "test.h"

static char dir[] = "/tmp/test.XXXXXX";

TEST_FN void
dir_enter(void) {
	if (mkdtemp(dir) == NULL || chdir(dir) != 0)
		bail_out("no directory");
}

TEST_FN void
dir_leave(void) {
	char command[300];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command) != 0)
		diag("%s is left", dir);
}

/* A main(): all tests (to NULL) in such a directory, if the profiler is built in. */
TEST_FN int
dir_main(bool has_prof, void (*const tests[])(void)) {
	if (!has_prof) {
		plan_skip_all("built without the profiler");
		return 0;
	}
	dir_enter();
	for (; *tests != NULL; tests++)
		(*tests)();
	dir_leave();
	return done_testing();
}
