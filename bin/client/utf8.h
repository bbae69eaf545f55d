/*
 * What a byte of UTF-8 belongs to, for texts of other processes. No state and no locks. Used by
 * bin/ctl (talk.c) and bin/agent (text.c). Not part of jeprof_client.h.
 */
#pragma once
#include <stddef.h>

/* Bytes of the character that begins here; 0 if there is no valid one. The text ends with NUL. */
static inline size_t
utf8_length(const unsigned char *s) {
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
	    : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : 0;
	if (n < 2) {
		return n;
	}
	unsigned code = s[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) {
			return 0;
		}
		code = code << 6 | (s[i] & 0x3f);
	}
	return code >= least[n] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? n : 0;
}
