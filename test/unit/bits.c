/* util/bits.h, util/compiler.h: every function against a loop over bits. */
#include "test.h"

#include "util/bits.h"

static unsigned
slow_floor(size_t x) {
	unsigned n = 0;
	while (x >>= 1) {
		n++;
	}
	return n;
}

static void
check_value(size_t x, unsigned *bad) {
	unsigned ones = 0;
	unsigned lowest = 64;
	for (unsigned i = 64; i-- > 0;) {
		if ((x >> i) & 1) {
			ones++;
			lowest = i;
		}
	}
	unsigned lg = slow_floor(x);
	*bad += popcount_zu(x) != ones;
	*bad += ctz64(x) != lowest;
	*bad += wrong_if(fls_zu(x) != lg) || wrong_if(lg_floor_zu(x) != lg);
	*bad += is_pow2_zu(x) != (ones == 1);
	size_t ceil = ones == 1 ? x : lg == 63 ? 0 : ZU(2) << lg;
	*bad += pow2_ceil_zu(x) != ceil;
}

static void
test_values(void) {
	unsigned bad = 0;
	for (size_t x = 1; x < 70000; x++) {
		check_value(x, &bad);
	}
	is_uint(bad, 0, "all values below 70000");
	for (unsigned i = 0; i < 64; i++) {
		size_t p = ZU(1) << i;
		check_value(p, &bad);
		check_value(p | 1, &bad);
		check_value(p + (p - 1), &bad);
	}
	is_uint(bad, 0, "values around every power of two");
	is_uint(pow2_ceil_zu(0), 1, "pow2_ceil of 0");
	is_uint(pow2_ceil_zu((ZU(1) << 63) + 1), 0, "pow2_ceil that does not fit");
	ok(!is_pow2_zu(0), "0 is no power of two");
	is_uint(popcount_zu(0), 0, "no bits in 0");
}

static void
test_align(void) {
	unsigned bad = 0;
	for (size_t a = 1; a <= 4096; a *= 2) {
		for (size_t x = 0; x < 10000; x += 7) {
			size_t down = x / a * a;
			size_t up = (x + a - 1) / a * a;
			bad += wrong_if(align_down(x, a) != down) || wrong_if(align_up(x, a) != up);
			bad += is_aligned(x, a) != (x % a == 0);
		}
	}
	is_uint(bad, 0, "align_up, align_down, is_aligned");
	is_uint(align_up(SIZE_MAX, 4096), 0, "align_up past the end is 0");
	is_uint(min_zu(3, 5) + max_zu(3, 5) * 10, 53, "min and max");
}

struct outer {
	int a;
	struct { int x; } inner;
};

int
main(void) {
	test_values();
	test_align();
	struct outer o;
	ok(container_of(&o.inner, struct outer, inner) == &o, "container_of");
	is_uint(ARRAY_LEN(((int[7]){0})), 7, "ARRAY_LEN");
	return done_testing();
}
