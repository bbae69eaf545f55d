/*
 * For unit tests of the core: the same body under each page size. A debug build takes a larger page
 * from the environment; it is read before boot, so each size is a process of its own.
 */
#pragma once

#include <sys/mman.h>

#include "test.h"

#include "os/pages.h"

/* To be main()'s return value: the body here, and again as a child for each larger page. */
TEST_FN int
core_run_all_pages(int argc, char **argv, void (*body)(void)) {
	static const char *const envs[] = {"JEMALLOC_TEST_PAGE=16384", "JEMALLOC_TEST_PAGE=65536"};
	static struct test_result r;
	bool is_child = argc > 1 && strcmp(argv[1], "--child=body") == 0;
	body();
	for (unsigned i = 0; i < 2 && !is_child; i++) {
		const char *env[] = {envs[i], NULL};
		if (!config_debug || LG_PAGE_FIXED_P) {
			skip(1, "the page size is fixed in this build");
			continue;
		}
		run_child_env(&r, "body", env);
		child_exits(&r, 0, "the same with %s", envs[i]);
	}
	return done_testing();
}

/* Memory at an address of the test's own, where a build with canaries writes to slabs. */
TEST_FN void
core_map(char *addr, size_t bytes) {
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
	if (mmap(addr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != (void *)addr) {
		bail_out("no memory");
	}
}
