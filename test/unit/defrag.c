/*
 * defrag.h: blocks that lie scattered over slabs are moved as the hint says, until it says no more;
 * then they fill as few slabs as can be. Full slabs, large blocks and pointers to no block have no
 * hint.
 */
#include "ctl.h"

#include "arena/arenas.h"
#include "defrag.h"

#define N_BLOCKS 20000
#define PASSES_MAX 20

static void *blocks[N_BLOCKS];
static unsigned arena_ind;

static void *
make(size_t size) {
	return keep(mallocx(size, MALLOCX_TCACHE_NONE | (int)MALLOCX_ARENA(arena_ind)));
}

static size_t
n_slabs(size_t size) {
	szind_t szind = sz_s2i(sz_s2u(size));
	return arena_bin(arena_table_get(arena_ind), szind, 0)->stats.curslabs;
}

/* Moves what the hint names. Returns the number of blocks moved. */
static size_t
move_all(size_t size) {
	size_t n_moved = 0;
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		if (blocks[i] != NULL && defrag_would_help(blocks[i])) {
			void *copy = make(size);
			memcpy(copy, blocks[i], size);
			dallocx(blocks[i], MALLOCX_TCACHE_NONE);
			blocks[i] = copy;
			n_moved++;
		}
	}
	return n_moved;
}

static void
fill(size_t size) {
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		blocks[i] = make(size);
		memset(blocks[i], (int)(i & 0xff), size);
	}
}

static bool
none_stays(unsigned i UNUSED) {
	return false;
}

/* Frees every block but those that stay; returns how many stay. */
static size_t
thin_out(bool (*stays)(unsigned i)) {
	size_t n = 0;
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		if (blocks[i] == NULL) {
			continue;
		}
		if (!stays(i)) {
			dallocx(blocks[i], MALLOCX_TCACHE_NONE);
			blocks[i] = NULL;
		} else {
			n++;
		}
	}
	return n;
}

static void
check_contents(size_t size, const char *what) {
	unsigned n_wrong = 0;
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		const unsigned char *p = blocks[i];
		n_wrong += p != NULL && (p[0] != (i & 0xff) || p[size - 1] != (i & 0xff));
	}
	is_uint(n_wrong, 0, "%s: every block has its contents", what);
}

static bool
each_fourth_stays(unsigned i) {
	return i % 4 == 0;
}

static bool
random_third_stays(unsigned i) {
	uint64_t state = i + 1;
	return test_random(&state) % 3 == 0;
}

/*
 * Only every hundredth block of the first half stays, and the second half does: the mean matters.
 */
static bool
second_half_stays(unsigned i) {
	return i >= N_BLOCKS / 2 ? i % 10 != 0 : i % 100 == 0;
}

static void
test_pattern(size_t size, bool (*stays)(unsigned i), const char *what) {
	fill(size);
	size_t n_full = n_slabs(size), n_hints = 0;
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		n_hints += defrag_would_help(blocks[i]);
	}
	is_uint(n_hints, 0, "%s, %zu bytes: no block of a full slab is to be moved", what, size);
	size_t n_left = thin_out(stays), n_before = n_slabs(size), n_passes = 0;
	while (n_passes < PASSES_MAX && move_all(size) > 0) {
		n_passes++;
	}
	size_t nregs = bin_infos[sz_s2i(sz_s2u(size))].nregs;
	size_t n_least = (n_left + nregs - 1) / nregs;
	ok(n_passes < PASSES_MAX, "%s, %zu bytes: it comes to an end (%zu passes)", what, size,
	    n_passes);
	ok(n_slabs(size) <= n_least + 1, "%s, %zu bytes: %zu slabs, then %zu, now %zu; %zu are needed",
	    what, size, n_full, n_before, n_slabs(size), n_least);
	check_contents(size, what);
	thin_out(none_stays);
}

/*
 * One block in each tenth slab never moves and is alone in its slab; the others are half full. The
 * lone ones raise the mean of free regions above that of the others.
 */
static void
test_blocks_that_stay(void) {
	static void *pinned[N_BLOCKS];
	size_t size = 640, nregs = bin_infos[sz_s2i(size)].nregs, n_pinned = 0;
	fill(size);
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		bool is_pinned_slab = i / nregs % 10 == 0;
		if (is_pinned_slab && i % nregs == 0) {
			pinned[n_pinned++] = blocks[i];
			blocks[i] = NULL;
		} else if (is_pinned_slab || i % 2 == 0) {
			dallocx(blocks[i], MALLOCX_TCACHE_NONE);
			blocks[i] = NULL;
		}
	}
	size_t n_before = n_slabs(size), n_passes = 0;
	while (n_passes < PASSES_MAX && move_all(size) > 0) {
		n_passes++;
	}
	size_t n_left = 0;
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		n_left += blocks[i] != NULL;
	}
	size_t n_least = (n_left + nregs - 1) / nregs;
	ok(n_slabs(size) <= n_least + n_pinned + 1, "blocks that stay do not keep others in place: "
	    "%zu slabs, now %zu; %zu are needed", n_before, n_slabs(size), n_least + n_pinned);
	thin_out(none_stays);
	while (n_pinned > 0) {
		dallocx(pinned[--n_pinned], MALLOCX_TCACHE_NONE);
	}
}

static void
test_no_hint(void) {
	static int data;
	void *large = make(1 << 20);
	ok(!defrag_would_help(large), "a large block has no hint");
	ok(!defrag_would_help(NULL) && !defrag_would_help(&data) && !defrag_would_help(&large),
	    "nor have NULL, static data and the stack");
	ok(!defrag_would_help((const void *)UINTPTR_MAX), "nor has an address that cannot be");
	dallocx(large, MALLOCX_TCACHE_NONE);
	fill(64);
	thin_out(none_stays);
	blocks[0] = make(64);
	ok(!defrag_would_help(blocks[0]), "nor has the one block of a class");
	dallocx(blocks[0], MALLOCX_TCACHE_NONE);
}

int
main(void) {
	size_t size = sizeof(arena_ind);
	if (mallctl("arenas.create", &arena_ind, &size, NULL, 0) != 0) {
		bail_out("no arena");
	}
	test_pattern(64, each_fourth_stays, "each fourth stays");
	test_pattern(640, each_fourth_stays, "each fourth stays");
	test_pattern(64, random_third_stays, "a random third stays");
	test_pattern(5120, random_third_stays, "a random third stays");
	test_pattern(320, second_half_stays, "the second half stays");
	test_blocks_that_stay();
	test_no_hint();
	return done_testing();
}
