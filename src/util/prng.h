/*
 * Pseudo-random numbers, without libm.
 * The generator is a counter that is mixed by a 64-bit bijection: every state is valid and the
 * period is 2^64. A state belongs to one thread and needs no lock. Not for cryptographic use.
 * thread/thread_event.c draws the distances between samples with prng_exponential().
 */
#pragma once

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

/* Uniform in [0, 1), a multiple of 2^-53. random: 64 random bits, of which the upper 53 count. */
ALWAYS_INLINE double
prng_to_double(uint64_t random) {
	return (double)(int64_t)(random >> 11) * 0x1p-53;
}

ALWAYS_INLINE double
prng_double(uint64_t *state) {
	return prng_to_double(prng_u64(state));
}

/* The widths of the ziggurat's pieces, in falling order, the last 0 (prng.c); a power of two. */
#define PRNG_LAYERS 64
extern HIDDEN const double prng_layers[PRNG_LAYERS + 1];

/*
 * prng_exponential() for a point at x of piece i that may lie above the curve: x is at least
 * prng_layers[i + 1]. Returns x or a number drawn anew.
 */
double prng_exponential_edge(uint64_t *state, unsigned i, double x) NOINLINE;

/* Exponential with mean 1. The piece and the point in it are drawn by different bits. */
ALWAYS_INLINE double
prng_exponential(uint64_t *state) {
	uint64_t random = prng_u64(state);
	unsigned i = random % PRNG_LAYERS;
	double x = prng_to_double(random) * prng_layers[i];
	return likely(x < prng_layers[i + 1]) ? x : prng_exponential_edge(state, i, x);
}
