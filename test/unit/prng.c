/*
 * util/prng.h: the exponential against libm in long double; the ziggurat's table by its formula;
 * the moments, the tail and the distribution of the variates, over all and in each piece of the
 * ziggurat.  Seeds are fixed, so a result is the same on every run.
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

static void
test_exp(void) {
	uint64_t rng = 2;
	double worst_exp = 0;
	double worst_expm1 = 0;
	double worst_tiny = 0;
	for (int i = 0; i < 500000; i++) {
		double x = prng_double(&rng) * (i % 2 == 0 ? 708 : 3);
		double tiny = ldexp(prng_double(&rng), -(int)draw_below(&rng, 900));
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

/* All pieces of the ziggurat have the same area, and together they cover the curve up to 1. */
static void
test_layers(void) {
	long double r = prng_layers[1];
	long double area = (r + 1) * expl(-r);
	double worst = rel_err(prng_layers[0], r + 1);
	for (int i = 1; i < PRNG_LAYERS; i++) {
		long double height = expl(-(long double)prng_layers[i + 1])
		    - expl(-(long double)prng_layers[i]);
		worst = fmax(worst, rel_err(prng_layers[i], area / height));
	}
	ok(worst < 1e-14, "the areas of the pieces, relative error %.2g", worst);
	ok(prng_layers[PRNG_LAYERS] == 0, "the last piece ends at the top");
}

/*
 * Chi squared over eight cells between each two widths of the ziggurat, where one that accepts too
 * much or too little at the edge of a piece bends the distribution.
 */
static void
test_exponential_layers(void) {
	enum { EACH = 8, CELLS = (PRNG_LAYERS - 1) * EACH };
	static unsigned count[CELLS];
	uint64_t rng = 6;
	unsigned tail = 0;
	for (int i = 0; i < 4 * NSAMPLES; i++) {
		double e = prng_exponential(&rng);
		int layer = PRNG_LAYERS - 1;
		while (layer > 0 && e >= prng_layers[layer]) {
			layer--;
		}
		if (layer == 0) {
			tail++;
			continue;
		}
		double low = prng_layers[layer + 1], width = prng_layers[layer] - low;
		int cell = (int)((e - low) / width * EACH);
		count[(layer - 1) * EACH + (cell < EACH ? cell : EACH - 1)]++;
	}
	double want = 4.0 * NSAMPLES * exp(-prng_layers[1]);
	double chi2 = (tail - want) * (tail - want) / want;
	for (int i = 0; i < CELLS; i++) {
		double high = prng_layers[i / EACH + 1], low = prng_layers[i / EACH + 2];
		double from = low + (high - low) * (i % EACH) / EACH;
		want = -4.0 * NSAMPLES * exp(-from) * expm1(-(high - low) / EACH);
		chi2 += (count[i] - want) * (count[i] - want) / want;
	}
	/* 504 degrees of freedom: standard deviation 31.7, five of them. */
	ok(fabs(chi2 - CELLS) < 5 * 31.7, "chi squared over %d cells is %.1f", CELLS, chi2);
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

/* Neighbouring seeds, as threads may get, must not give related sequences. */
static void
test_seeds(void) {
	double sum_xy = 0;
	for (uint64_t seed = 0; seed < 100000; seed++) {
		uint64_t a = seed;
		uint64_t b = seed + 1;
		sum_xy += (prng_double(&a) - 0.5) * (prng_double(&b) - 0.5);
	}
	double r = sum_xy / 100000 * 12;
	ok(fabs(r) < 5 / sqrt(100000), "first numbers of neighbouring seeds, correlation %.5f", r);
}

int
main(void) {
	test_layers();
	test_exp();
	test_exponential_moments();
	test_exponential_cells();
	test_exponential_layers();
	test_seeds();
	return done_testing();
}
