/*
 * What the libFuzzer targets share: a booted library whose files go nowhere. A target may ask for
 * any path, so what creates, writes, moves or removes a file is replaced: no file of this machine
 * is changed, and no write fails for what a path is here. Messages are formatted and dropped.
 * Each target is one file: target_NAME.c, one function over bytes. The build has prefixed names,
 * so that malloc is the sanitizer's, and all asserts.
 */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "imalloc.h"
#include "malloc_boot.h"
#include "os/malloc_io.h"
#include "os/sys.h"
#include "prof/control/prof_control.h"
#include "prof/file/prof_keep.h"

/* Read as the library is loaded: before anything of ours runs. */
extern const char *je_malloc_conf;
const char *je_malloc_conf = "prof_thread:false,narenas:2";

/* Bytes of memory that a black box may take at most here: a larger one is refused (EFBIG). */
#define BOX_MAX ((rlim_t)64 << 20)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Also a file that exists is not written. A black box needs what can be mapped. */
static int
nowhere_open(const char *path, int flags, unsigned mode) {
	bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
	if ((flags & O_ACCMODE) == O_RDONLY || is_nameless) {
		return os_hooks_real.open(path, flags, mode);
	}
	return (flags & O_ACCMODE) == O_RDWR ? memfd_create("nowhere", MFD_CLOEXEC)
	    : os_hooks_real.open("/dev/null", O_WRONLY | O_CLOEXEC, 0);
}

static int
nowhere_unlink(const char *path UNUSED) {
	return 0;
}

static int
nowhere_move(const char *from UNUSED, const char *to UNUSED) {
	return 0;
}

static int
nowhere_move2(const char *from UNUSED, const char *to UNUSED, unsigned flags UNUSED) {
	return 0;
}

static int
nowhere_fchmod(int fd UNUSED, unsigned mode UNUSED) {
	return 0;
}

static void
no_message(void *ctx UNUSED, const char *text) {
	if (strlen(text) > 100000) {
		abort();
	}
}

/* The C library's malloc is the sanitizer's: an exact copy makes reading past the end a fault. */
static inline char *
copy_exactly(const uint8_t *data, size_t size, bool is_text) {
	char *copy = malloc(size + is_text + (size + is_text == 0));
	memcpy(copy, data, size);
	if (is_text) {
		copy[size] = '\0';
	}
	return copy;
}

int
LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED) {
	static struct os_hooks_s hooks;
	static const struct rlimit most = {BOX_MAX, BOX_MAX};
	setrlimit(RLIMIT_FSIZE, &most);
	hooks = os_hooks_real;
	hooks.open = nowhere_open;
	hooks.unlink = nowhere_unlink;
	hooks.link = nowhere_move;
	hooks.rename = nowhere_move;
	hooks.rename2 = nowhere_move2;
	hooks.fchmod = nowhere_fchmod;
	os_hooks = &hooks;
	if (malloc_boot() != 0 || opt_prof_thread != prof_thread_false) {
		abort();
	}
	malloc_io_message = no_message;
	return 0;
}
