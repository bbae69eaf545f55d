/*
 * A bijection on 64-bit words, for hash tables and random numbers. A pure function; it needs no
 * other header of the library, so that the tools can use it too, through meta/image.h: they compare
 * hashes that the library has put into the profiler's tables, so both must use the same function.
 */
#pragma once

#include <stdint.h>

/* Each bit of the input affects each bit of the output; 0 stays 0. */
static inline __attribute__((always_inline)) uint64_t
hash_mix64(uint64_t x) {
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 29;
	x *= UINT64_C(0xa0761d6478bd642f);
	x ^= x >> 32;
	return x;
}
