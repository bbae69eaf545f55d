/*
 * What reads as zero: calloc and MALLOCX_ZERO up to the usable size; rallocx and xallocx with
 * MALLOCX_ZERO from where the old contents end, whether the block moves or not, up or down, for all
 * flags. The memory that serves was full of other things before.
 */
#include "ctl.h"
#include <malloc.h>
#include <sys/resource.h>

#define DIRT 0xee
#define MINE 0xaa

static const size_t sizes[] = { 1, 9, 17, 100, 200, 1000, 1025, 4097, 14000, 16385, 20000, 33000,
    40000, 70000, 300000 };
#define N (sizeof(sizes) / sizeof(sizes[0]))

/* Whatever is free of this size is not zero. */
static void
make_dirty(size_t size, int flags) {
	char *p[3];

	for (int i = 0; i < 3; i++) {
		p[i] = keep(mallocx(size, flags));
		memset(p[i], DIRT, sallocx(p[i], 0));
	}
	for (int i = 0; i < 3; i++)
		dallocx(p[i], flags);
}

static char *
full_of_mine(size_t size, int flags, size_t *usable) {
	char *p = keep(mallocx(size, flags));

	*usable = sallocx(p, 0);
	memset(p, MINE, *usable);
	return p;
}

static unsigned
rallocx_is_wrong(size_t from, size_t to, int flags) {
	size_t old, usable, end;
	char *p = full_of_mine(from, flags, &old), *q;
	uintptr_t was = (uintptr_t)p;
	unsigned bad;

	make_dirty(to, flags);
	q = keep(rallocx(p, to, flags | MALLOCX_ZERO));
	usable = sallocx(q, 0);
	/* A block that stays keeps all that it had. */
	end = (uintptr_t)q == was ? old : to;
	bad = !is_filled(q, MINE, old < to ? old : to);
	bad |= (old < end ? old : end) < usable && !is_filled(q + (old < end ? old : end), 0,
	    usable - (old < end ? old : end));
	if (bad != 0)
		diag("rallocx from %zu (%zu) to %zu (%zu), flags %#x", from, old, to, usable,
		    (unsigned)flags);
	dallocx(q, flags);
	return bad;
}

static unsigned
xallocx_is_wrong(size_t from, size_t to, int flags) {
	size_t old, usable;
	char *p = full_of_mine(from, flags, &old);
	unsigned bad;

	usable = xallocx(p, to, to / 3, flags | MALLOCX_ZERO);
	bad = !is_filled(p, MINE, old < usable ? old : usable);
	bad |= usable > old && !is_filled(p + old, 0, usable - old);
	if (bad != 0)
		diag("xallocx from %zu (%zu) to %zu (%zu), flags %#x", from, old, to, usable,
		    (unsigned)flags);
	dallocx(p, flags);
	return bad;
}

static unsigned
fresh_is_wrong(size_t size, int flags) {
	unsigned bad;
	char *p;

	make_dirty(size, flags);
	p = keep(mallocx(size, flags | MALLOCX_ZERO));
	bad = !is_filled(p, 0, sallocx(p, 0));
	dallocx(p, flags);
	for (int i = 0; i < 3; i++) {
		make_dirty(size, 0);
		p = keep(calloc(1, size));
		bad |= !is_filled(p, 0, malloc_usable_size(p));
		free(p);
	}
	if (bad != 0)
		diag("fresh %zu, flags %#x", size, (unsigned)flags);
	return bad;
}

static int
child_all(void) {
	unsigned arena = ctl_unsigned("arenas.create"), cache = ctl_unsigned("tcache.create");
	const int flags[] = { 0, MALLOCX_ALIGN(64), MALLOCX_ALIGN(4096), MALLOCX_TCACHE_NONE,
	    (int)(MALLOCX_ARENA(arena) | MALLOCX_TCACHE(cache)),
	    (int)(MALLOCX_ARENA(arena) | MALLOCX_ALIGN(256)) };
	unsigned bad[3] = {0, 0, 0};

	for (size_t f = 0; f < sizeof(flags) / sizeof(flags[0]); f++) {
		for (size_t i = 0; i < N; i++) {
			bad[0] += fresh_is_wrong(sizes[i], flags[f]);
			for (size_t k = 0; k < N; k++) {
				bad[1] += rallocx_is_wrong(sizes[i], sizes[k], flags[f]);
				bad[2] += xallocx_is_wrong(sizes[i], sizes[k], flags[f]);
			}
		}
	}
	is_uint(bad[0], 0, "fresh blocks are zero up to their usable size");
	is_uint(bad[1], 0, "rallocx leaves nothing but the old contents");
	is_uint(bad[2], 0, "nor does xallocx");
	return done_testing();
}

static long
faults(void) {
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

/* New pages are zero, so a large calloc writes to none of them, cached class or not. */
static int
child_untouched(void) {
	/* The system's pages, which a test of larger ones does not change. */
	size_t size = (size_t)3 << 20, pages = size / (size_t)getpagesize();

	for (int i = 0; i < 4; i++) {
		long before = faults();

		keep(calloc(3, size / 3));
		ok(faults() - before < (long)(pages / 4), "calloc of 3 MiB, %ld faults of %zu pages",
		    faults() - before, pages);
	}
	return done_testing();
}

static const struct test_child children[] = {
	{"all", child_all},
	{"untouched", child_untouched},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("all", "");
	child_runs("untouched", "");
	child_runs("untouched", "tcache:false");
	child_runs("all", "disable_large_size_classes:false,cache_oblivious:false");
	child_runs("all", "tcache_max:1048576");
	child_runs("all", "tcache:false");
	if (ctl_bool("config.prof")) {
		child_runs("all", "prof:true,lg_prof_sample:12");
		child_runs("all", "prof:true,lg_prof_sample:0,disable_large_size_classes:false");
	}
	return done_testing();
}
