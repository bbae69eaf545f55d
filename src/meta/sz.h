/*
 * Computes usable sizes and classes of requests.
 * Up to tcache_max (by default 4 MiB), and at least up to 8 pages, the usable size is a step of the
 * ladder (sc.h). Above, by default, it is the request rounded up to whole pages; the class of such
 * a size is the ladder step to which it would have been rounded. Valid after sz_boot(), which runs
 * before any allocation; no lock. Called by all code that has to do with sizes of requests.
 */
#pragma once

#include "meta/sc.h"

/*
 * true (default): sizes above sz_ladder_max are rounded to pages only; false: to ladder steps at
 * all sizes.
 */
extern HIDDEN bool opt_disable_large_size_classes;

/* Largest size in bytes that is rounded to a ladder step. */
extern HIDDEN size_t sz_ladder_max;

/* Sets sz_ladder_max. tcache_max is the largest size in bytes that thread caches may hold. */
void sz_boot(size_t tcache_max);

/* Class of a request of size bytes; SC_NSIZES if size > SC_LARGE_MAXCLASS. */
static inline szind_t
sz_s2i(size_t size) {
	if (likely(size <= SC_LOOKUP_MAX)) {
		return (szind_t)(sc_bin_offset(size) >> SC_LG_BIN_STRIDE) - 1;
	}
	if (unlikely(size > SC_LARGE_MAXCLASS)) {
		return SC_NSIZES;
	}
	return sc_index_compute(size);
}

/* Size of a class of the ladder in bytes. */
static inline size_t
sz_i2s(szind_t ind) {
	assert(ind < SC_NSIZES);
	return sc_size_tab[ind];
}

/* Usable size of a request; 0 if it is too large. A size of 0 counts as 1. */
static inline size_t
sz_s2u(size_t size) {
	if (likely(size <= sz_ladder_max)) {
		return sz_i2s(sz_s2i(size));
	}
	if (unlikely(size > SC_LARGE_MAXCLASS)) {
		return 0;
	}
	return PAGE_CEILING(size);
}

/*
 * Usable size of a request with an alignment (a power of two), above a page at least four pages; 0
 * if size or alignment is too large. A size of 0 counts as 1.
 */
size_t sz_sa2u(size_t size, size_t alignment);

/*
 * Page classes are the classes that are a whole number of pages; they have numbers of their own,
 * `pind`, from 0 (one page). sz_psz2ind() rounds a size up to a page class (SC_NPSIZES if it is too
 * large), sz_psz_floor() rounds down; both expect bytes, a multiple of the page. sz_class2pind()
 * converts a class number above that of the smallest large class.
 */
static inline unsigned
sz_class2pind(szind_t ind) {
	assert(ind > SC_NBINS);
	return ind - SC_NBINS + 3;
}

static inline size_t
sz_pind2sz(unsigned pind) {
	assert(pind < SC_NPSIZES);
	return pind < 4 ? (size_t)(pind + 1) << LG_PAGE : sz_i2s(SC_NBINS + pind - 3);
}

static inline unsigned
sz_psz2ind(size_t psz) {
	assert(psz != 0 && (psz & PAGE_MASK) == 0);
	if (psz <= SC_LARGE_MINCLASS) {
		return (unsigned)(psz >> LG_PAGE) - 1;
	}
	szind_t ind = sz_s2i(psz);
	return ind == SC_NSIZES ? SC_NPSIZES : sz_class2pind(ind);
}

/* From four pages on, page classes are quarters of a power of two, as all classes are. */
static inline unsigned
sz_psz_floor(size_t psz) {
	size_t npages = psz >> LG_PAGE;
	assert(npages != 0 && (psz & PAGE_MASK) == 0);
	if (npages < 4) {
		return (unsigned)npages - 1;
	}
	unsigned lg = lg_floor_zu(npages);
	unsigned pind = (lg - 2) * 4 + ((unsigned)(npages >> (lg - 2)) & 3u) + 3;
	assert(pind < SC_NPSIZES && sz_pind2sz(pind) <= psz);
	assert(pind + 1 == SC_NPSIZES || sz_pind2sz(pind + 1) > psz);
	return pind;
}
