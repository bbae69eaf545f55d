/*
 * Size classes: the usable sizes, called the ladder.
 * One ladder serves every page size: 8, then 16 to 64 in steps of 16, then four steps per doubling
 * up to 7 * 2^60. Only two properties depend on the page: classes below 4 pages are "small"
 * (regions of a slab), and a "page class" is a class that is a whole number of pages. Constant
 * data, so there is no lock. Most code uses it through sz.h; the fast path of malloc reads the
 * offsets of bins here.
 */
#pragma once

#include "util/compiler.h"
#include "util/bits.h"
#include "os/pages.h"

typedef unsigned szind_t;

/* Number of classes of the ladder, and log2 of the smallest one in bytes. */
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

/* Offset of the bin for a request of at most SC_LOOKUP_MAX bytes; 0 counts as 1. */
ALWAYS_INLINE size_t
sc_bin_offset(size_t size) {
	return sc_offset_tab[(size + 7) >> 3];
}

/* sc_bin_offset() for a request of last + 1 bytes; last < SC_LOOKUP_MAX. */
ALWAYS_INLINE size_t
sc_bin_offset_of_last(size_t last) {
	return sc_offset_tab[(last >> 3) + 1];
}

/*
 * What depends on the page size: small classes are those below 4 pages. A class above 64 bytes that
 * is 2^lg has the index 4 * (lg - 6) + 4 (four classes in each doubling). Page classes are 1, 2, 3
 * and 4 pages, then every class above: below 4 pages the other steps of the ladder are not whole
 * pages, from there on a quarter step is.
 */
#define SC_LARGE_MINCLASS ((size_t)4 << LG_PAGE)
#define SC_SMALL_MAXCLASS ((size_t)7 << (LG_PAGE - 1))
/* number of small classes, which are 0 .. SC_NBINS - 1; also the class of 4 pages */
#define SC_NBINS SC_NBINS_OF(LG_PAGE)
#define SC_NBINS_OF(lg) (4 * ((lg) + 2 - 6) + 4)
/* number of page classes, and an upper bound of it for all page sizes (199 with 4 KiB pages) */
#define SC_NPSIZES SC_NPSIZES_OF(LG_PAGE)
#define SC_NPSIZES_OF(lg) (4 + (SC_NSIZES - 1 - SC_NBINS_OF(lg)))
#define SC_NPSIZES_MAX 200u
cassert(SC_NBINS_OF(LG_PAGE_MAX) <= SC_SMALL_MAXCLASS_LIMIT_NBINS);
cassert(SC_NPSIZES_OF(LG_PAGE_MIN) <= SC_NPSIZES_MAX);

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

/* sc_bin_offset() for any size of a class that has a bin. */
static inline size_t
sc_bin_offset_compute(size_t size) {
	return (size_t)(sc_index_compute(size) + 1) << SC_LG_BIN_STRIDE;
}
