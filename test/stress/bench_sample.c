/*
 * What samples cost: bench_sample MODE ARG...
 *
 *   pair DEPTH SITES N N pairs of malloc(64) and free, DEPTH calls deeper, from SITES call sites in
 *                        turn (1, 2 or 8): for an instruction counter, two runs with different N
 *   first N N stacks of depth 20 that were never seen, in batches: nanoseconds of CPU time
 *                        for each in the fastest batch, and bytes of metadata that they leave
 *   deep N               N pairs 40 calls deep: nanoseconds of CPU time for each
 *
 * Every allocator runs the same; what is sampled is said by MALLOC_CONF.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

#define CALL __attribute__((noinline))
#define END __asm__ volatile("")	/* no tail call */

static void *
hold(void *p) {
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

static uint64_t
cpu_ns(void) {
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---------------------------------------------------------------- pairs */

/* Two words of the stack more in each: the calls in turn differ in place too. */
#define SITE(k) \
	static CALL void site##k(void) { volatile char pad[16 * (k) + 1]; pad[0] = 0; \
	    free(hold(malloc(64))); END; }
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7)

static void (*const sites[])(void) = {site0, site1, site2, site3, site4, site5, site6, site7};

static CALL void
pairs(long n, unsigned nsites) {
	for (long i = 0; i < n; i++)
		sites[i % nsites]();
	END;
}

static CALL void
pairs_at(int depth, long n, unsigned nsites) {
	if (depth > 0)
		pairs_at(depth - 1, n, nsites);
	else
		pairs(n, nsites);
	END;
}

/* ---------------------------------------------------------------- new stacks */

static CALL void left(int depth, uint32_t path);

/* One bit of the path for each call. */
static CALL void
right(int depth, uint32_t path) {
	if (depth == 0)
		free(hold(malloc(64)));
	else if ((path & 1) != 0)
		right(depth - 1, path >> 1);
	else
		left(depth - 1, path >> 1);
	END;
}

static CALL void
left(int depth, uint32_t path) {
	if (depth == 0)
		free(hold(malloc(64)));
	else if ((path & 1) != 0)
		right(depth - 1, path >> 1);
	else
		left(depth - 1, path >> 1);
	END;
}

static size_t
metadata(void) {
	uint64_t epoch = 1;
	size_t bytes = 0, len = sizeof(bytes);

	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	mallctl("stats.metadata", &bytes, &len, NULL, 0);
	return bytes;
}

static int
first(long n) {
	enum { BATCHES = 8, DEPTH = 20 };
	uint64_t best = UINT64_MAX;
	size_t before;

	if (mallctl == NULL)
		return 3;
	/* Each return address is known before the first stack is measured. */
	right(DEPTH, 0x55555);
	left(DEPTH, 0x33333);
	before = metadata();
	for (long b = 0; b < BATCHES; b++) {
		long from = b * (n / BATCHES), to = from + n / BATCHES;
		uint64_t t = cpu_ns();

		/* The bits that change fastest belong to the innermost calls. */
		for (long i = from; i < to; i++)
			right(DEPTH, (uint32_t)((i * 2654435761u) & 0xfffff));
		t = (cpu_ns() - t) / (uint64_t)(n / BATCHES);
		best = t < best ? t : best;
	}
	printf("first_ns %llu\n", (unsigned long long)best);
	printf("first_bytes %zu\n", (metadata() - before) / (size_t)n);
	return 0;
}

/* ---------------------------------------------------------------- a deep loop */

static CALL void
deep_loop(int depth, long n) {
	if (depth > 0) {
		deep_loop(depth - 1, n);
	} else {
		uint64_t t = cpu_ns();

		for (long i = 0; i < n; i++)
			free(hold(malloc(64)));
		printf("deep_ns %.3f\n", (double)(cpu_ns() - t) / (double)n);
	}
	END;
}

int
main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";

	if (strcmp(mode, "pair") == 0 && argc == 5) {
		unsigned nsites = (unsigned)atoi(argv[3]);

		if (nsites == 0 || nsites > sizeof(sites) / sizeof(sites[0]))
			return 2;
		pairs_at(atoi(argv[2]), atol(argv[4]), nsites);
		return 0;
	}
	if (strcmp(mode, "first") == 0 && argc == 3 && atol(argv[2]) >= 8 && atol(argv[2]) <= 1 << 20)
		return first(atol(argv[2]));
	if (strcmp(mode, "deep") == 0 && argc == 3) {
		deep_loop(40, atol(argv[2]));
		return 0;
	}
	fprintf(stderr, "usage: bench_sample pair DEPTH SITES N | first N | deep N\n");
	return 2;
}
