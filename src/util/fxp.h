/*
 * Unsigned fixed-point numbers with 16 bits before and 16 bits behind the point.
 * Options that are ratios or percentages have this type; a value that was printed can be read back
 * without change. Pure functions; no state and no lock.
 */
#pragma once

#include "util/compiler.h"

typedef uint32_t fxp_t;

/* The number x, which is below 65536. */
#define FXP_INIT_INT(x) ((fxp_t)(x) << 16)
/* p percent, rounded down to a multiple of 2^-16. */
#define FXP_INIT_PERCENT(p) ((fxp_t)(((uint64_t)(p) << 16) / 100))
#define FXP_MAX UINT32_MAX

/* Bytes for any printed fxp_t with the NUL. */
#define FXP_BUF_SIZE 16

/*
 * Parses digits[.digits] or .digits ("5." is EINVAL), rounded to the nearest multiple of 2^-16, but
 * at most FXP_MAX, and 2^-16 for a number between 0 and that. Behind the point 14 digits count, and
 * more are skipped; what follows the number is not looked at. Returns 0, EINVAL (not a number) or
 * ERANGE (65536 or more before rounding). On success only, *out is set and *end (end may be NULL)
 * points behind the number.
 */
int fxp_parse(fxp_t *out, const char *s, char **end);

/*
 * Prints the shortest decimal that reads back as x ("0.25", "4"), NUL terminated. Returns its
 * length.
 */
size_t fxp_print(char buf[FXP_BUF_SIZE], fxp_t x);

/* floor(x * frac) for frac <= 1 and any x; for a greater frac as long as the result fits. */
ALWAYS_INLINE size_t
fxp_mul_frac(size_t x, fxp_t frac) {
	return (x >> 16) * frac + (((x & 0xffff) * frac) >> 16);
}
