/*
 * What a heap dump costs and whom it holds up. Runs under any jemalloc with a profiler
 * (LD_PRELOAD, MALLOC_CONF=prof:true,lg_prof_sample:0); see run-bench-dump for the driver.
 *
 *   bench_dump quiet SITES DIR   one thread: CPU time of a dump, file, memory while it lasts
 *   bench_dump busy SITES DIR    eight threads allocate meanwhile: the longest calls they saw
 *   bench_dump one SITES DIR     the same with one thread, which samples at new sites
 *   bench_dump count SITES DIR   one dump in the_dump(), for callgrind
 *
 * Every line printed is "name value". A site is a path of 20 calls, each from one of two
 * places. With more threads than cores most of a long call is waiting for a core, which is
 * nobody's fault: "longest" is by the wall clock, "asleep" is what remains of it when the
 * thread's CPU time and its time in the queue for a core are taken off (the kernel's
 * schedstat): waiting for a lock. A lock's holder may be waiting for a core in turn; so both
 * figures stand beside those of the same threads while a loop takes the place of the dump.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>

int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

enum { DEPTH = 20, THREADS = 8, DUMPS = 7, PHASES = 2 * DUMPS + 1, RING = 512 };
#define SLOW_NS 50000

static const char *dir;

static uint64_t
now_ns(clockid_t clock) {
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
die(const char *what) {
	fprintf(stderr, "bench_dump: %s\n", what);
	exit(1);
}

/* ---------------------------------------------------------------- sites */

static
__attribute__((noinline)) void *
site(uint32_t bits, int depth, size_t size) {
	void *p;

	if (depth == 0)
		return malloc(size);
	/* Each asm keeps its call from becoming a jump, or one with the other. */
	if (bits & 1) {
		p = site(bits >> 1, depth - 1, size);
		__asm__ volatile("# 1" : "+r"(p));
	} else {
		p = site(bits >> 1, depth - 1, size);
		__asm__ volatile("# 0" : "+r"(p));
	}
	return p;
}

static void **
sites_make(uint32_t n) {
	void **live = calloc(n, sizeof(*live));

	for (uint32_t i = 0; i < n; i++)
		live[i] = site(i, DEPTH, 64);
	return live;
}

static
__attribute__((noinline)) void
the_dump(const char *path) {
	if (mallctl == NULL || mallctl("prof.dump", NULL, NULL, &path, sizeof(path)) != 0)
		die("prof.dump failed");
}

static void
path_make(char path[200]) {
	snprintf(path, 200, "%s/bench.heap", dir);
	unlink(path);
}

/* ---------------------------------------------------------------- quiet */

static uint64_t
status_kb(const char *key) {
	char text[4096], *at;
	int fd = open("/proc/self/status", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, key);
	return at == NULL ? 0 : strtoull(at + strlen(key) + 1, NULL, 10);
}

/* From here on the peak counts from what is resident now. */
static void
peak_reset(void) {
	int fd = open("/proc/self/clear_refs", O_WRONLY);

	if (fd < 0 || write(fd, "5", 1) != 1)
		fprintf(stderr, "bench_dump: the kernel does not reset VmHWM\n");
	close(fd);
}

static uint64_t
metadata_bytes(void) {
	uint64_t epoch = 1;
	size_t v = 0, len = sizeof(v);

	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	mallctl("stats.metadata", &v, &len, NULL, 0);
	return v;
}

static uint64_t
tv_us(struct timeval t) {
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec;
}

static void
quiet(uint32_t n) {
	uint64_t best = UINT64_MAX, user = 0, sys = 0, growth = 0;
	uint64_t before = metadata_bytes();
	struct stat st;
	char path[200];

	void **live = sites_make(n);
	uint64_t books = metadata_bytes() - before;
	for (int i = 0; i < DUMPS; i++) {
		struct rusage a, b;
		path_make(path);
		peak_reset();
		uint64_t rss = status_kb("VmRSS:");
		getrusage(RUSAGE_THREAD, &a);
		uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
		the_dump(path);
		cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		getrusage(RUSAGE_THREAD, &b);
		uint64_t peak = status_kb("VmHWM:");
		if (peak > rss && (peak - rss) * 1024 > growth)
			growth = (peak - rss) * 1024;
		if (cpu < best) {
			best = cpu;
			user = tv_us(b.ru_utime) - tv_us(a.ru_utime);
			sys = tv_us(b.ru_stime) - tv_us(a.ru_stime);
		}
	}
	if (stat(path, &st) != 0)
		die("no file");
	printf("cpu_us %llu\nuser_us %llu\nsys_us %llu\n", (unsigned long long)best / 1000,
	    (unsigned long long)user, (unsigned long long)sys);
	printf("file_bytes %lld\n", (long long)st.st_size);
	printf("books_bytes %llu\ngrowth_bytes %llu\n", (unsigned long long)books,
	    (unsigned long long)growth);
	unlink(path);
	free(live);
}

/* ---------------------------------------------------------------- busy */

struct worker {
	pthread_t thread;
	int kind;
	uint64_t ops;
	uint64_t longest[PHASES];	/* of any call */
	uint64_t asleep[PHASES];	/* of that neither running nor in the queue for a core */
	void *ring[RING];
};

static struct worker workers[THREADS];
static atomic_int phase;		/* -1: the end */
static atomic_uint next_site;

static void
thread_sampled(bool on) {
	mallctl("thread.prof.active", NULL, NULL, &on, sizeof(on));
}

/* CPU time of the calling thread and its time in the queue, together. */
static uint64_t
not_asleep_ns(int fd) {
	char text[100] = "", *at;

	if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	uint64_t ran = strtoull(text, &at, 10);
	return ran + strtoull(at, NULL, 10);
}

/* Kinds: 0 and 1 never sampled, 2 always at known sites, 3 also at sites never seen before. */
static void *
work_alloc(struct worker *w, uint64_t i) {
	switch (w->kind) {
	case 0:
		return malloc(64);
	case 1:
		return malloc(i % 64 == 0 ? 100000 : 16 + i * 40 % 2000);
	case 2:
		return site((uint32_t)(i % 64), DEPTH, 64);
	default:
		return site(i % 16 == 0 ? atomic_fetch_add(&next_site, 1) : (uint32_t)(i % 64), DEPTH, 64);
	}
}

static void *
work(void *arg) {
	struct worker *w = arg;
	int at;

	thread_sampled(w->kind >= 2);
	int fd = open("/proc/thread-self/schedstat", O_RDONLY);
	for (uint64_t i = 0; (at = atomic_load(&phase)) >= 0; i++, w->ops++) {
		uint64_t awake = not_asleep_ns(fd);
		uint64_t begin = now_ns(CLOCK_MONOTONIC);
		free(w->ring[i % RING]);
		w->ring[i % RING] = work_alloc(w, i);
		uint64_t took = now_ns(CLOCK_MONOTONIC) - begin;
		if (took > w->longest[at])
			w->longest[at] = took;
		if (took > SLOW_NS) {
			awake = not_asleep_ns(fd) - awake;
			uint64_t slept = awake < took ? took - awake : 0;
			if (slept > w->asleep[at])
				w->asleep[at] = slept;
		}
	}
	close(fd);
	for (int i = 0; i < RING; i++)
		free(w->ring[i]);
	return NULL;
}

/* As much work as a dump took, by this thread's own clock, and also through the file system. */
static void
burn(uint64_t cpu_ns) {
	static char block[65536];
	char path[200];

	path_make(path);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	uint64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + cpu_ns;
	for (unsigned i = 0; now_ns(CLOCK_THREAD_CPUTIME_ID) < end; i++)
		if (i % 4096 == 0 && pwrite(fd, block, sizeof(block), i % 64 * 65536) < 0)
			die("write");
	close(fd);
	unlink(path);
}

static int
by_value(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Worst thread in each phase; of the phases the median and the worst. */
static void
report(const char *name, int first, bool asleep) {
	uint64_t v[DUMPS];

	for (int i = 0; i < DUMPS; i++) {
		v[i] = 0;
		for (int t = 0; t < THREADS; t++) {
			uint64_t x = asleep ? workers[t].asleep[first + i] : workers[t].longest[first + i];
			if (x > v[i])
				v[i] = x;
		}
	}
	qsort(v, DUMPS, sizeof(*v), by_value);
	printf("%s_median_us %llu\n%s_worst_us %llu\n", name, (unsigned long long)v[DUMPS / 2] / 1000,
	    name, (unsigned long long)v[DUMPS - 1] / 1000);
}

static void
mutex_report(const char *name) {
	char node[100];
	uint64_t ns = 0, epoch = 1;
	size_t len = sizeof(ns);

	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	snprintf(node, sizeof(node), "stats.mutexes.%s.max_wait_time", name);
	if (mallctl(node, &ns, &len, NULL, 0) == 0)
		printf("wait_%s_us %llu\n", name, (unsigned long long)ns / 1000);
}

static void
busy(uint32_t n, int nthreads) {
	static const struct timespec rest = {0, 20000000};
	uint64_t cpu = 0, wall = 0;
	char path[200];

	void **live = sites_make(n);
	next_site = n;
	for (int i = 0; i < nthreads; i++) {
		workers[i].kind = 3 - i % 4;
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	nanosleep(&(struct timespec){0, 300000000}, NULL);
	mallctl("stats.mutexes.reset", NULL, NULL, NULL, 0);
	for (int i = 0; i < DUMPS; i++) {
		path_make(path);
		uint64_t c = now_ns(CLOCK_THREAD_CPUTIME_ID), m = now_ns(CLOCK_MONOTONIC);
		atomic_store(&phase, 1 + i);
		the_dump(path);
		atomic_store(&phase, 0);
		wall += now_ns(CLOCK_MONOTONIC) - m;
		cpu += now_ns(CLOCK_THREAD_CPUTIME_ID) - c;
		nanosleep(&rest, NULL);
	}
	mutex_report("prof");
	mutex_report("prof_thds_data");
	for (int i = 0; i < DUMPS; i++) {
		atomic_store(&phase, 1 + DUMPS + i);
		burn(cpu / DUMPS);
		atomic_store(&phase, 0);
		nanosleep(&rest, NULL);
	}
	atomic_store(&phase, -1);
	for (int i = 0; i < nthreads; i++)
		pthread_join(workers[i].thread, NULL);
	unlink(path);
	printf("busy_cpu_us %llu\nbusy_wall_us %llu\n", (unsigned long long)cpu / DUMPS / 1000,
	    (unsigned long long)wall / DUMPS / 1000);
	report("longest", 1, false);
	report("control_longest", 1 + DUMPS, false);
	report("asleep", 1, true);
	report("control_asleep", 1 + DUMPS, true);
	printf("new_sites %u\n", atomic_load(&next_site) - n);
	free(live);
}

int
main(int argc, char **argv) {
	char path[200];

	if (argc != 4 || mallctl == NULL)
		die("usage: bench_dump quiet|busy|one|count SITES DIR, under a jemalloc");
	uint32_t n = (uint32_t)strtoul(argv[2], NULL, 10);
	dir = argv[3];
	if (strcmp(argv[1], "quiet") == 0) {
		quiet(n);
	} else if (strcmp(argv[1], "busy") == 0) {
		busy(n, THREADS);
	} else if (strcmp(argv[1], "one") == 0) {
		busy(n, 1);
	} else {
		void **live = sites_make(n);
		path_make(path);
		the_dump(path);
		free(live);
	}
	return 0;
}
