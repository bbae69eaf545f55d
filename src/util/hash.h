/*
 * Hashing for tables in memory; not cryptographic.
 * The value depends on the input only, not on addresses or the process. The functions may change
 * between versions, so a hash is never stored in a file. Pure functions without state.
 */
#ifndef UTIL_HASH_H
#define UTIL_HASH_H

#include "util/compiler.h"

/* A bijection on 64-bit words in which each bit of the input affects each bit of the output. */
ALWAYS_INLINE uint64_t
hash_mix64(uint64_t x) {
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 29;
	x *= UINT64_C(0xa0761d6478bd642f);
	x ^= x >> 32;
	return x;
}

/* Hash of len bytes at data; different seeds give independent hashes of the same bytes. */
uint64_t hash64(const void *data, size_t len, uint64_t seed);

#endif /* UTIL_HASH_H */
