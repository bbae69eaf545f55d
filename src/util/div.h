/*
 * Division of exact multiples by a divisor that is fixed early and used often (a slab's region size).
 *
 * With magic = ceil(2^32 / d) = (2^32 + r) / d, 0 <= r < d, and n = q*d below 2^32:
 * n * magic = q * 2^32 + q*r, and q*r < (2^32 / d) * d = 2^32, so the upper half of the product is q.
 */
#ifndef UTIL_DIV_H
#define UTIL_DIV_H

#include "util/assert.h"
#include "util/compiler.h"

typedef struct {
	uint32_t magic;
	uint32_t divisor;
} div_info_t;

/* 2 <= divisor < 2^32. */
static inline void
div_init(div_info_t *d, size_t divisor) {
	assert(divisor >= 2 && divisor <= UINT32_MAX);
	uint64_t two32 = UINT64_C(1) << 32;
	d->magic = (uint32_t)((two32 + divisor - 1) / divisor);
	d->divisor = (uint32_t)divisor;
}

/* n / divisor, for multiples n of the divisor below 2^32. */
ALWAYS_INLINE size_t
div_compute(const div_info_t *d, size_t n) {
	assert(n <= UINT32_MAX);
	size_t q = (size_t)(((uint64_t)n * d->magic) >> 32);
	assert(q * d->divisor == n);
	return q;
}

#endif /* UTIL_DIV_H */
