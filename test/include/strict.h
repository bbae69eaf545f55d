/*
 * For unit tests of a system that counts each page that could be written (vm.overcommit_memory=2):
 * a process that test_children() starts with STRICT_ENV finds such a system from its first
 * allocation on. Other processes find the true one.
 */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/sys.h"

#define STRICT_ENV "TEST_IS_STRICT=1"

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
