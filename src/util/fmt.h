/*
 * Formats text with numbers and parses numbers, in place of libc's printf and strtol.
 * libc's versions use the locale, take locks and may allocate. These keep no state, take no lock
 * and leave errno unchanged, so they may be called anywhere in the allocator, also from a signal
 * handler. Called for messages, statistics, options and dump files.
 */
#pragma once

#include "util/compiler.h"

/* Bytes of a buffer that has room for any uint64_t in decimal or hexadecimal, a sign and a NUL. */
#define FMT_U64_BUF 24

/*
 * What the library uses of printf (test/unit/formats.t): %s %c %d %u %x %p %%, the modifiers ll and
 * z, the flag '0' for numbers, a width as digits or '*', a precision ".*" for strings. A NULL
 * string prints "(null)", a NULL pointer "0x0". An unknown conversion, or a '%' at the end, is
 * copied to the text, and takes no argument but one for each '*' in it.
 * Writes at most size bytes including the final NUL (nothing if size is 0). Returns the length of
 * the whole text without the NUL, also when it did not fit, but at most INT_MAX.
 */
int fmt_vsnprintf(char *buf, size_t size, const char *f, va_list ap) PRINTF_FMT(3, 0);
int fmt_snprintf(char *buf, size_t size, const char *f, ...) PRINTF_FMT(3, 4);

/*
 * Write the digits of v so that they end directly before end; return the address of the first one.
 * There is no prefix and no NUL; hexadecimal digits are in lower case. At most 20 bytes before end
 * are written, in hexadecimal 16.
 */
char *fmt_u64_dec(char *end, uint64_t v);
char *fmt_u64_hex(char *end, uint64_t v);

/*
 * Parses leading blanks (as of isspace() in the C locale), an optional sign, then digits in base 2
 * to 36. Base 0 means: 16 after "0x" or "0X", 8 after "0", otherwise 10. Base 16 skips "0x" and
 * "0X" too. In "0x" without a hexadecimal digit behind it the number is 0, and *end is the address
 * of the x. A minus sign negates modulo 2^64.
 * *err becomes 0; or EINVAL: no digits, or a bad base, and the result is 0; or ERANGE: the digits
 * are more than 64 bits hold, and the result is UINTMAX_MAX, whatever the sign. If end is not NULL,
 * *end becomes the address of the first byte that was not used; with EINVAL that is s.
 */
uintmax_t fmt_parse_uint(const char *s, char **end, int base, int *err);

/*
 * Parses the len bytes at s, all of them decimal digits, without sign or blank; what follows them
 * is no digit. 0; EINVAL, also if len is 0; ERANGE: they are more than 64 bits hold.
 */
int fmt_parse_digits(const char *s, size_t len, uint64_t *n);

/* Multiplies *n by what the unit K, M or G stands for (2^10, 2^20, 2^30). 0, EINVAL or ERANGE. */
int fmt_apply_unit(uint64_t *n, char unit);

/*
 * Parses a percentage, which is all of the len bytes at s: a decimal number from 1 to 100, with or
 * without leading zeros, then '%'. Returns the number; 0: the bytes are anything else.
 */
uint32_t fmt_parse_percent(const char *s, size_t len);

/* Whether the len bytes at s are this word. */
bool fmt_is_word(const char *s, size_t len, const char *word);
/* Which of the words, which end with NULL, the len bytes at s are; -1: none. */
int fmt_find_word(const char *const words[], const char *s, size_t len);

/*
 * Length of the well-formed UTF-8 sequence of two or more bytes at s (Unicode, table 3-7); 0: there
 * is none. Reads no further than a NUL.
 */
size_t fmt_utf8_len(const char *s);
