/*
 * The cache of tables of names: files KEY.names (KEY: names.h) in a directory, shared by all
 * processes of its owner, or memory files of this process, which also hold what a full directory
 * cannot. Whenever a table is added, the least recently used ones above the limit are removed.
 * Called by names.c; main.c checks the directory by cache_begin() and cache_doubt(); dead_store.c
 * checks its own directory by cache_doubt(). Any thread may call.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef struct cache_s {
	int dir;            /* -1: in memory */
	bool is_for_disk;   /* bytes_max is meant for a directory, though tables may lie in memory */
	uint64_t bytes_max; /* limit of all tables together, kept to whenever this cache adds one */
} cache_t;

/*
 * Opens the cache in a directory, which is created if it does not exist; NULL: in memory. bytes_max
 * 0: 256 MiB in a directory, 64 MiB in memory. 0, or an errno, after which c is as one in memory.
 */
int cache_begin(cache_t *c, const char *dir, uint64_t bytes_max);
/* Closes the directory. Tables stay, also those in memory, which all caches in memory share. */
void cache_end(cache_t *c);

/*
 * Why the files in a directory may not be trusted, as text (buf or a constant); NULL: they may.
 * Another user than we and root owns it, or others may write into it: they could rename our files,
 * so that one has the key of another. If that cannot be found out, the text of the errno.
 */
const char *cache_doubt(int dir, char buf[80]);

/*
 * The descriptor of the table with this key, which the caller closes, and in *made the time when it
 * was made, in seconds since 1970; -1 if there is none that can be opened, or another user owns or
 * may write it. It counts as a use.
 */
int cache_open(const cache_t *c, const char *key, time_t *made);

/*
 * Begins a table: an empty memory file, for the maker to fill. Its descriptor, which the caller
 * closes or gives to cache_keep(); -1 and errno.
 */
int cache_draft(void);

/*
 * Adds a draft to the cache under its key, in place of an older table. Where the directory has no
 * room for it, or an error, it stays in memory. 0 or ENOMEM; takes the descriptor in either case.
 */
int cache_keep(const cache_t *c, int draft, const char *key);
