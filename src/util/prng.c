/*
 * Random numbers of two distributions, uniform and exponential, and the logarithm that the second
 * needs. The library does not use libm. The logarithm first divides its argument by a power of two,
 * then sums a power series from its smallest term. Draws change only the caller's state; no lock.
 * thread/thread_event.c calls prng_exponential() for the distance to the next sample.
 */
#include "util/prng.h"

#include "util/assert.h"
#include "util/bits.h"

#define LN2 0x1.62e42fefa39efp-1
#define SQRT2 0x1.6a09e667f3bcdp+0

uint64_t
prng_range(uint64_t *state, uint64_t n) {
	assert(n > 0);
	/*
	 * Accepts only values below the greatest multiple of n up to 2^64, so that all remainders are
	 * equally likely. excess: 2^64 mod n, how many values are not accepted.
	 */
	uint64_t excess = (UINT64_MAX % n + 1) % n;
	uint64_t r = prng_u64(state);
	while (r > UINT64_MAX - excess) {
		r = prng_u64(state);
	}
	return r % n;
}

double
prng_exponential(uint64_t *state) {
	return neg_ln(prng_u64(state) | 1);
}

/*
 * -ln(r / 2^64). Writes r as m * 2^k with m in [1, 2); then ln m = ln sqrt 2 + 2 artanh(s) with s =
 * (m - sqrt 2) / (m + sqrt 2) and s^2 < 0.0295. So the result is (64 - k) ln 2 - ln m = (127 - 2 k)
 * (ln 2) / 2 - 2 artanh(s). The omitted terms of the series are below 2e-14.
 */
double
neg_ln(uint64_t r) {
	static const double inv_odd[] = {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13,
	    1.0 / 15};
	unsigned k = fls_zu(r);
	double m = exp_bits((r << (63 - k) << 1 >> (64 - EXP_MANTISSA_BITS))
	    | ((uint64_t)EXP_BIAS << EXP_MANTISSA_BITS));
	double s = (m - SQRT2) / (m + SQRT2);
	double s2 = s * s;
	double sum = inv_odd[ARRAY_LEN(inv_odd) - 1];
	for (size_t i = ARRAY_LEN(inv_odd) - 1; i > 0; i--) {
		sum = sum * s2 + inv_odd[i - 1];
	}
	double result = (double)(int)(127 - 2 * k) * (LN2 / 2) - 2 * s * sum;
	return result > 0 ? result : 0;
}
