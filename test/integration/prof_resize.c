/*
 * Large blocks that are resized where they are, under the profiler: that they stay although they
 * are samples, that the counts are exact where everything is sampled and without bias where not,
 * live and cumulative, over chains of sizes; hooks and the threshold of one large request.
 */
#include "dumps.h"
#include "heap.h"

#include <malloc.h>

#define K ((size_t)1024)
#define M (K * K)

/* -------------------------------------------------------------- in place */

static void
steps(void) {
	char *p = keep(malloc(1)), *q;
	unsigned moves = 0, shrunk = 0, n = 0;
	size_t page = ctl_size("arenas.page");

	for (size_t size = M; size <= 32 * M; size += 64 * K, n++) {
		q = keep(realloc(p, size));
		moves += q != p;
		p = q;
	}
	ok(moves <= n / 10, "1 to 32 MiB by 64 KiB: %u of %u reallocs move", moves, n);
	for (int i = 0; i < 100; i++) {
		size_t size = malloc_usable_size(p) - 4 * page;

		shrunk += xallocx(p, size, 0, 0) == size;
	}
	is_uint(shrunk, 100, "xallocx that shrinks");
	free(p);
	p = keep(malloc(1000));
	size_t most = 1024 - canary_bytes();
	is_uint(xallocx(p, most, 0, 0), most, "a small one within its class");
	ok(keep(realloc(p, most - 4)) == p, "and realloc");
	free(p);
}

/* -------------------------------------------------------------- chains */

static size_t page;
static unsigned n_in_place;

static struct heap_profile
dump(void) {
	const char *name = "d.heap";
	struct heap_profile h;

	if (mallctl("prof.dump", NULL, NULL, &name, sizeof(name)) != 0)
		diag("prof.dump fails");
	h = heap_read(name);
	unlink(name);
	return h;
}

/* In place if that is possible, else by moving. */
static char *
resize(char *p, size_t size) {
	char *q = keep(realloc(p, size));

	n_in_place += q == p;
	return q;
}

#define LINKS 4
#define BLOCKS 100
static const size_t link_pages[LINKS + 1] = {16, 12, 8, 10, 5};

static void *blocks[BLOCKS];

static void
make_chains(void) {
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = keep(malloc(link_pages[0] * page));
		for (int k = 1; k <= LINKS; k++)
			blocks[i] = resize(blocks[i], link_pages[k] * page);
	}
}

static void
end_chains(void) {
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

static void
exact(void) {
	double all = 0;
	struct heap_profile h;

	page = ctl_size("arenas.page");
	for (int k = 0; k <= LINKS; k++)
		all += (double)(link_pages[k] * page) * BLOCKS;
	ctl_void("prof.reset");
	make_chains();
	h = dump();
	is_uint((uint64_t)h.live_objects, BLOCKS, "live objects");
	is_uint((uint64_t)h.live_bytes, BLOCKS * link_pages[LINKS] * page, "live bytes");
	is_uint((uint64_t)h.all_objects, BLOCKS * (LINKS + 1), "each size is an allocation");
	is_uint((uint64_t)h.all_bytes, (uint64_t)all, "of its bytes");
	ok(n_in_place >= 3 * BLOCKS, "%u of %u in place", n_in_place, BLOCKS * LINKS);
	end_chains();
	h = dump();
	is_uint((uint64_t)h.live_objects, 0, "all are gone");
}

#define RUNS 100

/* Estimates of n runs against the truth, in standard deviations: beyond five is no chance. */
static void
judge(const char *what, double estimate, double truth, double variance) {
	double sigma = (estimate - truth * RUNS) / sqrt(variance * RUNS);

	ok(fabs(sigma) < 5, "%s: off by %+.2f %%, %.2f sigma", what,
	    100 * (estimate / (truth * RUNS) - 1), sigma);
}

static void
estimate(void) {
	struct { double objects, bytes; } live = {0, 0}, all = {0, 0}, all_truth = {0, 0}, all_var =
	    {0, 0};
	size_t interval;
	double z = 0, odds = 0;

	page = ctl_size("arenas.page");
	interval = 8 * page;
	is_int(ctl_write("prof.sample_interval", interval), 0, "samples are %zu bytes apart", interval);
	for (int run = 0; run < RUNS; run++) {
		struct heap_profile h;

		ctl_void("prof.reset");
		make_chains();
		h = dump();
		live.objects += h.live_objects;
		live.bytes += h.live_bytes;
		all.objects += h.all_objects;
		all.bytes += h.all_bytes;
		end_chains();
	}
	/* A sample stands for 1/p objects: the estimate of one object has the variance (1-p)/p. */
	for (int k = 0; k <= LINKS; k++) {
		z = (double)(link_pages[k] * page);
		odds = exp(-z / (double)interval) / -expm1(-z / (double)interval);
		all_truth.objects += BLOCKS;
		all_truth.bytes += BLOCKS * z;
		all_var.objects += BLOCKS * odds;
		all_var.bytes += BLOCKS * z * z * odds;
	}
	judge("live objects", live.objects, BLOCKS, BLOCKS * odds);
	judge("live bytes", live.bytes, BLOCKS * z, BLOCKS * z * z * odds);
	judge("allocated objects", all.objects, all_truth.objects, all_var.objects);
	judge("allocated bytes", all.bytes, all_truth.bytes, all_var.bytes);
	ok(n_in_place >= 3 * RUNS * BLOCKS, "%u of %u in place", n_in_place, RUNS * BLOCKS * LINKS);
	ok(dump().live_bytes == 0, "all are gone");
}

/* -------------------------------------------------------------- hooks */

static struct {
	char calls[8];
	unsigned n;
	const void *ptr;
	size_t size, usable, freed;
} told;

static void
on_sample(const void *ptr, size_t size, void **bt, unsigned len, size_t usable) {
	(void)bt;
	(void)len;
	told.calls[told.n++ % (sizeof(told.calls) - 1)] = 's';
	told.ptr = ptr;
	told.size = size;
	told.usable = usable;
}

static void
on_free(const void *ptr, size_t usable) {
	told.calls[told.n++ % (sizeof(told.calls) - 1)] = 'f';
	ok(told.ptr == ptr, "what ends is what was there");
	told.freed = usable;
}

static void
hooks(void) {
	void (*sample)(const void *, size_t, void **, unsigned, size_t) = on_sample;
	void (*end)(const void *, size_t) = on_free;
	char *p;

	page = ctl_size("arenas.page");
	is_int(ctl_write("experimental.hooks.prof_sample", sample), 0, "a hook of samples");
	is_int(ctl_write("experimental.hooks.prof_sample_free", end), 0, "and of their ends");
	p = keep(malloc(20 * page));
	told.n = 0;
	is_uint(xallocx(p, 12 * page - 100, 0, 0), 12 * page, "shrunk in place");
	is_str(told.calls, "fs", "the old sample ends, a new one comes");
	is_uint(told.freed, 20 * page, "the old size");
	ok(told.ptr == p && told.size == 12 * page - 100 && told.usable == 12 * page, "the new one");
	told.n = 0;
	is_uint(xallocx(p, 12 * page - 50, 0, 0), 12 * page, "the same usable size");
	is_uint(told.n, 0, "is the same sample");
	free(p);
	is_uint(told.freed, 12 * page, "what is freed has the new size");
	end = NULL;
	sample = NULL;
	ctl_write("experimental.hooks.prof_sample", sample);
	ctl_write("experimental.hooks.prof_sample_free", end);
}

/* -------------------------------------------------------------- one large request */

static void
large(void) {
	unsigned n = 0, in_place = 0;
	double sum;
	char *p = keep(malloc(M / 2));
	struct heap_profile h;

	for (size_t size = M / 2; size <= 3 * M; size += 128 * K) {
		bool grows = nallocx(size, 0) > malloc_usable_size(p);
		char *q = keep(realloc(p, size));

		n += size >= M && grows;
		in_place += q == p;
		p = q;
	}
	is_uint(dumps_read('l'), n, "each realloc that grows to 1 MiB or more is one");
	ok(in_place > n / 2, "%u of %u in place", in_place, n);
	h = dump();
	sum = (double)malloc_usable_size(p);
	ok(h.live_bytes == sum && h.live_objects == 1, "it is a sample that stands for itself: %g of "
	    "%g bytes, %g objects", h.live_bytes, sum, h.live_objects);
	is_uint(xallocx(p, 2 * M, 0, 0), 2 * M, "shrunk, and large still");
	h = dump();
	ok(h.live_bytes == (double)(2 * M) && h.live_objects == 1, "as before: %g bytes", h.live_bytes);
	is_uint(xallocx(p, M / 2, 0, 0), M / 2, "shrunk below");
	is_uint((uint64_t)dump().live_bytes, 0, "it is no sample any more");
	is_uint(dumps_read('l'), n, "neither was asked for as a large one");
	free(p);
}

static const struct dumps_test tests[] = {
	{"steps", steps, "prof:true"},
	{"steps_seldom", steps, "prof:true,lg_prof_sample:40"},
	{"steps_often", steps, "prof:true,lg_prof_sample:12"},
	{"exact", exact, "prof:true,lg_prof_sample:0,prof_accum:true"},
	{"estimate", estimate, "prof:true,prof_accum:true"},
	{"hooks", hooks, "prof:true,lg_prof_sample:0"},
	{"large", large, "prof:true,lg_prof_sample:40,prof_threshold_large:1M,prof_dump_min_gap_ms:0"},
};

int
main(int argc, char **argv) {
	return dumps_run_all(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
