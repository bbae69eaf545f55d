/*
 * Hash table from pointers to pointers with memory from the caller: open addressing, linear probing,
 * the hash kept in the slot, at most three quarters full, no tombstones.  Keys and values are never
 * NULL.  What a key points to must hash and compare the same as long as it is in the table.
 * The owner's lock protects it.
 */
#ifndef UTIL_HTAB_H
#define UTIL_HTAB_H

#include "util/compiler.h"

typedef uint64_t htab_hash_t(const void *key);
typedef bool htab_eq_t(const void *a, const void *b);
typedef void *htab_alloc_t(void *opaque, size_t size);
typedef void htab_free_t(void *opaque, void *p, size_t size);

typedef struct {
	uint64_t hash;
	void *key; /* NULL: free slot */
	void *value;
} htab_slot_t;

typedef struct {
	htab_slot_t *slots;
	size_t count;
	unsigned lg_cap;
	unsigned lg_cap_min;
	htab_hash_t *hash_fn;
	htab_eq_t *eq_fn;
	htab_alloc_t *mem_alloc;
	htab_free_t *mem_free;
	void *opaque;
} htab_t;

/* 2^lg_cap slots to begin with, and never fewer.  Returns 0 or ENOMEM. */
int htab_init(htab_t *h, unsigned lg_cap, htab_hash_t *hash_fn, htab_eq_t *eq_fn,
    htab_alloc_t *mem_alloc, htab_free_t *mem_free, void *opaque);

/* Gives the slots back; keys and values are the caller's. */
void htab_destroy(htab_t *h);

static inline size_t
htab_count(const htab_t *h) {
	return h->count;
}

/* The value stored under an equal key, or NULL. */
void *htab_find(const htab_t *h, const void *key);

/* Like htab_find; *r_key becomes the key pointer in the table. */
void *htab_find_key(const htab_t *h, const void *key, void **r_key);

/* The key must not be in the table.  Returns 0 or ENOMEM (table unchanged). */
int htab_insert(htab_t *h, void *key, void *value);

/* The value that was removed, or NULL when there was none; *r_key (may be NULL): the key in the table. */
void *htab_remove(htab_t *h, const void *key, void **r_key);

/*
 * Walks the table in no particular order: start with *cursor 0, true while there is another element.
 * The table must not change during the walk.
 */
bool htab_has_next(const htab_t *h, size_t *cursor, void **key, void **value);
#define htab_iter htab_has_next

/* Hash and comparison for keys that are the pointers themselves. */
uint64_t htab_hash_ptr(const void *key);
bool htab_eq_ptr(const void *a, const void *b);

#endif /* UTIL_HTAB_H */
