/*
 * Lines, numbers and words of a text that need not end in a NUL and need not be what it seems.
 * Invariant: nothing is read at or behind `end`; on failure *at stays. No locks, no state. Called by
 * pprof_parse.c and pprof_maps.c.
 */
#include <string.h>

#include "pprof_own.h"

bool
line_next(lines_t *l, const char **line, size_t *len) {
	if (l->at >= l->end) {
		return false;
	}
	const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
	*line = l->at;
	*len = (size_t)((stop != NULL ? stop : l->end) - l->at);
	l->at = stop != NULL ? stop + 1 : l->end;
	return true;
}

static unsigned
hex_digit(char c) {
	if (c >= '0' && c <= '9') {
		return (unsigned)(c - '0');
	}
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

bool
hex_read(const char **at, const char *end, uint64_t *value) {
	const char *start = *at, *c = start;
	uint64_t sum = 0;
	for (unsigned digit; c < end && c - start < 16 && (digit = hex_digit(*c)) < 16; c++) {
		sum = sum << 4 | digit;
	}
	*value = sum;
	*at = c;
	return c > start;
}

bool
dec_read(const char **at, const char *end, uint64_t *value) {
	const char *start = *at, *c = start;
	uint64_t sum = 0;
	bool is_large = false;
	for (; c < end && c - start < 20 && *c >= '0' && *c <= '9'; c++) {
		is_large |= __builtin_mul_overflow(sum, 10u, &sum);
		is_large |= __builtin_add_overflow(sum, (unsigned)(*c - '0'), &sum);
	}
	*value = is_large ? UINT64_MAX : sum;
	*at = c;
	return c > start;
}

bool
word_read(const char **at, const char *end, const char *word) {
	size_t len = strlen(word);
	if ((size_t)(end - *at) < len || memcmp(*at, word, len) != 0) {
		return false;
	}
	*at += len;
	return true;
}
