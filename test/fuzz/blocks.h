/*
 * What an allocation fuzzer knows of one live block, all ways to get, resize and give back one, and
 * what must hold of it. Nothing here has global state but the name of the step for messages, so
 * each thread works on blocks of its own. A breach ends the process with one sentence on stdout.
 */
#pragma once

#include "ctl.h"

#include <malloc.h>

#include "imalloc.h"
#include "os/pages.h"

typedef struct {
	unsigned char *p;  /* NULL: no block */
	size_t size;       /* least size that a sized release may name */
	size_t usable;
	size_t align;      /* 0: none asked for */
	uint64_t stamp;
} block_t;

/* What one thread allocated and released by usable sizes, as thread.allocated counts it. */
typedef struct {
	uint64_t allocated;
	uint64_t deallocated;
} block_sum_t;

/* A thread's state while it works. */
typedef struct {
	uint64_t rng;          /* of this step */
	uint64_t seed;
	unsigned thread;
	unsigned long step;
	bool is_loose;         /* a fork may send requests to the shelter: sizes may differ */
	int tcache_flags;      /* MALLOCX_TCACHE of a cache by hand, or 0 */
	int arena_flags;       /* MALLOCX_ARENA, or 0 */
	const char *what;      /* the call that is being made */
	block_sum_t sum;
} fuzz_t;

static bool fuzz_is_tracing;

TEST_FN TEST_PRINTF(2, 3) void
breach(const fuzz_t *f, const char *fmt, ...) {
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	test_tell(true, "BREACH seed %llu thread %u step %lu, %s: %s\n", (unsigned long long)f->seed,
	    f->thread, f->step, f->what, text);
	if (getenv("FUZZ_ABORT") != NULL) {
		abort();
	}
	_exit(1);
}

TEST_FN size_t
below(fuzz_t *f, size_t n) {
	return n == 0 ? 0 : (size_t)(test_random(&f->rng) % n);
}

TEST_FN bool
one_in(fuzz_t *f, size_t n) {
	return below(f, n) == 0;
}

/* ------------------------------------------------------------------ contents */

#define STAMP_END 96
#define STAMP_STRIDE 1021

static inline unsigned char
stamp_byte(uint64_t stamp, size_t i) {
	return (unsigned char)((stamp >> (i & 7) * 8) + i + (i >> 8));
}

/*
 * Position after i that carries a stamp in a block of `usable`: both ends in full, and a few
 * between.
 */
static inline size_t
stamp_next(size_t i, size_t usable) {
	if (i + 1 < STAMP_END || usable < 2 * STAMP_END || i + 1 >= usable - STAMP_END) {
		return i + 1;
	}
	size_t next = (i / STAMP_STRIDE + 1) * STAMP_STRIDE;
	return next < usable - STAMP_END ? next : usable - STAMP_END;
}

TEST_FN void
block_stamp(fuzz_t *f, block_t *b) {
	b->stamp = test_random(&f->rng);
	for (size_t i = 0; i < b->usable; i = stamp_next(i, b->usable)) {
		b->p[i] = stamp_byte(b->stamp, i);
	}
}

/* The first n bytes at p are those of a block that was stamped as b. */
TEST_FN void
stamp_check(const fuzz_t *f, const unsigned char *p, const block_t *b, size_t n) {
	for (size_t i = 0; i < n; i = stamp_next(i, b->usable)) {
		if (p[i] != stamp_byte(b->stamp, i)) {
			breach(f, "byte %zu of %p (size %zu, usable %zu) is %#x, not %#x", i, (const void *)p,
			    b->size, b->usable, p[i], stamp_byte(b->stamp, i));
		}
	}
}

TEST_FN void
fill_check(const fuzz_t *f, const unsigned char *p, size_t from, size_t to, int fill) {
	for (size_t i = from; i < to; i++) {
		if (p[i] != fill) {
			breach(f, "byte %zu of %zu is %#x, not %#x", i, to, p[i], (unsigned)fill);
		}
	}
}

/* ------------------------------------------------------------------ what must hold of a block */

TEST_FN void
block_check(const fuzz_t *f, const block_t *b) {
	size_t natural = b->size > 8 ? 16 : 8;
	size_t align = b->align > natural ? b->align : natural;
	if (((uintptr_t)b->p & (align - 1)) != 0) {
		breach(f, "%p is not aligned to %zu", (void *)b->p, align);
	}
	size_t usable = malloc_usable_size(b->p);
	if (usable != b->usable || sallocx(b->p, 0) != usable || usable < b->size) {
		breach(f, "size %zu, usable %zu, now %zu and %zu", b->size, b->usable, usable,
		    sallocx(b->p, 0));
	}
	stamp_check(f, b->p, b, b->usable);
}

TEST_FN void
overlap_check(const fuzz_t *f, const block_t *b, const block_t *all, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		const block_t *o = &all[i];
		if (o != b && o->p != NULL && b->p < o->p + o->usable && o->p < b->p + b->usable) {
			breach(f, "%p + %zu overlaps %p + %zu", (void *)b->p, b->usable, (void *)o->p,
			    o->usable);
		}
	}
}

/* ------------------------------------------------------------------ sizes */

TEST_FN size_t
draw_size(fuzz_t *f) {
	static const size_t most[] = {64, 512, 512, 4096, 16384, 65536, 262144, 4 << 20};
	size_t size = 1 + below(f, most[below(f, 8)]);
	if (one_in(f, 300)) {
		size = below(f, (size_t)40 << 20);
	} else if (one_in(f, 3)) {
		/* At the edge of a class. */
		size = nallocx(size, 0) + below(f, 3) - 1;
	}
	return size;
}

TEST_FN size_t
draw_align(fuzz_t *f) {
	return (size_t)1 << (one_in(f, 20) ? below(f, 24) : 3 + below(f, 12));
}

/* ------------------------------------------------------------- operators of C++, by their names */

typedef const void *nothrow_t;
extern __attribute__((weak)) void *_Znwm(size_t);
extern __attribute__((weak)) void *_Znam(size_t);
extern __attribute__((weak)) void *_ZnwmRKSt9nothrow_t(size_t, nothrow_t);
extern __attribute__((weak)) void *_ZnamRKSt9nothrow_t(size_t, nothrow_t);
extern __attribute__((weak)) void *_ZnwmSt11align_val_t(size_t, size_t);
extern __attribute__((weak)) void *_ZnamSt11align_val_t(size_t, size_t);
extern __attribute__((weak)) void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t, size_t, nothrow_t);
extern __attribute__((weak)) void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t, size_t, nothrow_t);
extern __attribute__((weak)) void _ZdlPv(void *);
extern __attribute__((weak)) void _ZdaPv(void *);
extern __attribute__((weak)) void _ZdlPvRKSt9nothrow_t(void *, nothrow_t);
extern __attribute__((weak)) void _ZdaPvRKSt9nothrow_t(void *, nothrow_t);
extern __attribute__((weak)) void _ZdlPvm(void *, size_t);
extern __attribute__((weak)) void _ZdaPvm(void *, size_t);
extern __attribute__((weak)) void _ZdlPvSt11align_val_t(void *, size_t);
extern __attribute__((weak)) void _ZdaPvSt11align_val_t(void *, size_t);
extern __attribute__((weak)) void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *, size_t, nothrow_t);
extern __attribute__((weak)) void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *, size_t, nothrow_t);
extern __attribute__((weak)) void _ZdlPvmSt11align_val_t(void *, size_t, size_t);
extern __attribute__((weak)) void _ZdaPvmSt11align_val_t(void *, size_t, size_t);

static const char nothrow;

/* ------------------------------------------------------------------ getting a block */

typedef struct {
	size_t size, align;
	int flags;
	bool zero;             /* all of it reads as zero; of calloc only what was asked for */
	bool is_calloc;
	void *p;
} request_t;

static void
get_cxx(fuzz_t *f, request_t *r) {
	size_t way = below(f, 8);
	r->align = way < 4 ? 0 : r->align;
	switch (way) {
	case 0: f->what = "new"; r->p = _Znwm(r->size); break;
	case 1: f->what = "new[]"; r->p = _Znam(r->size); break;
	case 2: f->what = "new(nothrow)"; r->p = _ZnwmRKSt9nothrow_t(r->size, &nothrow); break;
	case 3: f->what = "new[](nothrow)"; r->p = _ZnamRKSt9nothrow_t(r->size, &nothrow); break;
	case 4: f->what = "new(align)"; r->p = _ZnwmSt11align_val_t(r->size, r->align); break;
	case 5: f->what = "new[](align)"; r->p = _ZnamSt11align_val_t(r->size, r->align); break;
	case 6: f->what = "new(align, nothrow)";
		r->p = _ZnwmSt11align_val_tRKSt9nothrow_t(r->size, r->align, &nothrow);
		break;
	default: f->what = "new[](align, nothrow)";
		r->p = _ZnamSt11align_val_tRKSt9nothrow_t(r->size, r->align, &nothrow);
		break;
	}
}

static void
get_aligned(fuzz_t *f, request_t *r) {
	switch (below(f, 5)) {
	case 0: f->what = "aligned_alloc"; r->p = aligned_alloc(r->align, r->size); break;
	case 1: f->what = "posix_memalign";
		if (posix_memalign(&r->p, r->align < 8 ? 8 : r->align, r->size) != 0) {
			r->p = NULL;
		}
		break;
	case 2: f->what = "memalign"; r->p = memalign(r->align, r->size); break;
	case 3: f->what = "valloc"; r->p = valloc(r->size); r->align = PAGE; break;
	default: f->what = "pvalloc";
		r->p = pvalloc(r->size);
		r->size = PAGE_CEILING(r->size == 0 ? 1 : r->size);
		r->align = PAGE;
		break;
	}
}

static void
get_plain(fuzz_t *f, request_t *r) {
	size_t n = 1 + below(f, 5);
	r->align = 0;
	switch (below(f, 5)) {
	case 0: f->what = "calloc";
		r->size = (r->size + n - 1) / n * n;
		r->p = calloc(n, r->size / n);
		r->is_calloc = true;
		break;
	case 1: f->what = "realloc(NULL)"; r->p = realloc(NULL, r->size); break;
	default: f->what = "malloc"; r->p = malloc(r->size); break;
	}
}

static void
get_flagged(fuzz_t *f, request_t *r) {
	f->what = "mallocx";
	r->size += r->size == 0;
	r->align = one_in(f, 3) ? r->align : 0;
	r->zero = one_in(f, 3);
	r->flags = (r->align != 0 ? MALLOCX_ALIGN(r->align) : 0) | (r->zero ? MALLOCX_ZERO : 0);
	switch (below(f, 5)) {
	case 0: r->flags |= MALLOCX_TCACHE_NONE; break;
	case 1: r->flags |= f->tcache_flags; break;
	case 2: r->flags |= f->arena_flags | MALLOCX_TCACHE_NONE; break;
	case 3: r->flags |= f->arena_flags; break;
	}
	r->p = mallocx(r->size, r->flags);
}

static size_t
size_wanted(size_t size, size_t align) {
	return nallocx(size == 0 ? 1 : size, align == 0 ? 0 : MALLOCX_ALIGN(align));
}

/* Takes the new block into b and checks all that can be said of it. */
static void
block_take(fuzz_t *f, block_t *b, const request_t *r) {
	if (r->p == NULL) {
		breach(f, "NULL for size %zu, align %zu, errno %d", r->size, r->align, errno);
	}
	b->p = r->p;
	b->size = r->size;
	b->align = r->align;
	b->usable = malloc_usable_size(b->p);
	/* Thread caches hold large blocks of whole classes. */
	bool may_be_class = r->size > 32768 && b->usable == class_of(size_wanted(r->size, r->align));
	if (b->usable != size_wanted(r->size, r->align) && !may_be_class && !f->is_loose) {
		breach(f, "usable %zu for size %zu, align %zu, not %zu", b->usable, r->size, r->align,
		    size_wanted(r->size, r->align));
	}
	f->sum.allocated += b->usable;
	if (r->zero || opt_zero) {
		fill_check(f, b->p, 0, b->usable, 0);
	} else if (r->is_calloc) {
		fill_check(f, b->p, 0, b->size, 0);
	} else if (opt_junk_alloc && config_fill && !f->is_loose) {
		fill_check(f, b->p, 0, b->usable, 0xa5);
	}
	block_stamp(f, b);
}

TEST_FN void
block_get(fuzz_t *f, block_t *b) {
	request_t r = {.size = draw_size(f), .align = draw_align(f)};
	errno = 4711;
	switch (below(f, 8)) {
	case 0:
	case 1:
		get_flagged(f, &r);
		break;
	case 2:
		get_aligned(f, &r);
		break;
	case 3:
		if (_Znwm != NULL) {
			get_cxx(f, &r);
			break;
		}
		/* fallthrough */
	default:
		get_plain(f, &r);
		break;
	}
	if (errno != 4711) {
		breach(f, "errno %d after success", errno);
	}
	if (fuzz_is_tracing) {
		test_say("# %lu %s(size %zu align %zu flags %#x) = %p\n", f->step, f->what, r.size, r.align,
		    (unsigned)r.flags, r.p);
	}
	block_take(f, b, &r);
}

/* ------------------------------------------------------------------ giving one back */

/* A size that a sized release of this block may name. */
static size_t
size_between(fuzz_t *f, const block_t *b) {
	return b->size + below(f, b->usable - b->size + 1);
}

static bool
put_cxx(fuzz_t *f, const block_t *b) {
	size_t way = below(f, 10);
	if (_ZdlPv == NULL || (way >= 6 && b->align == 0) || (way >= 2 && way < 4 && b->align != 0)) {
		return false;
	}
	switch (way) {
	case 0: f->what = "delete"; _ZdlPv(b->p); break;
	case 1: f->what = "delete[]"; _ZdaPv(b->p); break;
	case 2: f->what = "delete(size)"; _ZdlPvm(b->p, b->size); break;
	case 3: f->what = "delete[](size)"; _ZdaPvm(b->p, b->size); break;
	case 4: f->what = "delete(nothrow)"; _ZdlPvRKSt9nothrow_t(b->p, &nothrow); break;
	case 5: f->what = "delete[](nothrow)"; _ZdaPvRKSt9nothrow_t(b->p, &nothrow); break;
	case 6: f->what = "delete(align)"; _ZdlPvSt11align_val_t(b->p, b->align); break;
	case 7: f->what = "delete[](align, nothrow)";
		_ZdaPvSt11align_val_tRKSt9nothrow_t(b->p, b->align, &nothrow);
		break;
	case 8: f->what = "delete(size, align)"; _ZdlPvmSt11align_val_t(b->p, b->size, b->align); break;
	default: f->what = "delete[](size, align)";
		_ZdaPvmSt11align_val_t(b->p, b->size, b->align);
		break;
	}
	return true;
}

static int
draw_free_flags(fuzz_t *f) {
	switch (below(f, 4)) {
	case 0: return MALLOCX_TCACHE_NONE;
	case 1: return f->tcache_flags;
	default: return 0;
	}
}

static void
put_any(fuzz_t *f, const block_t *b) {
	int align = b->align == 0 ? 0 : MALLOCX_ALIGN(b->align);
	switch (below(f, 6)) {
	case 0: f->what = "dallocx"; dallocx(b->p, draw_free_flags(f)); return;
	case 1: f->what = "sdallocx"; sdallocx(b->p, size_between(f, b), align | draw_free_flags(f));
	    return;
	case 2:
		if (b->align == 0) {
			f->what = "free_sized";
			free_sized(b->p, b->size);
			return;
		}
		f->what = "free_aligned_sized";
		free_aligned_sized(b->p, b->align, b->size);
		return;
	case 3:
		if (put_cxx(f, b)) {
			return;
		}
		/* fallthrough */
	default: f->what = "free"; free(b->p); return;
	}
}

TEST_FN void
block_put(fuzz_t *f, block_t *b) {
	f->what = "before release";
	block_check(f, b);
	if (fuzz_is_tracing) {
		test_say("# %lu release of %p size %zu usable %zu\n", f->step, (void *)b->p, b->size,
		    b->usable);
	}
	errno = 4711;
	put_any(f, b);
	if (errno != 4711) {
		breach(f, "errno became %d", errno);
	}
	f->sum.deallocated += b->usable;
	b->p = NULL;
}

/* ------------------------------------------------------------------ resizing */

/*
 * The block is now at p with `size` asked for; what was there must have come along. By xallocx it
 * counts as given back and given out again only if its usable size is another.
 */
static void
block_resized(fuzz_t *f, block_t *b, unsigned char *p, size_t size, size_t align, bool zero) {
	bool is_in_place = strcmp(f->what, "xallocx") == 0;
	block_t old = *b;
	b->p = p;
	b->size = size;
	b->align = align;
	b->usable = malloc_usable_size(p);
	if (b->usable < size) {
		breach(f, "usable %zu for size %zu", b->usable, size);
	}
	stamp_check(f, p, &old, min_zu(min_zu(old.usable, size), b->usable));
	if ((zero || opt_zero) && b->usable > old.usable) {
		fill_check(f, p, old.usable, b->usable, 0);
	}
	if (!is_in_place || b->usable != old.usable) {
		f->sum.allocated += b->usable;
		f->sum.deallocated += old.usable;
	}
	block_stamp(f, b);
}

static void
resize_flagged(fuzz_t *f, block_t *b, size_t size) {
	bool zero = one_in(f, 3);
	size_t align = one_in(f, 4) ? draw_align(f) : 0;
	int flags = (zero ? MALLOCX_ZERO : 0) | (align != 0 ? MALLOCX_ALIGN(align) : 0)
	    | draw_free_flags(f) | (one_in(f, 4) ? f->arena_flags : 0);
	f->what = "rallocx";
	size += size == 0;
	unsigned char *p = rallocx(b->p, size, flags);
	if (p == NULL) {
		breach(f, "NULL for size %zu flags %#x", size, (unsigned)flags);
	}
	if (fuzz_is_tracing) {
		test_say("# %lu rallocx(%p, %zu, %#x) = %p\n", f->step, (void *)b->p, size, (unsigned)flags,
		    (void *)p);
	}
	block_resized(f, b, p, size, align, zero);
}

static void
resize_in_place(fuzz_t *f, block_t *b, size_t size) {
	bool zero = one_in(f, 3);
	size_t old = b->usable, extra = one_in(f, 2) ? 0 : below(f, size);
	f->what = "xallocx";
	size += size == 0;
	size_t now = xallocx(b->p, size, extra, zero ? MALLOCX_ZERO : 0);
	if (fuzz_is_tracing) {
		test_say("# %lu xallocx(%p, %zu, %zu) of usable %zu = %zu\n", f->step, (void *)b->p, size,
		    extra, old, now);
	}
	if (now != malloc_usable_size(b->p)) {
		breach(f, "says %zu, usable %zu", now, malloc_usable_size(b->p));
	}
	if (now != old && (now < size || now > class_of(size + extra))) {
		breach(f, "%zu of usable %zu asked to %zu + %zu became %zu", b->size, old, size, extra,
		    now);
	}
	/*
	 * A sized release may name any size from the old one if nothing changed; with extra it is not
	 * known which was given.
	 */
	size_t named = now == old ? b->size : extra != 0 ? now : size;
	block_resized(f, b, b->p, named, b->align, zero);
}

TEST_FN void
block_resize(fuzz_t *f, block_t *b) {
	size_t size = one_in(f, 2) ? draw_size(f) : b->usable / 2 + below(f, b->usable + 1);
	f->what = "before resize";
	block_check(f, b);
	switch (below(f, 4)) {
	case 0:
		resize_flagged(f, b, size);
		return;
	case 1:
		resize_in_place(f, b, size);
		return;
	}
	f->what = "realloc";
	unsigned char *p = realloc(b->p, size);
	if (fuzz_is_tracing) {
		test_say("# %lu realloc(%p, %zu) = %p\n", f->step, (void *)b->p, size, (void *)p);
	}
	if (size == 0 && p == NULL) {
		f->sum.deallocated += b->usable;
		b->p = NULL;
		return;
	}
	if (p == NULL) {
		breach(f, "NULL for size %zu", size);
	}
	block_resized(f, b, p, size, 0, false);
}

/* ------------------------------------------------------------------ requests that must fail */

TEST_FN void
block_refuse(fuzz_t *f, const block_t *b) {
	size_t huge = SIZE_MAX - below(f, (size_t)1 << (1 + below(f, 62)));
	static volatile size_t no_power = 24; /* compilers warn of the number itself */
	void *p = (void *)(uintptr_t)0x1234;
	errno = 0;
	switch (below(f, 8)) {
	case 0: f->what = "huge malloc"; p = malloc(huge); break;
	case 1: f->what = "huge calloc"; p = calloc(huge, 2); break;
	case 2: f->what = "huge realloc"; p = realloc(b->p, huge); break;
	case 3: f->what = "huge mallocx"; p = mallocx(huge, (int)below(f, 0x7f)); break;
	case 4: f->what = "huge rallocx"; p = b->p == NULL ? NULL : rallocx(b->p, huge, 0); break;
	case 5: f->what = "huge aligned_alloc"; p = aligned_alloc(draw_align(f), huge); break;
	case 6: f->what = "odd aligned_alloc"; p = aligned_alloc(no_power, 100); break;
	default: f->what = "odd posix_memalign";
		if (posix_memalign(&p, 4, 100) != EINVAL || p != (void *)(uintptr_t)0x1234) {
			breach(f, "not EINVAL, or the pointer changed");
		}
		return;
	}
	if (p != NULL) {
		breach(f, "memory for %#zx", huge);
	}
	if (errno != ENOMEM && errno != EINVAL && (b->p != NULL || errno != 0)) {
		breach(f, "errno %d", errno);
	}
	if (b->p != NULL) {
		block_check(f, b);
	}
}
