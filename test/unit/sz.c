/* meta/sz.h: from request to usable size, checked against a search over the ladder. */
#include "core.h"

#include "meta/sz.h"

static unsigned
class_by_search(size_t size) {
	unsigned i = 0;
	while (i < SC_NSIZES && sc_size_tab[i] < size) {
		i++;
	}
	return i;
}

static size_t
usize_by_rule(size_t size, size_t ladder_max) {
	if (size <= ladder_max) {
		return sc_size_tab[class_by_search(size)];
	}
	return size > SC_LARGE_MAXCLASS ? 0 : (size + PAGE - 1) / PAGE * PAGE;
}

/* A size whose magnitude is spread evenly over the bits. */
static size_t
random_size(uint64_t *seed) {
	uint64_t x = test_random(seed);
	return (size_t)(test_random(seed) >> (x % 63));
}

static void
test_classes(void) {
	uint64_t seed = 1;
	unsigned bad = 0;
	for (unsigned i = 0; i < 200000; i++) {
		size_t size = random_size(&seed);
		bad += sz_s2i(size) != class_by_search(size);
	}
	is_uint(bad, 0, "classes of 200000 random sizes");
	is_uint(sz_s2i(SC_LARGE_MAXCLASS + 1), SC_NSIZES, "too large");
	is_uint(sz_s2i(SIZE_MAX), SC_NSIZES, "much too large");
	is_uint(sz_s2i(0), 0, "nothing is of the first class");
}

/* sz_s2u(); the compiler does not see the size, for it takes sz_ladder_max for any and warns. */
static size_t
usize_of(size_t size) {
	return sz_s2u(hide(size));
}

static void
test_usizes(const char *what) {
	uint64_t seed = 2;
	unsigned bad = 0;
	for (unsigned i = 0; i < 200000; i++) {
		size_t size = random_size(&seed);
		bad += usize_of(size) != usize_by_rule(size, sz_ladder_max);
	}
	for (size_t size = 0; size < 20 * PAGE; size += 1 + size / 512) {
		bad += usize_of(size) != usize_by_rule(size, sz_ladder_max);
	}
	is_uint(bad, 0, "usable sizes, %s", what);
	is_uint(usize_of(SC_LARGE_MAXCLASS), SC_LARGE_MAXCLASS, "the largest size is one, %s", what);
	is_uint(usize_of(SC_LARGE_MAXCLASS + 1), 0, "above it there is none, %s", what);
	is_uint(usize_of(SIZE_MAX), 0, "nor for the largest number, %s", what);
}

/* What alignment asks: enough room, and the places of the class' regions are aligned. */
static bool
is_aligned_well(size_t size, size_t alignment, size_t usize) {
	if (usize < size || usize < alignment / 2) {
		return usize >= size && usize >= SC_LARGE_MINCLASS;
	}
	if (usize < SC_LARGE_MINCLASS) {
		return alignment <= PAGE && usize % alignment == 0;
	}
	return usize % PAGE == 0 || usize == sz_s2u(size);
}

static void
test_aligned(void) {
	uint64_t seed = 3;
	unsigned bad = 0, n = 0, refused = 0;
	for (unsigned i = 0; i < 200000; i++) {
		size_t size = random_size(&seed), alignment = (size_t)1 << draw_below(&seed, 63);
		size_t usize = sz_sa2u(size, alignment);
		bool fits = size + alignment >= size && size + alignment + PAGE < SC_LARGE_MAXCLASS / 8;
		if (usize == 0) {
			refused++;
			bad += fits;
		} else {
			n++;
			bad += !is_aligned_well(size, alignment, usize);
			bad += usize + alignment < usize;
		}
	}
	is_uint(bad, 0, "aligned sizes: %u served, %u refused", n, refused);
	ok(n > 1000 && refused > 1000, "both happened");
	for (size_t alignment = 1; alignment <= PAGE; alignment *= 2) {
		for (size_t size = 1; size <= 3 * PAGE; size += 1 + size / 300) {
			size_t usize = sz_sa2u(size, alignment);
			/* The same class that the fast path finds by rounding up. */
			size_t rounded = (size + alignment - 1) & ~(alignment - 1);
			bad += rounded <= SC_SMALL_MAXCLASS && usize != sz_s2u(rounded);
			bad += usize < SC_LARGE_MINCLASS && usize % alignment != 0;
		}
	}
	is_uint(bad, 0, "small aligned sizes are the class of the rounded size");
	is_uint(sz_sa2u(0, 64), 64, "size 0 counts as one byte");
	is_uint(sz_sa2u(1, (size_t)1 << 63), 0, "an alignment beyond everything");
	is_uint(sz_sa2u(SIZE_MAX, 8), 0, "a size beyond everything");
}

static void
test_page_classes(void) {
	unsigned bad = 0, pind = 0;
	size_t last = 0;
	for (unsigned i = 0; i < SC_NSIZES; i++) {
		size_t size = sc_size_tab[i];
		if (size % PAGE != 0) {
			continue;
		}
		bad += wrong_if(sz_pind2sz(pind) != size) || wrong_if(sz_psz2ind(size) != pind)
		    || wrong_if(sz_psz_floor(size) != pind);
		if (last != 0 && last + PAGE < size) {
			bad += wrong_if(sz_psz2ind(last + PAGE) != pind)
			    || wrong_if(sz_psz_floor(last + PAGE) != pind - 1);
			bad += wrong_if(sz_psz2ind(size - PAGE) != pind)
			    || wrong_if(sz_psz_floor(size - PAGE) != pind - 1);
		}
		last = size;
		pind++;
	}
	is_uint(bad, 0, "page classes round up and down at both ends");
	is_uint(pind, SC_NPSIZES, "all of them");
	is_uint(sz_psz2ind(SC_LARGE_MAXCLASS + PAGE), SC_NPSIZES, "too large for any");
	is_uint(sz_psz_floor(SC_LARGE_MAXCLASS + PAGE), SC_NPSIZES - 1, "but above the last");
}

static void
body(void) {
	test_classes();
	is_uint(sz_ladder_max, (size_t)4 << 20, "the ladder ends with the caches");
	test_usizes("only pages above the ladder");
	test_aligned();
	test_page_classes();
	/*
	 * Other settings; nothing is allocated from here on that was not asked for at the same setting.
	 */
	size_t saved = sz_ladder_max;
	sz_boot((size_t)1 << 20);
	is_uint(sz_ladder_max, max_zu(8 * PAGE, (size_t)1 << 20),
	    "a larger cache moves the end of the ladder");
	test_usizes("a ladder of 1 MiB");
	opt_disable_large_size_classes = false;
	sz_boot((size_t)128 << 10);
	is_uint(sz_ladder_max, SC_LARGE_MAXCLASS, "the ladder for all sizes");
	test_usizes("all sizes");
	opt_disable_large_size_classes = true;
	sz_ladder_max = saved;
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
