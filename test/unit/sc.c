/* meta/sc.h: the ladder, recomputed here from its rule, and the cuts for each page size. */
#include "core.h"

#include "meta/sc.h"

static size_t ladder[SC_NSIZES];

/* 8, multiples of 16 up to 64, then each doubling in four equal steps. */
static unsigned
ladder_make(void) {
	unsigned n = 0;
	ladder[n++] = 8;
	for (size_t s = 16; s <= 64; s += 16) {
		ladder[n++] = s;
	}
	for (size_t base = 64; n < SC_NSIZES; base *= 2) {
		for (unsigned step = 1; step <= 4 && n < SC_NSIZES; step++) {
			ladder[n++] = base + base / 4 * step;
		}
	}
	return n;
}

/* Smallest step that is not below size, by looking at each. */
static unsigned
class_by_search(size_t size) {
	unsigned i = 0;
	while (ladder[i] < size) {
		i++;
	}
	return i;
}

static void
test_table(void) {
	unsigned bad = 0;
	is_uint(ladder_make(), SC_NSIZES, "232 steps");
	for (unsigned i = 0; i < SC_NSIZES; i++) {
		bad += sc_size_tab[i] != ladder[i];
	}
	is_uint(bad, 0, "each is what the rule says");
	is_uint(ladder[SC_NSIZES - 1], SC_LARGE_MAXCLASS, "the last is the largest class");
}

static void
test_lookup(void) {
	unsigned bad = 0;
	for (size_t size = 0; size <= SC_LOOKUP_MAX; size++) {
		bad += sc_bin_offset(size) != (class_by_search(size) + 1) * SC_BIN_STRIDE;
	}
	is_uint(bad, 0, "the lookup table: every size up to its end");
	for (size_t size = 1; size <= 70000; size++) {
		bad += sc_index_compute(size) != class_by_search(size);
	}
	is_uint(bad, 0, "computed classes: every size up to 70000");
	for (unsigned i = 0; i < SC_NSIZES; i++) {
		bad += sc_index_compute(ladder[i]) != i;
		bad += i > 0 && sc_index_compute(ladder[i - 1] + 1) != i;
	}
	is_uint(bad, 0, "both ends of every class");
}

static void
test_cuts(void) {
	unsigned nbins = 0, npsizes = 0;
	for (unsigned i = 0; i < SC_NSIZES; i++) {
		nbins += ladder[i] < 4 * PAGE;
		npsizes += ladder[i] % PAGE == 0;
	}
	is_uint(SC_NBINS, nbins, "small classes: those below four pages");
	is_uint(SC_NPSIZES, npsizes, "page classes: those of whole pages");
	is_uint(SC_SMALL_MAXCLASS, ladder[nbins - 1], "largest small class");
	is_uint(SC_LARGE_MINCLASS, ladder[nbins], "smallest large class");
	if (PAGE == 4096) {
		is_uint(SC_NBINS, 36, "36 with 4 KiB pages");
		is_uint(SC_NSIZES - SC_NBINS, 196, "and 196 large classes");
	}
}

static void
body(void) {
	test_table();
	test_lookup();
	test_cuts();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
