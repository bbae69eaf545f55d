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
#define SQRT2 0x1.6a09e667f3bcdp+0

#define DOUBLE_MANTISSA_BITS 52
#define DOUBLE_EXPONENT_BIAS 1023
#define DOUBLE_MANTISSA_MASK ((UINT64_C(1) << DOUBLE_MANTISSA_BITS) - 1)

static uint64_t
double_bits(double x) {
	uint64_t u;
	memcpy(&u, &x, sizeof(u));
	return u;
}

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
	/*
	 * The middle of one of 2^64 equal cells of the unit interval. Rounding may give exactly 1.
	 */
	double u = ((double)prng_u64(state) + 0.5) * 0x1p-64;
	double e = -ln_pos(u);
	return e > 0 ? e : 0;
}

/*
 * Writes x as m * 2^e with m in (1/sqrt 2, sqrt 2]; then ln m = 2 artanh(s) with s = (m - 1)/(m +
 * 1) and s^2 < 0.0295. The omitted terms of the series are below 2^-55 of the sum.
 */
double
ln_pos(double x) {
	static const double inv_odd[] = {1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13,
	    1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
	uint64_t u = double_bits(x);
	int e = (int)(u >> DOUBLE_MANTISSA_BITS) - DOUBLE_EXPONENT_BIAS;
	assert(x > 0 && e > -DOUBLE_EXPONENT_BIAS && e <= DOUBLE_EXPONENT_BIAS);
	double m = bits_double((u & DOUBLE_MANTISSA_MASK)
	    | ((uint64_t)DOUBLE_EXPONENT_BIAS << DOUBLE_MANTISSA_BITS));
	if (m > SQRT2) {
		m *= 0.5;
		e++;
	}
	double s = (m - 1) / (m + 1);
	double s2 = s * s;
	double sum = 0;
	for (size_t i = ARRAY_LEN(inv_odd) - 1; i > 0; i--) {
		sum = (sum + inv_odd[i]) * s2;
	}
	double small = 2 * s * sum + (double)e * LN2_LO;
	return (double)e * LN2_HI + (2 * s + small);
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
