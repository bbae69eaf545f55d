/*
 * Reads lines, numbers, and words that the caller gives, from a text that is not NUL-terminated and
 * not trusted. Invariant: no byte at or after `end` is read; on success *at is after what was read,
 * on failure *at does not change, but the value of a number becomes 0. No locks, no state. Called
 * by pprof_parse.c, pprof_maps.c, pprof_labels.c and pprof_ages.c.
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

/* By character: the value of the hexadecimal digit plus 16; 0: it is none. */
static const uint8_t hex_digits[256] = {
    ['0'] = 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
    ['A'] = 26, 27, 28, 29, 30, 31,
    ['a'] = 26, 27, 28, 29, 30, 31,
};

bool
hex_read(const char **at, const char *end, uint64_t *value) {
	const char *start = *at, *c = start, *stop = end - start > 16 ? start + 16 : end;
	uint64_t sum = 0;
	for (uint8_t digit; c < stop && (digit = hex_digits[(unsigned char)*c]) != 0; c++) {
		sum = sum << 4 | (digit & 15u);
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
