/*
 * How a heap gets its pages and gives them back, for run-bench-pages.
 *
 *   bench_pages fill MB      objects of 64 bytes, each written
 *   bench_pages runs MB the same and an array of them, then nine of ten runs of 4 MiB are freed;
 *                            looks 12 s later
 *   bench_pages random MB    the same, but nine of ten objects at random are freed
 *   bench_pages fork MB      the same as fill, then a child writes to one object of each 256 KiB;
 *                            prints how much memory that copies
 *   bench_pages slowest MB   the slowest single malloc and first write while it fills, in us
 *
 * Prints NAME VALUE lines: live, resident and huge memory in KiB.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rollup.h"

#define SIZE 64
#define RUN ((size_t)4 << 20)

/* NULL: the last object is the head of a list of all. */
static char **objects;
static char *last;
static size_t count;

static double
now_us(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void
fill(int is_timed) {
	double slowest = 0;

	for (size_t i = 0; i < count; i++) {
		double start = is_timed ? now_us() : 0, took;

		char *p = malloc(SIZE);
		if (p == NULL)
			exit(1);
		memset(p, 1, SIZE);
		*(char **)p = last;
		last = p;
		if (objects != NULL)
			objects[i] = p;
		took = is_timed ? now_us() - start : 0;
		slowest = took > slowest ? took : slowest;
	}
	if (is_timed)
		printf("slowest_us %.0f\n", slowest);
}

/* Frees nine of ten, by runs of 4 MiB or by objects. */
static size_t
shrink(int by_runs) {
	size_t per_run = RUN / SIZE, live = 0;
	uint64_t s = 88172645463325252u;

	for (size_t i = 0; i < count; i++) {
		s ^= s << 13;
		s ^= s >> 7;
		s ^= s << 17;
		if (by_runs ? i / per_run % 10 != 0 : s % 10 != 0)
			free(objects[i]);
		else
			live++;
	}
	return live;
}

/* Waits for the decay; calls of malloc now and then let it happen. */
static void
idle(int seconds) {
	double end = now_us() + seconds * 1e6;

	while (now_us() < end) {
		for (int i = 0; i < 2000; i++)
			free(malloc(100 + (size_t)i));
		usleep(20000);
	}
}

/* Prints how many KiB of its own a child has after it wrote to one of so many objects. */
static void
copy_in_child(size_t step) {
	long before, after;
	size_t i = 0;

	fflush(stdout);
	if (fork() != 0) {
		wait(NULL);
		return;
	}
	before = rollup("\nPrivate_Dirty:");
	for (char *p = last; p != NULL; p = *(char **)p)
		if (i++ % step == 0)
			p[SIZE - 1] = 2;
	after = rollup("\nPrivate_Dirty:");
	printf("copied_kib %ld\n", after - before);
	fflush(stdout);
	_exit(0);
}

int
main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "fill";
	int is_shrinking = strcmp(what, "runs") == 0 || strcmp(what, "random") == 0;
	size_t live;

	count = (argc > 2 ? strtoul(argv[2], NULL, 10) : 256) * ((size_t)1 << 20) / SIZE;
	objects = is_shrinking ? malloc(count * sizeof(*objects)) : NULL;
	if ((is_shrinking && objects == NULL) || count == 0)
		return 1;
	live = count;
	fill(strcmp(what, "slowest") == 0);
	if (strcmp(what, "fork") == 0)
		copy_in_child(((size_t)256 << 10) / SIZE);
	if (is_shrinking) {
		live = shrink(strcmp(what, "runs") == 0);
		idle(12);
	}
	printf("live_kib %zu\nrss_kib %ld\nhuge_kib %ld\n",
	    (live * SIZE + (is_shrinking ? count * sizeof(*objects) : 0)) >> 10, rollup("\nRss:"),
	    rollup("AnonHugePages:"));
	return 0;
}
