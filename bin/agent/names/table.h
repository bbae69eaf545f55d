/*
 * A table of names: the functions, files and lines that jeprof-symbolize found for addresses of one
 * object, as a file that is mapped and read in place. It may be forged, so each access but that of
 * names_table_row() is checked against the size, and no reference can form a loop.
 * bin/symbolize/tables.c writes it, and reads older tables to copy their rows; names.c and
 * pprof_names.c read it, and names.c may change key and flags of a new one. Numbers have the byte
 * order of the machine, because a table stays on the machine. Layout:
 *
 *   head | rows, by address | frames | strings, each with a NUL behind it
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NAMES_VERSION = 1,          /* tables of another version are not used */
	NAMES_TABLE_MAX = 64 << 20, /* bytes of a table, at most */
	NAMES_FRAMES_MAX = 65,      /* of one address, at most: a function, and calls inlined in it */
	NAMES_STRING_MAX = 4096,    /* bytes of a string; longer ones are cut */
	NAMES_KEY_MAX = 240,        /* bytes of a key, without a NUL */
};

/*
 * Flags: what was read for at least some of the rows: a full symbol table (.symtab), line numbers
 * (DWARF), the object file itself.
 */
enum { NAMES_SYMBOLS = 1, NAMES_LINES = 2, NAMES_OBJECT = 4 };

#define NAMES_MAGIC "jepnames"

typedef struct names_head_s {
	char magic[8];
	uint32_t version;
	uint32_t flags;     /* NAMES_SYMBOLS, NAMES_LINES, NAMES_OBJECT */
	uint64_t size;      /* of the file, bytes */
	uint32_t nrows, nframes;
	uint64_t nstrings;  /* bytes of strings */
	char key[NAMES_KEY_MAX + 8]; /* in the cache (its parts: names.h), ended with NUL */
	uint64_t sum;       /* names_head_sum() of the head: of the bytes before this field */
} names_head_t;

/* An address whose names were looked up. */
typedef struct names_row_s {
	uint64_t address;   /* in the ELF file: without the bias */
	uint32_t frame;     /* index of its first frame, the innermost; the others follow it */
	uint32_t nframes;   /* 0: no name was found */
} names_row_t;

/* Names and file are offsets in the part with the strings; that of "" means not known. */
typedef struct names_frame_s {
	uint32_t name;        /* for people: demangled and short */
	uint32_t system_name; /* the linker's */
	uint32_t file;
	uint32_t line;        /* 0: not known */
} names_frame_t;

typedef struct names_table_s {
	const unsigned char *base;  /* NULL: not open */
	names_head_t head;          /* a copy, because the file may be changed after the checks */
	size_t rows, frames, strings; /* offsets of the parts, bytes */
} names_table_t;

/* The checksum for head->sum. It detects damage, not forgery. */
uint64_t names_head_sum(const names_head_t *head);

/*
 * Opens a table in memory, which must stay valid while it is used. False if it is malformed or has
 * another key.
 */
bool names_table_try_open(names_table_t *t, const void *base, size_t size, const char *key);

/* Maps a file and opens it as a table; the caller may close the file. False: nothing is mapped. */
bool names_table_try_map(names_table_t *t, int fd, const char *key);
/* Unmaps a table that names_table_try_map() has mapped; not for one of names_table_try_open(). */
void names_table_close(names_table_t *t);

/* Row i, for i below head.nrows. */
names_row_t names_table_row(const names_table_t *t, size_t i);

/*
 * Finds the row of an address by binary search; false if there is none, or no open table; then *row
 * is undefined.
 */
bool names_table_find(const names_table_t *t, uint64_t address, names_row_t *row);

/* Frame i of a row; false if there is none. */
bool names_table_frame(const names_table_t *t, const names_row_t *row, size_t i,
    names_frame_t *frame);

/*
 * The string at an offset in the part with the strings; "" for an invalid offset. *len: its bytes
 * without the NUL, at most NAMES_STRING_MAX; a longer string is cut there, so has no NUL at
 * *len.
 */
const char *names_table_string(const names_table_t *t, uint32_t offset, size_t *len);
