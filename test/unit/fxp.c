/* util/fxp.h: what is read and refused, that printed numbers read back, and the arithmetic. */
#include "test.h"

#include "util/fxp.h"
#include "util/prng.h"

static void
reads(const char *s, int want_err, fxp_t want, const char *want_rest) {
	fxp_t out = 0xdead;
	char *end = NULL;
	int err = fxp_parse(&out, s, &end);
	ok(err == want_err && (err != 0 || (out == want && strcmp(end, want_rest) == 0))
	    && (err == 0 || (out == 0xdead && end == NULL)), "read \"%s\"", s);
}

static void
prints(fxp_t x, const char *want) {
	char buf[FXP_BUF_SIZE];
	size_t n = fxp_print(buf, x);
	is_str(buf, want, "print 0x%x", (unsigned)x);
	is_uint(n, strlen(want), "and its length");
}

static void
test_parse(void) {
	reads("0", 0, 0, "");
	reads("1", 0, 0x10000, "");
	reads("4x", 0, 0x40000, "x");
	reads("0.5", 0, 0x8000, "");
	reads(".25", 0, 0x4000, "");
	reads("1.000", 0, 0x10000, "");
	reads("2.5,", 0, 0x28000, ",");
	reads("65535", 0, 0xffff0000, "");
	reads("65535.99999999999999", 0, 0xffffffff, "");
	reads("65536", ERANGE, 0, "");
	reads("99999999999999999999999", ERANGE, 0, "");
	reads("0.00001525878906250", 0, 1, "");
	reads("0.0000001", 0, 1, ""); /* 0 would be another thing than little */
	reads("0.00000000000001", 0, 1, "");
	reads("0.000000000000001", 0, 1, "");
	reads("0.000000000000000", 0, 0, "");
	reads("2.0000001", 0, 2 << 16, "");
	reads("0.00000", 0, 0, "");
	reads("0.500000000000000000000000000000001", 0, 0x8000, "");
	reads("", EINVAL, 0, "");
	reads(".", EINVAL, 0, "");
	reads("1.", EINVAL, 0, "");
	reads("-1", EINVAL, 0, "");
	reads("+1", EINVAL, 0, "");
	reads(" 1", EINVAL, 0, "");
	reads("x", EINVAL, 0, "");
	reads("1.x", EINVAL, 0, "");
	fxp_t out;
	is_int(fxp_parse(&out, "3", NULL), 0, "no end wanted");
}

static void
test_print(void) {
	prints(0, "0");
	prints(0x10000, "1");
	prints(0x4000, "0.25");
	prints(0x8000, "0.5");
	prints(FXP_INIT_INT(12) + 0x0ccd, "12.05");
	prints(FXP_MAX, "65535.99998");
	unsigned bad = 0;
	for (uint32_t frac = 0; frac < 0x10000; frac++) {
		char buf[FXP_BUF_SIZE];
		char *end;
		fxp_t back = 0;
		fxp_t x = (frac * 7919) << 16 | frac;
		fxp_print(buf, x);
		bad += wrong_if(fxp_parse(&back, buf, &end) != 0) || wrong_if(back != x)
		    || wrong_if(*end != '\0');
	}
	is_uint(bad, 0, "every fraction reads back");
}

static void
test_arithmetic(void) {
	is_uint(fxp_mul_frac(300, FXP_INIT_PERCENT(50)), 150, "half of a small number");
	is_uint(fxp_mul_frac(SIZE_MAX, FXP_INIT_INT(1)), SIZE_MAX, "all of a size");
	is_uint(fxp_mul_frac(SIZE_MAX, 0x8000), SIZE_MAX / 2, "half of the greatest size");
	uint64_t rng = 3;
	unsigned bad = 0;
	for (int i = 0; i < 100000; i++) {
		uint64_t x = prng_u64(&rng) >> draw_below(&rng, 64);
		fxp_t f = (fxp_t)draw_below(&rng, 0x10001);
		bad += fxp_mul_frac(x, f) != (uint64_t)(((unsigned __int128)x * f) >> 16);
	}
	is_uint(bad, 0, "random sizes and fractions");
}

int
main(void) {
	test_parse();
	test_print();
	test_arithmetic();
	return done_testing();
}
