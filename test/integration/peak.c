/*
 * thread.peak.read is at least the size of a large block that was allocated and freed since the
 * reset; small ones may count later, at a heartbeat, whether they come from an arena or from the
 * cache.
 */
#include "ctl.h"

static int
child_sizes(void) {
	static const size_t sizes[] = {100, 10000, 40000, 1 << 16, 1 << 20, 4 << 20, 8 << 20, 64 << 20};

	size_t least_large = ctl_size("arenas.lextent.0.size");

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			size_t least = sizes[i] < 32768 || nallocx(sizes[i], 0) < least_large ? 0 : sizes[i];

			ctl_void("thread.peak.reset");
			free(keep(malloc(sizes[i])));
			uint64_t peak = ctl_u64("thread.peak.read");
			ok(peak >= least && peak <= sizes[i] + sizes[i] / 4 + 65536, "%zu bytes: peak %llu",
			    sizes[i], (unsigned long long)peak);
		}
	}
	return done_testing();
}

#define N_LARGE 20
#define N_SMALL 1024

/* More than the 64 KiB of a heartbeat, in small blocks. */
static void
small_ones(void) {
	static void *p[N_SMALL];

	for (unsigned i = 0; i < N_SMALL; i++)
		p[i] = keep(malloc(128));
	for (unsigned i = 0; i < N_SMALL; i++)
		free(p[i]);
}

static void
large_ones(bool is_watched) {
	void *p[N_LARGE];

	for (unsigned i = 0; i < N_LARGE; i++)
		p[i] = keep(malloc(32768));
	if (is_watched)
		small_ones();
	for (unsigned i = 0; i < N_LARGE; i++)
		free(p[i]);
}

/* What the cache held at the reset is part of the peak when it is in use. */
static int
child_cached(void) {
	small_ones();
	for (int round = 0; round < 3; round++) {
		large_ones(false);
		ctl_void("thread.peak.reset");
		small_ones();
		large_ones(true);
		uint64_t peak = ctl_u64("thread.peak.read");
		ok(peak >= N_LARGE * 32768 && peak <= N_LARGE * 36864 + 300000, "%u blocks: peak %llu",
		    N_LARGE, (unsigned long long)peak);
	}
	return done_testing();
}

static const struct test_child children[] = {
	{"sizes", child_sizes},
	{"cached", child_cached},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("sizes", NULL);
	child_runs("sizes", "tcache:false");
	child_runs("cached", NULL);
	if (ctl_bool("config.prof")) {
		child_runs("sizes", "prof:true,lg_prof_sample:0");
		child_runs("sizes", "prof:true,lg_prof_sample:16");
	}
	return done_testing();
}
