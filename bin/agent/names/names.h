/*
 * Finds names (functions, files, lines) of addresses in the objects (mapped files) of one process,
 * in tables (table.h), one per object, that are cached (cache.h). The key of a table has the
 * object's build-id; the root directory, if that is not ours; and the owner of the file, unless the
 * owner is root and nobody else may write it. So a file of one container or user cannot provide
 * names for another. Addresses that the cached table lacks are looked up by another process, the
 * maker (maker.h). It runs once for all threads that need the table at the same time; names.c has
 * the lock for that. Called by pprof_names.c; a names_t belongs to one thread.
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
	/* descriptor of the process's root directory, which may be ours; -1: closed, or not opened */
	int root;
	char root_id[64];    /* part of the key: identifies a root other than ours; "" if it is ours */
	/*
	 * with what the keys of objects without build-id begin, "x123.4d2": "x", the pid (decimal),
	 * ".", the start time (clock ticks from boot, hexadecimal)
	 */
	char process[48];
	/* of the monotonic clock: no maker is begun after it; one without DWARF may end 3 s later */
	int64_t deadline_ms;
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
 * Opens the root and the cache. 0; or an errno if the root cannot be opened, or the request names
 * no process and no root (ESRCH); then names_end() is not needed.
 */
int names_begin(names_t *n, const struct pprof_request *request);
void names_end(names_t *n);

/*
 * Opens the table of an object, with rows for as many of these addresses as possible. They are
 * addresses as the ELF file numbers them, without the load bias, ascending and distinct. While a
 * maker makes the table, the call waits, until about the deadline. True: the caller closes the
 * table by names_table_close(). False: there is none; table->base is NULL, and nothing is to be
 * closed.
 */
bool names_try_table(names_t *n, const names_object_t *object, const uint64_t *addresses,
    size_t count, names_table_t *table);
