/*
 * thread.peak.read is at least the size of a large block that was allocated and freed since the
 * reset; small ones may count later.
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

static const struct test_child children[] = {
	{"sizes", child_sizes},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("sizes", NULL);
	child_runs("sizes", "tcache:false");
	if (ctl_bool("config.prof")) {
		child_runs("sizes", "prof:true,lg_prof_sample:0");
		child_runs("sizes", "prof:true,lg_prof_sample:16");
	}
	return done_testing();
}
