/* What a sample stands for, and the numbers that make a reader arrive at it. */
#include "test.h"

#include <math.h>

#include "prof/sites/prof_sample.h"

/* The reader's rule for a heap_v2 line. */
static void
unsample(double rate, uint64_t n, uint64_t s, double *count, double *bytes) {
	double ratio = ((double)s / (double)n) / rate;
	double scale = 1 / (1 - exp(-ratio));

	*count = (double)n * scale;
	*bytes = (double)s * scale;
}

static void
test_weights(void) {
	static const uint64_t rates[] = {2, 1000, 4096, 524288, 1 << 30};
	static const size_t sizes[] = {8, 16, 64, 320, 4096, 16384, 100 * 1024, 8 << 20};
	unsigned bad = 0;

	for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
		for (size_t j = 0; j < sizeof(sizes) / sizeof(*sizes); j++) {
			double want = 1 / -expm1(-(double)sizes[j] / (double)rates[i]);
			double got = (double)prof_weight(sizes[j], rates[i]) / PROF_WEIGHT_ONE;

			if (fabs(got - want) > want * 1e-9 + 1e-5)
				bad++;
		}
	}
	is_uint(bad, 0, "weights are 1 / (1 - exp(-z/R))");
	/* 32 bits of each are the key of a known weight: these pairs all have the same. */
	bad = 0;
	for (uint64_t k = 1; k < 1000; k++) {
		size_t z = 4096 | k << 32;
		uint64_t rate = 0xffff | UINT64_C(1) << 40;
		double want = 1 / -expm1(-(double)z / (double)rate);
		bad += prof_weight(4096, 0xffff) >> 16 != 16;
		bad += fabs((double)prof_weight(z, rate) / PROF_WEIGHT_ONE - want) > want * 1e-9 + 1e-5;
	}
	is_uint(bad, 0, "greater sizes and rates are not taken for smaller ones");
	is_uint(prof_weight(8, 1), PROF_WEIGHT_ONE, "rate 1: everything is sampled, weight one");
	is_uint(prof_weight(1 << 30, 524288), PROF_WEIGHT_ONE, "certain to be sampled: weight one");
	ok(prof_weight(8, UINT64_C(1) << 63) >= PROF_WEIGHT_ONE << 30, "an absurd rate: a huge weight");
	is_uint(prof_weighted_bytes(100, PROF_WEIGHT_ONE), 100, "bytes of weight one");
	is_uint(prof_weighted_bytes(100, PROF_WEIGHT_ONE * 5 / 2), 250, "of weight 2.5");
}

static void
check_line(uint64_t rate, uint64_t header, size_t z, unsigned nobjs) {
	uint64_t w = prof_weight(z, rate);
	prof_counts_t c = {nobjs, nobjs * z, nobjs * w, nobjs * prof_weighted_bytes(z, w)};
	uint64_t objs, bytes;
	double count, est;

	prof_printed(&c, header, false, &objs, &bytes);
	unsample((double)header, objs, bytes, &count, &est);
	ok(fabs(est - (double)c.est) <= (double)c.est * (0.5 / (double)objs + 0.5 / (double)bytes) + 1,
	    "rate %llu, header %llu, %u objects of %zu: %.0f bytes for %llu",
	    (unsigned long long)rate, (unsigned long long)header, nobjs, z, est,
	    (unsigned long long)c.est);
}

/*
 * Sites of few samples, of small objects and some that are a good part of the interval: what a
 * reader makes of all of them together is what was estimated, and each is off by one sample at
 * most.
 */
static void
test_mixed_sites(void) {
	enum { SITES = 20000 };
	const double rate = 524288;
	uint64_t seed = 1;
	double want = 0, got = 0, want_objs = 0, got_objs = 0;
	unsigned bad = 0;

	for (unsigned i = 0; i < SITES; i++) {
		prof_counts_t c = {0, 0, 0, 0};
		unsigned n = 2 + (unsigned)(test_random(&seed) % 8);
		for (unsigned k = 0; k < n; k++) {
			size_t z = k == 0 ? 20000 + test_random(&seed) % 180000
			    : 64 + test_random(&seed) % 4000;
			uint64_t w = prof_weight(z, 524288);
			c.objs++;
			c.bytes += z;
			c.c16 += w;
			c.est += prof_weighted_bytes(z, w);
		}
		uint64_t objs, bytes, again, count = 0;
		double est_objs, est;
		prof_printed(&c, (uint64_t)rate, false, &objs, &bytes);
		prof_printed(&c, (uint64_t)rate, false, &again, &count);
		unsample(rate, objs, bytes, &est_objs, &est);
		bad += wrong_if(objs != again) || wrong_if(bytes != count) || wrong_if(objs < n)
		    || wrong_if(objs > n + 2);
		want += (double)c.est;
		want_objs += (double)c.c16 / PROF_WEIGHT_ONE;
		got += est;
		got_objs += est_objs;
	}
	is_uint(bad, 0, "mixed sites: as many as were sampled, or a little more, and always the same");
	/* Each is off by half a sample of some five, at random: 0.1 % of all of them. */
	ok(fabs(got / want - 1) < 0.004, "mixed sites: %.3f of the bytes estimated", got / want);
	ok(fabs(got_objs / want_objs - 1) < 0.01, "mixed sites: %.3f of the objects",
	    got_objs / want_objs);
}

int
main(void) {
	uint64_t objs, bytes;
	prof_counts_t none = {0, 0, 0, 0};
	prof_counts_t raw = {3, 333, prof_weight(111, 524288) * 3,
	    3 * prof_weighted_bytes(111, prof_weight(111, 524288))};

	test_weights();
	check_line(524288, 524288, 64, 1);
	check_line(524288, 524288, 64, 1000);
	check_line(524288, 524288, 102400, 100);
	check_line(524288, 1, 64, 10);
	check_line(4096, 1, 8, 1);
	check_line(1, 1, 8, 10000);
	check_line(1, 1, 16, 1);
	check_line(777, 777, 100000, 3);
	prof_printed(&none, 524288, false, &objs, &bytes);
	ok(objs == 0 && bytes == 0, "nothing prints as nothing");
	test_mixed_sites();
	prof_printed(&raw, 524288, true, &objs, &bytes);
	ok(objs == 3 && bytes == 333, "prof_unbias:false prints what was sampled");
	return done_testing();
}
