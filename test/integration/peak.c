/*
 * thread.peak.read is at least the size of a large block that was allocated and freed since the
 * reset; small ones may count later, at a heartbeat, whether they come from an arena or from the
 * cache. Little is missed, whatever the sizes.
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

#define N_ROUNDS 10

/*
 * Blocks of many classes, or of one, freed before the read: at most 64 KiB, one of them, and 4 KiB
 * of each class are not seen.
 */
static void
small_classes(const size_t *sizes, unsigned n_sizes, unsigned n_each) {
	static void *p[300];

	for (int round = 0; round < N_ROUNDS; round++) {
		size_t sum = 0, unseen = 65536 + 20480 + n_sizes * 4096;
		unsigned n = 0;

		ctl_void("thread.peak.reset");
		for (unsigned i = 0; i < n_sizes; i++) {
			for (unsigned k = 0; k < n_each; k++) {
				p[n] = keep(malloc(sizes[i]));
				sum += counted_size(p[n++]);
			}
		}
		while (n > 0)
			free(p[--n]);
		uint64_t peak = ctl_u64("thread.peak.read");
		ok(peak + unseen >= sum && peak <= sum + 65536, "%u classes, %zu bytes: peak %llu", n_sizes,
		    sum, (unsigned long long)peak);
	}
}

static int
child_classes(void) {
	static const size_t sizes[] = {100, 1000, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240,
	    12288, 14336, 16384};
	static const size_t one = 14336;

	small_classes(sizes, sizeof(sizes) / sizeof(sizes[0]), 15);
	small_classes(&one, 1, 20);
	small_classes(&one, 1, 31);
	return done_testing();
}

/* In a thread that has much: 6 MiB is less than a 64th of it, but not little. */
static int
child_much(void) {
	size_t sizes[] = {1 << 20, 5 << 20, 6 << 20};
	void *much = keep(malloc((size_t)1 << 30)), *p[3];

	ctl_void("thread.peak.reset");
	for (int round = 0; round < N_ROUNDS; round++) {
		for (int i = 0; i < 3; i++)
			p[i] = keep(malloc(sizes[i]));
		for (int i = 0; i < 3; i++)
			free(p[i]);
		uint64_t peak = ctl_u64("thread.peak.read");
		ok(peak >= 12 << 20, "12 MiB beside 1 GiB: peak %llu", (unsigned long long)peak);
		ctl_void("thread.peak.reset");
		free(keep(malloc(sizes[round % 3])));
		peak = ctl_u64("thread.peak.read");
		ok(sizes[round % 3] == 1 << 20 || peak >= sizes[round % 3], "one block: peak %llu",
		    (unsigned long long)peak);
		ctl_void("thread.peak.reset");
	}
	free(much);
	return done_testing();
}

static const struct test_child children[] = {
	{"much", child_much},
	{"classes", child_classes},
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
	child_runs("classes", NULL);
	child_runs("classes", "tcache:false");
	child_runs("much", NULL);
	if (ctl_bool("config.prof")) {
		child_runs("sizes", "prof:true,lg_prof_sample:0");
		child_runs("sizes", "prof:true,lg_prof_sample:16");
		child_runs("classes", "prof:true,lg_prof_sample:16");
	}
	return done_testing();
}
