/*
 * Builds a table of names (bin/agent/names/table.h) in memory for some addresses of an object. As
 * in jeprof, the name of the function comes from its symbol, or from DWARF if it has none; files,
 * lines and inlined calls come from DWARF. No locks: one thread. Used by table.c.
 */
#pragma once

#include "intern.h"
#include "names/table.h"
#include "symbolize.h"

/* The frames that DWARF gives for an address: a part of tables_t.told, innermost first. */
typedef struct {
	size_t first, count;
} told_t;

/*
 * One table. The caller sets the fields from key to without_dwarf; the rest is 0. "room": in
 * elements.
 */
typedef struct {
	const char *key;	/* of the table */
	int old;		/* descriptor of a table whose rows are copied if it has this key; -1: none */
	int own_root;		/* descriptor of this process's own root directory */
	bool with_servers;	/* debuginfod may be asked for the debug file */
	bool without_dwarf;	/* symbols only */
	uint32_t flags;		/* NAMES_*: what was read */
	const uint64_t *addresses;
	const char **symbols;	/* by index of the address; NULL: no symbol was found */
	told_t *found;		/* by index of the address */
	size_t count;		/* of addresses */
	size_t at;		/* index of the address that the callbacks tell of; count: of none */
	names_frame_t *told;	/* all frames from DWARF; `name` is not set yet */
	size_t ntold, told_room;
	names_row_t *rows;	/* of the table that is written */
	size_t nrows, row_room;
	names_frame_t *frames;	/* of the same, complete */
	size_t nframes, frame_room;
	intern_t strings;	/* the first is "" */
	int error;		/* ENOMEM after a failure; 0: none */
} tables_t;

/* Sorts the addresses and removes duplicates; returns how many are left. */
size_t addresses_sort(uint64_t *all, size_t count);

/*
 * Fills the table with a row for each of these addresses, which ascend, are distinct and must stay
 * valid as long as it; then with rows of t->old for other addresses, until there are 2^21 rows, or
 * the strings take a quarter of NAMES_TABLE_MAX. object NULL: the new rows have no frames; symbols
 * or DWARF that cannot be read are no error either. 0 or ENOMEM (also if the strings take more than
 * half of NAMES_TABLE_MAX); tables_free() in any case.
 */
int tables_make(tables_t *t, object_t *object, const uint64_t *addresses, size_t count);

/* Writes the table. 0, EFBIG (above NAMES_TABLE_MAX; nothing is written) or EIO. */
int tables_write(const tables_t *t, int fd);
void tables_free(tables_t *t);
