/*
 * The parts of size arithmetic that are not inlined: boot and aligned sizes.
 * sz.h has the contract. Invariant: every usable size that sz_sa2u() returns can be placed at the
 * wanted alignment. No lock; sz_boot() runs before any allocation. sz_boot() is called by
 * jemalloc_init.c, sz_sa2u() by canary.h for all requests with an alignment.
 */
#include "meta/sz.h"

bool opt_disable_large_size_classes = true;
size_t sz_ladder_max;

void
sz_boot(size_t tcache_max) {
	size_t eight_pages = (size_t)8 << LG_PAGE;
	sz_ladder_max = opt_disable_large_size_classes
	    ? max_zu(eight_pages, tcache_max) : SC_LARGE_MAXCLASS;
}

/*
 * A request rounded up to a multiple of the alignment falls into a class whose size is itself such
 * a multiple (a ladder step that is one, or the rounded size). So regions of a page-aligned slab
 * are aligned to any power of two up to the page.
 */
size_t
sz_sa2u(size_t size, size_t alignment) {
	assert(is_pow2_zu(alignment));
	if (size == 0) {
		size = 1;
	}
	if (alignment <= PAGE && size <= SC_SMALL_MAXCLASS) {
		size_t usize = sz_s2u(align_up(size, alignment));
		if (usize < SC_LARGE_MINCLASS) {
			return usize;
		}
	}
	if (alignment > SC_LARGE_MAXCLASS) {
		return 0;
	}
	size_t usize = size <= SC_LARGE_MINCLASS ? SC_LARGE_MINCLASS : sz_s2u(size);
	/* The mapping must hold the size and the slack of the alignment. */
	if (usize == 0 || usize + alignment < usize || usize + alignment > SC_LARGE_MAXCLASS) {
		return 0;
	}
	return usize;
}
