/*
 * What it takes to open a black box in a running process: bench_box KIND ROUNDS STACKS
 *
 * A session is started and stopped ROUNDS times, KIND (false, fd or true) being its option
 * `blackbox`, while another thread allocates and frees; STACKS stacks of depth 20 are in the tables
 * before. Prints in microseconds the least, the median and the most of: the call that starts it,
 * its CPU time (which other processes do not change), the call that stops it, and the longest time
 * that a pair of malloc and free took meanwhile.
 * PREFIX names the directory.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

#define CALL __attribute__((noinline))
#define END __asm__ volatile("")	/* no tail call */

enum { ROUNDS_MAX = 1000 };

static void *
hold(void *p) {
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

static uint64_t
read_clock(clockid_t clock) {
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t
now_ns(void) {
	return read_clock(CLOCK_MONOTONIC);
}

/* ---------------------------------------------------------------- stacks */

static CALL void left(int depth, uint32_t path);

/* One bit of the path for each call. */
static CALL void
right(int depth, uint32_t path) {
	if (depth == 0)
		hold(malloc(64));
	else if ((path & 1) != 0)
		right(depth - 1, path >> 1);
	else
		left(depth - 1, path >> 1);
	END;
}

static CALL void
left(int depth, uint32_t path) {
	if (depth == 0)
		hold(malloc(64));
	else if ((path & 1) != 0)
		right(depth - 1, path >> 1);
	else
		left(depth - 1, path >> 1);
	END;
}

/* ---------------------------------------------------------------- the other thread */

static uint64_t longest;
static int is_over;

static void *
work(void *arg) {
	uint64_t last = now_ns();

	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		free(hold(malloc(100)));
		uint64_t now = now_ns();
		if (now - last > __atomic_load_n(&longest, __ATOMIC_RELAXED))
			__atomic_store_n(&longest, now - last, __ATOMIC_RELAXED);
		last = now;
	}
	return arg;
}

/* ---------------------------------------------------------------- rounds */

static uint64_t started[ROUNDS_MAX], cpu[ROUNDS_MAX], stopped[ROUNDS_MAX], stalled[ROUNDS_MAX];

static void
must(int err, const char *what) {
	if (err != 0) {
		fprintf(stderr, "bench_box: %s: error %d\n", what, err);
		exit(1);
	}
}

static void
one(const char *options, int i) {
	uint64_t begin, begin_cpu;

	usleep(20000);
	__atomic_store_n(&longest, 0, __ATOMIC_RELAXED);
	begin_cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
	begin = now_ns();
	must(mallctl("prof.session.start", NULL, NULL, &options, sizeof(options)), "start");
	started[i] = now_ns() - begin;
	cpu[i] = read_clock(CLOCK_THREAD_CPUTIME_ID) - begin_cpu;
	stalled[i] = __atomic_load_n(&longest, __ATOMIC_RELAXED);
	begin = now_ns();
	must(mallctl("prof.session.stop", NULL, NULL, NULL, 0), "stop");
	stopped[i] = now_ns() - begin;
}

static int
compare(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
told(const char *name, uint64_t *ns, int n) {
	qsort(ns, (size_t)n, sizeof(*ns), compare);
	printf("%s %.0f %.0f %.0f\n", name, (double)ns[0] / 1000, (double)ns[n / 2] / 1000,
	    (double)ns[n - 1] / 1000);
}

int
main(int argc, char **argv) {
	char options[4096];
	pthread_t thread;
	int rounds = argc == 4 ? atoi(argv[2]) : 0;
	uint32_t stacks = argc == 4 ? (uint32_t)atoi(argv[3]) : 0;

	if (rounds < 1 || rounds > ROUNDS_MAX || mallctl == NULL || getenv("PREFIX") == NULL) {
		fprintf(stderr, "usage: PREFIX=DIR/NAME bench_box false|fd|true ROUNDS STACKS\n");
		return 2;
	}
	for (uint32_t i = 0; i < stacks; i++)
		right(20, i);
	pthread_create(&thread, NULL, work, NULL);
	snprintf(options, sizeof(options), "prefix:%s,reset:false,sample_interval:524288,final:false,"
	    "blackbox:%s", getenv("PREFIX"), argv[1]);
	for (int i = 0; i < rounds; i++)
		one(options, i);
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	told("start", started, rounds);
	told("start_cpu", cpu, rounds);
	told("stop", stopped, rounds);
	told("stall", stalled, rounds);
	return 0;
}
