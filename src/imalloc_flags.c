/*
 * Requests with MALLOCX_* flags and frees with a size; imalloc_flags.h has the contract.
 * MALLOCX_* flags: bits 0-5 are log2 of the alignment in bytes (0: natural); bit 6 asks for zeroed
 * memory; bits 8-19 are the cache (0: automatic, 1: none, else id + 2); bits 20-31 are the arena's
 * index + 1 (0: automatic). A sized free that comes here first compares the size with that of the
 * object, in every build (icheck.h). Then sdallocx() frees as dallocx() does, all others as free().
 * No state and no lock here. Called by jemalloc.c, cxx.c and ctl_experimental.c.
 */
#include "imalloc_flags.h"

#include "icheck.h"

/* Ids of explicit caches are not negative, so these two differ from all of them. */
cassert(IMALLOC_TCACHE_AUTO < 0 && IMALLOC_TCACHE_NONE < 0);

int
imalloc_flags_tcache(int flags) {
	unsigned tcache = ((unsigned)flags >> 8) & 0xfff;
	return tcache == 0 ? IMALLOC_TCACHE_AUTO
	    : tcache == 1 ? IMALLOC_TCACHE_NONE : (int)tcache - 2;
}

imalloc_req_t
imalloc_flags_req(size_t size, int flags, alloc_how_t how) {
	unsigned lg = (unsigned)flags & 0x3f;
	unsigned arena = (unsigned)flags >> 20;
	imalloc_req_t req
	    = IMALLOC_REQ(size, lg == 0 ? 0 : (size_t)1 << lg, (flags & 0x40) != 0, mallocx);
	req.how = how; /* not always mallocx */
	req.tcache = imalloc_flags_tcache(flags);
	req.arena = arena == 0 ? IMALLOC_ARENA_AUTO : arena - 1;
	return req;
}

/*
 * The caller has tried imalloc_try_fast(), which serves up to IMALLOC_FAST_MAX bytes; another fast
 * path serves larger sizes.
 */
void *
imalloc_mallocx(size_t size, int flags) {
	void *p;
	if (flags == 0 && size > IMALLOC_FAST_MAX && imalloc_above_try_fast(size, &p)) {
		return p;
	}
	imalloc_req_t req = imalloc_flags_req(size, flags, alloc_how_mallocx);
	return imalloc(&req);
}

void
ifree_flags(void *ptr, int flags) {
	ifree(ptr, imalloc_flags_tcache(flags), alloc_how_dallocx);
}

/*
 * The size is checked in every build. A build with checks (ICHECK_IS_STRICT) has no fast path of
 * sized frees, so the fast path of free() is tried here after the check. In other builds the caller
 * has tried the fast path of sized frees already, or that does not serve such a block.
 */
void
ifree_sized_standard(void *ptr, size_t size, size_t alignment) {
	assert(alignment == 0 || is_pow2_zu(alignment));
	icheck_size(ptr, size, alignment);
	if (!ICHECK_IS_STRICT || unlikely(!ifree_try_fast(ptr))) {
		ifree_default(ptr);
	}
}

void
ifree_sized_default(void *ptr, size_t size, int flags) {
	unsigned lg = (unsigned)flags & 0x3f;
	icheck_size(ptr, size, lg == 0 ? 0 : (size_t)1 << lg);
	ifree(ptr, imalloc_flags_tcache(flags), alloc_how_sdallocx);
}
