/*
 * The search in a flat bitmap; fb.h describes the representation. It relies on the bits of the last
 * word at and beyond nbits being zero, and so never returns such a position. It only reads; whoever
 * owns the words holds a lock of its own. Called by extent/eset.c, also through fb_is_empty().
 */
#include "util/fb.h"

#define FB_ALL (~(fb_word_t)0)

/* A mask of the bits at positions >= bit; bit < 64. */
static fb_word_t
fb_mask_from(size_t bit) {
	return FB_ALL << bit;
}

ssize_t
fb_first_set(const fb_word_t *fb, size_t nbits, size_t start) {
	assert(start <= nbits);
	if (start >= nbits) {
		return -1;
	}
	size_t nwords = FB_NWORDS(nbits);
	size_t i = start / FB_WORD_BITS;
	fb_word_t word = fb[i] & fb_mask_from(start % FB_WORD_BITS);
	while (word == 0) {
		if (++i == nwords) {
			return -1;
		}
		word = fb[i];
	}
	size_t pos = i * FB_WORD_BITS + ctz64(word);
	assert(pos < nbits);
	return (ssize_t)pos;
}
