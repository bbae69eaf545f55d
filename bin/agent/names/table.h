/*
 * A table of names: what jeprof-symbolize found out of addresses of one object, as a file that is
 * mapped and read where it lies. It may have been forged: each access is checked against the size,
 * strings end where the file does, and nothing is followed more than once. Written by
 * bin/symbolize/table.c; read there too, to carry on what an older table has. Numbers are those of
 * the machine: a table does not leave it.
 *
 *   head | rows, by address | frames | strings, each with a NUL behind it
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NAMES_VERSION = 1,
	NAMES_TABLE_MAX = 64 << 20, /* bytes of a table */
	NAMES_FRAMES_MAX = 65,      /* of one address: a function and the calls inlined in it */
	NAMES_STRING_MAX = 4096,    /* bytes of a string; the rest is not shown */
	NAMES_KEY_MAX = 240,        /* bytes of a key */
};

/* What there was to read from. */
enum { NAMES_SYMBOLS = 1, NAMES_LINES = 2, NAMES_OBJECT = 4 };

#define NAMES_MAGIC "jepnames"

typedef struct names_head_s {
	char magic[8];
	uint32_t version;
	uint32_t flags;     /* NAMES_* */
	uint64_t size;      /* of the file, bytes */
	uint32_t nrows, nframes;
	uint64_t nstrings;  /* bytes of strings */
	char key[NAMES_KEY_MAX + 8]; /* of the cache: the build-id in hex, and whose file it was */
	uint64_t sum;       /* of the bytes before this field, see names_head_sum */
} names_head_t;

/* An address that was asked for, less the object's bias. */
typedef struct names_row_s {
	uint64_t address;
	uint32_t frame;     /* the first of its frames, the innermost */
	uint32_t nframes;   /* 0: nothing is known */
} names_row_t;

/* Offsets of strings; the one of "" stands for what is not known. */
typedef struct names_frame_s {
	uint32_t name;        /* for people: demangled and short */
	uint32_t system_name; /* the linker's */
	uint32_t file;
	uint32_t line;        /* 0: not known */
} names_frame_t;

typedef struct names_table_s {
	const unsigned char *base;  /* NULL: there is none */
	names_head_t head;
	size_t rows, frames, strings; /* where they begin, bytes */
} names_table_t;

uint64_t names_head_sum(const names_head_t *head);

/* Is this the table of a key? The bytes must stay while the table is used. */
bool names_table_try_open(names_table_t *t, const void *base, size_t size, const char *key);

/* The same of a file, which is mapped; names_table_close unmaps it. False leaves nothing mapped. */
bool names_table_try_map(names_table_t *t, int fd, const char *key);
void names_table_close(names_table_t *t);

/* Row i, for i below head.nrows. */
names_row_t names_table_row(const names_table_t *t, size_t i);

/* The row of an address; false if it was never asked for. */
bool names_table_find(const names_table_t *t, uint64_t address, names_row_t *row);

/* Frame i of a row; false if there is none. */
bool names_table_frame(const names_table_t *t, const names_row_t *row, size_t i,
    names_frame_t *frame);

/* The string at an offset and its length; "" for an offset that is none. */
const char *names_table_string(const names_table_t *t, uint32_t offset, size_t *len);
