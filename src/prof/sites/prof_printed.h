/*
 * The numbers that a profile prints for sums over samples. Pure functions, no locks, no state.
 * In the library prof_dump.c calls prof_printed(); prof_data.c, prof_snap.c and others make the
 * sums. The tools of bin/client/ print the same profile from the tables of another process by these
 * functions, so this header includes only headers without state of the library.
 */
#pragma once

#include <stdbool.h>

#include "meta/image.h"
#include "util/exp.h"

/*
 * Sums over samples: number of sampled objects and their usable bytes, and the estimates of all
 * objects, sampled or not (c16, in units of 1/65536 object), and of their bytes (est).
 */
typedef struct {
	uint64_t objs;
	uint64_t bytes;
	uint64_t c16;
	uint64_t est;
} prof_counts_t;

static inline void
prof_counts_add(prof_counts_t *to, const prof_counts_t *c) {
	to->objs += c->objs;
	to->bytes += c->bytes;
	to->c16 += c->c16;
	to->est += c->est;
}

/*
 * Estimated bytes that a sample of usize bytes stands for; weight is in units of 1/65536
 * (prof_weight()). The free subtracts the same number that the allocation added.
 */
static inline uint64_t
prof_weighted_bytes(uint64_t usize, uint64_t weight) {
	__extension__ unsigned __int128 product = (unsigned __int128)usize * weight;
	return (uint64_t)((product + IMAGE_WEIGHT_ONE / 2) / IMAGE_WEIGHT_ONE);
}

/*
 * Rounds x up if its fraction is at least `threshold`, else down; the result is at least 1, also
 * for NaN, and at most UINT64_MAX.
 */
static inline uint64_t
prof_round_clamped(double x, double threshold) {
	if (!(x >= 1)) {
		return 1; /* there was a sample, so the number must not be 0 */
	}
	if (x >= 18446744073709549568.0) {
		return UINT64_MAX;
	}
	uint64_t whole = (uint64_t)x;
	return whole + (x - (double)whole >= threshold ? 1 : 0);
}

/* A fraction below this, or from 1 minus this on, is an error of arithmetic: rounded to nearest. */
#define PROF_NEARLY_WHOLE (1.0 / 1024)

/*
 * Returns a threshold in [PROF_NEARLY_WHOLE, 1 - PROF_NEARLY_WHOLE) for prof_round_clamped(). It is
 * pseudo-random, but the same for the same c16 and est.
 */
static inline double
prof_round_threshold(const prof_counts_t *c) {
	uint64_t state = (c->est ^ hash_mix64(c->c16)) + UINT64_C(0x9e3779b97f4a7c15);
	double random = (double)(hash_mix64(state) >> 11) * 0x1p-53;
	return PROF_NEARLY_WHOLE + random * (1 - 2 * PROF_NEARLY_WHOLE);
}

/*
 * Computes the numbers to print. A reader that scales them with header_rate (mean bytes between
 * samples, > 0) gets the estimates back, but for rounding. is_raw: the numbers are those of the
 * samples themselves. If a site has objects of several sizes, the number of objects before rounding
 * lies just above the number of samples. It is rounded up or down pseudo-randomly, up with its
 * fraction as probability, because rounding to nearest would print all sites with few samples too
 * small. Equal counts print equally. If any sum is 0, which happens while a thread adds a sample,
 * both numbers are 0; otherwise both are at least 1.
 */
static inline void
prof_printed(const prof_counts_t *c, uint64_t header_rate, bool is_raw, uint64_t *objs,
    uint64_t *bytes) {
	if (c->objs == 0 || c->bytes == 0 || c->c16 == 0 || c->est == 0) {
		*objs = 0;
		*bytes = 0;
		return;
	}
	if (is_raw) {
		*objs = c->objs;
		*bytes = c->bytes;
		return;
	}
	double count = (double)c->c16 / (double)IMAGE_WEIGHT_ONE;
	double mean = (double)c->est / count;
	double seen = expm1_neg(mean / (double)header_rate);
	*objs = prof_round_clamped(count * seen, prof_round_threshold(c));
	*bytes = prof_round_clamped((double)c->est * seen, 0.5);
}
