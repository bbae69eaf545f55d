/*
 * Thresholds of the profiler: each is set by MALLOC_CONF, by mallctl while the program runs and by
 * the options of a session, and fires where a known course of allocation passes it. What may be
 * wrong by the manual is 64 KiB per thread.
 */
#include "ctl.h"
#include "dumps.h"
#include "heap.h"

#include <pthread.h>
#include <sys/mman.h>

#define K ((size_t)1024)
#define M (K * K)
#define GRAIN (64 * K)

extern void *_Znwm(size_t) __attribute__((weak));
extern void _ZdlPv(void *) __attribute__((weak));

static unsigned
n_of(char kind) {
	return dumps_read(kind);
}

static void
set(const char *name, uint64_t v) {
	if (!is_int(ctl_write(name, v), 0, "%s := %llu", name, (unsigned long long)v))
		return;
	is_uint(ctl_u64(name), v, "is read back");
}

static void
set_text(const char *name, const char *v) {
	is_int(ctl_write(name, v), 0, "%s := %s", name, v);
	is_str(ctl_str(name), v, "is read back");
}

static int
start(const char *options) {
	return ctl_write("prof.session.start", options);
}

/* ------------------------------------------------------------------ the courses */

/* 40 MB in blocks that are freed at once, threshold 8M. */
static void
course_alloc(void) {
	for (int i = 0; i < 1000; i++)
		free(keep(malloc(40000)));
	is_uint(n_of('a'), 4, "40 MB of churn: at 8, 16, 24 and 32 MiB");
	for (unsigned i = 0; i < dumps.n; i++) {
		unsigned long long v = dump_number(i, "metric_value");

		is_str(dump_text(i, "metric"), "alloc", "metric");
		ok(v >= 8 * M && v <= 8 * M + GRAIN + 40960, "value %llu", v);
	}
}

/* Threshold 3M. */
static void
course_large(void) {
	free(keep(malloc(3 * M - 1)));
	is_uint(n_of('l'), 0, "one byte less than the threshold");
	free(keep(malloc(3 * M)));
	free(keep(malloc(5 * M)));
	is_uint(n_of('l'), 2, "two requests");
	is_uint(dump_number(0, "metric_value"), 3 * M, "the first");
	is_uint(dump_number(1, "metric_value"), 5 * M, "the second");
	is_str(dump_text(1, "metric"), "large", "metric");
	is_str(dump_text(1, "kind"), "large", "kind");
}

/* Up to 34 MiB, threshold 16M, step 8M. */
static void
course_highwater(const char *metric) {
	static void *p[350];
	const unsigned long long at[] = {16 * M, 24 * M, 32 * M};

	for (int i = 0; i < 350; i++)
		p[i] = keep(malloc(100000));
	is_uint(n_of('h'), 3, "16, 24 and 32 MiB");
	for (unsigned i = 0; i < dumps.n && i < 3; i++) {
		unsigned long long v = dump_number(i, "metric_value");
		/* Steps count from where it fired. */
		unsigned long long late = i * (GRAIN + 102400);

		is_str(dump_text(i, "metric"), metric, "metric");
		ok(v >= at[i] && v <= at[i] + GRAIN + 102400 + late, "value %llu", v);
		ok(dump_number(i, metric) >= at[i], "the figure of the whole file agrees");
	}
	for (int i = 0; i < 350; i++)
		free(p[i]);
}

static void
course_time(void) {
	unsigned n = dumps_await('t', 2);

	ok(n >= 2, "%u timer dumps of an idle program", n);
	is_str(dump_text(1, "metric"), "time_ms", "metric");
	ok(dump_number(1, "metric_value") >= 50, "value");
}

static void
by_conf(void) {
	is_uint(ctl_u64("opt.prof_threshold_alloc"), 8 * M, "the option");
	is_uint(ctl_u64("prof.threshold.alloc"), 8 * M, "and what holds");
	course_alloc();
	set("prof.threshold.alloc", 0);
	set("prof.threshold.large", 3 * M);
	course_large();
}

static void
by_conf_highwater(void) {
	course_highwater("allocated");
}

static void
by_conf_large(void) {
	course_large();
}

static void
by_conf_time(void) {
	free(keep(malloc(GRAIN))); /* the profiler's thread is made at a heartbeat */
	course_time();
}

static void
by_mallctl(void) {
	set("prof.threshold.alloc", 8 * M);
	course_alloc();
	set("prof.threshold.alloc", 0);
	set("prof.threshold.large", 3 * M);
	course_large();
	set("prof.threshold.large", 0);
	unsigned before = n_of('l');
	free(keep(malloc(9 * M)));
	is_uint(n_of('l'), before, "off again");
	set_text("prof.threshold.highwater_metric", "active");
	set_text("prof.threshold.highwater_metric", "allocated");
	set("prof.threshold.highwater_step", 8 * M);
	set("prof.threshold.highwater", 16 * M);
	course_highwater("allocated");
	set("prof.threshold.highwater", 0);
	set("prof.threshold.time_ms", 50);
	course_time();
	set("prof.threshold.time_ms", 0);
}

/*
 * Large requests come without a heartbeat each while nobody waits for bytes: these are not for who
 * begins to wait.
 */
static void
not_before(void) {
	for (unsigned k = 0; k < 3; k++) {
		unsigned n = n_of('a');
		for (unsigned i = 0; i < 100 + k * 37; i++)
			free(keep(malloc(100000)));
		set("prof.threshold.alloc", 4 * M);
		for (unsigned i = 0; i < 38; i++) /* of 100 KiB each on 4K pages, of 128 KiB on 64K pages */
			free(keep(malloc(100000)));
		if (malloc_usable_size(keep(malloc(100000))) < 106000)
			is_uint(n_of('a'), n, "what came before the threshold is not counted, %u", k);
		for (unsigned i = 0; i < 3; i++)
			free(keep(malloc(100000)));
		is_uint(n_of('a'), n + 1, "what comes after it is, %u", k);
		set("prof.threshold.alloc", 0);
	}
}

static void
by_session(void) {
	is_int(start("alloc:8M,large:3M,highwater:16M,highwater_step:8M,highwater_metric:allocated"), 0,
	    "start with all the short names");
	ok(ctl_u64("prof.threshold.alloc") == 8 * M && ctl_u64("prof.threshold.large") == 3 * M
	    && ctl_u64("prof.threshold.highwater") == 16 * M
	    && ctl_u64("prof.threshold.highwater_step") == 8 * M, "they hold");
	course_highwater("allocated");
	is_int(start("alloc:1M"), EALREADY, "not twice");
	is_int(ctl_void("prof.session.stop"), 0, "stop");
	is_uint(ctl_u64("prof.threshold.highwater"), 0, "gone with the session");
	is_int(start("alloc:8M,large:3M"), 0, "a second one");
	unsigned before = n_of('a');
	is_uint(before, 4, "of 34 MB in the first session");
	course_large();
	is_int(ctl_void("prof.session.stop"), 0, "stop");
	is_int(start("time_ms:50"), 0, "a third one");
	course_time();
	is_int(ctl_void("prof.session.stop"), 0, "stop");
}

/* ------------------------------------------------------------------ eight threads */

enum { n_threads = 8, per_turn = 60000 };
static pthread_barrier_t barrier;
static void *blocks[n_threads][600];

/*
 * One after the other, each a little less than a heartbeat: what is not told yet is as much as can
 * be.
 */
static void *
take_turns(void *arg) {
	unsigned me = (unsigned)(uintptr_t)arg, n = 0;

	for (unsigned turn = 0; turn < 64 * n_threads; turn++) {
		pthread_barrier_wait(&barrier);
		if (turn % n_threads != me)
			continue;
		for (unsigned i = 0; i < 6; i++)
			blocks[me][n++] = keep(malloc(per_turn / 6));
	}
	return NULL;
}

static void *
take_back(void *arg) {
	unsigned me = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 600; i++)
		free(blocks[me][i]);
	return NULL;
}

static void
run_threads(void *(*fn)(void *)) {
	pthread_t t[n_threads];

	pthread_barrier_init(&barrier, NULL, n_threads);
	for (uintptr_t i = 0; i < n_threads; i++)
		pthread_create(&t[i], NULL, fn, (void *)i);
	for (unsigned i = 0; i < n_threads; i++)
		pthread_join(t[i], NULL);
}

static void
eight_threads(void) {
	/*
	 * What is not told yet; and a round of turns, for which a look is put off that costs much time
	 * on a loaded machine.
	 */
	const unsigned long long error = n_threads * (GRAIN + per_turn);
	unsigned long long before = 0;

	set("prof.threshold.highwater_step", 4 * M);
	set("prof.threshold.highwater", 8 * M);
	set("prof.threshold.alloc", 8 * M);
	run_threads(take_turns); /* 30 MB */
	ok(n_of('h') >= 4, "%u levels between 8 and 30 MB", n_of('h'));
	for (unsigned i = 0; i < dumps.n; i++) {
		unsigned long long v = dump_number(i, "metric_value");
		unsigned long long due = i == 0 ? 8 * M : before + 4 * M;

		ok(v >= due && v <= due + error, "level %u: %llu is %lld KiB late", i, v,
		    (long long)(v - due) / 1024);
		before = v;
	}
	is_uint(n_of('a'), 3, "30 MB were allocated: three times 8 MiB");
	for (unsigned i = 0; i < dumps.n; i++) {
		unsigned long long v = dump_number(i, "metric_value");

		ok(v >= 8 * M && v <= 8 * M + GRAIN + per_turn, "value %llu", v);
	}
	run_threads(take_back);
}

static void *
all_at_once(void *arg) {
	uint64_t seed = (uintptr_t)arg + 1;
	void *p[2000];

	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < 2000; i++) {
		for (unsigned k = 0; k < 5; k++)
			free(keep(malloc(test_random(&seed) % 4000)));
		p[i] = keep(malloc(2000));
	}
	pthread_barrier_wait(&barrier);
	/*
	 * A look when all of it lives: who looked last may have lost the processor in the midst of
	 * that.
	 */
	if (arg == NULL)
		free(keep(malloc(2 * GRAIN)));
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < 2000; i++)
		free(p[i]);
	return NULL;
}

/*
 * Of the levels from number `from` on: each is a step above the one before it. How many there are
 * by now.
 */
static unsigned
levels_rise(unsigned from) {
	unsigned n = n_of('h');

	for (unsigned i = from; i < n; i++) {
		unsigned long long due = i == 0 ? 8 * M : dump_number(i - 1, "metric_value") + 4 * M;
		unsigned long long v = dump_number(i, "metric_value");

		ok(v >= due && v <= 48 * M, "level %u: %llu", i, v);
	}
	return n;
}

/* With threads that lose the processor in the middle of it, no bound holds; order and steps do. */
static void
eight_at_once(void) {
	set("prof.threshold.highwater_step", 4 * M);
	set("prof.threshold.highwater", 8 * M);
	run_threads(all_at_once); /* 32 MB live */
	unsigned n = levels_rise(0);
	/* With checks what is freed may count for a while. */
	ok(n >= 1 && n <= (canary_bytes() != 0 ? 9 : 6), "%u levels between 8 and 32 MB", n);
	run_threads(all_at_once);
	unsigned again = levels_rise(n);
	ok(again <= n + 1, "the same again: nothing new, or a level that was missed by some bytes (%u)",
	    again - n);
	is_int(ctl_void("prof.threshold.rearm"), 0, "rearm");
	run_threads(all_at_once);
	ok(n_of('h') > again, "rearmed: it counts again");
}

/* ------------------------------------------------------------------ other metrics */

static void
use_metric(const char *metric) {
	static void *p[64];
	unsigned n;

	set_text("prof.threshold.highwater_metric", metric);
	set("prof.threshold.highwater_step", 1024 * M);
	set("prof.threshold.highwater", 100 * M);
	unsigned before = n_of('h');
	for (int i = 0; i < 64; i++) {
		p[i] = keep(malloc(2 * M));
		memset(p[i], 1, 2 * M);
	}
	/* It is read ten times a second, at heartbeats. */
	for (int i = 0; i < 12000 && (n = n_of('h')) == before; i++) {
		usleep(10000);
		free(keep(malloc(100000)));
	}
	is_uint(n_of('h'), before + 1, "%s: 128 MiB are above 100M", metric);
	is_str(dump_text(before, "metric"), metric, "its name is told");
	unsigned long long v = dump_number(before, "metric_value");
	ok(v >= 100 * M && v <= 400 * M, "and its value, %llu", v);
	for (int i = 0; i < 64; i++)
		free(p[i]);
	set("prof.threshold.highwater", 0);
}

static void
metrics(void) {
	use_metric("active");
	use_metric("resident");
	use_metric("rss");
}

/* Memory of the program's own mapping: rss sees it, and sees it go. */
static void
rss_shrinks(void) {
	size_t size = 200 * M;
	char *m = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	set_text("prof.threshold.highwater_metric", "rss");
	set("prof.threshold.highwater_step", 1024 * M);
	set("prof.threshold.highwater", 150 * M);
	memset(m, 1, size);
	for (int i = 0; i < 12000 && n_of('h') == 0; i++) {
		usleep(10000);
		free(keep(malloc(100000)));
	}
	is_uint(n_of('h'), 1, "rss above 150M");
	is_int(madvise(m, size, MADV_DONTNEED), 0, "it shrinks");
	for (int i = 0; i < 30; i++) {
		usleep(10000);
		free(keep(malloc(100000)));
	}
	is_int(ctl_void("prof.threshold.rearm"), 0, "rearmed while low");
	for (int i = 0; i < 30; i++) {
		usleep(10000);
		free(keep(malloc(100000)));
	}
	is_uint(n_of('h'), 1, "low: nothing");
	memset(m, 1, size);
	for (int i = 0; i < 12000 && n_of('h') == 1; i++) {
		usleep(10000);
		free(keep(malloc(100000)));
	}
	is_uint(n_of('h'), 2, "and it counts again");
	munmap(m, size);
}

/* ------------------------------------------------------------------ large: each way in */

/* The last large dump: its value, and that the object p is in it once, as large as it is. */
static void
seen(void *p, size_t size, const char *way) {
	static unsigned before;
	char path[600];
	unsigned n = n_of('l');

	is_uint(n, before + 1, "%s", way);
	before = n;
	is_uint(dump_number(n - 1, "metric_value"), size, "%s: the size", way);
	snprintf(path, sizeof(path), "%s", dumps.v[n - 1].name);
	struct heap_profile h = heap_read(path);
	ok(h.live_objects > 0.99 && h.live_objects < 1.01, "%s: one live sample, %g", way,
	    h.live_objects);
	ok(fabs(h.live_bytes - (double)counted_size(p)) < 2, "%s: of its size, %.0f", way,
	    h.live_bytes);
}

static void
unseen(const char *way) {
	static unsigned before;
	unsigned n = n_of('l');

	if (way != NULL)
		is_uint(n, before, "%s", way);
	before = n;
}

/* Around sizes that caches and slabs serve, and those past them. */
static void
each_way(size_t t) {
	void *p, *q;
	size_t more = t + t / 2;

	set("prof.threshold.large", t);
	p = keep(malloc(t));
	seen(p, t, "malloc");
	free(p);
	p = keep(calloc(1, t + 1));
	seen(p, t + 1, "calloc");
	ok(is_filled(p, 0, t + 1), "it is zero");
	free(p);
	p = keep(aligned_alloc(64, t));
	seen(p, t, "aligned_alloc");
	free(p);
	if (posix_memalign(&p, 64, t + 2) == 0)
		seen(p, t + 2, "posix_memalign");
	free(p);
	p = keep(mallocx(t, MALLOCX_ZERO));
	seen(p, t, "mallocx");
	free(p);
	p = keep(mallocx(t, MALLOCX_TCACHE_NONE));
	seen(p, t, "mallocx past the caches");
	free(p);
	p = keep(malloc(t / 2));
	unseen(NULL);
	q = keep(realloc(p, more));
	seen(q, more, "realloc that grows to it");
	unseen(NULL);
	q = keep(realloc(q, t / 2));
	unseen("realloc that shrinks below");
	q = keep(rallocx(q, more, 0));
	seen(q, more, "rallocx that grows to it");
	free(q);
	p = keep(malloc(t / 2));
	sdallocx(p, t / 2, 0);
	if (_Znwm != NULL) {
		p = keep(_Znwm(t));
		seen(p, t, "operator new");
		_ZdlPv(p);
	}
	unseen(NULL);
	free(keep(malloc(t - 1)));
	unseen("one byte less");
	set("prof.threshold.large", 0);
	free(keep(malloc(t)));
	unseen("switched off");
}

static void
large_ways(void) {
	is_int(start("sample_interval:1000G"), 0, "a session in which nothing else is a sample");
	each_way(100);
	each_way(5000);
	each_way(30000);
	each_way(3 * M);
	ctl_void("prof.session.stop");
}

/* A thread that has been on the fast path of large requests looks at once. */
static void
large_after_fast(void) {
	const size_t sizes[] = {20000, 40000, 300000, M};
	unsigned seen_before = 0, n;

	is_int(start("sample_interval:1000G"), 0, "a session");
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned k = 0; k < 300; k++)
			free(keep(malloc(sizes[i])));
		set("prof.threshold.large", sizes[i]);
		free(keep(malloc(100))); /* it is called back by this one */
		for (unsigned k = 0; k < 10; k++)
			free(keep(malloc(sizes[i])));
		n = n_of('l');
		is_uint(n - seen_before, 10, "ten of %zu bytes", sizes[i]);
		seen_before = n;
		set("prof.threshold.large", 0);
		for (unsigned k = 0; k < 300; k++)
			free(keep(malloc(sizes[i])));
		is_uint(n_of('l'), n, "and none once it is off");
	}
	ctl_void("prof.session.stop");
}

/* In place: the last block of a mapping has room behind it. */
static void
large_in_place(void) {
	is_int(start("sample_interval:1000G,large:2M"), 0, "a session");
	void *p = keep(malloc(M)), *q;
	size_t got = xallocx(p, 4 * M, 0, 0);

	unseen(NULL);
	if (got >= 4 * M)
		is_uint(dump_number(dumps.n - 1, "metric_value"), 4 * M, "xallocx to it, in place");
	else
		is_uint(n_of('l'), 0, "xallocx did not reach it");
	free(p);
	unsigned in_place = 0;
	for (int i = 0; i < 50 && in_place == 0; i++) {
		unsigned before = n_of('l');

		p = keep(malloc(M));
		q = keep(realloc(p, 3 * M));
		in_place += q == p;
		is_uint(n_of('l'), before + 1, "realloc to it, %s", q == p ? "in place" : "moved");
		is_uint(dump_number(before, "metric_value"), 3 * M, "what was asked for");
		before = n_of('l');
		q = keep(realloc(q, 3 * M - 10000));
		ok(n_of('l') <= before + 1, "a little smaller");
		before = n_of('l');
		xallocx(q, M, 0, 0);
		is_uint(n_of('l'), before, "xallocx that shrinks");
		free(q);
	}
	ctl_void("prof.session.stop");
}

/* What is sampled for its size stands for itself, beside samples that stand for many. */
static void
large_weight(void) {
	static void *p[64];
	char path[600];
	struct heap_profile h;
	const char *options = "sample_interval:512K,large:100K";

	set("prof.dump_min_gap_ms", 100000);
	is_int(start(options), 0, "%s", options);
	for (int i = 0; i < 64; i++)
		p[i] = keep(malloc(100 * K));
	is_int(ctl_void("prof.dump"), 0, "dump");
	n_of('m');
	snprintf(path, sizeof(path), "%s", dumps.v[0].name);
	h = heap_read(path);
	ok(h.live_objects > 63.5 && h.live_objects < 70, "64 objects are told as 64: %g",
	    h.live_objects);
	double size = (double)malloc_usable_size(p[0]);
	ok(h.live_bytes > 64 * size * 0.99 && h.live_bytes < 64 * size * 1.1, "with their bytes: %.0f",
	    h.live_bytes);
	for (int i = 0; i < 64; i++)
		free(p[i]);
	ctl_void("prof.session.stop");
}

/* Requests below the threshold, of a class that is watched, are samples as often as ever. */
static void
large_and_others(void) {
	enum { n = 40000 };
	static void *p[n];
	char path[600];
	struct heap_profile h;

	set("prof.dump_min_gap_ms", 1000000000);
	is_int(start("sample_interval:64K,large:2000"), 0, "a session");
	for (int i = 0; i < n; i++) /* one class: 1793 to 2048 */
		p[i] = keep(malloc(i % 4 == 0 ? 2000 : 1999));
	is_int(ctl_void("prof.dump"), 0, "dump");
	n_of('m');
	snprintf(path, sizeof(path), "%s", dumps.v[0].name);
	h = heap_read(path);
	/*
	 * A quarter of 82 MB is known exactly; the rest by 937 samples: 3.3 % is a standard deviation.
	 */
	ok(h.live_bytes > n * 2048e0 * 0.85 && h.live_bytes < n * 2048e0 * 1.15,
	    "%.0f of %.0f bytes", h.live_bytes, n * 2048e0);
	ok(h.live_objects > n * 0.85 && h.live_objects < n * 1.15, "%.0f of %d objects", h.live_objects,
	    n);
	for (int i = 0; i < n; i++)
		free(p[i]);
	ctl_void("prof.session.stop");
}

/* ------------------------------------------------------------------ time */

static void
timer_without_thread(void) {
	set("prof.threshold.time_ms", 50);
	usleep(200000);
	is_uint(n_of('t'), 0, "prof_thread:false: an idle program has no timer");
	for (int i = 0; i < 12000 && n_of('t') < 2; i++) {
		free(keep(malloc(100000)));
		usleep(10000);
	}
	ok(n_of('t') >= 2, "its allocations look at the clock");
	ok(dump_number(0, "metric_value") >= 50, "value");
}

static volatile bool is_over;

static void *
load(void *arg) {
	uint64_t seed = (uintptr_t)arg;

	while (!is_over)
		free(keep(malloc(test_random(&seed) % 10000)));
	return NULL;
}

static void
timer_under_load(void) {
	pthread_t t[4];

	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, load, (void *)i);
	set("prof.threshold.time_ms", 20);
	unsigned n = dumps_await('t', 10);
	is_over = true;
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ok(n >= 10, "%u timer dumps under load", n);
	n_of('t');
	for (unsigned i = 0; i < 10; i++)
		ok(dump_number(i, "metric_value") >= 20, "never early");
}

/* ------------------------------------------------------------------ all of them */

static const struct dumps_test tests[] = {
	{"conf", by_conf, "prof:true,prof_threshold_alloc:8M,prof_dump_min_gap_ms:0"},
	{"conf_highwater", by_conf_highwater,
	    "prof:true,prof_threshold_highwater:16M,prof_highwater_step:8M,prof_dump_min_gap_ms:0"},
	{"conf_large", by_conf_large, "prof:true,prof_threshold_large:3M,prof_dump_min_gap_ms:0"},
	{"conf_time", by_conf_time, "prof:true,prof_threshold_time_ms:50,prof_dump_min_gap_ms:0"},
	{"mallctl", by_mallctl, "prof:true,prof_dump_min_gap_ms:0"},
	{"not_before", not_before, "prof:true,prof_dump_min_gap_ms:0"},
	{"session", by_session, "prof_dump_min_gap_ms:0"},
	{"threads", eight_threads, "prof:true,prof_dump_min_gap_ms:0,narenas:8"},
	{"at_once", eight_at_once, "prof:true,prof_dump_min_gap_ms:0,narenas:8"},
	{"metrics", metrics, "prof:true,prof_dump_min_gap_ms:0,dirty_decay_ms:0"},
	{"rss", rss_shrinks, "prof:true,prof_dump_min_gap_ms:0"},
	{"ways", large_ways, "prof_dump_min_gap_ms:0"},
	{"fast", large_after_fast, "prof_dump_min_gap_ms:0"},
	{"in_place", large_in_place, "prof_dump_min_gap_ms:0"},
	{"weight", large_weight, ""},
	{"others", large_and_others, ""},
	{"no_thread", timer_without_thread, "prof:true,prof_thread:false,prof_dump_min_gap_ms:0"},
	{"load", timer_under_load, "prof:true,prof_dump_min_gap_ms:0"},
};

int
main(int argc, char **argv) {
	return dumps_run_all(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
