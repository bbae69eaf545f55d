/*
 * Numbers distinct byte strings from 0, in the order of their first use. The hash is keyed by a
 * random number, so that a process that chooses the strings cannot choose collisions. Used by
 * pprof_*.c, otlp_encode.c and bin/symbolize/tables.c for the strings of a profile or a table of
 * names, and for functions, addresses and stacks, which are taken as strings of bytes. A table
 * belongs to one thread.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* A numbered string. */
typedef struct intern_entry_s {
	size_t at;     /* its offset in `bytes` */
	uint32_t len;  /* without the NUL */
	uint32_t hash;
} intern_entry_t;

/* All zero is an empty table. */
typedef struct intern_s {
	char *bytes;              /* of all strings, each with a NUL behind it */
	size_t len, room;         /* of `bytes`: used, allocated */
	intern_entry_t *entries;  /* by number */
	size_t count, entry_room; /* entries used, allocated */
	uint32_t *slots;          /* of the hash table: a string's number + 1; 0: free */
	size_t nslots;            /* a power of two; 0 before the first string */
	uint64_t key;             /* of the hash; drawn at random with the first string */
} intern_t;

#define INTERN_FAILED UINT32_MAX

/*
 * Number of a string, which is copied if it is new; INTERN_FAILED if there is no memory, or if the
 * buffer of all strings, which grows by doubling, would reach 1 GiB.
 */
uint32_t intern_put(intern_t *in, const void *bytes, size_t len);

/* The string of a number, valid until the next intern_put. */
const char *intern_text(const intern_t *in, uint32_t number);
size_t intern_len(const intern_t *in, uint32_t number); /* without the NUL */

/* Frees the memory; the table is empty afterwards. */
void intern_free(intern_t *in);

/*
 * Grows an array that has `count` elements of `element` bytes if it has no room for one more. 0 or
 * ENOMEM, which leaves it unchanged. `array` points to the caller's pointer to the elements; *room:
 * how many elements are allocated.
 */
int array_grow(void *array, size_t *room, size_t count, size_t element);
