/*
 * imalloc.h: requests and their flags, zero and junk, resizing by hand and in place against a
 * model, misuse on the slow path.
 */
#include "ctl.h"

#include <malloc.h>
#include <sys/mman.h>

#include "imalloc_flags.h"
#include "scarce.h"

static size_t
below(uint64_t *state, size_t n) {
	return (size_t)(test_random(state) % n);
}

static void
test_flags(void) {
	unsigned bad = 0;
	for (int lg = 0; lg < 64; lg++) {
		imalloc_req_t r = imalloc_flags_req(7, MALLOCX_LG_ALIGN(lg), alloc_how_mallocx);
		bad += wrong_if(r.alignment != (lg == 0 ? 0 : (size_t)1 << lg)) || wrong_if(r.size != 7)
		    || wrong_if(r.zero);
		bad += wrong_if(r.tcache != IMALLOC_TCACHE_AUTO)
		    || wrong_if(r.arena != IMALLOC_ARENA_AUTO);
	}
	for (int i = 0; i < 4094; i++) {
		imalloc_req_t r = imalloc_flags_req(1, MALLOCX_TCACHE(i) | MALLOCX_ZERO, alloc_how_mallocx);
		bad += wrong_if(r.tcache != i) || wrong_if(!r.zero) || wrong_if(r.alignment != 0)
		    || wrong_if(r.arena != IMALLOC_ARENA_AUTO);
		r = imalloc_flags_req(1, (int)MALLOCX_ARENA(i) | MALLOCX_ALIGN(64), alloc_how_mallocx);
		bad += wrong_if(r.arena != (unsigned)i) || wrong_if(r.tcache != IMALLOC_TCACHE_AUTO)
		    || wrong_if(r.alignment != 64);
		bad += imalloc_flags_tcache(MALLOCX_TCACHE(i)) != i;
	}
	imalloc_req_t r = imalloc_flags_req(1, MALLOCX_TCACHE_NONE, alloc_how_mallocx);
	bad += r.tcache != IMALLOC_TCACHE_NONE;
	is_uint(bad, 0, "every flag means what it says");
}

/* Usable sizes are what nallocx promised; sallocx and malloc_usable_size agree. */
static void
test_sizes(void) {
	uint64_t seed = 1;
	unsigned bad = 0;
	for (unsigned i = 0; i < 20000; i++) {
		size_t size = 1 + below(&seed, i % 50 == 0 ? 3000000 : 70000);
		int flags = below(&seed, 2) == 0 ? 0 : MALLOCX_LG_ALIGN((int)below(&seed, 18));
		flags |= below(&seed, 2) == 0 ? 0 : MALLOCX_TCACHE_NONE;
		char *p = keep(mallocx(size, flags));
		size_t n = nallocx(size, flags);
		bad += wrong_if(p == NULL) || wrong_if(n < size) || wrong_if(sallocx(p, flags) != n)
		    || wrong_if(malloc_usable_size(p) != n);
		bad += iusize(p) != n;
		size_t align = (size_t)1 << (flags & 0x3f);
		bad += ((uintptr_t)p & (align - 1)) != 0;
		p[0] = p[n - 1] = 1;
		if (below(&seed, 2) == 0) {
			sdallocx(p, size, flags);
		} else {
			free(p);
		}
	}
	is_uint(bad, 0, "20000 blocks have the size that was promised");
	is_uint(nallocx(SIZE_MAX, 0), 0, "too large: 0");
	is_uint(nallocx((size_t)1 << 62, MALLOCX_LG_ALIGN(62)), 0, "too large with its alignment: 0");
	is_uint(malloc_usable_size(NULL), 0, "NULL has no size");
	static int not_ours;
	is_uint(iusize(&not_ours), 0, "nor has what is not ours");
	is_uint(iusize((void *)(uintptr_t)UINT64_C(0xffff000000000000)), 0, "nor a wild pointer");
}

/* ------------------------------------------------------------------ resizing */

#define N_HELD 80

static struct {
	char *p;
	size_t size;
	unsigned char fill;
} held[N_HELD];

static unsigned
step_realloc(unsigned k, uint64_t *seed) {
	size_t old = malloc_usable_size(held[k].p);
	size_t size = 1 + below(seed, below(seed, 2) == 0 ? 400000 : 9000);
	bool zero = below(seed, 2) == 0;
	size_t align = (size_t)1 << below(seed, 14);
	int flags = (zero ? MALLOCX_ZERO : 0) | (below(seed, 3) == 0 ? MALLOCX_ALIGN(align) : 0);
	char *p = keep(rallocx(held[k].p, size, flags));
	size_t now = malloc_usable_size(p);
	unsigned bad = now != nallocx(size, flags) && (flags & 0x3f) == 0;
	bad += wrong_if(now < size)
	    || wrong_if(((flags & 0x3f) != 0 && ((uintptr_t)p & (align - 1)) != 0));
	/* The block was full to its usable size. */
	bad += !is_filled(p, held[k].fill, size < old ? size : old);
	bad += zero && now > old && !is_filled(p + old, 0, now - old);
	memset(p, held[k].fill, now);
	held[k].p = p;
	held[k].size = size;
	return bad;
}

static unsigned
step_xalloc(unsigned k, uint64_t *seed) {
	size_t old = malloc_usable_size(held[k].p);
	size_t size = 1 + below(seed, 400000), extra = below(seed, 3) == 0 ? below(seed, 100000) : 0;
	bool zero = below(seed, 2) == 0;
	size_t now = xallocx(held[k].p, size, extra, zero ? MALLOCX_ZERO : 0);
	unsigned bad = now != malloc_usable_size(held[k].p);
	/* Either as it was, or between what was asked and what was allowed. */
	bad += now != old && (wrong_if(now < size) || wrong_if(now > nallocx(size + extra, 0)));
	bad += !is_filled(held[k].p, held[k].fill, old < now ? old : now);
	bad += zero && now > old && !is_filled(held[k].p + old, 0, now - old);
	memset(held[k].p, held[k].fill, now);
	return bad;
}

static void
test_resizing(void) {
	uint64_t seed = 9;
	unsigned bad = 0, bad_x = 0;
	for (unsigned i = 0; i < 15000; i++) {
		unsigned k = (unsigned)below(&seed, N_HELD);
		size_t what = below(&seed, 6);
		if (held[k].p == NULL) {
			held[k].p = keep(malloc(1 + below(&seed, 100000)));
			held[k].fill = (unsigned char)(1 + below(&seed, 255));
			memset(held[k].p, held[k].fill, malloc_usable_size(held[k].p));
		} else if (what < 3) {
			bad += step_realloc(k, &seed);
		} else if (what < 5) {
			bad_x += step_xalloc(k, &seed);
		} else {
			bad += !is_filled(held[k].p, held[k].fill, malloc_usable_size(held[k].p));
			free(held[k].p);
			held[k].p = NULL;
		}
	}
	is_uint(bad, 0, "rallocx: contents, sizes, alignment, zeros");
	is_uint(bad_x, 0, "xallocx: the same, in place");
	char *p = keep(malloc(1000));
	is_uint(xallocx(p, SIZE_MAX, 0, 0), malloc_usable_size(p), "xallocx of too much");
	size_t most = xallocx(p, 1, SIZE_MAX, 0);
	is_uint(most, malloc_usable_size(p), "xallocx of too much extra");
	memset(p, 7, 1000);
	errno = 0;
	ok(keep(realloc(p, hide(SIZE_MAX - 5))) == NULL && errno == ENOMEM,
	    "realloc of too much: ENOMEM");
	ok(is_filled(p, 7, 1000), "and the block is kept");
	errno = 33;
	free(p);
	is_int(errno, 33, "free keeps errno");
	for (unsigned k = 0; k < N_HELD; k++) {
		free(held[k].p);
	}
}

/* realloc between any two of these sizes, which its shorter ways divide differently. */
static void
test_realloc(void) {
	static const size_t sizes[] = {1, 24, 100, 3584, 4096, 4097, 5000, 5001, 7168, 7169, 10240,
	    14335, 14336, 14337, 16384, 33000, 70000, 230000};
	enum { N = ARRAY_LEN(sizes) };
	unsigned bad = 0;
	for (unsigned i = 0; i < 4 * N * N; i++) {
		size_t from = sizes[i / N % N], to = sizes[i % N];
		char *p = keep(malloc(from)), *other = keep(malloc(to));
		memset(p, (int)(i % 250) + 1, malloc_usable_size(p));
		free(other);
		uintptr_t was = (uintptr_t)p;
		p = keep(realloc(p, to));
		bool is_alike = nallocx(to, 0) == nallocx(from, 0), has_stayed = (uintptr_t)p == was;
		/* large objects are cut in their place */
		bad += !config_hardening && nallocx(to, 0) < SC_LARGE_MINCLASS && has_stayed != is_alike;
		bad += wrong_if(!is_filled(p, (unsigned char)(i % 250 + 1), from < to ? from : to))
		    || wrong_if(malloc_usable_size(p) != nallocx(to, 0));
		free(p);
	}
	is_uint(bad, 0, "realloc from any class to any: contents, sizes; in its place in the same");
}

/* A large object that realloc has made longer passes the caches, in its place or elsewhere. */
static void
test_grown(void) {
	size_t size = SC_LARGE_MINCLASS * 8;
	char *p = keep(malloc(2 * size)), *q = keep(realloc(p, size));
	ok(p == q && (config_hardening || (emap_elem(q) & ELEM_LARGE) != 0), "cut, it may be cached");
	q = keep(realloc(q, 2 * size));
	ok(p == q && (emap_elem(q) & ELEM_LARGE) == 0, "but not when it has grown again in its place");
	q = keep(realloc(q, size));
	is_uint(xallocx(q, 2 * size, 0, 0), 2 * size, "xallocx has the room");
	ok(config_hardening || (emap_elem(q) & ELEM_LARGE) != 0, "what it made longer may be cached");
	size_t most = 2 * size;
	while (q == p && most < 64 * size) {
		char *wall = keep(malloc(size));
		q = keep(realloc(q, most += size));
		free(wall);
	}
	ok(q != p && (emap_elem(q) & ELEM_LARGE) == 0, "nor when it has moved");
	free(q);
}

/* ------------------------------------------------------------------ fill */

static int
child_junk(void) {
	int bad = 0;
	for (size_t size = 1; size < 200000; size += size / 2 + 1) {
		unsigned char *p = keep(malloc(size));
		size_t n = malloc_usable_size(p);
		bad += !is_filled(p, 0xa5, n);
		p = keep(realloc(p, n * 3));
		bad += !is_filled(p + n, 0xa5, malloc_usable_size(p) - n);
		free(p);
		p = keep(calloc(1, size));
		bad += !is_filled(p, 0, size);
		free(p);
		if (size < 3000)
			/* The cache may keep links there, not here; with checks it may be zeroed. */
			bad += size > 16 && p[size - 1] != 0x5a && (!config_hardening || p[size - 1] != 0);
	}
	return bad;
}

static int
child_zero(void) {
	int bad = 0;
	for (unsigned round = 0; round < 3; round++) {
		for (size_t size = 1; size < 200000; size += size / 2 + 1) {
			unsigned char *p = keep(malloc(size)), *q = keep(aligned_alloc(64, size));
			bad += !is_filled(p, 0, malloc_usable_size(p));
			bad += !is_filled(q, 0, malloc_usable_size(q));
			size_t n = malloc_usable_size(p);
			memset(p, 9, n);
			p = keep(realloc(p, n * 2));
			bad += wrong_if(!is_filled(p, 9, n))
			    || wrong_if(!is_filled(p + n, 0, malloc_usable_size(p) - n));
			memset(p, 9, malloc_usable_size(p));
			memset(q, 9, malloc_usable_size(q));
			free(p);
			free(q);
		}
	}
	return bad;
}

/* realloc(p, 0) by option; counted. */
static int
child_zero_realloc(void) {
	const char *how = ctl_str("opt.zero_realloc");
	size_t before = ctl_size("stats.zero_reallocs");
	void *p = keep(malloc(100));
	p = keep(realloc(p, hide(0)));
	uint64_t epoch = 1;
	ctl_write("epoch", epoch);
	bool is_counted = ctl_size("stats.zero_reallocs") == before + 1;
	return how == NULL || !is_counted || (strcmp(how, "alloc") == 0) != (p != NULL);
}

static const struct test_child children[] = {
	{"junk", child_junk},
	{"zero", child_zero},
	{"zero_realloc", child_zero_realloc},
	{NULL, NULL},
};

static void
test_options(void) {
	static struct test_result r;
	if (config_fill) {
		run_child_conf(&r, "junk", "junk:true");
		child_exits(&r, 0, "junk before and after use");
		run_child_conf(&r, "zero", "zero:true,junk:false");
		child_exits(&r, 0, "zero in everything that is new");
	}
	run_child_conf(&r, "zero_realloc", "zero_realloc:alloc");
	child_exits(&r, 0, "realloc(p, 0) allocates");
	run_child_conf(&r, "zero_realloc", "zero_realloc:free");
	child_exits(&r, 0, "realloc(p, 0) frees");
	run_child_conf(&r, "zero_realloc", "zero_realloc:abort");
	ok(died_of(&r, SIGABRT) && strstr(r.out, "Called realloc(non-null-ptr, 0)") != NULL,
	    "realloc(p, 0) ends the process");
}

/* ------------------------------------------------------------------ misuse */

static void
free_static(void *arg) {
	static char block[64];
	(void)arg;
	free(keep(block));
}

static void
free_large_twice(void *arg) {
	void *p = keep(malloc(1000000));
	(void)arg;
	free(p);
	free(keep(p));
}

static void
free_cached_twice(void *arg) {
	void *p = keep(malloc(65536)), *q = keep(malloc(65536));
	(void)arg;
	free(p);
	free(q);
	free(keep(p));
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0); /* small on 64K pages: told here */
}

static void
free_small_twice(void *arg) {
	void *p = keep(malloc(64));
	(void)arg;
	free(p);
	free(keep(p));
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
}

static void
realloc_freed(void *arg) {
	void *p = keep(malloc(5000000));
	(void)arg;
	free(p);
	p = keep(realloc(keep(p), 10000000));
}

static void
test_misuse(void) {
	dies(SIGABRT, "<jemalloc>: free of a pointer that is no block", free_static, NULL,
	    "free of a static");
	/* "double free", or where the free extent has been merged with the one before: "no block". */
	dies(SIGABRT, "<jemalloc>: ", free_large_twice, NULL, "a large block freed twice");
	dies(SIGABRT, "<jemalloc>: double free", free_cached_twice, NULL,
	    "a large block that a cache held twice");
	dies(SIGABRT, "<jemalloc>: double free", free_small_twice, NULL, "a small block freed twice");
	dies(SIGABRT, "<jemalloc>: ", realloc_freed, NULL, "realloc of a freed block");
}

/*
 * Two threads free a large block at the same moment: what one of them does before it has lost to
 * the other touches nothing of the block, whose pages may be without access by then (arena/shut.h).
 */
static void
lose(void *arg) {
	char *p = keep(malloc(*(size_t *)arg));
	uint64_t elem = emap_elem_any(p);
	edata_t *e = elem_edata(elem);

	mprotect(e->addr, e->size, PROT_NONE);
	if (ifree_elem(p, "free") != elem || !arena_large_try_claim(e))
		_exit(1);
	if (ifree_large_try_fast(p, elem))
		_exit(2);
	_exit(arena_large_is_live(p, e) ? 3 : 0);
}

static void
test_loser(void) {
	struct test_result r;

	for (size_t size = 5 * PAGE; size <= 2000 * PAGE; size *= 20) {
		test_fork(&r, lose, &size);
		is_int(r.status, 0, "a free of %zu bytes that loses touches none of them", size);
	}
}

/* ------------------------------------------------------------------ when the system refuses */

/* The flags of a new arena, without caches; is_mapped: it takes no memory from sbrk. */
static int
arena_flags(bool is_mapped) {
	unsigned ind = 0;
	size_t len = sizeof(ind);
	const char *disabled = "disabled";
	char name[40];

	if (mallctl("arenas.create", &ind, &len, NULL, 0) != 0)
		_exit(1);
	snprintf(name, sizeof(name), "arena.%u.dss", ind);
	if (is_mapped)
		mallctl(name, NULL, NULL, &disabled, sizeof(disabled));
	return (int)MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
}

/* No limit is known and no thread is idle: what another arena keeps is all that there is. */
static void
relieve(void *arg) {
	size_t mib = (size_t)1 << 20;

	(void)arg;
	int by = arena_flags(false), other = arena_flags(true);
	void *p = keep(mallocx(16 * mib, by));
	dallocx(p, by);
	scarce_begin();
	by = other;
	if (keep(mallocx(4 * mib, by)) == NULL)
		_exit(2);
	_exit(keep(mallocx((size_t)1 << 40, by)) == NULL ? 0 : 3);
}

static size_t unmapped;

static void *
refuse_map(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	if ((flags & MAP_FIXED) != 0)
		return os_hooks_real.mmap(addr, size, prot, flags, fd, off);
	errno = ENOMEM;
	return MAP_FAILED;
}

static int
count_unmap(void *addr, size_t size) {
	unmapped += size;
	return os_hooks_real.munmap(addr, size);
}

/* Bytes that are returned for a request of 4 MiB that fails all the same; 1: it does not. */
static size_t
returned_in_vain(int flags) {
	static struct os_hooks_s hooks;
	hooks = os_hooks_real;
	hooks.mmap = refuse_map;
	hooks.munmap = count_unmap;
	os_hooks = &hooks;
	unmapped = 0;
	void *p = keep(mallocx((size_t)4 << 20, flags));
	os_hooks = &os_hooks_real;
	return p == NULL ? unmapped : 1;
}

/* What did not help is not tried again until more is unused, or until it has helped. */
static void
useless(void *arg) {
	void *p[3];

	(void)arg;
	int by = arena_flags(false), other = arena_flags(true);
	for (unsigned i = 0; i < 3; i++)
		p[i] = keep(mallocx((size_t)64 << 20, by));
	dallocx(p[0], by);
	if (returned_in_vain(other) < ((size_t)4 << 20))
		_exit(2);
	if (returned_in_vain(other) != 0)
		_exit(3);
	dallocx(p[1], by);
	if (returned_in_vain(other) < ((size_t)4 << 20))
		_exit(4);
	if (returned_in_vain(other) != 0)
		_exit(5);
	dallocx(p[2], by);
	scarce_begin();
	if (keep(mallocx((size_t)4 << 20, other)) == NULL)
		_exit(6);
	_exit(returned_in_vain(other) < ((size_t)4 << 20) ? 7 : 0);
}

static void
test_relief(void) {
	struct test_result r;

	test_fork(&r, relieve, NULL);
	is_int(r.status, 0, "what another arena keeps serves a request that the system refuses");
	test_fork(&r, useless, NULL);
	is_int(r.status, 0, "but is not returned again and again in vain");
}

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	free(keep(malloc(1)));
	test_loser();
	test_flags();
	test_sizes();
	test_resizing();
	test_realloc();
	test_grown();
	test_options();
	test_misuse();
	test_relief();
	return done_testing();
}
