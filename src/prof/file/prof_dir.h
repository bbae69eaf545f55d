/*
 * The files of a prefix: reads its directory and names those that are profiles or boxes.
 *
 * Invariant: path begins with the directory, dir_len bytes with the slash; dir_len 0: a prefix that
 * had to stay relative has no known directory, and no files here. Locks: none, the caller has the
 * struct for itself. Called by prof_keep.c and prof_earlier.c, outside the gate.
 */
#ifndef PROF_DIR_H
#define PROF_DIR_H

#include <limits.h>

#include "prof/file/prof_sys.h"

typedef struct prof_dir_s {
	uint64_t prefix_hash; /* 0: no prefix was read */
	size_t dir_len;
	void (*cb)(struct prof_dir_s *d, prof_kind_t kind, const char *name);
	char prefix[PROF_PATH_SIZE];
	char path[PROF_PATH_SIZE + NAME_MAX + 1]; /* of the file that is looked at */
	char buf[4096] ALIGNED(8);
} prof_dir_t;

/* Takes over the prefix as it is now. Returns whether it has changed. */
bool prof_dir_try_update(prof_dir_t *d);
/*
 * Calls cb for each name of a profile or box; d->path is its path. Keeps errno. Returns 0, or an
 * errno value if the directory cannot be read.
 */
int prof_dir_each(prof_dir_t *d, void (*cb)(prof_dir_t *d, prof_kind_t kind, const char *name));

#endif /* PROF_DIR_H */
