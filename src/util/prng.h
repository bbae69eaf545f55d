/*
 * Pseudo-random numbers and the few logarithms and exponentials the library needs, without libm.
 * The generator is a counter with a 64-bit finaliser: any state is valid, the period is 2^64, the
 * state belongs to one thread.  It is not for secrets.
 */
#ifndef UTIL_PRNG_H
#define UTIL_PRNG_H

#include "util/compiler.h"
#include "util/hash.h"

/* Odd, with its bits close to the golden ratio's: successive states are spread evenly. */
#define PRNG_STEP UINT64_C(0x9e3779b97f4a7c15)

ALWAYS_INLINE uint64_t
prng_u64(uint64_t *state) {
	*state += PRNG_STEP;
	return hash_mix64(*state);
}

/* Uniform in [0, n), without bias; n > 0. */
uint64_t prng_range(uint64_t *state, uint64_t n);

/* Uniform in [0, 1), a multiple of 2^-53. */
double prng_double01(uint64_t *state);

/* -ln(u) for u uniform in (0, 1]: mean 1; between 0 and 46. */
double prng_exponential(uint64_t *state);

/* Natural logarithm of a positive, finite, normal x; relative error below 1e-15. */
double ln_pos(double x);

/* e^-x for x >= 0; relative error below 1e-15 while the result is a normal number; 0 far out. */
double exp_neg(double x);

/* 1 - e^-x for x >= 0; relative error below 1e-15, also for tiny x. */
double expm1_neg(double x);

#endif /* UTIL_PRNG_H */
