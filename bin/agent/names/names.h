/*
 * Finds names (functions, files, lines) of addresses in the objects (mapped files) of one process,
 * in tables (table.h), one per object, that are cached (cache.h). The key of a table has the
 * object's build-id, the root directory if it is not ours, and the owner unless only root may write
 * the file, so that a file of one container or user cannot provide names for another. Addresses
 * that the cached table lacks are looked up by another process, the maker (maker.h), which runs
 * once for all threads that need the table at the same time. Called by pprof_names.c; a names_t
 * belongs to one thread.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../pprof.h"
#include "cache.h"
#include "table.h"

typedef struct names_s {
	const struct pprof_request *request;
	cache_t cache;
	int root;            /* descriptor of the process's root directory; -1: not open */
	char root_id[64];    /* part of the key: identifies a root other than ours; "" if it is ours */
	char process[48];    /* pid and start time, "x123.4d2": in keys of objects without build-id */
	int64_t deadline_ms; /* of the monotonic clock: after it no maker is begun or waited for */
	unsigned nmade;      /* makers started so far for this names_t */
} names_t;

/* An object as the profile describes it; all of it may be forged. */
typedef struct names_object_s {
	const char *id;      /* build-id in hex; "": none */
	const char *path;    /* as its process sees it */
	uint64_t map_start, map_end; /* addresses of a line of the memory map; 0: not known */
	uint64_t inode;      /* in that line; 0: not known */
	bool is_main;        /* the program itself */
} names_object_t;

/*
 * Opens the root and the cache. 0; or an errno if one cannot be opened, or the request names no
 * process and no root (ESRCH); then names_end() is not needed.
 */
int names_begin(names_t *n, const struct pprof_request *request);
void names_end(names_t *n);

/*
 * Opens a table with rows for as many of these addresses (those in the ELF file, ascending) as
 * possible; may wait until about the deadline for it to be made. The caller closes it by
 * names_table_close(). False if there is none; then table->base is NULL.
 */
bool names_try_table(names_t *n, const names_object_t *object, const uint64_t *addresses,
    size_t count, names_table_t *table);
