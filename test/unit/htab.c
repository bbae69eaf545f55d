/*
 * util/htab.h: random work against an array, memory that runs out, walks, the accounting of memory.
 */
#include "test.h"

#include <stdlib.h>

#include "util/hash.h"
#include "util/htab.h"
#include "util/prng.h"

#define NKEYS 3000

static size_t live_bytes;
static bool is_dry;

static void *
mem_alloc(void *opaque, size_t size) {
	if (opaque != &live_bytes) {
		bail_out("wrong opaque pointer");
	}
	if (is_dry) {
		return NULL;
	}
	live_bytes += size;
	void *p = malloc(size);
	if (p != NULL) {
		memset(p, 0xa5, size);
	}
	return p;
}

static void
mem_free(void *opaque, void *p, size_t size) {
	*(size_t *)opaque -= size;
	free(p);
}

/* Only 16 different hashes, at the end of any table: long runs that wrap round. */
static uint64_t
bad_hash(const void *key) {
	return ~(htab_hash_ptr(key) & 15);
}

static uint64_t
text_hash(const void *key) {
	return hash64(key, strlen(key), 0);
}

static bool
text_eq(const void *a, const void *b) {
	return strcmp(a, b) == 0;
}

static char keys[NKEYS];
static uintptr_t values[NKEYS];

static unsigned
compare(const htab_t *h, size_t nkeys, size_t count) {
	unsigned bad = htab_count(h) != count;
	for (size_t i = 0; i < nkeys; i++) {
		bad += htab_find(h, &keys[i]) != (void *)values[i];
	}
	size_t cursor = 0;
	size_t n = 0;
	for (void *k, *v; htab_next(h, &cursor, &k, &v); n++) {
		bad += values[(char *)k - keys] != (uintptr_t)v;
	}
	return bad + (n != count);
}

static void
check_random(const char *what, htab_hash_t *hash_fn, size_t nkeys) {
	htab_t h;
	uint64_t rng = 11;
	size_t count = 0;
	unsigned bad = 0;
	memset(values, 0, sizeof(values));
	is_int(htab_init(&h, 3, hash_fn, htab_eq_ptr, mem_alloc, mem_free, &live_bytes), 0, "init");
	for (int i = 0; i < 40000; i++) {
		size_t k = prng_range(&rng, nkeys);
		if (values[k] == 0) {
			values[k] = 1 + prng_range(&rng, 1000);
			bad += htab_insert(&h, &keys[k], (void *)values[k]) != 0;
			count++;
		}
		bad += i % 2000 == 0 ? compare(&h, nkeys, count) : 0;
	}
	is_uint(bad + compare(&h, nkeys, count), 0, "random work, %s", what);
	is_uint(count, nkeys, "all keys are in, %s", what);
	htab_destroy(&h);
	is_uint(live_bytes, 0, "all memory is given back, %s", what);
}

static void
test_no_memory(void) {
	htab_t h;
	is_dry = true;
	is_int(htab_init(&h, 2, htab_hash_ptr, htab_eq_ptr, mem_alloc, mem_free, &live_bytes), ENOMEM,
	    "init without memory");
	htab_destroy(&h);
	is_dry = false;
	htab_init(&h, 2, htab_hash_ptr, htab_eq_ptr, mem_alloc, mem_free, &live_bytes);
	is_dry = true;
	int err = 0;
	size_t n = 0;
	while (n < NKEYS && (err = htab_insert(&h, &keys[n], &keys[n])) == 0) {
		values[n] = (uintptr_t)&keys[n];
		n++;
	}
	is_int(err, ENOMEM, "insert without memory");
	is_uint(n, 3, "after three quarters of the slots");
	is_uint(compare(&h, NKEYS, 3), 0, "the table is as before");
	is_dry = false;
	is_int(htab_insert(&h, &keys[n], &keys[n]), 0, "and works again with memory");
	htab_destroy(&h);
}

static void
test_text_keys(void) {
	htab_t h;
	char a[] = "same text";
	char b[] = "same text";
	htab_init(&h, 0, text_hash, text_eq, mem_alloc, mem_free, &live_bytes);
	htab_insert(&h, a, &values[7]);
	ok(htab_find(&h, b) == &values[7], "an equal key finds the value");
	ok(htab_find(&h, "other") == NULL, "another key does not");
	htab_destroy(&h);
}

int
main(void) {
	check_random("good hash", htab_hash_ptr, NKEYS);
	check_random("colliding hash", bad_hash, 200);
	memset(values, 0, sizeof(values));
	test_no_memory();
	test_text_keys();
	is_uint(live_bytes, 0, "no memory is left over");
	return done_testing();
}
