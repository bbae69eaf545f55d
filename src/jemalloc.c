/*
 * The exported C functions, and nothing else; the exported variables are in conf/conf.c, the C++
 * operators in jemalloc_cpp.cpp. A function tries its fast path (imalloc.h), if it has one, and
 * passes all other calls on to the slow path, mostly as a request made of its arguments.
 *
 * Invariant: malloc and free call their slow path by tail calls, so the fast path needs no stack
 * frame. Locks: none here. Called by the user's code and by the C library; in builds with
 * --enable-log by jemalloc_logged.c, which then has the exported names but those of smallocx and
 * je_get_defrag_hint.
 */
#define UNLOGGED_NAMES

#include "arena/safety.h"
#include "ctl/ctl.h"
#include "defrag.h"
#include "imalloc_flags.h"
#include "malloc_boot.h"
#include "os/malloc_io.h"
#include "stats.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ standard functions */

EXPORT void *
je_malloc(size_t size) {
	void *p;
	if (unlikely(size > IMALLOC_FAST_MAX)) {
		return imalloc_above(size);
	}
	return likely(imalloc_try_fast(size, &p)) ? p : imalloc_default(size);
}

EXPORT void *
je_calloc(size_t num, size_t size) {
	size_t bytes;
	void *p;
	cache_bin_t *b;
	if (likely(!__builtin_mul_overflow(num, size, &bytes))
	    && likely(imalloc_try_bin(bytes, bytes, &p, &b))) {
		return memset(p, 0, canary_usable(bytes, b->size));
	}
	return icalloc_default(num, size);
}

EXPORT void
je_free(void *ptr) {
	if (likely(ifree_try_fast(ptr))) {
		return;
	}
	ifree_default(ptr);
}

EXPORT void *
je_aligned_alloc(size_t alignment, size_t size) {
	if (unlikely(!is_pow2_zu(alignment))) {
		return imalloc_refuse("aligned_alloc", EINVAL, "invalid alignment");
	}
	void *p;
	if (likely(imalloc_aligned_try_fast(size, alignment, &p))) {
		return p;
	}
	imalloc_req_t req = IMALLOC_REQ(size, alignment, false, aligned_alloc);
	return imalloc(&req);
}

EXPORT int
je_posix_memalign(void **memptr, size_t alignment, size_t size) {
	bool is_bad = !is_pow2_zu(alignment) || alignment < sizeof(void *);
	if (unlikely(is_bad)) {
		if (opt_xmalloc && config_xmalloc) {
			malloc_write("<jemalloc>: Error allocating aligned memory: invalid alignment\n");
			abort();
		}
		return EINVAL;
	}
	void *p;
	if (unlikely(!imalloc_aligned_try_fast(size, alignment, &p))) {
		imalloc_req_t req = IMALLOC_REQ(size, alignment, false, posix_memalign);
		int saved = errno;
		p = imalloc_quiet(&req);
		errno = p != NULL ? saved : ENOMEM;
	}
	if (unlikely(p == NULL)) {
		if (opt_xmalloc && config_xmalloc) {
			malloc_write("<jemalloc>: Error allocating aligned memory: out of memory\n");
			abort();
		}
		return ENOMEM;
	}
	*memptr = p;
	return 0;
}

/*
 * realloc(ptr, 0), ptr not NULL: as the option zero_realloc says, frees ptr (NULL), makes it a
 * block of the least size, without a thread cache, or ends the process.
 */
static void *
realloc_zero(void *ptr) {
	imalloc_count_zero_realloc();
	if (opt_zero_realloc == zero_realloc_abort) {
		safety_fail("Called realloc(non-null-ptr, 0) with zero_realloc:abort set");
		return NULL;
	}
	if (opt_zero_realloc == zero_realloc_free) {
		ifree_default(ptr);
		return NULL;
	}
	imalloc_req_t req = IMALLOC_REQ(1, 0, false, realloc);
	req.tcache = IMALLOC_TCACHE_NONE;
	return irealloc(ptr, &req);
}

static NOINLINE void *
realloc_default(void *ptr, size_t size) {
	if (unlikely(ptr == NULL)) {
		return je_malloc(size);
	}
	if (unlikely(size == 0)) {
		return realloc_zero(ptr);
	}
	imalloc_req_t req = IMALLOC_REQ(size, 0, false, realloc);
	return irealloc(ptr, &req);
}

/*
 * Resizes a small object to another small class as malloc and free do on their fast paths; bin:
 * offset of the object's bin in the cache, in bytes. If that fails, the slow path serves it.
 */
static NOINLINE void *
realloc_small(void *ptr, size_t size, size_t bin) {
	assert(!config_hardening && bin != 0 && size <= SC_SMALL_MAXCLASS);
	cache_bin_t *b = fast_bin(bin);
	size_t usize = b->size, copied = min_zu(usize, size);
	void *p;
	if (unlikely(usize == 0) || unlikely(size <= IMALLOC_FAST_MAX
	    ? !imalloc_try_fast(size, &p) : !imalloc_above_try_fast(size, &p))) {
		return realloc_default(ptr, size);
	}
	/* Knowing the greatest size, the compiler would put a string instruction here. */
	OPAQUE(copied);
	memcpy(p, ptr, copied);
	if (unlikely(!cache_bin_try_push(b, ptr))) {
		ifree_default(ptr);
	}
	return p;
}

/*
 * A small object whose size class stays the same stays in place, and only statistics change. NULL
 * has no bin (0), and size - 1 wraps around for size 0, so both take the slow path. So do samples
 * and large objects, whose bin is 0 too; in hardened builds all calls; and in other builds that
 * look for misuse (ICHECK_IS_STRICT) objects that move, because the slow path checks them.
 */
EXPORT void *
je_realloc(void *ptr, size_t size) {
	/*
	 * The same pointer, which the compiler takes for another one: then the look-up may shift ptr
	 * where it is, an instruction less.
	 */
	void *same = ptr;
	OPAQUE(same);
	size_t bin = emap_bin(ptr);
	if (!config_hardening && likely(size - 1 < SC_LOOKUP_MAX)) {
		if (likely(bin == sc_bin_offset_of_last(size - 1))
		    && likely(irealloc_try_count_fast(bin))) {
			return same;
		}
		if (!ICHECK_IS_STRICT && likely(bin != 0)) {
			return realloc_small(same, size, bin);
		}
	} else if (!config_hardening && !ICHECK_IS_STRICT && bin != 0
	    && size - 1 < SC_SMALL_MAXCLASS && bin != sc_bin_offset_compute(size)) {
		return realloc_small(same, size, bin);
	}
	return realloc_default(same, size);
}

EXPORT void
je_free_sized(void *ptr, size_t size) {
	if (likely(ifree_sized_try_fast(ptr, size))) {
		return;
	}
	ifree_sized_standard(ptr, size, 0);
}

EXPORT void
je_free_aligned_sized(void *ptr, size_t alignment, size_t size) {
	size_t usize = likely(is_pow2_zu(alignment) && size != 0)
	    ? align_up(size, alignment) : SIZE_MAX;
	if (likely(usize <= SC_LOOKUP_MAX && ifree_sized_try_fast(ptr, usize))) {
		return;
	}
	ifree_sized_standard(ptr, size, likely(is_pow2_zu(alignment)) ? alignment : 0);
}

/* ------------------------------------------------------------------ older aligned functions */

#if HAVE_MEMALIGN
EXPORT void *
je_memalign(size_t alignment, size_t size) {
	alignment = pow2_ceil_zu(alignment);
	if (unlikely(alignment == 0)) {
		return imalloc_refuse("memalign", EINVAL, "invalid alignment");
	}
	imalloc_req_t req = IMALLOC_REQ(size, alignment, false, memalign);
	return imalloc(&req);
}
#endif

#if HAVE_VALLOC
EXPORT void *
je_valloc(size_t size) {
	if (malloc_boot() != 0) {
		return imalloc_fail("valloc");
	}
	imalloc_req_t req = IMALLOC_REQ(size, PAGE, false, valloc);
	return imalloc(&req);
}
#endif

#if HAVE_PVALLOC
EXPORT void *
je_pvalloc(size_t size) {
	if (malloc_boot() != 0 || size > SIZE_MAX - PAGE_MASK) {
		return imalloc_fail("pvalloc");
	}
	imalloc_req_t req = IMALLOC_REQ(PAGE_CEILING(max_zu(size, 1)), PAGE, false, pvalloc);
	return imalloc(&req);
}
#endif

#if HAVE_MALLOC_USABLE_SIZE
EXPORT size_t
je_malloc_usable_size(const void *ptr) {
	size_t slot = ICHECK_IS_STRICT ? 0 : emap_bin(ptr) >> SC_LG_BIN_STRIDE;
	if (likely(slot != 0)) {
		return sc_size_tab[slot - 1];
	}
	icheck_live(ptr);
	return iusize(ptr);
}
#endif

/* ------------------------------------------------------------------ the *allocx family */

EXPORT void *
je_mallocx(size_t size, int flags) {
	void *p;
	return likely(flags == 0) && likely(imalloc_try_fast(size, &p))
	    ? p : imalloc_mallocx(size, flags);
}

#if CONFIG_SMALLOCX
/* Programs declare this struct and the function themselves. */
typedef struct {
	void *ptr;
	size_t size;
} smallocx_return_t;

EXPORT smallocx_return_t
je_smallocx(size_t size, int flags) {
	void *ptr = je_mallocx(size, flags);
	return (smallocx_return_t){ptr, ptr == NULL ? 0 : iusize(ptr)};
}
#endif

EXPORT void *
je_rallocx(void *ptr, size_t size, int flags) {
	imalloc_req_t req = imalloc_flags_req(size, flags, alloc_how_rallocx);
	return ptr == NULL ? imalloc(&req) : irealloc(ptr, &req);
}

EXPORT size_t
je_xallocx(void *ptr, size_t size, size_t extra, int flags) {
	imalloc_req_t req = imalloc_flags_req(size, flags, alloc_how_xallocx);
	return ixalloc(ptr, &req, extra);
}

EXPORT size_t
je_sallocx(const void *ptr, int flags UNUSED) {
	icheck_live(ptr);
	return iusize(ptr);
}

EXPORT void
je_dallocx(void *ptr, int flags) {
	if (likely(flags == 0) && likely(ifree_try_fast(ptr))) {
		return;
	}
	ifree_flags(ptr, flags);
}

EXPORT void
je_sdallocx(void *ptr, size_t size, int flags) {
	if (likely(flags == 0) && likely(ifree_sized_try_fast(ptr, size))) {
		return;
	}
	ifree_sized_default(ptr, size, flags);
}

EXPORT size_t
je_nallocx(size_t size, int flags) {
	if (unlikely(malloc_boot() != 0)) {
		return 0;
	}
	unsigned lg = (unsigned)flags & 0x3f;
	return canary_usable(size, canary_usize(size, lg == 0 ? 0 : (size_t)1 << lg));
}

/* ------------------------------------------------------------------ control and introspection */

EXPORT int
je_mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen) {
	return malloc_boot() != 0 ? EAGAIN : ctl_byname(name, oldp, oldlenp, newp, newlen);
}

EXPORT int
je_mallctlnametomib(const char *name, size_t *mibp, size_t *miblenp) {
	return malloc_boot() != 0 ? EAGAIN : ctl_nametomib(name, mibp, miblenp);
}

EXPORT int
je_mallctlbymib(const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp, void *newp,
    size_t newlen) {
	return malloc_boot() != 0 ? EAGAIN : ctl_bymib(mib, miblen, oldp, oldlenp, newp, newlen);
}

EXPORT void
je_malloc_stats_print(void (*write_cb)(void *, const char *), void *cbopaque, const char *opts) {
	if (malloc_boot() == 0) {
		stats_print(write_cb, cbopaque, opts);
	}
}

#if CONFIG_DEFRAG_HINT
EXPORT int
je_get_defrag_hint(void *ptr) {
	return defrag_would_help(ptr);
}
#endif
