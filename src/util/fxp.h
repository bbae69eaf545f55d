/*
 * Unsigned fixed point numbers, 16 bits before and 16 behind the point, for options that are ratios.
 */
#ifndef UTIL_FXP_H
#define UTIL_FXP_H

#include "util/compiler.h"

typedef uint32_t fxp_t;

#define FXP_INIT_INT(x) ((fxp_t)(x) << 16)
/* p percent, rounded down. */
#define FXP_INIT_PERCENT(p) ((fxp_t)(((uint64_t)(p) << 16) / 100))
#define FXP_MAX UINT32_MAX

/* Room for any printed fxp_t. */
#define FXP_BUF_SIZE 16

/*
 * Reads digits[.digits] or .digits; at least one digit behind a point.  Digits past the 14th behind
 * the point do not count.  Returns 0, EINVAL (no number here) or ERANGE (not below 65536); *out is
 * set and *end (may be NULL) points behind the number only on success.
 */
int fxp_parse(fxp_t *out, const char *s, char **end);

/* The shortest decimal that reads back as x ("0.25", "4"); NUL terminated; returns its length. */
size_t fxp_print(char buf[FXP_BUF_SIZE], fxp_t x);

ALWAYS_INLINE fxp_t
fxp_mul(fxp_t a, fxp_t b) {
	return (fxp_t)(((uint64_t)a * b) >> 16);
}

/* Nearest integer, halves up, and the integer part. */
ALWAYS_INLINE uint32_t
fxp_round_nearest(fxp_t a) {
	return (uint32_t)(((uint64_t)a + 0x8000) >> 16);
}

ALWAYS_INLINE uint32_t
fxp_round_down(fxp_t a) {
	return a >> 16;
}

/* floor(x * frac), for frac <= 1 and any x; for greater factors while the result fits. */
ALWAYS_INLINE size_t
fxp_mul_frac(size_t x, fxp_t frac) {
	return (x >> 16) * frac + (((x & 0xffff) * frac) >> 16);
}

#endif /* UTIL_FXP_H */
