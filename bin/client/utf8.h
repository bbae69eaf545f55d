/*
 * Characters of UTF-8 in texts of other processes: how long one is, and whether a terminal would
 * obey it (utf8_is_obeyed). No state and no locks. Used by bin/ctl (talk.c) and bin/agent (text.c,
 * pprof_frames.c). Not part of the interface of bin/client/, jeprof_client.h.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_BYTES = 4 }; /* of the longest character */

/*
 * Reads the character that begins at s, where `length` bytes (> 0) may be read. Returns its number
 * of bytes and sets *point to its code point; 0 (*point undefined): none is valid. A NUL is valid.
 */
static inline size_t
utf8_read(const unsigned char *s, size_t length, uint32_t *point) {
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3
	    : s[0] < 0xf5 ? 4 : 0;
	if (n > length) {
		return 0;
	}
	*point = n < 2 ? s[0] : s[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 0;
		}
		*point = *point << 6 | (s[i] & 0x3f);
	}
	return n < 2 || (*point >= least[n] && *point <= 0x10ffff
	    && (*point < 0xd800 || *point > 0xdfff)) ? n : 0;
}

/*
 * The length of the character at s in a text that ends with NUL: as above, 0 if it is not valid, 1
 * at the NUL. Nothing behind the NUL is read: it continues no character.
 */
static inline size_t
utf8_length(const unsigned char *s) {
	uint32_t point;
	return utf8_read(s, UTF8_BYTES, &point);
}

/*
 * Whether it is a control character, or one that embeds, overrides or isolates a direction of
 * writing. The marks U+061C, U+200E and U+200F do not count.
 */
static inline bool
utf8_is_obeyed(uint32_t point) {
	return point < 0x20 || (point >= 0x7f && point < 0xa0)
	    || (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}
