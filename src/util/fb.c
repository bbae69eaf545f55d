/*
 * Searches and range operations on flat bitmaps; the header describes the representation.
 * A search for zeros is a search for ones on complemented words: the argument flip is all ones for
 * a search for zeros and 0 for a search for ones. All functions are pure operations on the caller's
 * words, whose owner holds the lock. Called by arena/slab (free regions) and extent/eset (non-empty
 * size classes).
 */
#include "util/fb.h"

#define FB_ALL (~(fb_word_t)0)

/* A mask of the bits at positions >= bit; bit < 64. */
static fb_word_t
fb_mask_from(size_t bit) {
	return FB_ALL << bit;
}

/* A mask of the bits at positions < bit; 1 <= bit <= 64. */
static fb_word_t
fb_mask_below(size_t bit) {
	return FB_ALL >> (FB_WORD_BITS - bit);
}

/* First position >= start whose bit differs from flip's, or -1. */
ALWAYS_INLINE ssize_t
fb_find(const fb_word_t *fb, size_t nbits, size_t start, fb_word_t flip) {
	assert(start <= nbits);
	if (start >= nbits) {
		return -1;
	}
	size_t nwords = FB_NWORDS(nbits);
	size_t i = start / FB_WORD_BITS;
	fb_word_t word = (fb[i] ^ flip) & fb_mask_from(start % FB_WORD_BITS);
	while (word == 0) {
		if (++i == nwords) {
			return -1;
		}
		word = fb[i] ^ flip;
	}
	size_t pos = i * FB_WORD_BITS + ctz64(word);
	/* The unused bits of the last word are zero, so a search for zeros may find one of them. */
	return pos < nbits ? (ssize_t)pos : -1;
}

/* Last position < before whose bit differs from flip's, or -1. */
ALWAYS_INLINE ssize_t
fb_find_before(const fb_word_t *fb, size_t nbits UNUSED, size_t before, fb_word_t flip) {
	assert(before <= nbits);
	if (before == 0) {
		return -1;
	}
	size_t i = (before - 1) / FB_WORD_BITS;
	fb_word_t word = (fb[i] ^ flip) & fb_mask_below(before - i * FB_WORD_BITS);
	while (word == 0) {
		if (i-- == 0) {
			return -1;
		}
		word = fb[i] ^ flip;
	}
	return (ssize_t)(i * FB_WORD_BITS + (FB_WORD_BITS - 1 - clz64(word)));
}

ssize_t
fb_first_set(const fb_word_t *fb, size_t nbits, size_t start) {
	return fb_find(fb, nbits, start, 0);
}

ssize_t
fb_first_unset(const fb_word_t *fb, size_t nbits, size_t start) {
	return fb_find(fb, nbits, start, FB_ALL);
}

ssize_t
fb_last_set_before(const fb_word_t *fb, size_t nbits, size_t before) {
	return fb_find_before(fb, nbits, before, 0);
}

ssize_t
fb_last_unset_before(const fb_word_t *fb, size_t nbits, size_t before) {
	return fb_find_before(fb, nbits, before, FB_ALL);
}

/* The part of [start, end) that lies in word i, as a mask of that word. */
static fb_word_t
fb_part(size_t i, size_t start, size_t end) {
	size_t base = i * FB_WORD_BITS;
	size_t lo = start > base ? start - base : 0;
	size_t hi = min_zu(end - base, FB_WORD_BITS);
	assert(lo < hi);
	return fb_mask_from(lo) & fb_mask_below(hi);
}

void
fb_set_range(fb_word_t *fb, size_t nbits UNUSED, size_t start, size_t len) {
	assert(start <= nbits && len <= nbits - start);
	size_t end = start + len;
	for (size_t i = start / FB_WORD_BITS; i * FB_WORD_BITS < end && len > 0; i++) {
		fb[i] |= fb_part(i, start, end);
	}
}

void
fb_unset_range(fb_word_t *fb, size_t nbits UNUSED, size_t start, size_t len) {
	assert(start <= nbits && len <= nbits - start);
	size_t end = start + len;
	for (size_t i = start / FB_WORD_BITS; i * FB_WORD_BITS < end && len > 0; i++) {
		fb[i] &= ~fb_part(i, start, end);
	}
}

size_t
fb_scount(const fb_word_t *fb, size_t nbits UNUSED, size_t start, size_t len) {
	assert(start <= nbits && len <= nbits - start);
	size_t end = start + len;
	size_t count = 0;
	for (size_t i = start / FB_WORD_BITS; i * FB_WORD_BITS < end && len > 0; i++) {
		count += popcount_zu(fb[i] & fb_part(i, start, end));
	}
	return count;
}

size_t
fb_ucount(const fb_word_t *fb, size_t nbits, size_t start, size_t len) {
	return len - fb_scount(fb, nbits, start, len);
}

/* The first maximal run at or after start; see fb_has_srange() in the header. */
ALWAYS_INLINE bool
fb_find_run(const fb_word_t *fb, size_t nbits, size_t start, size_t *begin, size_t *len,
    fb_word_t flip) {
	ssize_t first = fb_find(fb, nbits, start, flip);
	if (first < 0) {
		return false;
	}
	ssize_t stop = fb_find(fb, nbits, (size_t)first, ~flip);
	*begin = (size_t)first;
	*len = (stop < 0 ? nbits : (size_t)stop) - (size_t)first;
	return true;
}

bool
fb_has_srange(const fb_word_t *fb, size_t nbits, size_t start, size_t *begin, size_t *len) {
	return fb_find_run(fb, nbits, start, begin, len, 0);
}

bool
fb_has_urange(const fb_word_t *fb, size_t nbits, size_t start, size_t *begin, size_t *len) {
	return fb_find_run(fb, nbits, start, begin, len, FB_ALL);
}

ALWAYS_INLINE size_t
fb_longest(const fb_word_t *fb, size_t nbits, fb_word_t flip) {
	size_t longest = 0;
	size_t begin = 0;
	size_t len = 0;
	for (size_t at = 0; fb_find_run(fb, nbits, at, &begin, &len, flip); at = begin + len) {
		longest = max_zu(longest, len);
	}
	return longest;
}

size_t
fb_srange_longest(const fb_word_t *fb, size_t nbits) {
	return fb_longest(fb, nbits, 0);
}

size_t
fb_urange_longest(const fb_word_t *fb, size_t nbits) {
	return fb_longest(fb, nbits, FB_ALL);
}
