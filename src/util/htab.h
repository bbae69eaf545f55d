/*
 * Hash table from pointers to pointers: open addressing, linear probing, no removal.
 * Keys are compared as pointers; what they point to is not read. Keys and values are never NULL. At
 * most three quarters of the slots are used. The caller provides the memory functions. The owner's
 * lock protects the table. Called by prof_log.c.
 */
#ifndef UTIL_HTAB_H
#define UTIL_HTAB_H

#include "util/compiler.h"

/* size: bytes. htab_alloc_t returns NULL without memory. */
typedef void *htab_alloc_t(size_t size);
typedef void htab_free_t(void *p, size_t size);

typedef struct {
	const void *key; /* NULL: the slot is free */
	void *value;
} htab_slot_t;

typedef struct {
	htab_slot_t *slots;
	size_t count; /* elements in the table */
	unsigned lg_cap; /* log2 of the number of slots */
	htab_alloc_t *mem_alloc;
	htab_free_t *mem_free;
} htab_t;

/*
 * Initialises an empty table of 2^lg_cap slots (at least 4; lg_cap < 48). Returns 0, or ENOMEM:
 * then the table must not be used; htab_destroy() does nothing.
 */
int htab_init(htab_t *h, unsigned lg_cap, htab_alloc_t *mem_alloc, htab_free_t *mem_free);

/* Frees the slots. Keys and values still belong to the caller. May be called again. */
void htab_destroy(htab_t *h);

static inline size_t
htab_count(const htab_t *h) {
	return h->count;
}

/* Returns the value stored under the key, or NULL. */
void *htab_find(const htab_t *h, const void *key);

/* Inserts a key that must not be in the table. Returns 0, or ENOMEM with the table unchanged. */
int htab_insert(htab_t *h, const void *key, void *value);

/*
 * Walks the table in no particular order: start with *cursor = 0; each call returns true and one
 * element, or false at the end. The table must not change during the walk.
 */
bool htab_next(const htab_t *h, size_t *cursor, const void **key, void **value);

#endif /* UTIL_HTAB_H */
