/*
 * Makes a table of names (bin/agent/names/table.h) in memory: what the symbols and the DWARF of an
 * object say of some addresses. The symbol has the last word on the function, DWARF adds files,
 * lines and inlined calls, as in jeprof.
 */
#ifndef TABLES_H
#define TABLES_H

#include "intern.h"
#include "names/table.h"
#include "symbolize.h"

/* What DWARF says of an address: frames of `told`, the innermost first. */
typedef struct {
	size_t first, count;
} told_t;

typedef struct {
	const char *key;	/* of the table */
	int old;		/* a table whose rows are carried on, -1: none */
	int own_root;		/* our root directory */
	bool with_servers;	/* debuginfod may be asked for the debug file */
	bool without_dwarf;	/* symbols only */
	uint32_t flags;		/* NAMES_*: what was read */
	const uint64_t *addresses;
	const char **symbols;	/* by address, NULL: none */
	told_t *found;		/* by address */
	size_t count, at;	/* addresses; the one that is being told of */
	names_frame_t *told;	/* of DWARF; name is not set */
	size_t ntold, told_room;
	names_row_t *rows;	/* the table */
	size_t nrows, row_room;
	names_frame_t *frames;
	size_t nframes, frame_room;
	intern_t strings;	/* the first is "" */
	int error;		/* the first that happened */
} tables_t;

/* Sorts addresses and removes those that come twice; how many are left. */
size_t addresses_sort(uint64_t *all, size_t count);

/*
 * Fills the table for addresses in rising order, which stay as long as it; object NULL: nothing is
 * known. 0 or an errno.
 */
int tables_make(tables_t *t, object_t *object, const uint64_t *addresses, size_t count);
int tables_write(const tables_t *t, int fd);
void tables_free(tables_t *t);

#endif
