/*
 * Hash table from pointers to pointers: open addressing, linear probing, no removal.
 * The caller provides the memory functions. Each slot keeps its key's hash. At most three quarters
 * of the slots are used. Keys and values are never NULL, and what a key points to must hash and
 * compare the same while it is in the table. The owner's lock protects it. Called by prof_log.c.
 */
#ifndef UTIL_HTAB_H
#define UTIL_HTAB_H

#include "util/compiler.h"

typedef uint64_t htab_hash_t(const void *key);
typedef bool htab_eq_t(const void *a, const void *b);
/* size: bytes. htab_alloc_t returns NULL without memory. */
typedef void *htab_alloc_t(void *opaque, size_t size);
typedef void htab_free_t(void *opaque, void *p, size_t size);

typedef struct {
	uint64_t hash; /* hash of the key, kept so that growing calls no hash function */
	void *key; /* NULL: the slot is free */
	void *value;
} htab_slot_t;

typedef struct {
	htab_slot_t *slots;
	size_t count; /* elements in the table */
	unsigned lg_cap; /* log2 of the number of slots */
	htab_hash_t *hash_fn;
	htab_eq_t *eq_fn;
	htab_alloc_t *mem_alloc;
	htab_free_t *mem_free;
	void *opaque; /* passed to mem_alloc and mem_free */
} htab_t;

/*
 * Initialises an empty table of 2^lg_cap slots (at least 4; lg_cap < 48). Returns 0, or ENOMEM:
 * then the table must not be used; htab_destroy() does nothing.
 */
int htab_init(htab_t *h, unsigned lg_cap, htab_hash_t *hash_fn, htab_eq_t *eq_fn,
    htab_alloc_t *mem_alloc, htab_free_t *mem_free, void *opaque);

/* Frees the slots. Keys and values still belong to the caller. May be called again. */
void htab_destroy(htab_t *h);

static inline size_t
htab_count(const htab_t *h) {
	return h->count;
}

/* Returns the value stored under an equal key, or NULL. */
void *htab_find(const htab_t *h, const void *key);

/* Inserts a key that must not be in the table. Returns 0, or ENOMEM with the table unchanged. */
int htab_insert(htab_t *h, void *key, void *value);

/*
 * Walks the table in no particular order: start with *cursor = 0; each call returns true and one
 * element, or false at the end. The table must not change during the walk.
 */
bool htab_next(const htab_t *h, size_t *cursor, void **key, void **value);

/* hash_fn and eq_fn for keys that are compared as pointers, not by what they point to. */
uint64_t htab_hash_ptr(const void *key);
bool htab_eq_ptr(const void *a, const void *b);

#endif /* UTIL_HTAB_H */
