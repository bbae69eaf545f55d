/*
 * What a page of memory costs on this machine before a program can use it.
 * Prints microseconds for each 4 KiB of fresh memory: touched one by one, populated by
 * MADV_POPULATE_WRITE in steps of several sizes and then touched, in huge pages, and in huge pages
 * that were populated. The smallest of several rounds. "-" stands for what the system refuses.
 *
 *   bench_fault [MEGABYTES [ROUNDS]]
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define KIB ((size_t)1 << 10)
#define HUGE_PAGE (2048 * KIB)
#define UNIT (4 * KIB)

static double
now_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* A run of `bytes` that begins at a huge page; the caller unmaps *base, which is longer. */
static char *
fresh(size_t bytes, char **base) {
	*base = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*base == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return (char *)(((uintptr_t)*base + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
}

/* Microseconds for each 4 KiB; -1 if the system refuses. step 0: nothing is populated. */
static double
touch(size_t bytes, size_t step, int is_huge) {
	char *base, *p = fresh(bytes, &base);
	double cost = -1;
	if (madvise(p, bytes, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0 && is_huge)
		goto end;
	double start = now_us();
	for (size_t at = 0; at < bytes; at += UNIT) {
		if (step != 0 && at % step == 0 && madvise(p + at, step, MADV_POPULATE_WRITE) != 0)
			goto end;
		p[at] = 1;
	}
	cost = (now_us() - start) / (double)(bytes / UNIT);
end:
	munmap(base, bytes + HUGE_PAGE);
	return cost;
}

static void
row(const char *name, size_t bytes, size_t step, int is_huge, int rounds) {
	double best = -1;
	for (int i = 0; i < rounds; i++) {
		double t = touch(bytes, step, is_huge);
		best = best < 0 || t < best ? t : best;
	}
	if (best < 0)
		printf("%-28s %8s\n", name, "-");
	else
		printf("%-28s %8.3f\n", name, best);
}

int
main(int argc, char **argv) {
	size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) * 1024 * KIB / HUGE_PAGE
	    * HUGE_PAGE;
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	if (bytes == 0 || rounds <= 0)
		return 1;
	printf("%-28s %8s\n", "fresh memory", "us/4 KiB");
	row("touched one by one", bytes, 0, 0, rounds);
	row("populated by 16 KiB", bytes, 16 * KIB, 0, rounds);
	row("populated by 64 KiB", bytes, 64 * KIB, 0, rounds);
	row("populated by 256 KiB", bytes, 256 * KIB, 0, rounds);
	row("populated by 2 MiB", bytes, HUGE_PAGE, 0, rounds);
	row("huge", bytes, 0, 1, rounds);
	row("huge, populated", bytes, HUGE_PAGE, 1, rounds);
	return 0;
}
