/*
 * Text from numbers and numbers from text, without libc's locale, locks or allocation.  Keeps no state
 * and leaves errno alone, so that it may be used anywhere in the allocator.
 */
#ifndef UTIL_FMT_H
#define UTIL_FMT_H

#include "util/compiler.h"

/* Room for any uint64_t in decimal or hexadecimal with a sign and a final NUL. */
#define FMT_U64_BUF 24

/*
 * A subset of printf: %s %c %d %i %u %o %x %X %p %%, modifiers hh h l ll q j z t, flags - 0 + space #,
 * width and precision as digits or *.  A NULL string prints "(null)", a NULL pointer "0x0".
 * Writes at most size bytes, the last one NUL (nothing when size is 0); returns the length of the
 * whole text.  An unknown conversion is copied as it stands.
 */
int fmt_vsnprintf(char *buf, size_t size, const char *f, va_list ap) PRINTF_FMT(3, 0);
int fmt_snprintf(char *buf, size_t size, const char *f, ...) PRINTF_FMT(3, 4);

/* Digits of v ending directly before end, not terminated; returns the first one. */
char *fmt_u64_dec(char *end, uint64_t v);
char *fmt_u64_hex(char *end, uint64_t v);

/*
 * scaled / 10^decimals with that many decimals (at most 18), NUL terminated: (1234, 3) is "1.234".
 * Writes at most size bytes; returns buf.
 */
char *fmt_fixed(char *buf, size_t size, uint64_t scaled, unsigned decimals);

/*
 * Leading blanks, one optional sign, then digits in base 2..36; base 0 takes 0x, 0 or nothing as the
 * mark of 16, 8, 10.  A minus negates modulo 2^64.  *end (may be NULL) is the first byte not used, s
 * when there are no digits.  *err: 0, EINVAL (no digits, bad base), ERANGE (result UINTMAX_MAX).
 */
uintmax_t fmt_parse_uint(const char *s, char **end, int base, int *err);

#endif /* UTIL_FMT_H */
