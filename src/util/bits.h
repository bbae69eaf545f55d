/*
 * Bit arithmetic on machine words: bit searches, logarithms, population count, alignment.
 * Bit positions count from zero at the least significant bit (libc's ffs() counts from one). A
 * function that needs a non-zero argument or a power of two says so and asserts it. Pure functions
 * without state; used by all folders of src/ but conf/ and ctl/.
 */
#pragma once

#include "util/compiler.h"

cassert(sizeof(size_t) == sizeof(unsigned long));
cassert(sizeof(size_t) == 8);

/* Position of the highest set bit; x != 0. */
ALWAYS_INLINE unsigned
fls_zu(size_t x) {
	assert(x != 0);
	return (unsigned)(63 ^ __builtin_clzl(x));
}

/* Number of zero bits below the lowest set bit; x != 0. */
ALWAYS_INLINE unsigned
ctz64(uint64_t x) {
	assert(x != 0);
	return (unsigned)__builtin_ctzll(x);
}

/* floor(log2(x)); x != 0. */
ALWAYS_INLINE unsigned
lg_floor_zu(size_t x) {
	return fls_zu(x);
}

/* Zero is not a power of two. */
ALWAYS_INLINE bool
is_pow2_zu(size_t x) {
	return x != 0 && (x & (x - 1)) == 0;
}

/* Least power of two >= x (1 for x = 0); 0 when the result does not fit in a size_t. */
ALWAYS_INLINE size_t
pow2_ceil_zu(size_t x) {
	if (unlikely(x <= 1)) {
		return 1;
	}
	unsigned lg = fls_zu(x - 1) + 1;
	return lg < 64 ? ZU(1) << lg : 0;
}

/*
 * Number of bits that are set. Adds neighbouring bits, then neighbouring sums of 2 bits, then of 4
 * bits; the multiplication adds the sums of all bytes. The builtin would call the compiler's
 * runtime library on x86-64 without the popcnt instruction.
 */
static inline unsigned
popcount_zu(size_t x) {
	x -= (x >> 1) & ZU(0x5555555555555555);
	x = (x & ZU(0x3333333333333333)) + ((x >> 2) & ZU(0x3333333333333333));
	x = (x + (x >> 4)) & ZU(0x0f0f0f0f0f0f0f0f);
	return (unsigned)((x * ZU(0x0101010101010101)) >> 56);
}

/* Least multiple of a that is >= x; wraps to 0 when that does not fit. a is a power of two. */
ALWAYS_INLINE size_t
align_up(size_t x, size_t a) {
	assert(is_pow2_zu(a));
	return (x + a - 1) & ~(a - 1);
}

/* Greatest multiple of a that is <= x; a is a power of two. */
ALWAYS_INLINE size_t
align_down(size_t x, size_t a) {
	assert(is_pow2_zu(a));
	return x & ~(a - 1);
}

/* Whether x is a multiple of a; a is a power of two. */
ALWAYS_INLINE bool
is_aligned(size_t x, size_t a) {
	assert(is_pow2_zu(a));
	return (x & (a - 1)) == 0;
}
