/*
 * Flat bitmap: nbits bits in an array of words, bit i at word i / 64, position i % 64.  Bits of the
 * last word at and past nbits stay zero.  No state of its own; the owner's lock protects the words.
 * Searches return a position or -1, counts and runs are plain numbers.
 */
#ifndef UTIL_FB_H
#define UTIL_FB_H

#include "util/assert.h"
#include "util/bits.h"
#include "util/compiler.h"

typedef uint64_t fb_word_t;

#define FB_WORD_BITS 64
#define FB_NWORDS(nbits) (((nbits) + FB_WORD_BITS - 1) / FB_WORD_BITS)

/* All bits zero. */
static inline void
fb_init(fb_word_t *fb, size_t nbits) {
	memset(fb, 0, FB_NWORDS(nbits) * sizeof(fb_word_t));
}

ALWAYS_INLINE bool
fb_get(const fb_word_t *fb, size_t nbits UNUSED, size_t bit) {
	assert(bit < nbits);
	return ((fb[bit / FB_WORD_BITS] >> (bit % FB_WORD_BITS)) & 1) != 0;
}

ALWAYS_INLINE void
fb_set(fb_word_t *fb, size_t nbits UNUSED, size_t bit) {
	assert(bit < nbits);
	fb[bit / FB_WORD_BITS] |= (fb_word_t)1 << (bit % FB_WORD_BITS);
}

ALWAYS_INLINE void
fb_unset(fb_word_t *fb, size_t nbits UNUSED, size_t bit) {
	assert(bit < nbits);
	fb[bit / FB_WORD_BITS] &= ~((fb_word_t)1 << (bit % FB_WORD_BITS));
}

/* First position >= start whose bit is one (zero for unset); start may be nbits. */
ssize_t fb_first_set(const fb_word_t *fb, size_t nbits, size_t start);
ssize_t fb_first_unset(const fb_word_t *fb, size_t nbits, size_t start);

/* Last position < before whose bit is one (zero for unset); before <= nbits. */
ssize_t fb_last_set_before(const fb_word_t *fb, size_t nbits, size_t before);
ssize_t fb_last_unset_before(const fb_word_t *fb, size_t nbits, size_t before);

/* All of [start, start + len) become one or zero. */
void fb_set_range(fb_word_t *fb, size_t nbits, size_t start, size_t len);
void fb_unset_range(fb_word_t *fb, size_t nbits, size_t start, size_t len);

/* Number of ones (scount) or zeros (ucount) in [start, start + len). */
size_t fb_scount(const fb_word_t *fb, size_t nbits, size_t start, size_t len);
size_t fb_ucount(const fb_word_t *fb, size_t nbits, size_t start, size_t len);

/*
 * The first maximal run of ones (srange) or zeros (urange) at or after start, cut off at start if it
 * began earlier.  false when there is none; else *begin and *len are set.
 */
bool fb_has_srange(const fb_word_t *fb, size_t nbits, size_t start, size_t *begin, size_t *len);
bool fb_has_urange(const fb_word_t *fb, size_t nbits, size_t start, size_t *begin, size_t *len);

/* Length of the longest run of ones or zeros. */
size_t fb_srange_longest(const fb_word_t *fb, size_t nbits);
size_t fb_urange_longest(const fb_word_t *fb, size_t nbits);

static inline bool
fb_is_empty(const fb_word_t *fb, size_t nbits) {
	return fb_first_set(fb, nbits, 0) < 0;
}

static inline bool
fb_is_full(const fb_word_t *fb, size_t nbits) {
	return fb_first_unset(fb, nbits, 0) < 0;
}

#endif /* UTIL_FB_H */
