/*
 * A sampled object takes no page of its own: what the heap's active memory grows by while
 * sampling is on, against the same heap with it off. 288 MiB of live objects, which nobody
 * touches. Under JEMALLOC_TEST_PAGE (debug builds) the same with larger pages.
 */
#include "ctl.h"
#include <malloc.h>
#include <math.h>

#define HEAP_BYTES ((size_t)288 << 20)

static size_t
size_of_64(uint64_t *seed) {
	(void)seed;
	return 64;
}

/* 8 to 4096 bytes, each doubling as likely as any other. */
static size_t
size_mixed(uint64_t *seed) {
	return (size_t)(8 * exp2(9.0 * (double)(test_random(seed) >> 11) * 0x1p-53));
}

/* One in three is freed again some time later, so that slabs are as full as in life. */
static int
fill(size_t (*size)(uint64_t *)) {
	enum { RECENT = 1 << 15 };
	static void *recent[RECENT];
	uint64_t seed = 1;

	for (size_t live = 0; live < HEAP_BYTES;) {
		void **slot = &recent[test_random(&seed) % RECENT];

		if (*slot != NULL && test_random(&seed) % 3 == 0) {
			live -= malloc_usable_size(*slot);
			free(*slot);
		}
		*slot = keep(malloc(size(&seed)));
		live += malloc_usable_size(*slot);
	}
	ctl_epoch();
	test_say("active %zu\n", ctl_size("stats.active"));
	return 0;
}

static int
child_same(void) {
	return fill(size_of_64);
}

static int
child_mixed(void) {
	return fill(size_mixed);
}

static const struct test_child children[] = {
	{"same", child_same},
	{"mixed", child_mixed},
	{NULL, NULL},
};

static double
active(const char *child, const char *conf) {
	static struct test_result r;
	size_t bytes = 0;

	run_child_conf(&r, child, conf);
	child_exits(&r, 0, "%s, %s", child, conf);
	const char *at = strstr(r.out, "active "); /* the profiler may have had something to say */
	if (at == NULL || sscanf(at, "active %zu", &bytes) != 1)
		diag("%s", r.out);
	return (double)bytes;
}

static void
compare(const char *child, double off, const char *conf, double percent) {
	double growth = 100 * (active(child, conf) / off - 1);

	ok(off >= (double)HEAP_BYTES && growth > -1 && growth <= percent,
	    "%s, %s: %+.3f %% active, at most %.1f", child, conf, growth, percent);
}

int
main(int argc, char **argv) {
	double off;

	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	off = active("same", "prof:false,junk:false");
	compare("same", off, "prof:true,junk:false", 2);
	compare("same", off, "prof:true,prof_sample_interval:32K,junk:false", 10);
	off = active("mixed", "prof:false,junk:false");
	compare("mixed", off, "prof:true,junk:false", 2);
	compare("mixed", off, "prof:true,prof_sample_interval:32K,junk:false", 10);
	return done_testing();
}
