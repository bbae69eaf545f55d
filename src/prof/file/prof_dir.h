/*
 * The files of a prefix: reads its directory and finds the names of profiles and boxes.
 *
 * Invariant: during prof_dir_each() `path` begins with the directory, which is the first dir_len
 * bytes of the prefix. dir_len 0: the prefix has no slash. If it is "", there are no files; if it
 * could not be made absolute, they are in the current directory. Locks: none of its own, the caller
 * has the struct for itself. Called by prof_keep.c and prof_earlier.c, outside the fork gate
 * (os/gate.h).
 */
#pragma once

#include "prof/file/prof_sys.h"

typedef struct prof_dir_s {
	uint64_t prefix_hash; /* of `prefix`; 0: no prefix was read */
	size_t dir_len;       /* bytes of the directory with its slash */
	void (*cb)(struct prof_dir_s *d, prof_kind_t kind, const char *name); /* of prof_dir_each() */
	char prefix[PROF_PATH_SIZE];
	char path[PROF_PATH_SIZE + NAME_MAX + 1]; /* of the file that is looked at */
	char buf[4096] ALIGNED(8); /* for the entries that the kernel returns */
} prof_dir_t;

/*
 * Copies the prefix as it is now. Returns whether it differs from the one before; true at the first
 * call.
 */
bool prof_dir_try_update(prof_dir_t *d);
/*
 * Calls cb for each entry of the directory, of any type, that is named as a profile or box of the
 * prefix that prof_dir_try_update() has copied; name is without the directory, d->path with it.
 * Keeps errno. Returns 0, also if the prefix is "", or an errno value if the directory cannot be
 * read, perhaps after some calls of cb.
 */
int prof_dir_each(prof_dir_t *d, void (*cb)(prof_dir_t *d, prof_kind_t kind, const char *name));
