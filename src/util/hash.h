/*
 * Non-cryptographic hashing for tables in memory.  Values depend on nothing but the input and may
 * change between versions; they are never stored in files.
 */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include "util/compiler.h"

/* Bijection of 64-bit words in which each input bit reaches each output bit. */
ALWAYS_INLINE uint64_t
hash_mix64(uint64_t x) {
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 29;
	x *= UINT64_C(0xa0761d6478bd642f);
	x ^= x >> 32;
	return x;
}

uint64_t hash64(const void *data, size_t len, uint64_t seed);

#endif /* UTIL_HASH_H */
