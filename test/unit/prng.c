/*
 * util/prng.h: logarithm and exponential against libm in long double; the moments, the tail and the
 * distribution of the variates.  Seeds are fixed, so a result is the same on every run.
 */
#include "test.h"

#include <math.h>

#include "util/prng.h"

#define NSAMPLES 2000000

static double
rel_err(double got, long double want) {
	if (want == 0) {
		return got == 0 ? 0 : 1;
	}
	return (double)fabsl(((long double)got - want) / want);
}

static double
neg_ln_err(uint64_t r) {
	return (double)fabsl((long double)neg_ln(r) - (64 * logl(2) - logl((long double)r)));
}

static void
test_ln(void) {
	uint64_t rng = 1;
	double worst = 0;
	double worst_near_1 = 0;
	for (int i = 0; i < 500000; i++) {
		uint64_t x = prng_u64(&rng) >> prng_range(&rng, 64);
		worst = fmax(worst, neg_ln_err(x | 1));
		worst_near_1 = fmax(worst_near_1, neg_ln_err(~(x >> 1)));
	}
	ok(worst < 1e-13, "-ln over all exponents, error %.2g", worst);
	ok(worst_near_1 < 1e-13, "-ln near 1, error %.2g", worst_near_1);
	ok(neg_ln(UINT64_MAX) >= 0 && neg_ln(UINT64_MAX) < 1e-13, "-ln of almost 1");
}

/* Uniform in [0, 1). */
static double
double01(uint64_t *state) {
	return (double)(prng_u64(state) >> 11) * 0x1p-53;
}

static void
test_exp(void) {
	uint64_t rng = 2;
	double worst_exp = 0;
	double worst_expm1 = 0;
	double worst_tiny = 0;
	for (int i = 0; i < 500000; i++) {
		double x = double01(&rng) * (i % 2 == 0 ? 708 : 3);
		double tiny = ldexp(double01(&rng), -(int)prng_range(&rng, 900));
		worst_exp = fmax(worst_exp, rel_err(exp_neg(x), expl(-(long double)x)));
		worst_expm1 = fmax(worst_expm1, rel_err(expm1_neg(x), -expm1l(-(long double)x)));
		worst_tiny = fmax(worst_tiny, rel_err(expm1_neg(tiny), -expm1l(-(long double)tiny)));
	}
	ok(worst_exp < 1e-15, "e^-x, relative error %.2g", worst_exp);
	ok(worst_expm1 < 1e-15, "1 - e^-x, relative error %.2g", worst_expm1);
	ok(worst_tiny < 1e-15, "1 - e^-x for tiny x, relative error %.2g", worst_tiny);
	ok(exp_neg(0) == 1 && expm1_neg(0) == 0, "both at 0");
	ok(exp_neg(1e300) == 0 && expm1_neg(1e300) == 1, "both far out");
	ok(exp_neg(744) > 0 && exp_neg(744) < 1e-300, "the last numbers above 0");
}

static void
test_exponential_moments(void) {
	uint64_t rng = 3;
	double sum[5] = {0};
	double max = 0;
	double min = 100;
	unsigned above[12] = {0};
	for (int i = 0; i < NSAMPLES; i++) {
		double e = prng_exponential(&rng);
		double p = 1;
		for (int k = 1; k < 5; k++) {
			sum[k] += p *= e;
		}
		for (int t = 0; t < 12; t++) {
			above[t] += e > t;
		}
		max = fmax(max, e);
		min = fmin(min, e);
	}
	/* The k-th moment is k!, its variance ((2k)! - k!^2) / n; five standard deviations. */
	static const double factorial[] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320};
	for (int k = 1; k < 5; k++) {
		double dev = sqrt((factorial[2 * k] - factorial[k] * factorial[k]) / NSAMPLES);
		ok(fabs(sum[k] / NSAMPLES - factorial[k]) < 5 * dev, "moment %d is %.5f", k,
		    sum[k] / NSAMPLES);
	}
	double worst = 0;
	for (int t = 0; t < 12; t++) {
		double want = NSAMPLES * exp(-t);
		worst = fmax(worst, fabs(above[t] - want) / sqrt(want + 1));
	}
	ok(worst < 5, "the share above each whole number, at most %.2f deviations off", worst);
	ok(min >= 0 && max > 10 && max < 46, "all within bounds (%.2g .. %.3f)", min, max);
}

/* Kolmogorov's distance to 1 - e^-x, from counts in cells of equal probability. */
static void
test_exponential_cells(void) {
	enum { CELLS = 1000 };
	static unsigned count[CELLS];
	uint64_t rng = 4;
	for (int i = 0; i < NSAMPLES; i++) {
		int cell = (int)(-expm1(-prng_exponential(&rng)) * CELLS);
		count[cell < CELLS ? cell : CELLS - 1]++;
	}
	double chi2 = 0;
	double expected = (double)NSAMPLES / CELLS;
	for (int i = 0; i < CELLS; i++) {
		chi2 += (count[i] - expected) * (count[i] - expected) / expected;
	}
	/* 999 degrees of freedom: standard deviation 44.7, five of them. */
	ok(fabs(chi2 - 999) < 5 * 44.7, "chi squared over 1000 cells is %.1f", chi2);
}

static void
test_range(void) {
	uint64_t rng = 5;
	unsigned bad = 0;
	unsigned count[10] = {0};
	for (int i = 0; i < 100000; i++) {
		uint64_t n = (prng_u64(&rng) >> prng_range(&rng, 64)) | 1;
		bad += prng_range(&rng, n) >= n;
		count[prng_range(&rng, 10)]++;
	}
	is_uint(bad, 0, "numbers stay below the bound");
	unsigned uneven = 0;
	for (int i = 0; i < 10; i++) {
		uneven += abs((int)count[i] - 10000) > 500;
	}
	is_uint(uneven, 0, "ten values come equally often");
	is_uint(prng_range(&rng, 1), 0, "below 1 there is only 0");
	uint64_t above = 0;
	for (int i = 0; i < 1000; i++) {
		above += prng_range(&rng, UINT64_C(3) << 62) >= UINT64_C(3) << 61;
	}
	ok(above > 420 && above < 580, "no bias with a bound that is no divisor of 2^64 (%llu)",
	    (unsigned long long)above);
}

/* Neighbouring seeds, as threads may get, must not give related sequences. */
static void
test_seeds(void) {
	double sum_xy = 0;
	for (uint64_t seed = 0; seed < 100000; seed++) {
		uint64_t a = seed;
		uint64_t b = seed + 1;
		sum_xy += (double01(&a) - 0.5) * (double01(&b) - 0.5);
	}
	double r = sum_xy / 100000 * 12;
	ok(fabs(r) < 5 / sqrt(100000), "first numbers of neighbouring seeds, correlation %.5f", r);
}

int
main(void) {
	test_ln();
	test_exp();
	test_exponential_moments();
	test_exponential_cells();
	test_range();
	test_seeds();
	return done_testing();
}
