/*
 * A memory file (memfd): another process opens it through /proc/PID/fd; its owner here maps it or
 * writes to it.
 * The user's program may close any descriptor, and the number may then refer to a file of the
 * program. So device and inode are kept beside the number. The descriptor is closed only if it is
 * still this file; an owner that uses the descriptor again later asks memfile_is_ours() first. No
 * lock: each memory file has one owner, of which one thread at a time works on the file. Owners are
 * prof_control.c (the mailbox), prof_handover.c (a profile for a tool) and prof_box.c (a black
 * box). A forked child has copies of the parent's descriptors; the owners close them there. A
 * memfile_t of zeros is not open. The functions may change errno.
 */
#pragma once

#include "util/compiler.h"

typedef struct {
	int fd_plus_1; /* descriptor + 1; 0 means not open */
	dev_t dev;
	ino_t ino;
} memfile_t;

/*
 * Creates a memory file in f, which must not be open (its descriptor would be lost). Returns 0, or
 * an errno value and then f is not open. The descriptor is closed on exec. name (at most 249 bytes,
 * else EINVAL) is what the link in /proc/PID/fd shows. size is the number of bytes, all zero; the
 * file is sealed, so that no process can change its size (a file that is shorter than its mapping
 * would cause SIGBUS). With size 0 the file is empty and grows by writing.
 */
int memfile_open(memfile_t *f, const char *name, size_t size);
/* Whether f is open and the descriptor still refers to this file. */
bool memfile_is_ours(const memfile_t *f);
/* Closes the descriptor if it still refers to this file. Afterwards f is not open. */
void memfile_close(memfile_t *f);

static inline bool
memfile_is_open(const memfile_t *f) {
	return f->fd_plus_1 != 0;
}

/* The descriptor, or -1 if f is not open. */
static inline int
memfile_fd(const memfile_t *f) {
	return f->fd_plus_1 - 1;
}
