/*
 * Runs jeprof-symbolize --table, which makes a table of names. Only that process reads symbols and
 * DWARF, so a forged file cannot make this one crash or misbehave. Called by names.c.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAMES_CANDIDATES = 3 }; /* files that may be the object, at most */

typedef struct maker_s {
	const char *symbolizer;   /* path of the program; NULL: beside this one, else in $PATH */
	const char *key, *path;   /* key of the table; path of the object as its process sees it */
	int root;                 /* descriptor of that process's root directory; -1: none */
	int objects[NAMES_CANDIDATES]; /* O_PATH descriptors of files that may be the object */
	size_t nobjects;
	int old;                  /* an older table, whose rows are copied; -1: none */
	bool use_servers;         /* of debuginfod */
	bool symbols_only;        /* DWARF is not read */
	int wait_ms;              /* time limit, after which the process is killed */
} maker_t;

/*
 * Has a table with these addresses (those in the ELF file; at most 2^20) written into `out`, which
 * after an error may have a part of it; descriptors stay open. 0 or an errno, such as ETIMEDOUT,
 * ENOENT (no such program), EIO (it failed).
 */
int maker_run(const maker_t *m, const uint64_t *addresses, size_t count, int out);
