/* util/div.h: quotients of exact multiples, over all small divisors and the ends of the range. */
#include "test.h"

#include "util/div.h"
#include "util/prng.h"

static unsigned
check_divisor(size_t d, uint64_t *rng) {
	div_info_t info;
	div_init(&info, d);
	size_t q_max = UINT32_MAX / d;
	unsigned bad = 0;
	for (size_t q = 0; q <= min_zu(q_max, 64); q++) {
		bad += div_compute(&info, q * d) != q;
		bad += div_compute(&info, (q_max - q) * d) != q_max - q;
	}
	for (int i = 0; i < 32; i++) {
		size_t q = prng_range(rng, q_max + 1);
		bad += div_compute(&info, q * d) != q;
	}
	return bad;
}

int
main(void) {
	uint64_t rng = 1;
	unsigned bad = 0;
	for (size_t d = 2; d < 20000; d++) {
		bad += check_divisor(d, &rng);
	}
	is_uint(bad, 0, "all divisors below 20000");
	for (int i = 0; i < 20000; i++) {
		bad += check_divisor(2 + prng_range(&rng, UINT32_MAX - 1), &rng);
	}
	is_uint(bad, 0, "random divisors");
	for (unsigned lg = 1; lg < 32; lg++) {
		size_t p = ZU(1) << lg;
		bad += check_divisor(p, &rng) + check_divisor(p + 1, &rng);
		bad += lg > 1 ? check_divisor(p - 1, &rng) : 0;
	}
	bad += check_divisor(UINT32_MAX, &rng);
	is_uint(bad, 0, "divisors around powers of two");
	return done_testing();
}
