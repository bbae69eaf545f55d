/*
 * Many threads that need address space at the same instant share what the first of them maps: an
 * arena does not grow by a step, each larger than the last, for every thread that waited.
 * And a large block grows in place into its own tail that was cut off a moment ago.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <jemalloc/jemalloc.h>

#include "ctl.h"
#include "test.h"

const char *malloc_conf = "narenas:1";

enum { N_THREADS = 64, N_BLOCKS = 50 };

static pthread_barrier_t start;

static void *
allocates(void *arg) {
	static __thread void *block[N_BLOCKS];
	uint64_t seed = (uintptr_t)arg + 1;

	pthread_barrier_wait(&start);
	for (int i = 0; i < N_BLOCKS; i++) {
		size_t size = 1 + test_random(&seed) % 90000;

		block[i] = keep(malloc(size));
		if (block[i] != NULL)
			memset(block[i], 1, size);
	}
	for (int i = 0; i < N_BLOCKS; i++)
		free(block[i]);
	return NULL;
}

static size_t
stat_now(const char *name) {
	uint64_t epoch = 1;
	size_t value = 0, length = sizeof(epoch);

	mallctl("epoch", &epoch, &length, &epoch, length);
	length = sizeof(value);
	mallctl(name, &value, &length, NULL, 0);
	return value;
}

/* Cut to 10 pages or more and back: nobody else has had what lies behind. */
static void
test_own_tail(void) {
	unsigned refused = 0, moved = 0;
	size_t page = ctl_size("arenas.page");

	for (size_t i = 0; i < 200; i++) {
		size_t small = (10 + i % 32) * page, big = small + (i % 4 + 1) * 16 * page;
		char *p = keep(mallocx(big, 0)), *q;

		refused += xallocx(p, small, 0, 0) >= big;
		refused += xallocx(p, big, 0, 0) < big;
		p[big - 1] = 1;
		q = keep(realloc(keep(p), small));
		moved += q != keep(p);
		q = keep(realloc(keep(p = q), big));
		moved += q != keep(p);
		free(q);
	}
	is_uint(refused, 0, "xallocx grows into what it has cut off, 200 times");
	is_uint(moved, 0, "realloc does");
}

int
main(void) {
	static pthread_t t[N_THREADS];

	test_own_tail();

	for (int round = 0; round < 5; round++) {
		size_t space;

		pthread_barrier_init(&start, NULL, N_THREADS);
		for (int i = 0; i < N_THREADS; i++)
			pthread_create(&t[i], NULL, allocates, (void *)(uintptr_t)i);
		for (int i = 0; i < N_THREADS; i++)
			pthread_join(t[i], NULL);
		pthread_barrier_destroy(&start);
		space = stat_now("stats.mapped") + stat_now("stats.retained");
		/* 150 MB live at the most; growth steps may double that, and then some. */
		ok(space < (size_t)1 << 30, "address space after round %d: %zu MB", round, space >> 20);
	}
	ok(stat_now("stats.metadata") < (size_t)64 << 20, "metadata: %zu KB",
	    stat_now("stats.metadata") >> 10);
	return done_testing();
}
