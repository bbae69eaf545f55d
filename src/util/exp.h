/*
 * Exponentials without libm: a multiple of ln 2 is subtracted from the argument, which is a power
 * of two in the result; then a power series is summed from its smallest term. ln 2 is kept in two
 * parts, so that the product of the first part and an exponent is exact. Needs no header of the
 * library, so that the tools can use it too. Pure functions without a lock. Called by
 * prof/sites/prof_sample.c and prof_printed.h (the weight of a sample), and by prng.c.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * ln 2 = EXP_LN2_HI + EXP_LN2_LO. EXP_LN2_HI has 33 significant bits, and so its product with an
 * exponent of at most 11 bits fits the 53 of a double. EXP_LN2_INV is 1 / ln 2.
 */
#define EXP_LN2_HI 0x1.62e42fefp-1
#define EXP_LN2_LO 0x1.473de6af278edp-34
#define EXP_LN2_INV 0x1.71547652b82fep+0

/* Of a double: bits of the fraction, and what is added to the exponent. */
#define EXP_MANTISSA_BITS 52
#define EXP_BIAS 1023

/* The double with these bits. */
static inline double
exp_bits(uint64_t u) {
	double x;
	memcpy(&x, &u, sizeof(x));
	return x;
}

/* 2^e; the result must be a normal number. */
static inline double
exp_pow2(int e) {
	return exp_bits((uint64_t)(e + EXP_BIAS) << EXP_MANTISSA_BITS);
}

/* (1 - e^-x) / x = 1 - x/2 + x^2/6 - ..., for |x| <= 0.35. */
static inline double
exp_series(double x) {
	static const double inverse[] = {1.0 / 15, 1.0 / 14, 1.0 / 13, 1.0 / 12, 1.0 / 11, 1.0 / 10,
		1.0 / 9, 1.0 / 8, 1.0 / 7, 1.0 / 6, 1.0 / 5, 1.0 / 4, 1.0 / 3, 1.0 / 2};
	double sum = 1;
	for (size_t i = 0; i < sizeof(inverse) / sizeof(inverse[0]); i++) {
		sum = 1 - sum * (x * inverse[i]);
	}
	return sum;
}

/*
 * e^-x for x >= 0. The relative error is below 1e-15 while the result is a normal number; 0 for x >
 * 745.
 */
static inline double
exp_neg(double x) {
	if (x > 745) {
		return 0;
	}
	int k = (int)(x * EXP_LN2_INV + 0.5);
	double r = (x - k * EXP_LN2_HI) - k * EXP_LN2_LO;
	double y = 1 - r * exp_series(r);
	/*
	 * Multiplies by 2^-k in two steps: 2^-k alone may be below the normal range although the
	 * product is not.
	 */
	return y * exp_pow2(-(k / 2)) * exp_pow2(-(k - k / 2));
}

/* 1 - e^-x for x >= 0, with a relative error below 1e-15 also for very small x. */
static inline double
expm1_neg(double x) {
	return x < 0.35 ? x * exp_series(x) : 1 - exp_neg(x);
}
