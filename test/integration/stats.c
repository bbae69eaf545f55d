/*
 * Statistics are exact: what they say about live bytes, blocks and requests is what this
 * program did. The caches are flushed before each look, so that what is counted is in use.
 */
#include "ctl.h"
#include <malloc.h>
#include <pthread.h>

#define WAITING 300

/*
 * With checks the last blocks that were freed count as allocated, until others take their place:
 * here always the same ones.
 */
static void
look(void) {
	size_t size = 1000 * ctl_size("arenas.page");
	int flags = MALLOCX_TCACHE_NONE;

	for (int i = 0; i < WAITING && canary_bytes() != 0; i++) {
		free(keep(malloc(64)));
		dallocx(mallocx(size, flags), flags);
	}
	ctl_void("thread.tcache.flush");	/* EFAULT without a cache is fine */
	ctl_epoch();
}

static uint64_t
arena_u64(const char *what) {
	char name[128];

	return ctl_u64(ctl_name(name, "stats.arenas.4096.%s", what));
}

static void
test_allocated(void) {
	static const size_t sizes[] = { 1, 8, 24, 64, 100, 1000, 4096, 10000, 14336, 14337, 20000,
	    32768, 33000, 100000, 1 << 20, (5 << 20) + 1 };
	static void *p[16][50];
	size_t before, after, sum = 0, back, active;

	look();
	before = ctl_size("stats.allocated");
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 50; j++) {
			p[i][j] = keep(malloc(sizes[i]));
			sum += counted_size(p[i][j]);
		}
	}
	look();
	after = ctl_size("stats.allocated");
	active = ctl_size("stats.active");
	is_uint(after - before, sum, "stats.allocated counts usable bytes exactly");
	ok(active >= after && active % ctl_size("arenas.page") == 0, "stats.active %zu", active);
	ok(ctl_size("stats.mapped") >= active, "stats.mapped %zu", ctl_size("stats.mapped"));
	ok(ctl_size("stats.resident") >= active, "stats.resident");
	ok(ctl_size("stats.metadata") > 0, "stats.metadata");
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 50; j++)
			free(p[i][j]);
	}
	look();
	back = ctl_size("stats.allocated");
	is_uint(back, before, "and they are gone after free");
	is_uint(arena_u64("small.allocated") + arena_u64("large.allocated"), back,
	    "small and large together are all");
}

static unsigned
bin_of(size_t size) {
	char name[64];
	unsigned i = 0;

	while (ctl_size(ctl_name(name, "arenas.bin.%u.size", i)) < size)
		i++;
	return i;
}

static unsigned
lextent_of(size_t size) {
	char name[64];
	unsigned i = 0;

	while (ctl_size(ctl_name(name, "arenas.lextent.%u.size", i)) < size)
		i++;
	return i;
}

static volatile int is_served, may_end;

static void *
serve_70(void *arg) {
	for (int i = 0; i < 70; i++)
		free(keep(malloc(448 - canary_bytes())));
	is_served = 1;
	while (!may_end)
		usleep(1000);
	return arg;
}

/* What the caches of living threads have served is counted before anything leaves them. */
static void
test_cached_requests(void) {
	unsigned bin = bin_of(448);
	char name[96];
	pthread_t t;

	ctl_epoch();
	uint64_t before = ctl_u64(ctl_name(name, "stats.arenas.4096.bins.%u.nrequests", bin));
	for (int i = 0; i < 1000; i++)
		free(keep(malloc(448 - canary_bytes())));
	pthread_create(&t, NULL, serve_70, NULL);
	while (!is_served)
		usleep(1000);
	ctl_epoch();
	is_uint(ctl_u64(ctl_name(name, "stats.arenas.4096.bins.%u.nrequests", bin)) - before, 1070,
	    "requests that the caches of two threads have served");
	may_end = 1;
	pthread_join(t, NULL);
	ctl_epoch();
	is_uint(ctl_u64(ctl_name(name, "stats.arenas.4096.bins.%u.nrequests", bin)) - before, 1070,
	    "counted once");
}

static void
test_bin_counts(void) {
	unsigned bin = bin_of(320);
	uint64_t nmalloc, ndalloc, nrequests, small_requests, own = canary_bytes() != 0 ? WAITING : 0;
	static void *p[1000];
	char name[96];
	size_t curregs;

#define BIN(what) ctl_u64(ctl_name(name, "stats.arenas.4096.bins.%u." what, bin))
	look();
	nmalloc = BIN("nmalloc");
	ndalloc = BIN("ndalloc");
	nrequests = BIN("nrequests");
	small_requests = arena_u64("small.nrequests");
	curregs = BIN("curregs");
	for (int i = 0; i < 1000; i++)
		p[i] = keep(malloc(320 - canary_bytes()));
	for (int i = 0; i < 400; i++)
		free(p[i]);
	look();
	is_uint(BIN("curregs") - curregs, 600, "curregs counts 600 blocks");
	is_uint(BIN("nrequests") - nrequests, 1000, "nrequests counts 1000 requests");
	is_uint(arena_u64("small.nrequests") - small_requests, 1000 + own, "small.nrequests too");
	ok(BIN("nmalloc") - nmalloc - (BIN("ndalloc") - ndalloc) == 600,
	    "nmalloc minus ndalloc is what lives");
	ok(BIN("curslabs") > 0 && BIN("nslabs") >= BIN("curslabs"), "slabs");
	for (int i = 400; i < 1000; i++)
		free(p[i]);
	look();
	is_uint(BIN("curregs"), curregs, "all gone");
#undef BIN
}

static void
test_large_counts(void) {
	size_t size = class_of(ctl_size("arenas.page") * 40);
	unsigned i = lextent_of(size);
	uint64_t nmalloc, ndalloc, cur;
	void *p[20];
	char name[96];

#define LARGE(what) ctl_u64(ctl_name(name, "stats.arenas.4096.lextents.%u." what, i))
	look();
	nmalloc = LARGE("nmalloc");
	ndalloc = LARGE("ndalloc");
	cur = LARGE("curlextents");
	for (int j = 0; j < 20; j++)
		p[j] = keep(malloc(size));
	for (int j = 0; j < 5; j++)
		free(p[j]);
	look();
	is_uint(LARGE("nmalloc") - nmalloc, 20, "large nmalloc");
	is_uint(LARGE("ndalloc") - ndalloc, 5, "large ndalloc");
	is_uint(LARGE("curlextents") - cur, 15, "curlextents");
	for (int j = 5; j < 20; j++)
		free(p[j]);
	look();
	is_uint(LARGE("curlextents"), cur, "and back");
#undef LARGE
}

/* One mixed run; the sums of usable sizes are kept by hand. */
/* The extents of the classes are all unused pages, whatever they wait for. */
static void
test_extents(void) {
	static const char *const kinds[] = {"dirty", "muzzy"};
	size_t page = ctl_size("arenas.page");
	void *p[40];

	for (int i = 0; i < 40; i++)
		p[i] = keep(malloc((i + 5) * 20 * page));
	for (int i = 0; i < 40; i += 2)
		free(p[i]);
	look();
	for (int k = 0; k < 2; k++) {
		size_t bytes = 0, n = 0;
		size_t pages = arena_u64(k == 0 ? "pdirty" : "pmuzzy");
		char name[128];

		for (unsigned j = 0; !mallctl(ctl_name(name, "stats.arenas.4096.extents.%u.n%s", j,
		    kinds[k]), NULL, NULL, NULL, 0); j++) {
			n += ctl_u64(name);
			bytes += ctl_u64(ctl_name(name, "stats.arenas.4096.extents.%u.%s_bytes", j, kinds[k]));
		}
		is_uint(bytes, pages * page, "the bytes of %s extents are all %s pages", kinds[k],
		    kinds[k]);
		ok((n == 0) == (bytes == 0) && n * page <= bytes, "%zu %s extents", n, kinds[k]);
	}
	for (int i = 1; i < 40; i += 2)
		free(p[i]);
}

static void
test_thread_counters(void) {
	uint64_t a0, d0, a = 0, d = 0, seed = 3;
	void *p[200] = {NULL};

	a0 = ctl_u64("thread.allocated");
	d0 = ctl_u64("thread.deallocated");
	for (int i = 0; i < 20000; i++) {
		size_t at = test_random(&seed) % 200;
		size_t size = 1 + test_random(&seed) % (at == 0 ? 200000 : 2000);

		if (p[at] != NULL && i % 3 == 0) {
			d += counted_size(p[at]);
			p[at] = keep(i % 2 == 0 ? realloc(p[at], size) : rallocx(p[at], size, 0));
			a += counted_size(p[at]);
			continue;
		}
		if (p[at] != NULL) {
			d += counted_size(p[at]);
			free(p[at]);
		}
		p[at] = keep(malloc(size));
		a += counted_size(p[at]);
	}
	is_uint(ctl_u64("thread.allocated") - a0, a, "thread.allocated");
	is_uint(ctl_u64("thread.deallocated") - d0, d, "thread.deallocated");
	for (int i = 0; i < 200; i++) {
		d += counted_size(p[i]);
		free(p[i]);
	}
	is_uint(ctl_u64("thread.deallocated") - d0, d, "after the last free");
}

static void
test_thread_pointers(void) {
	uint64_t *allocated = NULL, *deallocated = NULL;
	size_t len = sizeof(allocated);
	uint64_t a, d;
	size_t usable;
	void *p;

	is_int(mallctl("thread.allocatedp", &allocated, &len, NULL, 0), 0, "thread.allocatedp");
	is_int(mallctl("thread.deallocatedp", &deallocated, &len, NULL, 0), 0,
	    "thread.deallocatedp");
	if (allocated == NULL || deallocated == NULL)
		return;
	a = *(volatile uint64_t *)allocated;
	d = *(volatile uint64_t *)deallocated;
	is_uint(a, ctl_u64("thread.allocated"), "points at the counter");
	for (int i = 0; i < 100; i++) {
		p = keep(malloc(100));
		usable = counted_size(p);
		a += usable;
		if (*(volatile uint64_t *)allocated != a)
			break;
		free(p);
		d += usable;
		if (*(volatile uint64_t *)deallocated != d)
			break;
	}
	is_uint(*allocated, a, "every malloc moves it at once");
	is_uint(*deallocated, d, "and every free the other");
	p = keep(malloc(500000));
	is_uint(*allocated - a, counted_size(p), "a large block");
	free(p);
	is_uint(*deallocated - d, *allocated - a, "and its free");
	p = keep(malloc(100));
	a = *allocated;
	d = *deallocated;
	p = keep(realloc(p, 105));
	is_uint(*allocated - a, counted_size(p), "realloc within its class is an allocation");
	is_uint(*deallocated - d, counted_size(p), "and a release");
	xallocx(p, 106, 0, 0);
	is_uint(*allocated - a, counted_size(p), "xallocx that changes nothing is none");
	is_uint(ctl_u64("thread.allocated"), *allocated, "both ways to ask agree");
	free(p);
}

/* The one node without a value that takes any arguments, as jemalloc's. */
static void
test_mutexes_reset(void) {
	size_t v = 0, len = sizeof(v);

	is_int(mallctl("stats.mutexes.reset", NULL, NULL, &v, sizeof(v)), 0,
	    "stats.mutexes.reset with a value");
	is_int(mallctl("stats.mutexes.reset", &v, &len, NULL, 0), 0, "and with a place for one");
	is_uint(len, sizeof(v), "which stays as it is");
}

/* Each snapshot takes the lock of each bin once, but the first one that has the arena twice. */
static void
test_snapshots_of_arena(void) {
	unsigned ind;
	size_t len = sizeof(ind);
	char name[64];

	ctl_epoch();
	if (mallctl("arenas.create", &ind, &len, NULL, 0) != 0)
		bail_out("no arena");
	for (unsigned n = 1; n <= 3; n++) {
		ctl_epoch();
		is_uint(ctl_u64(ctl_name(name, "stats.arenas.%u.bins.0.mutex.num_ops", ind)), n + 1,
		    "snapshot %u of an arena", n);
	}
}

static const char *const locks[] = {"background_thread", "max_per_bg_thd", "ctl", "prof",
    "prof_thds_data", "prof_dump", "prof_recent_alloc", "prof_recent_dump"};

/* What each lock counts, in their order. */
static void
lock_ops(uint64_t *ops) {
	char name[64];

	ctl_epoch();
	for (unsigned i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		ops[i] = ctl_u64(ctl_name(name, "stats.mutexes.%s.num_ops", locks[i]));
}

static void
discard(void *arg, const char *text) {
	*(size_t *)arg += strlen(text);
}

static void
use_locks(void) {
	struct {
		void (*write)(void *, const char *);
		void *arg;
	} to = {discard, NULL};
	const char *name = "/dev/null";
	size_t n = 0;
	bool on = true;

	to.arg = &n;
	for (unsigned i = 0; i < 30; i++) {
		free(keep(malloc(100)));
		ctl_epoch();
		ctl_write("background_thread", on);
		on = !on;
		ctl_write("prof.dump", name);
		ctl_void("prof.reset");
		mallctl("experimental.prof_recent.alloc_dump", NULL, NULL, &to, sizeof(to));
	}
}

/* Each lock that belongs to no arena counts what it is taken for, and is set back to zero. */
static int
child_locks(void) {
	enum { N = sizeof(locks) / sizeof(locks[0]) };
	uint64_t before[N], used[N], after[N];
	bool on = true;

	ctl_write("background_thread", on);
	lock_ops(before);
	use_locks();
	lock_ops(used);
	is_int(ctl_void("stats.mutexes.reset"), 0, "reset");
	lock_ops(after);
	for (unsigned i = 0; i < N; i++) {
		/* A thread's lock is taken when it likes to run. */
		ok(used[i] >= before[i] + (i == 1 ? 0 : 30), "%s: %llu, then %llu", locks[i],
		    (unsigned long long)before[i], (unsigned long long)used[i]);
		ok(after[i] < 15, "%s: after a reset %llu", locks[i], (unsigned long long)after[i]);
	}
	return done_testing();
}

static void *
other_thread(void *arg) {
	uint64_t *result = arg;
	void *p = keep(malloc(5000));

	result[0] = ctl_u64("thread.allocated");
	result[1] = counted_size(p);
	result[2] = ctl_u64("thread.deallocated");
	free(p);
	result[3] = ctl_u64("thread.deallocated");
	return NULL;
}

static void
test_other_thread(void) {
	uint64_t r[4] = {0};
	pthread_t t;

	pthread_create(&t, NULL, other_thread, r);
	pthread_join(t, NULL);
	ok(r[0] == r[1] && r[2] == 0 && r[3] == r[1],
	    "a new thread counts from zero, its own only (%llu %llu %llu %llu)",
	    (unsigned long long)r[0], (unsigned long long)r[1], (unsigned long long)r[2],
	    (unsigned long long)r[3]);
}

static void
test_peak(void) {
	uint64_t peak;
	void *p;

	if (!ctl_exists("thread.peak.read")) {
		skip(3, "no thread.peak");
		return;
	}
	is_int(ctl_void("thread.peak.reset"), 0, "thread.peak.reset");
	p = keep(malloc(10 << 20));
	free(p);
	p = keep(malloc(1000));
	peak = ctl_u64("thread.peak.read");
	ok(peak >= 10 << 20 && peak < 11 << 20, "thread.peak.read is %llu", (unsigned long long)peak);
	free(p);
	ctl_void("thread.peak.reset");
	ok(ctl_u64("thread.peak.read") < 100000, "reset");
}

static int
child_all(void) {
	test_allocated();
	test_cached_requests();
	test_bin_counts();
	test_large_counts();
	test_extents();
	test_thread_counters();
	test_other_thread();
	test_peak();
	test_thread_pointers();
	test_mutexes_reset();
	test_snapshots_of_arena();
	return done_testing();
}

static unsigned n_reports;

static void
count_report(void *opaque, const char *s) {
	(void)opaque;
	n_reports += strstr(s, "___ Begin") != NULL;
}

/* stats_interval: as many reports as bytes, by few large blocks too. */
static int
child_interval(void) {
	static const size_t sizes[] = {1000, 14336, 1 << 18, 1 << 20, 2 << 20, 5 << 20};

	malloc_message = count_report;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned n = (unsigned)((80u << 20) / sizes[i]);

		n_reports = 0;
		for (unsigned k = 0; k < n; k++)
			free(keep(malloc(sizes[i])));
		ok(n_reports + 1 >= n * sizes[i] / (5u << 20), "%u blocks of %zu bytes: %u reports", n,
		    sizes[i], n_reports);
	}
	malloc_message = NULL;
	return done_testing();
}

static const struct test_child children[] = {
	{"interval", child_interval},
	{"all", child_all},
	{"locks", child_locks},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static const char *const confs[] = { "tcache:false", "narenas:1", "tcache_max:4096",
	    "prof:true,lg_prof_sample:10", "abort_conf:false,percpu_arena:percpu", "zero:true",
	    "retain:false" };
	static struct test_result r;

	test_children(argc, argv, children);
	if (!ctl_bool("config.stats"))
		plan_skip_all("no statistics in this build");
	run_child_conf(&r, "all", NULL);
	child_exits(&r, 0, "all counts");
	for (size_t i = 0; i < sizeof(confs) / sizeof(confs[0]); i++) {
		run_child_conf(&r, "all", confs[i]);
		child_exits(&r, 0, "the same with %s", confs[i]);
	}
	child_runs("interval", "stats_interval:5242880,stats_interval_opts:mdablxeh");
	if (ctl_bool("config.prof"))
		child_runs("locks", "prof:true,lg_prof_sample:0,prof_recent_alloc_max:5");
	return done_testing();
}
