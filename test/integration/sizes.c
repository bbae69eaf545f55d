/*
 * Size classes, usable sizes and alignments against the published rule: 8, steps of 16 to
 * 128, then four classes per doubling up to 7 << 60; slabs are the fewest pages that a
 * whole number of regions fills. The page size is the library's (arenas.page).
 */
#include "ctl.h"
#include <malloc.h>

static size_t page;

static bool
large_classes(void) {
	return !ctl_bool("opt.disable_large_size_classes");
}

static void
test_facts(void) {
	unsigned small = 0, all = 0;
	size_t size = 0;

	do {
		size = class_of(size + 1);
		all++;
		if (size < 4 * page)
			small++;
	} while (size < CLASS_MAX);
	is_uint(all, 232, "the rule gives 232 classes");
	is_uint(ctl_size("arenas.quantum"), 16, "arenas.quantum");
	is_uint(ctl_unsigned("arenas.nbins"), small, "arenas.nbins");
	is_uint(ctl_unsigned("arenas.nlextents"), all - small, "arenas.nlextents");
	if (page == 4096) {
		is_uint(small, 36, "36 small classes on 4K pages");
		is_uint(ctl_size("arenas.tcache_max"), 4 << 20, "arenas.tcache_max");
		is_uint(ctl_unsigned("arenas.nhbins"), 69, "arenas.nhbins");
	}
}

/* The bytes of a slab by the rule: with canaries four regions at least. */
static size_t
slab_of(size_t size) {
	size_t slab = page, least = canary_bytes() != 0 ? 4 * size : 0;

	while (slab % size != 0 || slab < least)
		slab += page;
	return slab;
}

static void
test_tables(void) {
	unsigned nbins = ctl_unsigned("arenas.nbins");
	unsigned nlextents = ctl_unsigned("arenas.nlextents");
	size_t size = 0;
	char name[64];

	for (unsigned i = 0; i < nbins && i < 100; i++) {
		size_t got = ctl_size(ctl_name(name, "arenas.bin.%u.size", i));
		size_t slab = ctl_size(ctl_name(name, "arenas.bin.%u.slab_size", i));
		uint32_t nregs = ctl_u32(ctl_name(name, "arenas.bin.%u.nregs", i));

		size = class_of(size + 1);
		ok(got == size && slab == slab_of(size) && nregs == slab / size,
		    "bin %u: size %zu (%zu), slab %zu (%zu), %u regions", i, got, size, slab,
		    slab_of(size), nregs);
		is_uint(ctl_u32(ctl_name(name, "arenas.bin.%u.nshards", i)), 1,
		    "bin %u has one shard", i);
	}
	for (unsigned i = 0; i < nlextents && i < 300; i++) {
		size_t got = ctl_size(ctl_name(name, "arenas.lextent.%u.size", i));

		size = class_of(size + 1);
		is_uint(got, size, "large class %u", i);
	}
	is_uint(size, CLASS_MAX, "the last class");
	ok(!ctl_exists(ctl_name(name, "arenas.bin.%u.size", nbins)), "no bin after the last");
	ok(!ctl_exists(ctl_name(name, "arenas.lextent.%u.size", nlextents)),
	    "no large class after the last");
}

/* One request: its block, nallocx and sallocx all agree with the rule. */
static bool
agrees(size_t size) {
	bool is_exact = canary_bytes() != 0 && size <= 7 * page / 2;
	size_t want = is_exact ? size : usable_of(size, page, large_classes());
	void *p = keep(malloc(size));
	size_t align = want <= 8 && !is_exact ? 8 : 16;
	bool good = p != NULL && malloc_usable_size(p) == want && sallocx(p, 0) == want
	    && nallocx(size, 0) == want && ((uintptr_t)p & (align - 1)) == 0;

	if (!good)
		diag("size %zu: got %zu (nallocx %zu) at %p, want %zu", size,
		    p != NULL ? malloc_usable_size(p) : 0, nallocx(size, 0), p, want);
	if (p != NULL && want <= (size_t)16 << 20)
		memset(p, 0xa1, want);
	free(p);
	return good;
}

static void
test_usable(void) {
	bool good = true;
	size_t size = 0;

	for (size_t s = 1; good && s <= 5000; s++)
		good = agrees(s);
	ok(good, "usable size of 1..5000");
	for (size_t s = 5000; good && s <= 300000; s += 37)
		good = agrees(s);
	ok(good, "usable size of 5000..300000 by 37");
	while (size < (size_t)1 << 27) {
		size = class_of(size + 1);
		good = good && agrees(size) && agrees(size - 1) && agrees(size + 1);
	}
	ok(good, "usable size at, below and above every class to 128 MB");
	good = true;
	while (size < CLASS_MAX) {
		size_t want;

		size = class_of(size + 1);
		want = usable_of(size - 1, page, large_classes());
		good = good && nallocx(size, 0) == size && nallocx(size - 1, 0) == want;
	}
	ok(good, "nallocx to the last class");
	is_uint(nallocx(hide(CLASS_MAX + 1), 0), 0, "nallocx beyond it is 0");
	is_uint(nallocx(hide(SIZE_MAX), 0), 0, "nallocx(SIZE_MAX) is 0");
}

static int
child_usable(void) {
	page = ctl_size("arenas.page");
	test_usable();
	return done_testing();
}

static void
test_usable_of_large_classes(void) {
	static struct test_result r;

	if (ctl_str("version") != NULL && strncmp(ctl_str("version"), "5.3.0", 5) == 0) {
		skip(1, "the option came with 5.3.1");
		return;
	}
	run_child_conf(&r, "usable", "disable_large_size_classes:false");
	child_exits(&r, 0, "the same with disable_large_size_classes:false");
}

/* Many aligned blocks alive together: aligned, large enough, and none over another. */
static void
test_alignments(void) {
	static unsigned char *block[4096];
	static size_t length[4096];
	size_t n = 0, bad = 0;

	for (size_t align = 8; align <= (size_t)4 << 20; align *= 2) {
		for (size_t size = 1; size <= (size_t)1 << 20 && n < 4096; size = size * 3 + 1) {
			void *p = NULL;

			if (posix_memalign(&p, align, size) != 0
			    || ((uintptr_t)p & (align - 1)) != 0 || malloc_usable_size(p) < size) {
				diag("align %zu size %zu gives %p", align, size, p);
				bad++;
				continue;
			}
			memset(p, (int)(n * 31 % 251), size);
			block[n] = p;
			length[n++] = size;
		}
	}
	is_uint(bad, 0, "%zu aligned blocks", n);
	for (size_t i = 0; i < n; i++) {
		if (!is_filled(block[i], (int)(i * 31 % 251), length[i]))
			bad++;
	}
	is_uint(bad, 0, "they do not overlap");
	for (size_t i = 0; i < n; i++)
		free(block[n - 1 - i]);
}

static void
test_huge_alignment(void) {
	void *p = keep(aligned_alloc((size_t)1 << 30, 100));

	is_ptr_aligned(p, (size_t)1 << 30, "alignment of 1 GB");
	if (p != NULL)
		memset(p, 1, 100);
	free(p);
	p = keep(memalign((size_t)1 << 25, (size_t)3 << 20));
	is_ptr_aligned(p, (size_t)1 << 25, "3 MB at 32 MB");
	if (p != NULL)
		memset(p, 1, (size_t)3 << 20);
	free(p);
}

static const struct test_child children[] = {
	{"usable", child_usable},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	page = ctl_size("arenas.page");
	test_facts();
	test_tables();
	test_usable();
	test_usable_of_large_classes();
	test_alignments();
	test_huge_alignment();
	return done_testing();
}
