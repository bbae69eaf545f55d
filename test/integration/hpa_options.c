/*
 * The options of huge page allocation are read, shown and kept in their limits; hpa:true is
 * accepted, and without it all of its statistics are there and zero.
 */
#include "ctl.h"

static const struct {
	const char *name;
	const char *conf;	/* NULL: the default */
	uint64_t value;
} sizes[] = {
	{"hpa_slab_max_alloc", NULL, 65536},
	{"hpa_slab_max_alloc", "hpa_slab_max_alloc:999999999", (uint64_t)2 << 20},
	{"hpa_hugification_threshold", NULL, 1992294},
	{"hpa_hugification_threshold", "hpa_hugification_threshold_ratio:0.5", (uint64_t)1 << 20},
	{"hpa_purge_threshold", "hpa_purge_threshold_ratio:.25", (uint64_t)1 << 19},
	{"hpa_hugify_delay_ms", NULL, 10000},
	{"hpa_min_purge_interval_ms", NULL, 5000},
	{"hpa_min_purge_delay_ms", "hpa_min_purge_delay_ms:7", 7},
	{"experimental_hpa_max_purge_nhp", NULL, (uint64_t)-1},
	{"hpa_sec_nshards", NULL, 2},
	{"hpa_sec_max_alloc", "hpa_sec_max_alloc:99999999", 32768},
	{"hpa_sec_max_bytes", "hpa_sec_max_bytes:1", 262144},
	{"hpa_sec_batch_fill_extra", NULL, 3},
};

static int
child_options(void) {
	char name[64];
	uint32_t mult = 0;
	size_t len = sizeof(mult);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		printf("%s=%llu\n", sizes[i].name,
		    (unsigned long long)ctl_size(ctl_name(name, "opt.%s", sizes[i].name)));
	if (mallctl("opt.hpa_dirty_mult", &mult, &len, NULL, 0) != 0)
		return 1;
	printf("metadata_thp=%s\n", ctl_str("opt.metadata_thp"));
	printf("mult=%u style=%s hpa=%d always=%d\n", mult, ctl_str("opt.hpa_hugify_style"),
	    ctl_bool("opt.hpa"), ctl_bool("opt.experimental_hpa_start_huge_if_thp_always"));
	return 0;
}

static void
test_options(void) {
	static struct test_result r;
	char line[128];
	size_t page = ctl_size("arenas.page");

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		run_child_conf(&r, "options", sizes[i].conf);
		uint64_t value = sizes[i].value;
		if (strcmp(sizes[i].name, "hpa_sec_max_alloc") == 0 && value < page)
			value = page;	/* no size is below a page */
		snprintf(line, sizeof(line), "%s=%llu\n", sizes[i].name, (unsigned long long)value);
		contains(r.out, line, "%s", sizes[i].conf != NULL ? sizes[i].conf : sizes[i].name);
	}
	contains(r.out, "mult=16384 style=lazy hpa=0 always=1\n", "the others' defaults");
	run_child_conf(&r, "options", "hpa_dirty_mult:-1,h:ea");
	contains(r.out, "mult=4294967295 style=eager hpa=0", "-1, and a cut key and word");
	run_child_conf(&r, "options",
	    "abort_conf:false,hpa_hugification_threshold_ratio:1.5,hpa_dirty_mult:-2");
	contains(r.out, "Invalid conf value: hpa_hugification_threshold_ratio:1.5\n", "more than all");
	contains(r.out, "Invalid conf value: hpa_dirty_mult:-2\n", "less than nothing");
}

static void
test_switch(void) {
	static struct test_result r;

	run_child_conf(&r, "options", "abort_conf:true,hpa:true");
	child_exits(&r, 0, "hpa:true is no error");
	contains(r.out, "hpa=1", "opt.hpa tells so");
	ok(strstr(r.out, "HPA") == NULL, "and no word is said");
	contains(r.out, "metadata_thp=auto\n", "the library's own data in huge pages, too");
	run_child_conf(&r, "options", "metadata_thp:disabled,hpa:true");
	contains(r.out, "metadata_thp=disabled\n", "unless that is chosen otherwise");
	if (!ctl_bool("config.stats")) {
		skip(1, "no statistics");
		return;
	}
	run_child_conf(&r, "figures", "hpa:true,narenas:1");
	child_exits(&r, 0, "what is counted of slabs adds up, and a purge leaves nothing dirty");
	run_child_conf(&r, "sec", "hpa:true,narenas:1,tcache:false,hpa_sec_max_bytes:4194304,"
	    "hpa_sec_batch_fill_extra:7");
	child_exits(&r, 0, "the small extent cache is used");
	contains(r.out, "batch 7, hits 1, wrong 0\n", "a miss brings as many as the option says");
	run_child_conf(&r, "sec", "hpa:true,narenas:1,tcache:false,hpa_sec_nshards:0");
	contains(r.out, "batch 0, hits 0, wrong 0\n", "no cache, no figures of it");
	run_child_conf(&r, "sec", "hpa:true,narenas:1,tcache:false,hpa_sec_max_alloc:4096");
	contains(r.out, ctl_size("arenas.page") > 12288 ? "" : "batch 0, hits 0, wrong 0\n",
	    "longer extents are not held");
	run_child_conf(&r, "blocks", "hpa:true,narenas:1");
	contains(r.out, "bytes ok, kept 1\n", "freed large objects leave it its room");
}

/* With hpa:true: slabs of three pages (or as many as the build has) come and go. */
static int
child_sec(void) {
	char name[128];
	unsigned ind = 0, bad = 0;
	size_t len = sizeof(ind), extent = 2 * ctl_size("arenas.page") > 16384
	    ? ctl_size("arenas.page") : 12288;
	if (mallctl("arenas.create", &ind, &len, NULL, 0) != 0)
		return 1;
	int flags = MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
	/* A slab class of so many bytes, with regions of at most half a page. */
	size_t size = extent / 8 - canary_bytes();
	void *p[9] = {mallocx(size, flags)};
	ctl_epoch();
	size_t bytes = ctl_size(ctl_name(name, "stats.arenas.%u.hpa_sec_bytes", ind));
	for (unsigned i = 1; i < 9; i++)
		p[i] = mallocx(size, flags);	/* the last one begins another slab */
	ctl_epoch();
	size_t hits = ctl_size(ctl_name(name, "stats.arenas.%u.hpa_sec_hits", ind));
	for (unsigned i = 0; i < 9; i++)
		dallocx(p[i], flags);
	ctl_void(ctl_name(name, "arena.%u.purge", ind));
	ctl_epoch();
	bad += wrong_if(ctl_size(ctl_name(name, "stats.arenas.%u.hpa_sec_bytes", ind)) != 0);
	bad += wrong_if(ctl_size(ctl_name(name, "stats.arenas.%u.hpa_shard.nactive", ind)) != 0);
	printf("batch %zu, hits %zu, wrong %u\n", bytes / extent, hits, bad);
	return bad != 0;
}

/* With hpa:true: large objects of as many bytes as the cache takes are freed, then a slab is. */
static int
child_blocks(void) {
	enum { N = 400 };
	static void *p[N], *small[N];
	size_t page = ctl_size("arenas.page"), size = 5 * page > 20480 ? page : 5 * page;
	int flags = MALLOCX_TCACHE_NONE;
	for (unsigned i = 0; i < N; i++)
		p[i] = malloc(size - canary_bytes());
	for (unsigned i = 0; i < N; i++)
		small[i] = mallocx(page / 2 - canary_bytes(), flags);
	for (unsigned i = 0; i < N; i++)
		free(p[i]);
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	for (unsigned i = 0; i < N; i++)
		dallocx(small[i], flags);
	ctl_epoch();
	size_t bytes = ctl_size("stats.arenas.0.hpa_sec_bytes");
	size_t most = ctl_size("opt.hpa_sec_nshards") * ctl_size("opt.hpa_sec_max_bytes");
	if (ctl_size("stats.arenas.0.pdirty") * page < 2 * most)
		printf("few dirty, ");
	printf("bytes %s, kept %u\n", bytes <= most ? "ok" : "too many",
	    ctl_size("stats.arenas.0.hpa_sec_dalloc_noflush") > 0);
	return 0;
}

static void
test_nodes(void) {
	static const char *const kinds[] = { "slabs", "full_slabs", "empty_slabs", "nonfull_slabs.0",
		"nonfull_slabs.63" };
	static const char *const counts[] = { "npageslabs", "nactive", "ndirty", "npurge_passes",
	    "npurges",
		"nhugifies", "nhugify_failures", "ndehugifies" };
	static const char *const sec[] = {"bytes", "hits", "misses", "dalloc_noflush", "dalloc_flush",
	    "overfills"};
	static const char *const locks[] = {"hpa_shard", "hpa_shard_grow", "hpa_sec"};
	static const unsigned arenas[] = {0, 4096};
	char name[128];
	unsigned nzero = 0, n = 0;

	for (size_t a = 0; a < 2; a++) {
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			nzero += ctl_size(ctl_name(name, "stats.arenas.%u.hpa_shard.%s.nactive_huge", arenas[a],
			    kinds[i])) == 0;
			nzero += ctl_size(ctl_name(name, "stats.arenas.%u.hpa_shard.%s.ndirty_nonhuge",
			    arenas[a], kinds[i])) == 0;
			n += 2;
		}
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++, n++)
			nzero += ctl_size(ctl_name(name, "stats.arenas.%u.hpa_shard.%s", arenas[a], counts[i]))
			    == 0;
		for (size_t i = 0; i < sizeof(sec) / sizeof(sec[0]); i++, n++)
			nzero += ctl_size(ctl_name(name, "stats.arenas.%u.hpa_sec_%s", arenas[a], sec[i])) == 0;
		for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++, n++)
			nzero += ctl_u64(ctl_name(name, "stats.arenas.%u.mutexes.%s.num_ops", arenas[a],
			    locks[i])) == 0;
	}
	for (unsigned i = 0; i < 9; i++, n++)
		nzero += ctl_u64(ctl_name(name, "stats.arenas.0.hpa_shard.alloc.%u.extents", i)) == 0;
	ok(!ctl_exists("stats.arenas.0.hpa_shard.alloc.9.extents"), "there are nine kinds of requests");
	is_uint(nzero, n, "statistics are there and zero, of one arena and of all");
	ok(!ctl_exists("stats.arenas.0.hpa_shard.nonfull_slabs.64.nactive_huge"),
	    "there are 64 kinds of slabs");
	ok(!ctl_exists("stats.arenas.4095.hpa_shard.nactive"), "no arena, no statistics");
	ok(ctl_u64("stats.arenas.0.mutexes.base.num_ops") > 0, "a lock that is there counts");
}

/* With hpa:true: figures of one moment. */
static int
child_figures(void) {
	static void *blocks[4000];
	static const char *const sums[] = {"npageslabs", "nactive", "ndirty"};
	char name[128];
	unsigned bad = 0;
	size_t page = ctl_size("arenas.page");
	/* Slabs of at most 64 KiB: longer extents do not come from huge slabs. */
	size_t size = page > 4096 ? page / 4 - canary_bytes() : 14000;

	for (size_t i = 0; i < 4000; i++)
		blocks[i] = malloc(size);
	for (size_t i = 0; i < 4000; i += 2)
		free(blocks[i]);
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	ctl_void("arena.0.decay");
	ctl_epoch();
	for (size_t i = 0; i < 3; i++) {
		size_t all = ctl_size(ctl_name(name, "stats.arenas.0.hpa_shard.%s", sums[i]));
		size_t huge = ctl_size(ctl_name(name, "stats.arenas.0.hpa_shard.slabs.%s_huge", sums[i]));
		size_t other = ctl_size(ctl_name(name, "stats.arenas.0.hpa_shard.slabs.%s_nonhuge",
		    sums[i]));
		bad += wrong_if(all != huge + other) || wrong_if(i < 2 && all == 0);
	}
	size_t active = ctl_size("stats.arenas.0.hpa_shard.nactive");
	bad += wrong_if(active > ctl_size("stats.arenas.0.pactive")
	    + ctl_size("stats.arenas.0.pdirty"));
	bad += wrong_if(ctl_u64("stats.arenas.0.mutexes.hpa_shard.num_ops") == 0);
	bad += wrong_if(ctl_size("stats.resident") > ctl_size("stats.mapped"));
	ctl_void("arena.0.purge");
	ctl_epoch();
	bad += wrong_if(ctl_size("stats.arenas.0.hpa_shard.ndirty") != 0);
	printf("%u wrong, %zu pages\n", bad, active);
	return bad != 0;
}

static const struct test_child children[] = {
	{"options", child_options},
	{"figures", child_figures},
	{"sec", child_sec},
	{"blocks", child_blocks},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	test_options();
	test_switch();
	if (ctl_bool("config.stats") && !ctl_bool("opt.hpa"))
		test_nodes();
	else
		skip(5, "no statistics, or hpa is on");
	return done_testing();
}
