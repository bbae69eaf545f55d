/*
 * The sampling interval: set by option and by mallctl, and changed a thousand times while
 * threads allocate. Every sample keeps the weight of its own time: the cumulative and the
 * live estimate stay right, what was sampled exactly stays exact, and what is freed is gone.
 * The profile of such a mixture says heap_v2/1, and the jeprof of this package and the one that
 * the system has read the same total from it.
 */
#include "ctl.h"
#include "heap.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/stat.h>

#define CHANGES 1000
#define THREADS 4
#define SLOTS 20000
#define KEPT 500
/* Bytes that the threads allocate from one change to the next. */
#define STRIDE 400000
#define LIMIT 5.0

static char dir[] = "/tmp/jetest.XXXXXX";
static char path[100];

struct worker {
	pthread_t t;
	uint64_t seed;
	uint64_t bytes;		/* allocated so far; read by the main thread */
	void *slots[SLOTS];
};

static struct worker workers[THREADS];
static uint64_t allowed;	/* bytes of each thread, until the next change */
static bool stop;

static struct heap_profile
dump(void) {
	const char *name = path;
	int rc = ctl_write("prof.dump", name);

	if (rc != 0)
		diag("prof.dump: %d", rc);
	return heap_read(path);
}

static int
set_rate(size_t bytes) {
	return ctl_write("prof.sample_interval", bytes);
}

static void
set_sampled(bool on) {
	ctl_write("thread.prof.active", on);
}

/* -------------------------------------------------------------- under load */

static size_t
some_size(uint64_t *seed) {
	uint64_t r = test_random(seed);

	if (r % 400 == 0)
		return 20000 + (r >> 32) % 60000;
	return 8 + (r >> 32) % (r % 3 ? 200 : 2000);
}

static void *
work(void *arg) {
	struct worker *w = arg;
	uint64_t bytes = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		void **slot = &w->slots[test_random(&w->seed) % SLOTS];

		if (bytes > __atomic_load_n(&allowed, __ATOMIC_RELAXED) + STRIDE) {
			sched_yield();	/* not far ahead of the changes */
			continue;
		}
		free(*slot);
		*slot = keep(malloc(some_size(&w->seed)));
		bytes += counted_size(*slot);
		__atomic_store_n(&w->bytes, bytes, __ATOMIC_RELEASE);
	}
	return NULL;
}

static double
allocated(void) {
	double sum = 0;

	for (int i = 0; i < THREADS; i++)
		sum += (double)__atomic_load_n(&workers[i].bytes, __ATOMIC_ACQUIRE);
	return sum;
}

/* Every other time all is sampled, so that threads are often amidst a sample. */
static size_t
rate_of(int change) {
	static const size_t rates[] = {16384, 300, 16384, 5000, 12345, 16384, 64, 9000};

	return change % 2 ? 1 : rates[change / 2 % 8];
}

/*
 * An upper bound of the variance: what was allocated between two changes was sampled by one
 * of the two rates, or by a third if it straddles; a small object at rate R adds z * R.
 */
static double
change_rates(void) {
	double variance = 0, before = allocated(), now;
	int bad = 0;

	for (int i = 0; i < CHANGES; i++) {
		size_t rate = rate_of(i);

		bad += wrong_if(set_rate(rate) != 0)
		    || wrong_if(ctl_size("prof.sample_interval") != rate);
		__atomic_store_n(&allowed, (uint64_t)(i + 1) * STRIDE / THREADS, __ATOMIC_RELAXED);
		while ((now = allocated()) < (i + 1.0) * STRIDE)
			sched_yield();
		variance += (now - before) * (double)(rate_of(i) + rate_of(i + 1));
		before = now;
	}
	is_int(bad, 0, "%d changes, each can be read back", CHANGES);
	return variance;
}

static void
start_workers(void) {
	memset(workers, 0, sizeof(workers));
	stop = false;
	allowed = 0;
	for (int i = 0; i < THREADS; i++) {
		workers[i].seed = (uint64_t)i * 1000003 + 1;
		pthread_create(&workers[i].t, NULL, work, &workers[i]);
	}
}

static void
stop_workers(void) {
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].t, NULL);
}

static double
live_bytes(void) {
	double sum = 0;

	for (int i = 0; i < THREADS; i++) {
		for (int k = 0; k < SLOTS; k++)
			sum += (double)counted_size(workers[i].slots[k]);
	}
	return sum;
}

static void
free_all(void) {
	for (int i = 0; i < THREADS; i++) {
		for (int k = 0; k < SLOTS; k++)
			free(workers[i].slots[k]);
	}
}

/* -------------------------------------------------------------- readers */

/* Bytes in the line "Total: ..." that a jeprof prints; -1: it failed. */
static double
jeprof_total(const char *jeprof) {
	char cmd[600];
	double total = -1;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "timeout 400 '%s' --text --show_bytes %s %s 2>/dev/null", jeprof,
	    "/proc/self/exe", path);
	f = popen(cmd, "r");
	if (f == NULL)
		return -1;
	while (fgets(cmd, sizeof(cmd), f) != NULL)
		sscanf(cmd, "Total: %lf B", &total);
	pclose(f);
	return total;
}

static void
judge_jeprof(const char *whose, const char *jeprof, double want) {
	struct stat st;
	double got;

	if (stat(jeprof, &st) != 0) {
		skip(1, "there is none");
		return;
	}
	got = jeprof_total(jeprof);
	ok(fabs(got - want) <= want * 1e-6 + 1, "%s reads %.0f bytes from the mixture, %.0f", whose,
	    got, want);
}

/* -------------------------------------------------------------- the children */

static int
child_changes(void) {
	static void *kept[KEPT];
	char ours[300];
	struct heap_profile h;
	double exact = 0, live, sigma, variance;

	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
	snprintf(path, sizeof(path), "%s/d.heap", dir);
	set_rate(1);
	for (int i = 0; i < KEPT; i++) {
		kept[i] = keep(malloc((size_t)(i % 7 ? i : 40000 + i)));
		exact += (double)counted_size(kept[i]);
	}
	set_sampled(false);	/* the rest of this thread's is not of interest */
	start_workers();
	variance = change_rates();
	stop_workers();

	h = dump();
	ok(h.good && h.has_maps, "the dump can be read");
	is_uint(h.rate, 1, "its header is heap_v2/1");
	sigma = sqrt(variance);
	ok(fabs(h.all_bytes - allocated() - exact) < LIMIT * sigma,
	    "%.0f MB allocated: off by %+.2f %%, %.2f sigma", allocated() / 1e6,
	    100 * (h.all_bytes / (allocated() + exact) - 1),
	    (h.all_bytes - allocated() - exact) / sigma);
	live = live_bytes();
	sigma = sqrt(live * 16384);
	ok(fabs(h.live_bytes - live - exact) < LIMIT * sigma,
	    "%.0f MB live: off by %+.2f %%, %.2f sigma at most", live / 1e6,
	    100 * (h.live_bytes / (live + exact) - 1), (h.live_bytes - live - exact) / sigma);
	judge_jeprof("the system's jeprof", "/usr/bin/jeprof", h.live_bytes);
	snprintf(ours, sizeof(ours), "%s/bin/jeprof", getenv("JEMALLOC_BUILD") ? : ".");
	judge_jeprof("our jeprof", ours, h.live_bytes);

	free_all();
	h = dump();
	ok(h.good && h.live_objects == KEPT && h.live_bytes == exact,
	    "of what lives, all that was sampled exactly is left: %.0f objects of %.0f bytes, %d of "
	    "%.0f", h.live_objects, h.live_bytes, KEPT, exact);
	for (int i = 0; i < KEPT; i++)
		free(kept[i]);
	h = dump();
	ok(h.good && h.live_bytes == 0, "then nothing");
	unlink(path);
	rmdir(dir);
	return done_testing();
}

/* -------------------------------------------------------------- in the middle of a sample */

static size_t rate_midway;	/* set while the next stack is taken; 0: stays */

static void
take_stack(void **frames, unsigned *n, unsigned max) {
	if (rate_midway != 0) {
		set_rate(rate_midway);
		rate_midway = 0;
		for (int i = 0; i < 100; i++)
			free(keep(malloc((size_t)i)));
	}
	frames[0] = (void *)(uintptr_t)take_stack;
	*n = max > 0;
}

/* The first sample of 100 bytes from here on, after whose drawing the rate becomes `to`. */
static void
test_midway(size_t from, size_t to) {
	const double usable = (double)small_class_of(112);
	const double want = usable / -expm1(-usable / (double)from);
	static void *p[100000];
	struct heap_profile h;
	int n = 0;

	set_rate(from);
	ctl_void("prof.reset");
	set_sampled(true);
	for (rate_midway = to; rate_midway != 0 && n < 100000; n++)
		p[n] = keep(malloc(100));
	set_sampled(false);
	h = dump();
	ok(h.good && h.sampled >= 1 && fabs(h.live_bytes - want) < want * 1e-3,
	    "drawn at %zu, recorded at %zu: stands for %.1f bytes, %.1f", from, to, h.live_bytes, want);
	while (n > 0)
		free(p[--n]);
}

static int
child_midway(void) {
	void (*hook)(void **, unsigned *, unsigned) = take_stack;

	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
	snprintf(path, sizeof(path), "%s/d.heap", dir);
	set_sampled(false);
	is_int(ctl_write("experimental.hooks.prof_backtrace", hook), 0, "a hook that takes stacks");
	test_midway(1, 1 << 20);
	test_midway(4096, 1 << 20);
	test_midway(4096, 1);
	unlink(path);
	rmdir(dir);
	return done_testing();
}

static int
child_option(void) {
	size_t zero = 0;

	is_uint(ctl_size("prof.sample_interval"), 100003, "prof.sample_interval is the option's");
	is_uint(ctl_u64("opt.prof_sample_interval"), 100003, "so is opt.prof_sample_interval");
	is_uint(ctl_size("prof.lg_sample"), 16, "prof.lg_sample is the whole part of its logarithm");
	is_int(ctl_write("prof.sample_interval", zero), EINVAL, "an interval of nothing is refused");
	is_uint(ctl_size("prof.sample_interval"), 100003, "and changes nothing");
	is_int(set_rate(SIZE_MAX), 0, "a huge one");
	for (int i = 0; i < 100000; i++)
		free(keep(malloc((size_t)i)));
	is_int(set_rate(7), 0, "a tiny one");
	is_uint(ctl_size("prof.lg_sample"), 2, "prof.lg_sample follows");
	for (int i = 0; i < 1000; i++)
		free(keep(malloc((size_t)i)));
	return done_testing();
}

static const struct test_child children[] = {
	{"changes", child_changes},
	{"midway", child_midway},
	{"option", child_option},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	child_runs("option", "prof:true,prof_sample_interval:100003,lg_prof_sample:4");
	child_runs("midway", "prof:true");
	child_runs("midway", "prof:true,tcache:false");
	child_runs("changes", "prof:true,prof_accum:true");
	child_runs("changes", "prof:true,prof_accum:true,tcache:false");
	return done_testing();
}
