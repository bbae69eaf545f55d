/*
 * Pseudo-random numbers, and the logarithm that they need, without libm.
 * The generator is a counter that is mixed by a 64-bit bijection: every state is valid and the
 * period is 2^64. A state belongs to one thread and needs no lock. Not for cryptographic use.
 * thread/thread_event.c draws the distances between samples with prng_exponential().
 */
#ifndef UTIL_PRNG_H
#define UTIL_PRNG_H

#include "util/compiler.h"
#include "util/exp.h"
#include "util/hash.h"

/*
 * Odd, and close to 2^64 divided by the golden ratio, so that successive states are spread evenly.
 */
#define PRNG_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The next 64 random bits. */
ALWAYS_INLINE uint64_t
prng_u64(uint64_t *state) {
	*state += PRNG_STEP;
	return hash_mix64(*state);
}

/* Uniform in [0, n) without bias; n > 0. Only tests call it. */
uint64_t prng_range(uint64_t *state, uint64_t n);

/* -ln(u) for u uniform in (0, 1): exponential with mean 1; the result is between 0 and 44.4. */
double prng_exponential(uint64_t *state);

/* -ln(r / 2^64) for r > 0, not below 0, with an absolute error below 1e-13. */
double neg_ln(uint64_t r);

#endif /* UTIL_PRNG_H */
