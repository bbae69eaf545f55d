/*
 * Has a table of names made by another process, jeprof-symbolize --table, which alone reads ELF and
 * DWARF: what it does with a forged file does not concern this one.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAMES_CANDIDATES = 3 };

typedef struct maker_s {
	const char *symbolizer;   /* path of the program; NULL: beside this one, else in $PATH */
	const char *key, *path;   /* of the table; of the object as its process sees it */
	int root;                 /* descriptor of that process's root */
	int objects[NAMES_CANDIDATES]; /* descriptors that name what may be the object */
	size_t nobjects;
	int old;                  /* an older table that is carried on; -1: none */
	bool use_servers;
	bool symbols_only;        /* DWARF is not read */
	int wait_ms;              /* after which the maker is ended */
} maker_t;

/*
 * Writes into `out` a table with these addresses; descriptors stay open. 0 or an errno: ETIMEDOUT,
 * ENOENT (no such program), EIO (it failed).
 */
int maker_run(const maker_t *m, const uint64_t *addresses, size_t count, int out);
