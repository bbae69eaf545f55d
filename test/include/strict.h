/*
 * For unit tests of a system that counts each page that could be written (vm.overcommit_memory=2):
 * strict_run_all() runs a part of the test in a child that finds such a system from its first
 * allocation on, by its environment. Other processes find the true one.
 */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"

#include "os/sys.h"

static int
strict_open(const char *path, int flags, unsigned mode) {
	if (strstr(path, "overcommit_memory") == NULL) {
		return os_hooks_real.open(path, flags, mode);
	}
	int fd = memfd_create("fake", MFD_CLOEXEC);
	if (fd < 0 || write(fd, "2\n", 2) != 2 || lseek(fd, 0, SEEK_SET) != 0) {
		abort();
	}
	return fd;
}

/* Before the first allocation, which asks the system. */
__attribute__((constructor(101))) static void
strict_choose(void) {
	static struct os_hooks_s strict_hooks;
	if (getenv("TEST_IS_STRICT") != NULL) {
		strict_hooks = os_hooks_real;
		strict_hooks.open = strict_open;
		os_hooks = &strict_hooks;
	}
}

/* As core_run_all_pages(), after `strict` in a child with such a system; once. */
TEST_FN int
strict_run_all(int argc, char **argv, int (*strict)(void), void (*body)(void)) {
	const struct test_child children[] = {{"strict", strict}, {NULL, NULL}};
	static const char *const env[] = {"TEST_IS_STRICT=1", NULL};
	static struct test_result r;
	if (argc > 1 && strcmp(argv[1], "--child=strict") == 0) {
		test_children(argc, argv, children);
	}
	if (argc == 1) {
		run_child_env(&r, "strict", env);
		child_exits(&r, 0, "a system that counts the pages that could be written");
	}
	return core_run_all_pages(argc, argv, body);
}
