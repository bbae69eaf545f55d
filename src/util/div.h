/*
 * Division of exact multiples by a divisor that is set once and used often, by one multiplication
 * and a shift. arena/bin_info sets a divisor for each size class of small objects, to turn an
 * offset inside a slab into the index of a region; arena/slab.h and arena/bin.c multiply by `magic`
 * themselves, and only tests call div_compute(). Pure functions; no lock.
 * Why it is exact: let magic = ceil(2^32 / d) = (2^32 + r) / d with 0 <= r < d, and n = q*d < 2^32.
 * Then n * magic = q * 2^32 + q*r, and q*r < (2^32 / d) * d = 2^32, so the upper half of the
 * product is q.
 */
#ifndef UTIL_DIV_H
#define UTIL_DIV_H

#include "util/assert.h"
#include "util/compiler.h"

typedef struct {
	uint32_t magic; /* ceil(2^32 / divisor) */
	uint32_t divisor; /* kept for the assertion in div_compute() only */
} div_info_t;

/* The divisor must be at least 2 and below 2^32. */
static inline void
div_init(div_info_t *d, size_t divisor) {
	assert(divisor >= 2 && divisor <= UINT32_MAX);
	uint64_t two32 = UINT64_C(1) << 32;
	d->magic = (uint32_t)((two32 + divisor - 1) / divisor);
	d->divisor = (uint32_t)divisor;
}

/* Returns n / divisor. n must be a multiple of the divisor and below 2^32. */
ALWAYS_INLINE size_t
div_compute(const div_info_t *d, size_t n) {
	assert(n <= UINT32_MAX);
	size_t q = (size_t)(((uint64_t)n * d->magic) >> 32);
	assert(q * d->divisor == n);
	return q;
}

#endif /* UTIL_DIV_H */
