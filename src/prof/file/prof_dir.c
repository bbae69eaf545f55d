/*
 * Reads the directory of the prefix; prof_dir.h has the contract. Invariant: the file name behind
 * the directory in `path` has at most NAME_MAX bytes. Locks: none of its own; the prefix is copied
 * under `prof_prefix`. Called by prof_keep.c and prof_earlier.c.
 */
#include "prof/file/prof_dir.h"

#include "os/sys.h"
#include "util/hash.h"

bool
prof_dir_try_update(prof_dir_t *d) {
	prof_sys_prefix_get(d->prefix, sizeof(d->prefix));
	size_t len = strlen(d->prefix);
	d->dir_len = prof_sys_dir_len(d->prefix, len);
	uint64_t hash = hash64(d->prefix, len, 0) | 1;
	bool is_new = d->prefix_hash != hash;
	d->prefix_hash = hash;
	return is_new;
}

/* Passes one name of the directory on to d->cb, if it is that of a profile or box. */
static int
dir_entry(void *ctx, const char *name) {
	prof_dir_t *d = ctx;
	size_t len = strlen(name);
	prof_kind_t kind = prof_sys_name_kind(name, d->prefix + d->dir_len);
	if (kind != prof_kind_n && len <= NAME_MAX) {
		memcpy(d->path + d->dir_len, name, len + 1);
		d->cb(d, kind, name);
	}
	return 0;
}

int
prof_dir_each(prof_dir_t *d, void (*cb)(prof_dir_t *d, prof_kind_t kind, const char *name)) {
	if (d->prefix[0] == '\0') {
		return 0;
	}
	int saved = errno;
	d->cb = cb;
	memcpy(d->path, d->prefix, d->dir_len);
	d->path[d->dir_len] = '\0';
	int err = sys_dir_each(d->dir_len == 0 ? "." : d->path, d->buf, sizeof(d->buf), dir_entry, d);
	errno = saved;
	return err;
}
