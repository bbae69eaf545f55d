/*
 * What a program may use of a block, in every build: malloc_usable_size, sallocx, nallocx and
 * xallocx agree, all of it can be written, stays through realloc, is zero where zeros were asked
 * for, and the block can be freed by that size. With canaries it is the size that was requested,
 * and a write of one byte behind or in front of a small block ends the process.
 */
#include "ctl.h"
#include <malloc.h>
#include <pthread.h>

static bool has_canaries;

static const size_t sizes[] = {
	0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 48, 63, 64, 65, 100, 112, 113, 128, 200, 255, 256, 1000,
	1024, 2047, 2048, 3000, 4064, 4079, 4080, 4081, 4095, 4096, 4097, 5000, 8192, 10000, 14319,
	14320, 14321, 14335, 14336, 14337, 16383, 16384, 20000, 32768, 40000, 65536, 300000, 5000000,
};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static bool
is_filled_with(const char *p, int byte, size_t n) {
	for (size_t i = 0; i < n; i++) {
		if (p[i] != (char)byte)
			return false;
	}
	return true;
}

/* Checks a new block of n bytes and writes all that may be used. Returns how much that is. */
static size_t
use(char *p, size_t n, unsigned *bad) {
	size_t usable = malloc_usable_size(p);

	*bad += wrong_if(p == NULL) || wrong_if(usable < n) || wrong_if(sallocx(p, 0) != usable);
	memset(p, 0x5e, usable);
	return usable;
}

static void
test_requests(void) {
	unsigned bad = 0;

	for (unsigned i = 0; i < N_SIZES; i++) {
		size_t n = sizes[i], usable;
		char *p = keep(malloc(n));

		usable = use(p, n, &bad);
		bad += has_canaries && n <= 14336 && wrong_if(usable != n);
		free(p);
		p = keep(calloc(1, n));
		bad += !is_filled_with(p, 0, has_canaries ? n : malloc_usable_size(p));
		use(p, n, &bad);
		free_sized(p, n);
		for (size_t alignment = 16; alignment <= 16384; alignment *= 4) {
			p = keep(aligned_alloc(alignment, n));
			bad += wrong_if((uintptr_t)p % alignment != 0);
			use(p, n, &bad);
			free_aligned_sized(p, alignment, n);
		}
		if (n == 0)
			continue;
		p = keep(mallocx(n, 0));
		usable = use(p, n, &bad);
		bad += wrong_if(usable != nallocx(n, 0)) || wrong_if(xallocx(p, n, 0, 0) != usable);
		bad += wrong_if(xallocx(p, usable, 0, 0) != usable);
		sdallocx(p, usable, 0);
		p = keep(mallocx(n, MALLOCX_ALIGN(256) | MALLOCX_ZERO));
		bad += !is_filled_with(p, 0, n);
		usable = use(p, n, &bad);
		bad += wrong_if(usable != nallocx(n, MALLOCX_ALIGN(256)) && usable != nallocx(usable, 0));
		sdallocx(p, n, MALLOCX_ALIGN(256));
	}
	is_uint(bad, 0, "each kind of request");
}

static void
test_resizing(void) {
	unsigned bad = 0;

	for (unsigned i = 0; i < N_SIZES; i++) {
		for (unsigned k = 0; k < N_SIZES; k++) {
			size_t n = sizes[i] + 1, m = sizes[k] + 1, old, now;
			char *p = keep(malloc(n));

			old = use(p, n, &bad);
			p = keep(realloc(p, m));
			now = malloc_usable_size(p);
			bad += !is_filled_with(p, 0x5e, old < m ? old : m);
			use(p, m, &bad);
			p = keep(rallocx(p, n, MALLOCX_ZERO));
			bad += !is_filled_with(p, 0x5e, now < n ? now : n);
			bad += now < n && !is_filled_with(p + now, 0, n - now);
			old = use(p, n, &bad);
			now = xallocx(p, n, m, 0);
			bad += wrong_if(now < n) || wrong_if(now != malloc_usable_size(p));
			memset(p, 1, now);
			sdallocx(p, now, 0);
		}
	}
	is_uint(bad, 0, "each size to each other");
}

/* The size that xallocx was asked for frees a block; an extra that it may give is no part of it. */
static void
test_extra(void) {
	unsigned bad = 0;

	for (size_t n = 21; n < 2000; n += 13) {
		for (int flags = 0; flags < 32; flags += 16) { /* 2^16: in large objects */
			char *p = keep(mallocx(n - 1, flags));
			size_t now = xallocx(p, n, 8, flags);
			bad += wrong_if(now != malloc_usable_size(p)) || wrong_if(now < n - 1);
			memset(p, 1, now);
			sdallocx(p, now < n ? now : n, flags);
		}
	}
	is_uint(bad, 0, "a sized free names no extra");
}

/* Much at once, so that blocks pass through all caches, in threads that free each other's. */
static void *given[4][3000];

static void *
many_worker(void *arg) {
	unsigned me = (unsigned)(uintptr_t)arg;
	uintptr_t bad = 0;

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 3000; i++) {
			size_t n = (i * 7 + round) % 600;
			char *p = keep(malloc(n));

			memset(p, 3, malloc_usable_size(p));
			p = __atomic_exchange_n(&given[(me + 1) % 4][i], p, __ATOMIC_ACQ_REL);
			bad += p != NULL && !is_filled_with(p, 3, malloc_usable_size(p));
			free(p);
		}
		if (round % 5 == 4)
			mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	}
	return (void *)bad;
}

static void
test_threads(void) {
	pthread_t t[4];
	unsigned bad = 0;
	void *n;

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many_worker, (void *)i);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(t[i], &n);
		bad += (unsigned)(uintptr_t)n;
	}
	is_uint(bad, 0, "blocks of other threads");
}

/* An arena that is emptied with its blocks in use, again and again. */
static void
test_reset(void) {
	unsigned ind = 0, bad = 0;
	size_t len = sizeof(ind);
	char name[64];

	mallctl("arenas.create", &ind, &len, NULL, 0);
	snprintf(name, sizeof(name), "arena.%u.reset", ind);
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 1; i < 400; i++) {
			int flags = MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
			char *p = keep(mallocx(i, flags));

			use(p, i, &bad);
			if (i % 3 == 0)
				dallocx(p, flags);
		}
		bad += mallctl(name, NULL, NULL, NULL, 0) != 0;
	}
	is_uint(bad, 0, "an arena that is reset");
}

/* ------------------------------------------------------------------ with canaries */

struct write {
	size_t n;
	long at; /* from the block's beginning */
	unsigned how;
};

static void
write_one(void *arg) {
	const struct write *w = arg;
	volatile char *p = keep(malloc(w->n)), *q = keep(malloc(w->n));

	p[w->at] = (char)(p[w->at] + 1);
	if (w->how == 0)
		free(keep((void *)p));
	else if (w->how == 1)
		keep(realloc(keep((void *)p), w->n + 1));
	else
		keep(realloc(keep((void *)p), 10 * w->n + 100));
	(void)q;
}

static void
test_writes(void) {
	static const long behind[] = {0, 7, 8, 15}, before[] = {-1, -8, -16};
	static struct test_result r;
	unsigned bad = 0;

	for (unsigned i = 0; i < N_SIZES && sizes[i] <= 14336; i++) {
		for (unsigned k = 0; k < 7; k++) {
			struct write w = {sizes[i], k < 4 ? (long)sizes[i] + behind[k] : before[k - 4],
			    (i + k) % 3};

			test_fork(&r, write_one, &w);
			bad += wrong_if(!died_of(&r, SIGABRT));
			if (!died_of(&r, SIGABRT))
				diag("%zu bytes, written at %ld, then %u", w.n, w.at, w.how);
		}
	}
	is_uint(bad, 0, "one byte within 16 of a small block");
}

static void
run_all(void) {
	size_t page = ctl_size("arenas.page");

	has_canaries = canary_bytes() != 0 && page == 4096;
	test_requests();
	test_resizing();
	test_extra();
	test_threads();
	test_reset();
}

static int
run_child(void) {
	run_all();
	return done_testing();
}

static const struct test_child children[] = {{"all", run_child}, {0}};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	run_all();
	if (has_canaries)
		test_writes();
	child_runs("all", "prof:true,lg_prof_sample:6");
	child_runs("all", "tcache:false");
	child_runs("all", "junk:true");
	child_runs("all", "zero:true");
	child_runs("all", "hpa:true,tcache_max:1024");
	return done_testing();
}
