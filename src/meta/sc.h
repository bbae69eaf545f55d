/*
 * Size classes: the usable sizes, called the ladder.
 * One ladder serves every page size: 8, then 16 to 64 in steps of 16, then four steps per doubling
 * up to 7 * 2^60. Only two properties depend on the page: classes below 4 pages are "small"
 * (regions of a slab), and a "page class" is a class that is a whole number of pages. sc_boot()
 * computes both once, before any allocation; the data is read-only afterwards, so there is no lock.
 * sz.h is built on it.
 */
#ifndef META_SC_H
#define META_SC_H

#include "util/compiler.h"
#include "util/bits.h"
#include "os/pages.h"

typedef unsigned szind_t;

/* Number of classes of the ladder. */
#define SC_NSIZES 232u
#define SC_LG_TINY 3
/* Number of small classes with 64 KiB pages, the greatest of any page size. */
#define SC_SMALL_MAXCLASS_LIMIT_NBINS 52u
#define SC_LARGE_MAXCLASS ((size_t)7 << 60)
/* Sizes up to this many bytes are classified by a table. */
#define SC_LOOKUP_MAX ((size_t)4096)

/* Usable size of each class in bytes. */
extern HIDDEN const size_t sc_size_tab[SC_NSIZES];
/*
 * Maps (size + 7) / 8 to (class + 1) * SC_BIN_STRIDE: the byte offset of the class's bin in a
 * thread cache, in which slot 0 is unused.
 */
#define SC_LG_BIN_STRIDE 5
#define SC_BIN_STRIDE (1u << SC_LG_BIN_STRIDE)
extern HIDDEN const uint16_t sc_offset_tab[SC_LOOKUP_MAX / 8 + 1];

/* Offset of the bin for a request of at most SC_LOOKUP_MAX bytes. */
ALWAYS_INLINE size_t
sc_bin_offset(size_t size) {
	return sc_offset_tab[(size + 7) >> 3];
}

/* sc_bin_offset() for a request of last + 1 bytes. */
ALWAYS_INLINE size_t
sc_bin_offset_of_last(size_t last) {
	return sc_offset_tab[(last >> 3) + 1];
}

/* The values that depend on the page size. */
typedef struct sc_cuts_s {
	unsigned nbins;      /* number of small classes, which are 0 .. nbins-1 */
	unsigned npsizes;    /* number of page classes */
	szind_t first_psize; /* the class that is exactly one page */
	size_t small_max;    /* size of the largest small class */
	size_t large_min;    /* size of the smallest large class: 4 pages */
} sc_cuts_t;

extern HIDDEN sc_cuts_t sc_cuts;

#define SC_NBINS (sc_cuts.nbins)
#define SC_NPSIZES (sc_cuts.npsizes)
/* The greatest number of page classes of any page size (4 KiB pages). */
#define SC_NPSIZES_MAX 200u
#define SC_SMALL_MAXCLASS (sc_cuts.small_max)
#define SC_LARGE_MINCLASS (sc_cuts.large_min)

/* Fills in sc_cuts from the page size. */
void sc_boot(void);

/* Class of a size; also correct for sizes for which there is a table. size <= SC_LARGE_MAXCLASS. */
static inline szind_t
sc_index_compute(size_t size) {
	if (size <= 8) {
		return 0;
	}
	if (size <= 64) {
		return (szind_t)((size + 15) >> 4);
	}
	unsigned lg = lg_floor_zu(size - 1); /* size is in (2^lg, 2^(lg+1)] */
	unsigned step = (unsigned)((size - 1) >> (lg - 2)) & 3u;
	return (lg - 6) * 4 + 5 + step;
}

#endif
