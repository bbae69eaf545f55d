/*
 * Numbers byte strings from 0 in the order in which they come. The hash is keyed by a random
 * number, so who chooses the strings cannot choose collisions. Used for the string table of a
 * profile, and for its functions, locations and stacks, whose keys are bytes too.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct intern_entry_s {
	size_t at;
	uint32_t len;
	uint32_t hash;
} intern_entry_t;

/* All zero is an empty one. */
typedef struct intern_s {
	char *bytes; /* of all strings, each with a NUL behind it */
	size_t len, room;
	intern_entry_t *entries;
	size_t count, entry_room;
	uint32_t *slots; /* number + 1; 0: free */
	size_t nslots;   /* a power of two */
	uint64_t key;
} intern_t;

/* Number of a string, which is copied if it is new; INTERN_FAILED if there is no memory. */
#define INTERN_FAILED UINT32_MAX
uint32_t intern_put(intern_t *in, const void *bytes, size_t len);

/* The string of a number, valid until the next intern_put. */
const char *intern_text(const intern_t *in, uint32_t number);
size_t intern_len(const intern_t *in, uint32_t number);
void intern_free(intern_t *in);

/* Makes room for one more element in an array; 0 or ENOMEM. `array` points to the pointer. */
int array_grow(void *array, size_t *room, size_t count, size_t element);
