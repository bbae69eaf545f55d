/*
 * Size classes of recycled memory, two for each doubling: class 2k is 2^(k+4) bytes, class 2k+1 one
 * and a half times that; class 1, 24 bytes, is not used, so each is a multiple of 16. Pure
 * functions, no lock. Used by freepool, region and recs.
 */
#pragma once

#include "util/bits.h"
#include "util/compiler.h"

/* log2 of the smallest class in bytes. */
#define META_LG_MIN 4u
/* Number of classes up to 2^lg bytes, class 1 included. */
#define META_NCLASSES(lg) (2 * ((lg) - META_LG_MIN) + 1)

/* The first word of a freed piece: the next one in the list of its class. */
typedef struct meta_piece_s {
	struct meta_piece_s *next;
} meta_piece_t;

/* The smallest class that holds `size` bytes. */
static inline unsigned
meta_class(size_t size) {
	if (size <= ((size_t)1 << META_LG_MIN)) {
		return 0;
	}
	unsigned lg = lg_floor_zu(size - 1); /* size is in (2^lg, 2^(lg+1)] */
	size_t mid = (size_t)3 << (lg - 1);
	return 2 * (lg - META_LG_MIN) + (size <= mid && lg > META_LG_MIN ? 1 : 2);
}

static inline size_t
meta_class_size(unsigned c) {
	size_t low = (size_t)1 << (c / 2 + META_LG_MIN);
	return (c & 1) == 0 ? low : low + low / 2;
}
