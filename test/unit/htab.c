/*
 * util/htab.h: random work against an array, memory that runs out, walks, the accounting of memory.
 */
#include "test.h"

#include <stdlib.h>

#include "util/hash.h"
#include "util/htab.h"

#define NKEYS 3000

static size_t live_bytes;
static bool is_dry;

static void *
mem_alloc(size_t size) {
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
mem_free(void *p, size_t size) {
	live_bytes -= size;
	free(p);
}

/* Keys are numbers below KEY_LIMIT; values[key]: what a key has in the table, 0: it is not in. */
#define KEY_LIMIT 20000

static const void *keys[NKEYS];
static uintptr_t values[KEY_LIMIT];

/*
 * Chooses n keys. If they collide, their homes are the last 16 slots of a table of up to 2^9 slots:
 * long runs that wrap round.
 */
static void
choose_keys(size_t n, bool collide) {
	memset(values, 0, sizeof(values));
	uintptr_t key = 0;
	for (size_t i = 0; i < n; i++) {
		do {
			key++;
		} while (collide && (hash_mix64(key) & 0x1f0) != 0x1f0);
		keys[i] = (const void *)key;
	}
	if (key >= KEY_LIMIT) {
		bail_out("too few keys");
	}
}

static unsigned
compare(const htab_t *h, size_t nkeys, size_t count) {
	unsigned bad = htab_count(h) != count;
	for (size_t i = 0; i < nkeys; i++) {
		bad += htab_find(h, keys[i]) != (void *)values[(uintptr_t)keys[i]];
	}
	size_t cursor = 0;
	size_t n = 0;
	const void *k;
	for (void *v; htab_next(h, &cursor, &k, &v); n++) {
		bad += values[(uintptr_t)k] != (uintptr_t)v;
	}
	return bad + (n != count);
}

static void
check_random(const char *what, bool collide, size_t nkeys) {
	htab_t h;
	uint64_t rng = 11;
	size_t count = 0;
	unsigned bad = 0;
	choose_keys(nkeys, collide);
	is_int(htab_init(&h, 3, mem_alloc, mem_free), 0, "init");
	for (int i = 0; i < 40000; i++) {
		const void *key = keys[draw_below(&rng, nkeys)];
		uintptr_t *value = &values[(uintptr_t)key];
		if (*value == 0) {
			*value = 1 + draw_below(&rng, 1000);
			bad += htab_insert(&h, key, (void *)*value) != 0;
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
	choose_keys(NKEYS, false);
	is_int(htab_init(&h, 2, mem_alloc, mem_free), ENOMEM, "init without memory");
	htab_destroy(&h);
	is_dry = false;
	htab_init(&h, 2, mem_alloc, mem_free);
	is_dry = true;
	int err = 0;
	size_t n = 0;
	while (n < NKEYS && (err = htab_insert(&h, keys[n], &keys[n])) == 0) {
		values[(uintptr_t)keys[n]] = (uintptr_t)&keys[n];
		n++;
	}
	is_int(err, ENOMEM, "insert without memory");
	is_uint(n, 3, "after three quarters of the slots");
	is_uint(compare(&h, NKEYS, 3), 0, "the table is as before");
	is_dry = false;
	is_int(htab_insert(&h, keys[n], &keys[n]), 0, "and works again with memory");
	htab_destroy(&h);
}

int
main(void) {
	check_random("spread keys", false, NKEYS);
	check_random("colliding keys", true, 200);
	test_no_memory();
	is_uint(live_bytes, 0, "no memory is left over");
	return done_testing();
}
