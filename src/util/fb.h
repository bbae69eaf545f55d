/*
 * Flat bitmap (of one level): nbits bits in an array of 64-bit words; bit i is in word i / 64 at
 * position i % 64. Invariant: the bits of the last word that stand for positions from nbits on are
 * zero. The bitmap is an array of the caller, whose lock protects it. A search returns a position,
 * or -1 if there is none. extent/eset calls the functions, arena/ only fb_get(); arena/, hpa/hslab
 * and icheck.c also use fb_word_t, FB_WORD_BITS and FB_NWORDS.
 */
#pragma once

#include "util/bits.h"
#include "util/compiler.h"

typedef uint64_t fb_word_t;

#define FB_WORD_BITS 64
/* Words of a bitmap of nbits bits. */
#define FB_NWORDS(nbits) (((nbits) + FB_WORD_BITS - 1) / FB_WORD_BITS)

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

/* First position >= start whose bit is one. start may be nbits. */
ssize_t fb_first_set(const fb_word_t *fb, size_t nbits, size_t start);

static inline bool
fb_is_empty(const fb_word_t *fb, size_t nbits) {
	return fb_first_set(fb, nbits, 0) < 0;
}
