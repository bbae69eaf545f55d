/*
 * For unit tests of what happens when the system refuses memory: the library may map only what it
 * unmaps. One thread at a time maps.
 */
#pragma once

#include <errno.h>
#include <sys/mman.h>

#include "os/sys.h"

static size_t scarce_left; /* bytes that may be mapped */

static void *
scarce_map(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	if ((flags & MAP_FIXED) == 0) {
		if (size > scarce_left) {
			errno = ENOMEM;
			return MAP_FAILED;
		}
		scarce_left -= size;
	}
	return os_hooks_real.mmap(addr, size, prot, flags, fd, off);
}

static int
scarce_unmap(void *addr, size_t size) {
	scarce_left += size;
	return os_hooks_real.munmap(addr, size);
}

/* Until the end of the process, or until os_hooks is os_hooks_real again. */
static void
scarce_begin(void) {
	static struct os_hooks_s hooks;
	hooks = *os_hooks;
	hooks.mmap = scarce_map;
	hooks.munmap = scarce_unmap;
	os_hooks = &hooks;
}
