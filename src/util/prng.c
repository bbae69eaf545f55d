/*
 * Random numbers of several distributions, and the logarithm and exponentials that they need.
 * The library does not use libm. A logarithm or exponential first reduces its argument by a power
 * of two, then sums a power series from its smallest term. ln 2 is kept in two parts, so that the
 * product of the first part and an exponent is exact. Pure functions of the caller's state; no
 * lock. Callers are prof_sample.c and thread/thread_event.c.
 */
#include "util/prng.h"

#include "util/assert.h"
#include "util/bits.h"

/* ln 2 = LN2_HI + LN2_LO; LN2_HI has 32 significant bits. */
#define LN2_HI 0x1.62e42fefp-1
#define LN2_LO 0x1.473de6af278edp-34
#define LN2_INV 0x1.71547652b82fep+0
#define LN2 0x1.62e42fefa39efp-1
#define SQRT2 0x1.6a09e667f3bcdp+0

#define DOUBLE_MANTISSA_BITS 52
#define DOUBLE_EXPONENT_BIAS 1023

static double
bits_double(uint64_t u) {
	double x;
	memcpy(&x, &u, sizeof(x));
	return x;
}

/* 2^e; the result must be a normal number. */
static double
pow2_double(int e) {
	assert(e > -DOUBLE_EXPONENT_BIAS && e <= DOUBLE_EXPONENT_BIAS);
	return bits_double((uint64_t)(e + DOUBLE_EXPONENT_BIAS) << DOUBLE_MANTISSA_BITS);
}

uint64_t
prng_range(uint64_t *state, uint64_t n) {
	assert(n > 0);
	/*
	 * Accepts only values below the greatest multiple of n that fits, so that all remainders
	 * are equally likely.
	 */
	uint64_t excess = (UINT64_MAX % n + 1) % n;
	uint64_t r = prng_u64(state);
	while (r > UINT64_MAX - excess) {
		r = prng_u64(state);
	}
	return r % n;
}

double
prng_double01(uint64_t *state) {
	return (double)(prng_u64(state) >> 11) * 0x1p-53;
}

double
prng_exponential(uint64_t *state) {
	return neg_ln(prng_u64(state) | 1);
}

/*
 * Writes r as m * 2^k with m in [1, 2); then ln m = ln sqrt 2 + 2 artanh(s) with s = (m - sqrt 2) /
 * (m + sqrt 2) and s^2 < 0.0295. The omitted terms of the series are below 2e-14.
 */
double
neg_ln(uint64_t r) {
	static const double inv_odd[] = {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13,
	    1.0 / 15};
	unsigned k = fls_zu(r);
	double m = bits_double((r << (63 - k) << 1 >> (64 - DOUBLE_MANTISSA_BITS))
	    | ((uint64_t)DOUBLE_EXPONENT_BIAS << DOUBLE_MANTISSA_BITS));
	double s = (m - SQRT2) / (m + SQRT2);
	double s2 = s * s;
	double sum = inv_odd[ARRAY_LEN(inv_odd) - 1];
	for (size_t i = ARRAY_LEN(inv_odd) - 1; i > 0; i--) {
		sum = sum * s2 + inv_odd[i - 1];
	}
	double result = (double)(int)(127 - 2 * k) * (LN2 / 2) - 2 * s * sum;
	return result > 0 ? result : 0;
}

/* (1 - e^-x) / x = 1 - x/2 + x^2/6 - ..., for |x| <= 0.35. */
static double
expm1_neg_series(double x) {
	static const double inverse[] = {1.0 / 15, 1.0 / 14, 1.0 / 13, 1.0 / 12, 1.0 / 11, 1.0 / 10,
		1.0 / 9, 1.0 / 8, 1.0 / 7, 1.0 / 6, 1.0 / 5, 1.0 / 4, 1.0 / 3, 1.0 / 2};
	double sum = 1;
	for (size_t i = 0; i < ARRAY_LEN(inverse); i++) {
		sum = 1 - sum * (x * inverse[i]);
	}
	return sum;
}

double
exp_neg(double x) {
	assert(x >= 0);
	if (x > 745) {
		return 0;
	}
	int k = (int)(x * LN2_INV + 0.5);
	double r = (x - k * LN2_HI) - k * LN2_LO;
	double y = 1 - r * expm1_neg_series(r);
	/*
	 * Multiplies by 2^-k in two steps: 2^-k alone may be below the normal range although the
	 * product is not.
	 */
	return y * pow2_double(-(k / 2)) * pow2_double(-(k - k / 2));
}

double
expm1_neg(double x) {
	assert(x >= 0);
	if (x < 0.35) {
		return x * expm1_neg_series(x);
	}
	return 1 - exp_neg(x);
}
