/*
 * Workloads for the benchmark: bench NAME SCALE. Each is one pattern of use that programs
 * have, in a length that takes about half a second at scale 100; only functions that every
 * allocator has.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long scale = 100;

static uint64_t
rnd(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void *
hold(void *p)
{
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

static void *
get(size_t size)
{
	char *p = hold(malloc(size));

	if (p == NULL)
		abort();
	p[0] = 1;
	p[size - 1] = 1;
	return p;
}

/* Nearly all sizes of real programs are small: a skewed draw from 8 to about 8000. */
static size_t
skewed(uint64_t *s)
{
	uint64_t r = rnd(s);
	unsigned lg = (unsigned)__builtin_ctzll(r | 512);

	return 8 + (r >> 20) % ((size_t)16 << lg);
}

static void
pair64(void)
{
	for (long i = 0; i < scale * 1200000; i++)
		free(get(64));
}

static void
mixed(void)
{
	static void *live[1000];
	uint64_t s = 1;

	for (long i = 0; i < scale * 600000; i++) {
		uint64_t r = rnd(&s);

		free(live[r % 1000]);
		live[r % 1000] = get(16 + (r >> 32) % 241);
	}
}

static void
batch600(void)
{
	void *p[600];
	uint64_t s = 2;

	for (long i = 0; i < scale * 1000; i++) {
		for (int j = 0; j < 600; j++)
			p[j] = get(skewed(&s));
		for (int j = 0; j < 600; j++)
			free(p[j]);
	}
}

static void
tiny(void)
{
	void *p[8];

	for (long i = 0; i < scale * 120000; i++) {
		for (int j = 0; j < 8; j++)
			p[j] = get((size_t)(8 + (i + j) % 24));
		for (int j = 7; j >= 0; j--)
			free(p[j]);
	}
}

static void
churn_large(void)
{
	static char *live[20];
	uint64_t s = 3;

	for (long i = 0; i < scale * 12; i++) {
		size_t at = rnd(&s) % 20;
		size_t size = (5 << 20) + rnd(&s) % (20 << 20);

		free(live[at]);
		live[at] = get(size);
		for (size_t k = 0; k < size; k += 65536)
			live[at][k] = 1;
	}
}

static void
medium(void)
{
	static void *live[200];
	uint64_t s = 4;

	for (long i = 0; i < scale * 8000; i++) {
		uint64_t r = rnd(&s);

		free(live[r % 200]);
		live[r % 200] = get(4000 + (r >> 32) % 100000);
	}
}

static void
realloc_growth(void)
{
	for (long i = 0; i < scale * 200; i++) {
		char *p = NULL;
		size_t size = 0;

		while (size < 300000) {
			size += 16 + size / 8;
			p = hold(realloc(p, size));
			p[size - 1] = 1;
		}
		free(p);
		p = NULL;
		for (size_t k = 16; k <= 4096; k += 16)
			p = hold(realloc(p, k));
		free(p);
	}
}

static void
calloc_mixed(void)
{
	static void *live[500];
	uint64_t s = 5;

	for (long i = 0; i < scale * 200000; i++) {
		uint64_t r = rnd(&s);
		size_t at = r % 500;

		free(live[at]);
		live[at] = hold(calloc(1, r % 200 == 0 ? 50000 : skewed(&s)));
	}
}

static void
aligned(void)
{
	static void *live[500];
	uint64_t s = 6;

	for (long i = 0; i < scale * 300000; i++) {
		uint64_t r = rnd(&s);
		size_t at = r % 500;

		free(live[at]);
		if (posix_memalign(&live[at], (size_t)16 << (r >> 16) % 5, skewed(&s)) != 0)
			abort();
	}
}

/* Phases of a program: a heap grows, most of it dies at random, another kind grows. */
static void
fragmentation(void)
{
	enum { N = 150000 };
	static void *live[N];
	uint64_t s = 7;

	for (long phase = 0; phase < scale / 2 + 1; phase++) {
		size_t base = (size_t)(16 << phase % 5);

		for (int i = 0; i < N; i++) {
			if (live[i] == NULL)
				live[i] = get(base + rnd(&s) % base);
		}
		for (int i = 0; i < N; i++) {
			if (rnd(&s) % 10 != 0) {
				free(live[i]);
				live[i] = NULL;
			}
		}
	}
}

/* -------------------------------------------------------------- threads */

enum { HANDED = 1000 };

struct larson {
	void *block[HANDED];
	uint64_t seed;
	long rounds;
};

static void *
larson_thread(void *arg)
{
	struct larson *l = arg;

	for (long i = 0; i < l->rounds; i++) {
		uint64_t r = rnd(&l->seed);

		free(l->block[r % HANDED]);
		l->block[r % HANDED] = get(16 + (r >> 32) % 500);
	}
	return NULL;
}

/* Each generation of threads goes on with the blocks of the one before. */
static void
larson(void)
{
	static struct larson l[4];
	pthread_t t[4];

	for (int g = 0; g < 10; g++) {
		for (int i = 0; i < 4; i++) {
			l[i].seed += (uint64_t)(i + 1);
			l[i].rounds = scale * 10000;
			pthread_create(&t[i], NULL, larson_thread, &l[(i + g) % 4]);
		}
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
	}
}

enum { RING = 4096 };
static void *ring[RING];
static long written, taken;

static void *
consumer(void *arg)
{
	long n = *(long *)arg;

	for (long i = 0; i < n; i++) {
		while (__atomic_load_n(&written, __ATOMIC_ACQUIRE) <= i)
			sched_yield();
		free(ring[i % RING]);
		__atomic_store_n(&taken, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void
producer_consumer(void)
{
	long n = scale * 20000;
	uint64_t s = 9;
	pthread_t t;

	pthread_create(&t, NULL, consumer, &n);
	for (long i = 0; i < n; i++) {
		while (i - __atomic_load_n(&taken, __ATOMIC_ACQUIRE) >= RING)
			sched_yield();
		ring[i % RING] = get(16 + rnd(&s) % 200);
		__atomic_store_n(&written, i + 1, __ATOMIC_RELEASE);
	}
	pthread_join(t, NULL);
}

static void *
short_thread(void *arg)
{
	void *p[20];

	for (int i = 0; i < 20; i++)
		p[i] = get((size_t)(20 + i * 30));
	for (int i = 0; i < 20; i++)
		free(p[i]);
	return arg;
}

static void
threads(void)
{
	pthread_t t[4];

	for (long i = 0; i < scale * 15; i++) {
		for (int j = 0; j < 4; j++)
			pthread_create(&t[j], NULL, short_thread, NULL);
		for (int j = 0; j < 4; j++)
			pthread_join(t[j], NULL);
	}
}

struct workload {
	const char *name;
	void (*run)(void);
};

static const struct workload workloads[] = {
	{ "pair64", pair64 },
	{ "mixed", mixed },
	{ "tiny", tiny },
	{ "batch600", batch600 },
	{ "medium", medium },
	{ "churn-large", churn_large },
	{ "realloc", realloc_growth },
	{ "calloc", calloc_mixed },
	{ "aligned", aligned },
	{ "fragmentation", fragmentation },
	{ "larson", larson },
	{ "prod-cons", producer_consumer },
	{ "threads", threads },
};

int
main(int argc, char **argv)
{
	size_t n = sizeof(workloads) / sizeof(workloads[0]);

	if (argc > 2)
		scale = atol(argv[2]);
	for (size_t i = 0; i < n; i++) {
		if (argc < 2) {
			puts(workloads[i].name);
		} else if (strcmp(workloads[i].name, argv[1]) == 0) {
			workloads[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
