/*
 * Reads and prints unsigned numbers in 16.16 fixed point.
 * Both directions round to nearest, and printing chooses the fewest decimals that read back as the
 * same number, so a printed option can be set again unchanged. What is above 0 does not become 0,
 * which may mean "no limit". Pure functions without a lock.
 * Parsing is called by conf_store.c and prof_session.c, printing by stats.c and prof_request.c.
 */
#include "util/fxp.h"

#include "util/fmt.h"

/* Decimals that are read; more would overflow the 64-bit product in fxp_parse_frac(). */
#define FXP_FRAC_DIGITS_READ 14

static bool
is_digit(char c) {
	return c >= '0' && c <= '9';
}

/*
 * Reads the digits behind the point as a fraction of 2^16, rounded to nearest (so it may be 2^16);
 * `least` instead of 0 if a digit is not 0. Moves *s behind the digits.
 */
static uint32_t
fxp_parse_frac(const char **s, uint32_t least) {
	uint64_t num = 0;
	uint64_t den = 1;
	unsigned n = 0;
	bool is_zero = true;
	for (; is_digit(**s); (*s)++) {
		is_zero = is_zero && **s == '0';
		if (n < FXP_FRAC_DIGITS_READ) {
			num = num * 10 + (uint64_t)(**s - '0');
			den *= 10;
			n++;
		}
	}
	/* num < den <= 10^14 < 2^47: the shifted product stays below 2^63. */
	uint32_t frac = (uint32_t)(((num << 16) + den / 2) / den);
	return frac == 0 && !is_zero ? least : frac;
}

int
fxp_parse(fxp_t *out, const char *s, char **end) {
	if (!is_digit(*s) && *s != '.') {
		return EINVAL;
	}
	uint32_t whole = 0;
	for (; is_digit(*s); s++) {
		whole = whole * 10 + (uint32_t)(*s - '0');
		if (whole > 0xffff) {
			return ERANGE;
		}
	}
	uint64_t value = (uint64_t)whole << 16;
	if (*s == '.') {
		s++;
		if (!is_digit(*s)) {
			return EINVAL;
		}
		value += fxp_parse_frac(&s, whole == 0 ? 1 : 0);
	}
	/* Inputs such as 65535.99999999 are in range but would round up to 2^32. */
	*out = value > FXP_MAX ? FXP_MAX : (fxp_t)value;
	if (end != NULL) {
		*end = (char *)(uintptr_t)s;
	}
	return 0;
}

/*
 * Returns the fewest decimals with which frac reads back as itself, and their value in *r_num. Five
 * are always enough, since 10^-5 < 2^-16.
 */
static unsigned
fxp_decimals(uint32_t frac, uint32_t *r_num) {
	uint32_t den = 1;
	for (unsigned n = 0;; n++) {
		uint32_t num = (uint32_t)(((uint64_t)frac * den + 0x8000) >> 16);
		uint32_t back = (uint32_t)((((uint64_t)num << 16) + den / 2) / den);
		if (back == frac && num < den) {
			*r_num = num;
			return n;
		}
		assert(n < 5);
		den *= 10;
	}
}

size_t
fxp_print(char buf[FXP_BUF_SIZE], fxp_t x) {
	uint32_t num;
	unsigned decimals = fxp_decimals(x & 0xffff, &num);
	int n = decimals == 0
	    ? fmt_snprintf(buf, FXP_BUF_SIZE, "%u", (unsigned)(x >> 16))
	    : fmt_snprintf(buf, FXP_BUF_SIZE, "%u.%0*u", (unsigned)(x >> 16), (int)decimals,
	    (unsigned)num);
	assert(n > 0 && n < FXP_BUF_SIZE);
	return (size_t)n;
}
