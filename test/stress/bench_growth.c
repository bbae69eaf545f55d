/*
 * One operation at one size of the problem, for run-bench-growth: what it costs when there is more
 * of something. An operation is a free and a malloc.
 *
 *   bench_growth blocks N OPS    N live blocks of 8 to 512 bytes; random ones give way to new ones
 *   bench_growth threads N OPS N threads alive, each with 50 such blocks, of which random ones give
 *   way
 *   bench_growth size N OPS sixteen live blocks of N bytes, their first bytes written; the oldest
 *   goes
 *   bench_growth mixed N OPS batches of 64 bytes that come from N arenas in turn, freed by one
 *   thread
 *   bench_growth start N 0       N threads that begin, make sixteen blocks, free them and end
 *
 * Prints the CPU time of the operations and what the process holds: lines of NAME VALUE. Arenas are
 * told by MALLOC_CONF. An instruction counter takes the functions operate_*, where the operations
 * are.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PER_THREAD 50
#define N_SIZED 16
#define N_MIXED 4000
#define ARENA_FLAG(i) ((int)((i) + 1) << 20)
#define NO_CACHE_FLAG 0x100
#define OPERATION static __attribute__((noinline, noclone))
#define STACK 65536

static int (*ctl)(const char *, void *, size_t *, void *, size_t);
static pthread_barrier_t ready, begin, done, leave;
static size_t rss_before;

static uint64_t
number(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static size_t
small_size(uint64_t random) {
	return 8 + (random >> 40) % 505;
}

static double
cpu_ns(clockid_t clock) {
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static size_t
resident(void) {
	static char text[4096];
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *at;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "\nRss:");
	return at == NULL ? 0 : (size_t)strtoull(at + 5, NULL, 10) * 1024;
}

static size_t
ctl_size(const char *name) {
	size_t value = 0, len = sizeof(value);

	return ctl(name, &value, &len, NULL, 0) == 0 ? value : 0;
}

/* What `live` bytes that the program asked for cost. */
static void
report(size_t live) {
	uint64_t epoch = 1;
	size_t len = sizeof(epoch);

	printf("live %zu\nrss %zu\n", live, resident() - rss_before);
	if (ctl != NULL && ctl("epoch", &epoch, &len, &epoch, sizeof(epoch)) == 0)
		printf("metadata %zu\n", ctl_size("stats.metadata"));
}

static void *
pages(size_t bytes) {
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
	    -1, 0);

	if (p == MAP_FAILED)
		exit(2);
	return p;
}

/* A block that is used: what it costs to touch memory is the same for every allocator. */
static void *
fresh(size_t size) {
	char *p = malloc(size);

	if (p == NULL)
		exit(2);
	*(volatile char *)p = 1;
	return p;
}

/* The random sequence is the one that filled the blocks, so the sizes can be told at the end. */
OPERATION void
operate_blocks(void **block, uint32_t *size, size_t n, long ops, uint64_t *state) {
	for (long i = 0; i < ops; i++) {
		uint64_t r = number(state);
		size_t at = (size_t)((r & 0xffffffff) * n >> 32);

		free(block[at]);
		size[at] = (uint32_t)small_size(r);
		block[at] = fresh(size[at]);
	}
}

static size_t
sum(const uint32_t *size, size_t n) {
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += size[i];
	return bytes;
}

static void
blocks(size_t n, long ops) {
	void **block = pages(n * sizeof(*block));
	uint32_t *size = pages(n * sizeof(*size));
	uint64_t state = 88172645463325252u;
	double before;

	rss_before = resident();
	for (size_t i = 0; i < n; i++) {
		size[i] = (uint32_t)small_size(number(&state));
		block[i] = fresh(size[i]);
	}
	report(sum(size, n));
	before = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	operate_blocks(block, size, n, ops, &state);
	printf("cpu %.0f\n", cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before);
}

struct worker {
	pthread_t thread;
	long ops;
	uint64_t state;
	size_t live;
	double ns;
};

static void *
work(void *arg) {
	struct worker *w = arg;
	void *block[PER_THREAD];
	uint32_t size[PER_THREAD];
	double before;

	for (int i = 0; i < PER_THREAD; i++) {
		size[i] = (uint32_t)small_size(number(&w->state));
		block[i] = fresh(size[i]);
	}
	w->live = sum(size, PER_THREAD);
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&begin);
	before = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	operate_blocks(block, size, PER_THREAD, w->ops, &w->state);
	w->ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - before;
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&leave);
	for (int i = 0; i < PER_THREAD; i++)
		free(block[i]);
	return NULL;
}

static void
threads(size_t n, long ops) {
	struct worker *w = pages(n * sizeof(*w));
	pthread_attr_t attr;
	size_t live = 0;
	double ns = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_barrier_init(&ready, NULL, (unsigned)n + 1);
	pthread_barrier_init(&begin, NULL, (unsigned)n + 1);
	pthread_barrier_init(&done, NULL, (unsigned)n + 1);
	pthread_barrier_init(&leave, NULL, (unsigned)n + 1);
	rss_before = resident();
	for (size_t i = 0; i < n; i++) {
		w[i].ops = ops / (long)n;
		w[i].state = 88172645463325252u + i * 7919;
		if (pthread_create(&w[i].thread, &attr, work, &w[i]) != 0)
			exit(3);
	}
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&done);
	for (size_t i = 0; i < n; i++) {
		live += w[i].live;
		ns += w[i].ns;
	}
	report(live);
	printf("cpu %.0f\n", ns);
	pthread_barrier_wait(&leave);
	for (size_t i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
}

OPERATION void
operate_sized(void **block, size_t n, long ops) {
	for (long i = 0; i < ops; i++) {
		free(block[i % N_SIZED]);
		block[i % N_SIZED] = fresh(n);
	}
}

static void
sized(size_t n, long ops) {
	void *block[N_SIZED];
	double before;

	rss_before = resident();
	for (int i = 0; i < N_SIZED; i++)
		block[i] = fresh(n);
	report(n * N_SIZED);
	before = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
	operate_sized(block, n, ops);
	printf("cpu %.0f\n", cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before);
}

OPERATION void
operate_mixed(void **block) {
	for (int i = 0; i < N_MIXED; i++)
		free(block[i]);
}

static void
mixed(size_t n, long ops) {
	void *(*mallocx)(size_t, int) = (void *(*)(size_t, int))dlsym(RTLD_DEFAULT, "mallocx");
	void **block = pages(N_MIXED * sizeof(*block));
	double before, ns = 0;

	rss_before = resident();
	for (long round = 0; mallocx != NULL && round < ops / N_MIXED; round++) {
		for (size_t i = 0; i < N_MIXED; i++)
			block[i] = mallocx(64, ARENA_FLAG(i % n) | NO_CACHE_FLAG);
		before = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
		operate_mixed(block);
		ns += cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
	}
	printf("cpu %.0f\n", ns);
	report(0);
}

static void *
short_life(void *arg) {
	void *block[N_SIZED];
	uint64_t state = 88172645463325252u;

	for (int i = 0; i < N_SIZED; i++)
		block[i] = fresh(small_size(number(&state)));
	for (int i = 0; i < N_SIZED; i++)
		free(block[i]);
	return arg;
}

OPERATION void
operate_starts(size_t n) {
	for (size_t i = 0; i < n; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, short_life, NULL) != 0)
			exit(3);
		pthread_join(t, NULL);
	}
}

static void
starts(size_t n) {
	double before = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);

	rss_before = resident();
	operate_starts(n);
	printf("cpu %.0f\n", cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - before);
	report(0);
}

int
main(int argc, char **argv) {
	size_t n = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) : 0;
	long ops = argc > 3 ? strtol(argv[3], NULL, 10) : 0;

	if (argc != 4 || n == 0) {
		fprintf(stderr, "usage: bench_growth blocks|threads|size|mixed|start N OPS\n");
		return 2;
	}
	free(malloc(1));
	ctl = (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
	if (strcmp(argv[1], "blocks") == 0)
		blocks(n, ops);
	else if (strcmp(argv[1], "threads") == 0)
		threads(n, ops);
	else if (strcmp(argv[1], "size") == 0)
		sized(n, ops);
	else if (strcmp(argv[1], "mixed") == 0)
		mixed(n, ops);
	else
		starts(n);
	return 0;
}
