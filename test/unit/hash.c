/*
 * util/hash.h: each input bit reaches the output, similar keys do not collide, padding is told
 * apart.
 */
#include "test.h"

#include <stdlib.h>

#include "util/bits.h"
#include "util/hash.h"
#include "util/prng.h"

/* Share of output bits that change with each input bit of len bytes: near one half for all. */
static void
test_avalanche(size_t len) {
	unsigned char key[64];
	uint64_t rng = 5;
	unsigned low = UINT_MAX;
	unsigned high = 0;
	enum { ROUNDS = 400 };
	for (size_t bit = 0; bit < len * 8; bit++) {
		unsigned changed = 0;
		for (int i = 0; i < ROUNDS; i++) {
			for (size_t j = 0; j < len; j++) {
				key[j] = (unsigned char)prng_u64(&rng);
			}
			uint64_t before = hash64(key, len, 1);
			key[bit / 8] ^= (unsigned char)(1U << (bit % 8));
			changed += popcount_zu(before ^ hash64(key, len, 1));
		}
		low = changed < low ? changed : low;
		high = changed > high ? changed : high;
	}
	/* 400 times 32 expected, standard deviation 80; six of them on each side. */
	ok(low > ROUNDS * 32 - 480 && high < ROUNDS * 32 + 480,
	    "a changed bit of %zu bytes changes half of the output (%u..%u)", len, low, high);
}

/* The same for hash_mix64, each pair of input and output bit on its own. */
static void
test_mix_avalanche(void) {
	enum { ROUNDS = 1000 };
	uint64_t rng = 6;
	unsigned bad = 0;
	for (unsigned in = 0; in < 64; in++) {
		unsigned changed[64] = {0};
		for (int i = 0; i < ROUNDS; i++) {
			uint64_t x = prng_u64(&rng);
			uint64_t diff = hash_mix64(x) ^ hash_mix64(x ^ UINT64_C(1) << in);
			for (unsigned out = 0; out < 64; out++) {
				changed[out] += (diff >> out) & 1;
			}
		}
		/* 500 expected, standard deviation 16; six of them on each side. */
		for (unsigned out = 0; out < 64; out++) {
			bad += wrong_if(changed[out] < 405) || wrong_if(changed[out] > 595);
		}
	}
	is_uint(bad, 0, "hash_mix64: each of 4096 pairs of bits changes half of the time");
}

static int
cmp_u64(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

#define NKEYS 100000
static uint64_t hashes[NKEYS];

static size_t
duplicates(uint64_t mask) {
	for (size_t i = 0; i < NKEYS; i++) {
		hashes[i] &= mask;
	}
	qsort(hashes, NKEYS, sizeof(hashes[0]), cmp_u64);
	size_t n = 0;
	for (size_t i = 1; i < NKEYS; i++) {
		n += hashes[i] == hashes[i - 1];
	}
	return n;
}

static void
test_collisions(void) {
	/* Vectors of addresses that differ in one small step, as backtraces do. */
	for (size_t i = 0; i < NKEYS; i++) {
		uintptr_t frames[5] = {0x401000, 0x401100, 0x401000 + i * 16, 0x7f0000001000, 0x402000};
		hashes[i] = hash64(frames, sizeof(frames), 0);
	}
	is_uint(duplicates(UINT64_MAX), 0, "no collision of 64 bits in 100000 similar vectors");
	/* Expected pairs in 32 bits: n^2 / 2^33 = 1.2; below 12 but for one in 10^8. */
	ok(duplicates(UINT32_MAX) < 12, "few in the lower 32 bits");
	for (size_t i = 0; i < NKEYS; i++) {
		hashes[i] = hash_mix64(i * 4096);
	}
	is_uint(duplicates(UINT64_MAX), 0, "hash_mix64 is one to one");
	ok(duplicates(UINT32_MAX) < 12, "also spread in its lower half");
}

int
main(void) {
	static const size_t lens[] = {1, 7, 8, 9, 15, 16, 17, 24, 33, 64};
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		test_avalanche(lens[i]);
	}
	test_mix_avalanche();
	test_collisions();

	char zeros[64] = {0};
	unsigned same = 0;
	for (size_t len = 1; len <= 64; len++) {
		same += hash64(zeros, len, 9) == hash64(zeros, len - 1, 9);
	}
	is_uint(same, 0, "strings of zeros differ by their length");
	ok(hash64(zeros, 8, 1) != hash64(zeros, 8, 2), "the seed counts");
	char shifted[65] = {0};
	memcpy(shifted + 1, "an unaligned string of bytes", 28);
	ok(hash64(shifted + 1, 28, 0) == hash64("an unaligned string of bytes", 28, 0),
	    "the place in memory does not");
	return done_testing();
}
