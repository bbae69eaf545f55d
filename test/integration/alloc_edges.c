/*
 * The edges of every function that the C library also has: sizes 0 and too large, bad
 * alignments, errno, NULL, contents. Where the C library and other allocators disagree
 * the C library's habit is the one that is asked for.
 */
#include "ctl.h"
#include <malloc.h>

/* errno before a call that must not, or must, set it. */
#define MARK 4711

static const size_t too_large[] = {
	SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX,
	(size_t)PTRDIFF_MAX + 1, CLASS_MAX + 1,
};

#define N_TOO_LARGE (sizeof(too_large) / sizeof(too_large[0]))

static void
test_malloc(void) {
	void *a = keep(malloc(hide(0)));
	void *b = keep(malloc(hide(0)));
	size_t least = canary_bytes() != 0 ? 0 : 8;

	ok(a != NULL && b != NULL && a != b, "malloc(0) gives unique blocks");
	is_uint(malloc_usable_size(a), least, "malloc(0) has the smallest class");
	free(a);
	free(b);
	for (size_t i = 0; i < N_TOO_LARGE; i++) {
		void *p;

		errno = MARK;
		p = keep(malloc(hide(too_large[i])));
		ok(p == NULL && errno == ENOMEM, "malloc(%#zx): NULL, ENOMEM (errno %d)",
		    too_large[i], errno);
	}
	errno = MARK;
	a = keep(malloc(100));
	is_int(errno, MARK, "a malloc that works leaves errno alone");
	free(a);
	is_uint(malloc_usable_size(NULL), 0, "usable size of NULL is 0");
}

static void
test_calloc(void) {
	void *p = keep(calloc(hide(0), 16));
	size_t least = canary_bytes() != 0 ? 0 : 8;

	ok(p != NULL && malloc_usable_size(p) == least, "calloc(0, 16)");
	free(p);
	p = keep(calloc(16, hide(0)));
	ok(p != NULL && malloc_usable_size(p) == least, "calloc(16, 0)");
	free(p);
	errno = MARK;
	p = keep(calloc(hide(SIZE_MAX / 2), 3));
	ok(p == NULL && errno == ENOMEM, "calloc whose product overflows");
	errno = MARK;
	p = keep(calloc(hide((size_t)1 << 32), (size_t)1 << 32));
	ok(p == NULL && errno == ENOMEM, "calloc whose product is 2^64");
	errno = MARK;
	p = keep(calloc(hide(1), hide(SIZE_MAX)));
	ok(p == NULL && errno == ENOMEM, "calloc(1, SIZE_MAX)");
}

/* Dirty memory, give it back, and ask for zeroes of the same size. */
static void
test_calloc_zeroes(void) {
	static const size_t sizes[] = { 1, 8, 24, 64, 100, 512, 4096, 14336, 16384, 20000,
	    65536, 300000, 1 << 20, 9 << 20 };
	bool good = true;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int round = 0; round < 4; round++) {
			void *p[8];

			for (int j = 0; j < 8; j++) {
				p[j] = keep(malloc(sizes[i]));
				memset(p[j], 0xee, sizes[i]);
			}
			for (int j = 0; j < 8; j++)
				free(p[j]);
			for (int j = 0; j < 8; j++) {
				p[j] = keep(calloc(1, sizes[i]));
				good = good && p[j] != NULL && is_filled(p[j], 0, sizes[i]);
				memset(p[j], 0xdd, sizes[i]);
			}
			for (int j = 0; j < 8; j++)
				free(p[j]);
		}
	}
	ok(good, "calloc gives zeroes also where memory is used again");
}

static void
test_posix_memalign(void) {
	static const size_t bad[] = {0, 1, 2, 4, 3, 12, 24, 100, SIZE_MAX};
	void *p = (void *)MARK;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int rc;

		errno = MARK;
		rc = posix_memalign(&p, hide(bad[i]), 100);
		ok(rc == EINVAL && errno == MARK && p == (void *)MARK,
		    "posix_memalign, alignment %zu: EINVAL, nothing written", bad[i]);
	}
	for (size_t i = 0; i < N_TOO_LARGE; i++) {
		int rc;

		errno = MARK;
		rc = posix_memalign(&p, 64, hide(too_large[i]));
		ok(rc == ENOMEM && errno == ENOMEM && p == (void *)MARK,
		    "posix_memalign of %#zx: ENOMEM, in errno too, nothing written", too_large[i]);
	}
	is_int(posix_memalign(&p, hide((size_t)1 << 62), (size_t)1 << 62), ENOMEM,
	    "alignment and size that overflow together");
	is_int(posix_memalign(&p, 64, hide(0)), 0, "posix_memalign of size 0");
	is_ptr_aligned(p, 64, "its block is aligned");
	free(p);
}

static void
test_aligned_alloc(void) {
	void *p;

	errno = MARK;
	p = keep(aligned_alloc(hide(0), 64));
	ok(p == NULL && errno == EINVAL, "aligned_alloc(0, 64): EINVAL");
	errno = MARK;
	p = keep(aligned_alloc(hide(48), 96));
	ok(p == NULL && errno == EINVAL, "aligned_alloc(48, 96): EINVAL");
	p = keep(aligned_alloc(hide(1), 5));
	ok(p != NULL, "alignment 1");
	free(p);
	p = keep(aligned_alloc(hide(256), 0));
	ok(p != NULL && ((uintptr_t)p & 255) == 0, "aligned_alloc(256, 0)");
	free(p);
	p = keep(aligned_alloc(hide(64), 65));
	is_ptr_aligned(p, 64, "a size that is no multiple of the alignment");
	free(p);
	for (size_t i = 0; i < N_TOO_LARGE; i++) {
		errno = MARK;
		p = keep(aligned_alloc(32, hide(too_large[i])));
		ok(p == NULL && errno == ENOMEM, "aligned_alloc(32, %#zx): ENOMEM", too_large[i]);
	}
}

/* It asks for alignments that are no power of two, which clang's sanitizer forbids to callers. */
#if defined(__clang__)
__attribute__((no_sanitize("alignment")))
#endif
static void
test_memalign(void) {
	static const size_t odd[] = {0, 3, 24, 100};
	void *p;

	for (size_t i = 0; i < N_TOO_LARGE; i++) {
		errno = MARK;
		p = keep(memalign(32, hide(too_large[i])));
		ok(p == NULL && errno == ENOMEM, "memalign(32, %#zx): ENOMEM (errno %d)",
		    too_large[i], errno);
	}
	/* The C library rounds such an alignment up; refusing it is good only with a reason. */
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		size_t up = 1;

		while (up < odd[i])
			up <<= 1;
		errno = MARK;
		p = keep(memalign(hide(odd[i]), 100));
		ok(p == NULL ? errno == EINVAL : ((uintptr_t)p & (up - 1)) == 0,
		    "memalign(%zu, 100): aligned to %zu, or EINVAL (got %p, errno %d)",
		    odd[i], up, p, errno);
		free(p);
	}
	errno = MARK;
	p = keep(memalign(hide(SIZE_MAX), 100));
	ok(p == NULL && (errno == EINVAL || errno == ENOMEM), "memalign(SIZE_MAX, 100)");
	p = keep(memalign(64, hide(0)));
	is_ptr_aligned(p, 64, "memalign(64, 0)");
	free(p);
}

static void
test_valloc(void) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = keep(valloc(hide(0)));

	is_ptr_aligned(p, page, "valloc(0) is page aligned");
	free(p);
	p = keep(valloc(100));
	is_ptr_aligned(p, page, "valloc(100) is page aligned");
	free(p);
	p = keep(pvalloc(hide(0)));
	is_ptr_aligned(p, page, "pvalloc(0) is page aligned");
	free(p);
	p = keep(pvalloc(hide(1)));
	ok(p != NULL && ((uintptr_t)p & (page - 1)) == 0 && malloc_usable_size(p) >= page,
	    "pvalloc(1) is a whole page");
	free(p);
	p = keep(pvalloc(page + 1));
	ok(p != NULL && malloc_usable_size(p) >= 2 * page, "pvalloc(page + 1) is two pages");
	free(p);
	for (size_t i = 0; i < N_TOO_LARGE; i++) {
		errno = MARK;
		p = keep(valloc(hide(too_large[i])));
		ok(p == NULL && errno == ENOMEM, "valloc(%#zx): ENOMEM (errno %d)",
		    too_large[i], errno);
		errno = MARK;
		p = keep(pvalloc(hide(too_large[i])));
		ok(p == NULL && errno == ENOMEM, "pvalloc(%#zx): ENOMEM (errno %d)",
		    too_large[i], errno);
	}
	errno = MARK;
	p = keep(pvalloc(hide(SIZE_MAX - page + 2)));
	ok(p == NULL && errno == ENOMEM, "pvalloc of a size that wraps when rounded up");
}

static void
test_realloc(void) {
	char *p = keep(realloc(NULL, hide(100)));

	ok(p != NULL, "realloc(NULL, 100) is malloc(100)");
	memset(p, 'x', 100);
	for (size_t i = 0; i < N_TOO_LARGE; i++) {
		void *q;

		errno = MARK;
		q = keep(realloc(keep(p), hide(too_large[i])));
		ok(q == NULL && errno == ENOMEM, "realloc(p, %#zx): ENOMEM (errno %d)",
		    too_large[i], errno);
	}
	ok(is_filled(p, 'x', 100), "the old block is kept");
	errno = MARK;
	p = keep(realloc(p, hide(100000)));
	ok(p != NULL && is_filled(p, 'x', 100) && errno == MARK, "grown, contents kept");
	p = keep(realloc(p, hide(50)));
	ok(p != NULL && is_filled(p, 'x', 50), "shrunk, contents kept");
	ok(malloc_usable_size(p) < 100000, "memory was given back");
	free(p);
	p = keep(realloc(NULL, hide(0)));
	ok(p != NULL, "realloc(NULL, 0) is malloc(0)");
	free(p);
}

/* Every step of a ladder up and down, small and large, with a pattern that must survive. */
static void
test_realloc_ladder(void) {
	size_t size = 1;
	unsigned char *p = keep(malloc(1));
	bool good = p != NULL;

	p[0] = 1;
	while (good && size < ((size_t)24 << 20)) {
		size_t more = size + size / 3 + 1;

		p = keep(realloc(p, more));
		good = p != NULL;
		for (size_t i = 0; good && i < size; i += 1 + size / 257)
			good = p[i] == (unsigned char)(i * 7 + 1);
		for (size_t i = 0; good && i < more; i++)
			p[i] = (unsigned char)(i * 7 + 1);
		size = more;
	}
	ok(good, "growing by thirds to 24 MB keeps the contents");
	while (good && size > 3) {
		size = size * 2 / 3;
		p = keep(realloc(p, size));
		good = p != NULL;
		for (size_t i = 0; good && i < size; i += 1 + size / 257)
			good = p[i] == (unsigned char)(i * 7 + 1);
	}
	ok(good, "and shrinking");
	free(p);
}

static void
test_free(void) {
	static const size_t sizes[] = {1, 100, 5000, 20000, 100000, 3 << 20, 64 << 20};

	errno = MARK;
	free(NULL);
	is_int(errno, MARK, "free(NULL) keeps errno");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *p[64];
		int n = sizes[i] > 1 << 20 ? 4 : 64;
		bool kept = true;

		for (int j = 0; j < n; j++) {
			p[j] = keep(malloc(sizes[i]));
			*(char *)p[j] = 1;
		}
		for (int j = 0; j < n; j++) {
			errno = MARK;
			free(p[j]);
			kept = kept && errno == MARK;
		}
		ok(kept, "free of %zu bytes keeps errno", sizes[i]);
	}
}

static void
test_free_sized(void) {
	static const size_t sizes[] = {0, 1, 8, 9, 64, 100, 4096, 14336, 14337, 100000, 1 << 20};
	bool good = true;
	void *p, *q;

	errno = MARK;
	free_sized(NULL, 8);
	free_aligned_sized(NULL, 64, 8);
	is_int(errno, MARK, "free_sized(NULL) and free_aligned_sized(NULL) do nothing");
	p = keep(malloc(8));
	q = keep(malloc(8));
	ok(p != NULL && q != NULL && p != q, "and the next blocks are real");
	free(p);
	free(q);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int round = 0; round < 3000; round++) {
			p = keep(malloc(sizes[i]));
			good = good && p != NULL;
			free_sized(p, sizes[i]);
			p = keep(aligned_alloc(64, sizes[i]));
			good = good && p != NULL;
			errno = MARK;
			free_aligned_sized(p, 64, sizes[i]);
			good = good && errno == MARK;
		}
	}
	ok(good, "3000 rounds of sized free in eleven sizes");
}

static int
child_zero_realloc(void) {
	void *p = keep(malloc(1000));
	size_t before = ctl_size("stats.zero_reallocs");
	void *q;

	errno = MARK;
	q = keep(realloc(p, hide(0)));
	printf("result %s errno %s usable %zu counted %zu\n", q == NULL ? "null" : "block",
	    errno == MARK ? "kept" : "set", malloc_usable_size(q),
	    ctl_size("stats.zero_reallocs") - before);
	free(q);
	return 0;
}

static void
test_zero_realloc(void) {
	static struct test_result r;

	run_child_conf(&r, "zero_realloc", NULL);
	contains(r.out, "result null errno kept usable 0 counted", "realloc(p, 0) frees by default");
	run_child_conf(&r, "zero_realloc", "zero_realloc:free");
	contains(r.out, "result null errno kept usable 0 counted", "zero_realloc:free");
	run_child_conf(&r, "zero_realloc", "zero_realloc:alloc");
	contains(r.out, canary_bytes() != 0 ? "result block errno kept usable 1 counted"
	    : "result block errno kept usable 8 counted", "zero_realloc:alloc");
	if (ctl_bool("config.stats"))
		contains(r.out, "counted 1\n", "and it is counted");
	else
		skip(1, "no statistics in this build");
	run_child_conf(&r, "zero_realloc", "zero_realloc:abort");
	ok(died_of(&r, SIGABRT), "zero_realloc:abort aborts");
	is_str(r.out, "<jemalloc>: Called realloc(non-null-ptr, 0) with zero_realloc:abort set\n",
	    "its message");
	run_child_conf(&r, "zero_realloc_heard", "zero_realloc:abort");
	child_exits(&r, 0, "a hook in place of abort");
	is_str(r.out, "heard <jemalloc>: Called realloc(non-null-ptr, 0) with zero_realloc:abort "
	    "set\nresult null, kept\n", "hears it, and realloc gives NULL");
}

static void
remember(const char *message) {
	printf("heard %s", message);
}

static int
child_zero_realloc_heard(void) {
	void (*hook)(const char *) = remember;
	char *p = keep(malloc(1000));

	memset(p, 'k', 1000);
	if (ctl_write("experimental.hooks.safety_check_abort", hook) != 0)
		return 1;
	printf("result %s\n", keep(realloc(p, hide(0))) == NULL && is_filled(p, 'k', 1000)
	    ? "null, kept" : "other");
	free(p);
	return 0;
}

/* Each function that may fail, by its number in how_xmalloc. */
static int
child_xmalloc(void) {
	size_t most = hide(SIZE_MAX);
	void *p = NULL;

	switch (atoi(getenv("WHICH"))) {
	case 0: p = malloc(most); break;
	case 1: p = calloc(most, 2); break;
	case 2: p = realloc(keep(malloc(1)), most); break;
	case 3: p = aligned_alloc(64, most); break;
	case 4: p = aligned_alloc(hide(3), 8); break;
	case 5: p = memalign(64, most); break;
	case 6: p = memalign(hide(SIZE_MAX), 8); break;
	case 7: return posix_memalign(&p, 64, most);
	case 8: return posix_memalign(&p, hide(3), 8);
	case 9: p = mallocx(most, 0); break;
	case 10: p = rallocx(keep(malloc(1)), most, 0); break;
	case 11: p = pvalloc(most); break;
	}
	return keep(p) == NULL ? 0 : 1;
}

static void
test_xmalloc(void) {
	static struct test_result r;
	static const struct {
		const char *who, *what;
	} how_xmalloc[] = {{"malloc()", "out of memory"}, {"calloc()", "out of memory"},
	    {"realloc()", "out of memory"}, {"aligned_alloc()", "out of memory"},
	    {"aligned_alloc()", "invalid alignment"}, {"memalign()", "out of memory"},
	    {"memalign()", "invalid alignment"}, {"aligned memory", "out of memory"},
	    {"aligned memory", "invalid alignment"}, {"mallocx()", "out of memory"},
	    {"rallocx()", "out of memory"}, {"pvalloc()", "out of memory"}};

	for (int i = 0; i < 12 && ctl_bool("config.xmalloc"); i++) {
		char which[16], text[80];
		const char *env[] = {"MALLOC_CONF=xmalloc:true", which, NULL};

		snprintf(which, sizeof(which), "WHICH=%d", i);
		snprintf(text, sizeof(text), "%s: %s", how_xmalloc[i].who, how_xmalloc[i].what);
		run_child_env(&r, "xmalloc", env);
		ok(died_of(&r, SIGABRT), "xmalloc:true aborts");
		contains(r.out, text, "its message");
	}
}

static const struct test_child children[] = {
	{"zero_realloc", child_zero_realloc},
	{"zero_realloc_heard", child_zero_realloc_heard},
	{"xmalloc", child_xmalloc},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	test_malloc();
	test_calloc();
	test_calloc_zeroes();
	test_posix_memalign();
	test_aligned_alloc();
	test_memalign();
	test_valloc();
	test_realloc();
	test_realloc_ladder();
	test_free();
	test_free_sized();
	test_zero_realloc();
	test_xmalloc();
	return done_testing();
}
