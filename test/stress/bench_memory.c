/*
 * What a heap keeps resident, and the page faults that it takes, for run-bench-memory.
 *
 *   steady MB N          so many live, in blocks of 16 bytes to 64 KiB (each doubling as likely as
 *                        another one); N times a random block goes and new ones come; looks after
 *                        a sixth of that too
 *   sparse N             N blocks of 1 MiB, of which one byte is written
 *   random MB SECONDS    blocks of 1 to 1000 bytes; nine of ten at random are freed; looks so much
 *                        later, the program nearly idle
 *   swing MB SECONDS     so many, in blocks of 16 bytes to 4 KiB, down to a sixth, ten times; looks
 *                        so much later
 *   server N             N requests with two buffers of 4 to 256 KiB each, written in full
 *   grow MB              one buffer that grows by half from 1000 bytes
 *   generations N        two threads, N times after each other, with blocks of 16 bytes to 64 KiB
 *   equal SIZE N         N blocks: picoseconds for a read of the first word of each in turn, and of
 *                        all words in all blocks in step
 *
 * What is allocated is written, but for `sparse`. Prints NAME VALUE lines: what lives (as it was
 * requested) and what is resident, without the list of the blocks, which is the program's own, in
 * KiB.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "rollup.h"

#define MIB ((size_t)1 << 20)
#define N_SLOTS ((size_t)4 << 20)

/* The program's own memory: not from the allocator, populated before the first look. */
static struct block {
	char *p;
	uint32_t size;
} *blocks;
static size_t nblocks, live;
static long own_kib;
static uint64_t seed = 88172645463325252u;

static uint64_t
draw(void) {
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static long
rss_kib(void) {
	return rollup("\nRss:");
}

static double
now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
say(const char *what) {
	printf("%s %ld\n", what, rss_kib() - own_kib);
}

static void
begin(size_t n) {
	blocks = mmap(NULL, n * sizeof(*blocks), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (blocks == MAP_FAILED)
		exit(1);
	own_kib = (long)(n * sizeof(*blocks) >> 10);
}

/* 2^lg bytes to 2^(lg + doublings), even in the logarithm. */
static size_t
log_even(unsigned lg, unsigned doublings) {
	uint64_t x = draw();
	size_t base = (size_t)1 << (lg + x % doublings);
	double f = (double)(x >> 16 & 0xffffff) / 0x1000000;

	/* 2^f for 0 <= f < 1, within a thousandth. */
	return (size_t)((double)base * (1 + f * (0.6951786 + f * (0.2244945 + f * 0.0803269))));
}

static void
add(size_t size) {
	char *p = malloc(size);

	if (p == NULL)
		exit(1);
	memset(p, 1, size);
	blocks[nblocks].p = p;
	blocks[nblocks++].size = (uint32_t)size;
	live += size;
}

static void
take_one(void) {
	size_t i = draw() % nblocks;

	free(blocks[i].p);
	live -= blocks[i].size;
	blocks[i] = blocks[--nblocks];
}

/* Calls of malloc now and then let decay happen. */
static void
idle(double seconds) {
	for (double end = now() + seconds; now() < end; usleep(20000))
		for (int i = 0; i < 100; i++)
			free(malloc(100 + (size_t)i));
}

static void
steady(size_t most, size_t steps) {
	begin(most / 4096);
	for (size_t i = 0; i < steps; i++) {
		while (live < most)
			add(log_even(4, 12));
		take_one();
		if (i == steps / 6)
			say("early_kib");
	}
}

static void
sparse(size_t n) {
	begin(n);
	own_kib = rss_kib();
	for (size_t i = 0; i < n; i++) {
		blocks[i].p = malloc(MIB);
		if (blocks[i].p == NULL)
			exit(1);
		*blocks[i].p = 1;
	}
	live = n * 4096;
}

static void
at_random(size_t most, double seconds) {
	begin(most / 400);
	while (live < most)
		add(1 + draw() % 1000);
	for (size_t most_left = live / 10; live > most_left;)
		take_one();
	say("freed_kib");
	idle(seconds);
}

static void
swing(size_t most, double seconds) {
	begin(most / 400);
	for (int i = 0; i < 10; i++) {
		while (live < most)
			add(log_even(4, 8));
		while (live > most / 6)
			take_one();
	}
	idle(seconds);
}

static void
renew(char **p) {
	size_t size = log_even(12, 6);

	free(*p);
	*p = malloc(size);
	if (*p == NULL)
		exit(1);
	memset(*p, 1, size);
}

static void
server(size_t requests) {
	static char *buffers[32][2];

	begin(100000);
	for (size_t i = 0; i < requests; i++) {
		char **request = buffers[draw() % 32];

		renew(&request[0]);
		renew(&request[1]);
		for (int k = 0; k < 10; k++)
			add(log_even(4, 6));
		while (live > MIB)
			take_one();
	}
	for (int i = 0; i < 64; i++)
		live += malloc_usable_size(buffers[i / 2][i % 2]);
}

static void *
one_generation(void *arg) {
	uint64_t x = (uint64_t)(uintptr_t)arg;
	char *held[4000] = {NULL};

	for (int i = 0; i < 100000; i++) {
		char **p = &held[(x >> 33) % 4000];
		size_t size = (x >> 20) % 100 == 0 ? 65536 : 16 + (x >> 40) % 1000;

		x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
		free(*p);
		*p = malloc(size);
		if (*p == NULL)
			exit(1);
		memset(*p, 1, size);
	}
	for (int i = 0; i < 4000; i++)
		free(held[i]);
	return NULL;
}

static void
generations(size_t n) {
	pthread_t t[2];

	begin(1);
	for (size_t i = 0; i < n; i++) {
		for (int k = 0; k < 2; k++)
			if (pthread_create(&t[k], NULL, one_generation, (void *)(2 * i + 1 + (size_t)k)) != 0)
				exit(1);
		for (int k = 0; k < 2; k++)
			pthread_join(t[k], NULL);
	}
}

static void
grow(size_t most) {
	char *p = NULL;
	size_t from = 0;

	for (size_t size = 1000; size < most; size += size / 2) {
		p = realloc(p, size);
		if (p == NULL)
			exit(1);
		memset(p + from, 1, size - from);
		from = size;
	}
	live = from;
}

/* Picoseconds for a read of the first `part` bytes of each block, eight at a time, all in step. */
static double
walk(size_t part) {
	uint64_t sum = 0;
	double best = 1e9;

	for (int round = 0; round < 20; round++) {
		double start = now();
		size_t reads = 0;

		while (reads < 1000000)
			for (size_t at = 0; at < part; at += 8)
				for (size_t i = 0; i < nblocks; i++, reads++)
					sum += *(volatile uint64_t *)(void *)(blocks[i].p + at);
		start = (now() - start) / (double)reads;
		best = start < best ? start : best;
	}
	return best * 1e12 + (double)(sum == 0);
}

static void
equal(size_t size, size_t n) {
	begin(n);
	for (size_t i = 0; i < n; i++)
		add(size);
	printf("first_ps %.0f\n", walk(8));
	printf("step_ps %.0f\n", walk(size));
}

int
main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "steady";
	size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 200;
	double x = argc > 3 ? strtod(argv[3], NULL) : 10;
	struct rusage use;

	if (strcmp(what, "steady") == 0)
		steady(n * MIB, (size_t)x);
	else if (strcmp(what, "sparse") == 0)
		sparse(n);
	else if (strcmp(what, "random") == 0)
		at_random(n * MIB, x);
	else if (strcmp(what, "swing") == 0)
		swing(n * MIB, x);
	else if (strcmp(what, "server") == 0)
		server(n);
	else if (strcmp(what, "generations") == 0)
		generations(n);
	else if (strcmp(what, "grow") == 0)
		grow(n * MIB);
	else
		equal(n, (size_t)x);
	say("rss_kib");
	getrusage(RUSAGE_SELF, &use);
	printf("live_kib %zu\nfaults %ld\npeak_kib %ld\ncpu_ms %.0f\n", live >> 10, use.ru_minflt,
	    use.ru_maxrss - own_kib,
	    ((double)use.ru_utime.tv_sec + (double)use.ru_stime.tv_sec) * 1e3
	    + ((double)use.ru_utime.tv_usec + (double)use.ru_stime.tv_usec) / 1e3);
	return 0;
}
