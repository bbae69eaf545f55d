/*
 * Workloads for the benchmark: bench NAME SCALE [THREADS]. Each is one pattern of use that programs
 * have, in a length that takes about half a second at scale 100; only functions that every
 * allocator has.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long scale = 100;

static uint64_t
rnd(uint64_t *s) {
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void *
hold(void *p) {
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

static void *
get(size_t size) {
	char *p = hold(malloc(size));

	if (p == NULL)
		abort();
	p[0] = 1;
	p[size - 1] = 1;
	return p;
}

/* Nearly all sizes of real programs are small: a skewed draw from 8 to about 8000. */
static size_t
skewed(uint64_t *s) {
	uint64_t r = rnd(s);
	unsigned lg = (unsigned)__builtin_ctzll(r | 512);

	return 8 + (r >> 20) % ((size_t)16 << lg);
}

static void
pair64(void) {
	for (long i = 0; i < scale * 1200000; i++)
		free(get(64));
}

static void
batch600(void) {
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
tiny(void) {
	void *p[8];

	for (long i = 0; i < scale * 120000; i++) {
		for (int j = 0; j < 8; j++)
			p[j] = get((size_t)(8 + (i + j) % 24));
		for (int j = 7; j >= 0; j--)
			free(p[j]);
	}
}

/* 20 live blocks of 5 to 25 MB; of each, one page in so many is touched. */
static void
churn(long n, size_t stride) {
	static char *live[20];
	uint64_t s = 3;

	for (long i = 0; i < n; i++) {
		size_t at = rnd(&s) % 20;
		size_t size = (5 << 20) + rnd(&s) % (20 << 20);

		free(live[at]);
		live[at] = get(size);
		for (size_t k = 0; k < size; k += stride)
			live[at][k] = 1;
	}
}

static void
churn_large(void) {
	churn(scale * 30, 65536);
}

static void
churn_full(void) {
	churn(scale * 10, 4096);
}

static void
medium(void) {
	static void *live[200];
	uint64_t s = 4;

	for (long i = 0; i < scale * 8000; i++) {
		uint64_t r = rnd(&s);

		free(live[r % 200]);
		live[r % 200] = get(4000 + (r >> 32) % 100000);
	}
}

/* Steps of an eighth, and of 16 bytes. */
static void
realloc_steps(void) {
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

/* Ten vectors that grow by half up to 4 MB, in turn, and are filled. */
static void
realloc_half(void) {
	for (long i = 0; i < scale; i++) {
		char *p[10] = {NULL};
		size_t size = 64;

		for (size_t next = 96; next < (4 << 20); size = next, next += next / 2) {
			for (int j = 0; j < 10; j++) {
				p[j] = hold(realloc(p[j], next));
				memset(p[j] + size / 2, 1, next - size / 2);
			}
		}
		for (int j = 0; j < 10; j++)
			free(p[j]);
	}
}

static void
calloc_mixed(void) {
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
aligned(void) {
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
fragmentation(void) {
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

enum { THREADS_MAX = 64 };
static int nthreads = 1;

/* Runs it in nthreads threads, each with its number. */
static void
in_threads(void *(*run)(void *)) {
	pthread_t t[THREADS_MAX];

	for (intptr_t i = 0; i < nthreads; i++)
		pthread_create(&t[i], NULL, run, (void *)i);
	for (int i = 0; i < nthreads; i++)
		pthread_join(t[i], NULL);
}

static void *
mixed_thread(void *arg) {
	void *live[1000] = {NULL};
	uint64_t s = 1 + (uint64_t)(intptr_t)arg;

	for (long i = 0; i < scale * 600000 / nthreads; i++) {
		uint64_t r = rnd(&s);

		free(live[r % 1000]);
		live[r % 1000] = get(16 + (r >> 32) % 241);
	}
	return NULL;
}

static void
mixed(void) {
	if (nthreads == 1)
		mixed_thread(NULL);
	else
		in_threads(mixed_thread);
}

enum { HANDED = 1000 };

struct larson {
	void *block[HANDED];
	uint64_t seed;
	long rounds;
};

static void *
larson_thread(void *arg) {
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
larson(void) {
	static struct larson l[THREADS_MAX];
	pthread_t t[THREADS_MAX];

	for (int g = 0; g < 10; g++) {
		for (int i = 0; i < nthreads; i++) {
			l[i].seed += (uint64_t)(i + 1);
			l[i].rounds = scale * 40000 / nthreads;
			pthread_create(&t[i], NULL, larson_thread, &l[(i + g) % nthreads]);
		}
		for (int i = 0; i < nthreads; i++)
			pthread_join(t[i], NULL);
	}
}

enum { SHARED = 1000, MINE = 2000 };
static void *shared[SHARED];

/*
 * A phase: some blocks are kept, some are exchanged for those of others; at its end most are freed.
 */
static void *
mstress_thread(void *arg) {
	void *mine[MINE] = {NULL};
	uint64_t s = 11 + (uint64_t)(intptr_t)arg;

	for (int phase = 0; phase < 20; phase++) {
		for (long i = 0; i < scale * 8000 / nthreads; i++) {
			uint64_t r = rnd(&s);
			void *p = get(r % 1000 == 0 ? 100000 : skewed(&s));

			if (r % 4 == 0)
				p = __atomic_exchange_n(&shared[(r >> 20) % SHARED], p, __ATOMIC_ACQ_REL);
			free(mine[(r >> 40) % MINE]);
			mine[(r >> 40) % MINE] = p;
		}
		for (int i = 0; i < MINE; i++) {
			if (rnd(&s) % 10 != 0) {
				free(mine[i]);
				mine[i] = NULL;
			}
		}
	}
	for (int i = 0; i < MINE; i++)
		free(mine[i]);
	return NULL;
}

static void
mstress(void) {
	in_threads(mstress_thread);
}

/* Most blocks have at most 256 bytes; one in 100, 1000 and 10000 is so many times as large. */
static size_t
any_size(uint64_t *s) {
	uint64_t r = rnd(s);
	size_t size = 8 + 8 * ((r >> 20) % 32);

	return r % 10000 == 0 ? size * 10000 : r % 1000 == 0 ? size * 1000 : r % 100 == 0 ? size * 100
	    : size;
}

/*
 * A thread that lives for one phase and holds more and more: half of the blocks to its end, the
 * others until their turn comes; some of these it exchanges for what another thread has left.
 */
static void *
phase_thread(void *arg) {
	enum { HELD = 10000, LOOSE = 10000 };
	void **held = calloc(HELD, sizeof(void *)), **loose = calloc(LOOSE, sizeof(void *));
	uint64_t s = 17 + (uint64_t)(intptr_t)arg;
	int nheld = 0, nloose = 0;

	for (long i = 0; i < scale * 100 && nheld < HELD && nloose < LOOSE; i++) {
		uint64_t r = rnd(&s);
		size_t size = any_size(&s);
		char *p = get(size);

		memset(p, 1, size);
		if (r % 2 == 0)
			held[nheld++] = p;
		else
			loose[nloose++] = p;
		if (nloose > 0 && (r >> 8) % 3 != 0) {
			int k = (int)((r >> 16) % (uint64_t)nloose);

			free(loose[k]);
			loose[k] = loose[--nloose];
		}
		if (nloose > 0 && (r >> 10) % 4 == 0) {
			int k = (int)((r >> 32) % (uint64_t)nloose);

			loose[k] = __atomic_exchange_n(&shared[(r >> 48) % SHARED], loose[k], __ATOMIC_ACQ_REL);
		}
	}
	while (nheld > 0)
		free(held[--nheld]);
	while (nloose > 0)
		free(loose[--nloose]);
	free(held);
	free(loose);
	return NULL;
}

/* Phases of new threads; between them half of what they left is freed. */
static void
phases(void) {
	for (int phase = 0; phase < 25; phase++) {
		in_threads(phase_thread);
		for (int i = phase % 2; i < SHARED; i += 2)
			free(__atomic_exchange_n(&shared[i], NULL, __ATOMIC_ACQ_REL));
	}
}

/* A set of blocks that one thread filled and another one frees. */
struct parcel {
	void *block[1000];
};
static struct parcel *parcels[2];

static void
open_parcel(struct parcel *l) {
	for (int i = 0; l != NULL && i < 1000; i++)
		free(l->block[i]);
	free(l);
}

/*
 * Blocks of 8 to 16000 bytes, which are renewed at random; then each second set is sent away, if
 * the other thread has taken the one before.
 */
static void *
cross_thread(void *arg) {
	intptr_t me = (intptr_t)arg;
	uint64_t s = 23 + (uint64_t)me;

	for (long round = 0; round < scale * 3; round++) {
		struct parcel *l = calloc(1, sizeof(*l));

		for (int i = 0; i < 1100; i++) {
			uint64_t r = rnd(&s);
			int k = i < 1000 ? i : (int)(r % 1000);

			free(l->block[k]);
			l->block[k] = get(8 + (r >> 20) % 15993);
		}
		struct parcel *none = NULL;

		if (round % 2 != 0 || !__atomic_compare_exchange_n(&parcels[1 - me], &none, l, 0,
		    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			open_parcel(l);
		open_parcel(__atomic_exchange_n(&parcels[me], NULL, __ATOMIC_ACQ_REL));
	}
	return NULL;
}

static void
cross(void) {
	in_threads(cross_thread);
}

enum { RING = 4096, STEP = 64 };
struct pair {
	void *ring[RING];
	long n;
	long written __attribute__((aligned(64)));
	long taken __attribute__((aligned(64)));
};

static void *
consumer(void *arg) {
	struct pair *p = arg;

	for (long i = 0; i < p->n; i++) {
		while (__atomic_load_n(&p->written, __ATOMIC_ACQUIRE) <= i)
			sched_yield();
		free(p->ring[i % RING]);
		if (i % STEP == STEP - 1)
			__atomic_store_n(&p->taken, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* The ring is told of in steps, so that what is measured is not the two threads' waiting. */
static void *
producer(void *arg) {
	struct pair *p = arg;
	uint64_t s = 9;

	for (long i = 0; i < p->n; i++) {
		while (i - __atomic_load_n(&p->taken, __ATOMIC_ACQUIRE) >= RING)
			sched_yield();
		p->ring[i % RING] = get(16 + rnd(&s) % 200);
		if (i % STEP == STEP - 1 || i == p->n - 1)
			__atomic_store_n(&p->written, i + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void
producer_consumer(void) {
	static struct pair pair[THREADS_MAX / 2];
	pthread_t t[THREADS_MAX];

	for (int i = 0; i < nthreads; i += 2) {
		pair[i / 2].n = scale * 40000 / nthreads;
		pthread_create(&t[i], NULL, producer, &pair[i / 2]);
		pthread_create(&t[i + 1], NULL, consumer, &pair[i / 2]);
	}
	for (int i = 0; i < nthreads; i++)
		pthread_join(t[i], NULL);
}

static void *
short_thread(void *arg) {
	void *p[20];

	for (int i = 0; i < 20; i++)
		p[i] = get((size_t)(20 + i * 30));
	for (int i = 0; i < 20; i++)
		free(p[i]);
	return arg;
}

static void
threads(void) {
	pthread_t t[4];

	for (long i = 0; i < scale * 15; i++) {
		for (int j = 0; j < 4; j++)
			pthread_create(&t[j], NULL, short_thread, NULL);
		for (int j = 0; j < 4; j++)
			pthread_join(t[j], NULL);
	}
}

/* A hundred blocks of one size are allocated, their ends written, and freed in another order. */
static void
hundreds(size_t size, long times) {
	void *p[100];

	for (long i = 0; i < scale * times; i++) {
		for (int j = 0; j < 100; j++)
			p[j] = get(size);
		for (int j = 0; j < 100; j++)
			free(p[j * 37 % 100]);
	}
}

static void
hundred_1k(void) {
	hundreds(1 << 10, 2000);
}

static void
hundred_64k(void) {
	hundreds(64 << 10, 200);
}

static void
hundred_2m(void) {
	hundreds(2 << 20, 10);
}

/* One thread allocates batches of 64 blocks, another one frees them. */
#define HANDED 64
static sem_t hand_full, hand_empty;
static void *hand[HANDED];
static bool hand_is_over;

static void *
hand_freer(void *arg) {
	for (;;) {
		sem_wait(&hand_full);
		if (hand_is_over)
			return arg;
		for (int j = 0; j < HANDED; j++)
			free(hand[j]);
		sem_post(&hand_empty);
	}
}

static void
hand_over(size_t size, long times) {
	pthread_t t;

	sem_init(&hand_full, 0, 0);
	sem_init(&hand_empty, 0, 1);
	pthread_create(&t, NULL, hand_freer, NULL);
	for (long i = 0; i < scale * times; i++) {
		sem_wait(&hand_empty);
		for (int j = 0; j < HANDED; j++)
			hand[j] = get(size);
		sem_post(&hand_full);
	}
	sem_wait(&hand_empty);
	hand_is_over = true;
	sem_post(&hand_full);
	pthread_join(t, NULL);
}

static void
hand_1k(void) {
	hand_over(1 << 10, 500);
}

static void
hand_16k(void) {
	hand_over(16 << 10, 300);
}

/* One buffer that grows by 4 KiB to 1 MiB, each time written to its end. */
static void
grow(void) {
	for (long i = 0; i < scale * 6; i++) {
		char *p = NULL;

		for (size_t size = 4 << 10; size <= 1 << 20; size += 4 << 10) {
			p = hold(realloc(p, size));
			p[size - 1] = 1;
		}
		free(p);
	}
}

/*
 * Requests of a server: two buffers of 4 to 256 KiB and some small blocks each, 32 requests at a
 * time.
 */
static void
server(void) {
	static void *open[32][12];
	uint64_t s = 11;

	for (long i = 0; i < scale * 3000; i++) {
		void **r = open[rnd(&s) % 32];

		for (int j = 0; j < 12; j++)
			free(r[j]);
		for (int j = 0; j < 10; j++)
			r[j] = get(skewed(&s));
		for (int j = 10; j < 12; j++)
			r[j] = get((4 << 10) + rnd(&s) % (252 << 10));
	}
	for (int i = 0; i < 32 * 12; i++)
		free(open[i / 12][i % 12]);
}

struct workload {
	const char *name;
	void (*run)(void);
	int nthreads;
};

static const struct workload workloads[] = {
	{"pair64", pair64, 1},
	{"mixed", mixed, 1},
	{"mixed-2", mixed, 2},
	{"mixed-8", mixed, 8},
	{"tiny", tiny, 1},
	{"batch600", batch600, 1},
	{"medium", medium, 1},
	{"churn-large", churn_large, 1},
	{"churn-full", churn_full, 1},
	{"realloc", realloc_steps, 1},
	{"realloc-half", realloc_half, 1},
	{"calloc", calloc_mixed, 1},
	{"aligned", aligned, 1},
	{"fragmentation", fragmentation, 1},
	{"larson-1", larson, 1},
	{"larson-2", larson, 2},
	{"larson-8", larson, 8},
	{"mstress-1", mstress, 1},
	{"mstress-2", mstress, 2},
	{"mstress-8", mstress, 8},
	{"phases-8", phases, 8},
	{"cross-2", cross, 2},
	{"prod-cons", producer_consumer, 2},
	{"prod-cons-8", producer_consumer, 8},
	{"threads", threads, 4},
	{"hundred-1K", hundred_1k, 1},
	{"hundred-64K", hundred_64k, 1},
	{"hundred-2M", hundred_2m, 1},
	{"hand-1K", hand_1k, 2},
	{"hand-16K", hand_16k, 2},
	{"grow", grow, 1},
	{"server", server, 1},
};

int
main(int argc, char **argv) {
	size_t n = sizeof(workloads) / sizeof(workloads[0]);

	if (argc > 2)
		scale = atol(argv[2]);
	for (size_t i = 0; i < n; i++) {
		if (argc < 2) {
			puts(workloads[i].name);
		} else if (strcmp(workloads[i].name, argv[1]) == 0) {
			nthreads = argc > 3 ? atoi(argv[3]) : workloads[i].nthreads;
			if (nthreads < workloads[i].nthreads || nthreads > THREADS_MAX)
				return 2;
			workloads[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
