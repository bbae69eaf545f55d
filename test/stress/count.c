/*
 * One operation many times, for an instruction counter: count OPERATION ROUNDS, or
 * count OPERATION TURNS THREADS, in which each of the threads has so many turns, each of as
 * many rounds as count --turn OPERATION says. The loop and the calls through the PLT are the
 * same for every allocator, so that what a stub allocator costs can be taken off. Functions
 * that an allocator may not have are weak.
 * The clock that allocators see is the program's own and goes by operations, and threads
 * take turns, so that what depends on time does not depend on the load of the machine.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern void sdallocx(void *, size_t, int) __attribute__((weak));
/* operator new(size) and operator delete(p); the C library has none */
extern void *_Znwm(size_t) __attribute__((weak));
extern void _ZdlPv(void *) __attribute__((weak));

#define BATCH 1000

static __thread void *block[BATCH];
static void *passed[BATCH]; /* from thread to thread */
static unsigned order[BATCH];

/* An operation takes a microsecond of this clock, those of threads at the same time. */
static uint64_t now_ns = 1000000000;
static uint64_t op_ns = 1000;

int
clock_gettime(clockid_t id, struct timespec *ts) {
	(void)id;
	ts->tv_sec = (time_t)(now_ns / 1000000000);
	ts->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

static void *
hold(void *p) {
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

static uint64_t
next_random(uint64_t x) {
	x ^= x << 13;
	x ^= x >> 7;
	return x ^ x << 17;
}

static void
pairs(long n, size_t size) {
	for (long i = 0; i < n; i++) {
		now_ns += op_ns;
		free(hold(malloc(size)));
	}
}

static void
pair64(long n) {
	pairs(n, 64);
}

static void
pair16k(long n) {
	pairs(n, 16384);
}

static void
pair256k(long n) {
	pairs(n, 262144);
}

static void
pair4m(long n) {
	pairs(n, 4 << 20);
}

static void
sized64(long n) {
	for (long i = 0; i < n; i++)
		sdallocx(hold(malloc(64)), 64, 0);
}

static void
new64(long n) {
	for (long i = 0; i < n; i++)
		_ZdlPv(hold(_Znwm(64)));
}

static void
calloc64(long n) {
	for (long i = 0; i < n; i++)
		free(hold(calloc(1, 64)));
}

static void
aligned64(long n) {
	for (long i = 0; i < n; i++)
		free(hold(aligned_alloc(64, 64)));
}

static void
usable(long n) {
	void *p = hold(malloc(64));

	for (long i = 0; i < n; i++)
		hold((void *)malloc_usable_size(p));
	free(p);
}

static void
batch(long n) {
	for (long i = 0; i < n; i += BATCH) {
		now_ns += op_ns * BATCH;
		for (int j = 0; j < BATCH; j++)
			block[j] = hold(malloc(64));
		for (int j = 0; j < BATCH; j++)
			free(block[order[j]]);
	}
}

static void
mixed(long n) {
	static uint16_t size[BATCH];
	uint64_t x = 88172645463325252u;

	for (int j = 0; j < BATCH; j++) {
		x = next_random(x);
		size[j] = (uint16_t)(16 + x % 241);
	}
	for (long i = 0; i < n; i++) {
		long at = i % BATCH;

		now_ns += op_ns;
		free(block[at]);
		block[at] = hold(malloc(size[at]));
	}
}

static void
realloc_steps(long n) {
	for (long i = 0; i < n; i += 256) {
		void *p = NULL;

		now_ns += op_ns * 256;
		for (size_t size = 16; size <= 4096; size += 16)
			p = hold(realloc(p, size));
		free(p);
	}
}

/* A buffer that grows by pages to 1 MiB, each time written to its end; a round is one step. */
static void
realloc_grow(long n) {
	for (long i = 0; i < n; i += 256) {
		char *p = NULL;

		now_ns += op_ns * 256;
		for (size_t size = 4096; size <= 1 << 20; size += 4096) {
			p = hold(realloc(p, size));
			p[size - 1] = 1;
		}
		free(p);
	}
}

/* A buffer that grows by half from 16 bytes to 64 KiB; a round is all of it. */
static void
realloc_half(long n) {
	for (long i = 0; i < n; i++) {
		void *p = NULL;

		now_ns += op_ns;
		for (size_t size = 16; size <= 65536; size += size / 2)
			p = hold(realloc(p, size));
		free(p);
	}
}

/*
 * A buffer that doubles from 16 bytes to 1 MiB, after a thousand blocks of up to 20 KB have been
 * exchanged at random, of which the last ones stay; a round is all of it.
 */
static void
realloc_double(long n) {
	uint64_t x = 88172645463325252u;

	for (long i = 0; i < 20 * BATCH; i++) {
		x = next_random(x);
		now_ns += op_ns;
		free(block[x % BATCH]);
		block[x % BATCH] = hold(malloc(16 + (x >> 20) % 20000));
	}
	for (long i = 0; i < n; i++) {
		void *p = NULL;

		now_ns += op_ns;
		for (size_t size = 16; size <= 1 << 20; size *= 2)
			p = hold(realloc(p, size));
		free(p);
	}
}

/* A hundred live blocks of one size: all are allocated, then freed at random. */
#define LIVE 100

static void
live(long n, size_t size) {
	for (long i = 0; i < n; i += LIVE) {
		now_ns += op_ns * LIVE;
		for (int j = 0; j < LIVE; j++)
			block[j] = hold(malloc(size));
		for (int j = 0; j < LIVE; j++)
			free(block[order[j]]);
	}
}

/*
 * A hundred live blocks of sizes in a range: one of them, at random, is freed and allocated anew.
 */
static void
steady(long n, size_t least, size_t most) {
	static __thread uint64_t x = 88172645463325252u;

	for (long i = 0; i < n; i++) {
		x = next_random(x);
		now_ns += op_ns;
		free(block[x % LIVE]);
		block[x % LIVE] = hold(malloc(least + (x >> 20) % (most - least)));
	}
}

/* One thread allocates batches of blocks, another one frees them. */
static sem_t full, empty;
static int handed;

static void *
free_batches(void *arg) {
	for (;;) {
		sem_wait(&full);
		if (handed == 0)
			return arg;
		for (int j = 0; j < handed; j++)
			free(passed[j]);
		sem_post(&empty);
	}
}

static void
hand_over(long n, size_t size, int batch) {
	pthread_t other;

	sem_init(&full, 0, 0);
	sem_init(&empty, 0, 1);
	pthread_create(&other, NULL, free_batches, NULL);
	for (long i = 0; i < n; i += batch) {
		sem_wait(&empty);
		now_ns += op_ns * (uint64_t)batch;
		handed = batch;
		for (int j = 0; j < batch; j++)
			passed[j] = hold(malloc(size));
		sem_post(&full);
	}
	sem_wait(&empty);
	handed = 0;
	sem_post(&full);
	pthread_join(other, NULL);
}

#define HAND_OVER_OF(name, size, batch) static void name(long n) { hand_over(n, size, batch); }
HAND_OVER_OF(hand64, 64, 100)
HAND_OVER_OF(hand1k, 1024, 64)
HAND_OVER_OF(hand1k1000, 1024, 1000)
HAND_OVER_OF(hand16k, 16384, 64)
HAND_OVER_OF(hand16k1000, 16384, 1000)
HAND_OVER_OF(hand64k, 65536, 64)
HAND_OVER_OF(hand64k256, 65536, 256)
HAND_OVER_OF(hand256k, 262144, 64)
HAND_OVER_OF(hand256k1000, 262144, 1000)

/*
 * Threads that take turns of LIVE operations, n operations together. Each has blocks of its own;
 * sizes are least up to most.
 */
#define THREADS_MAX 256
static struct {
	sem_t turn[THREADS_MAX];
	int n_threads;
	long n_turns;		/* of each thread */
	size_t least, most;
	void (*take)(void **mine, uint64_t *random);
	void (*run)(long);	/* by take_operation() */
	long rounds;		/* of it in a turn */
} team;

/* One of the blocks, at random, is freed and allocated anew. */
static void
take_steady(void **mine, uint64_t *random) {
	uint64_t x = *random;

	for (int i = 0; i < LIVE; i++) {
		x = next_random(x);
		now_ns += op_ns;
		free(mine[x % LIVE]);
		mine[x % LIVE] = hold(malloc(team.least + (x >> 20) % (team.most - team.least)));
	}
	*random = x;
}

/* Allocated in one turn and freed at random in the next; half of the threads begin a turn later. */
static void
take_live(void **mine, uint64_t *random) {
	now_ns += LIVE / 2 * op_ns;
	if (*random % 2 != 0) {
		*random = 0;
		return;
	}
	for (int j = 0; j < LIVE; j++) {
		if (mine[LIVE] == NULL) {
			mine[j] = hold(malloc(team.least));
		} else {
			free(mine[order[j]]);
			mine[order[j]] = NULL;
		}
	}
	mine[LIVE] = mine[LIVE] == NULL ? mine : NULL;
}

/* What the thread before has allocated is freed, and as many are allocated for the next one. */
static void
take_round(void **mine, uint64_t *random) {
	(void)mine;
	(void)random;
	now_ns += LIVE * op_ns;
	for (int j = 0; j < LIVE; j++)
		free(passed[j]);
	for (int j = 0; j < LIVE; j++)
		passed[j] = hold(malloc(team.least));
}

static void
take_operation(void **mine, uint64_t *random) {
	(void)mine;
	(void)random;
	team.run(team.rounds);
}

static void *
team_thread(void *arg) {
	int me = (int)(uintptr_t)arg;
	void *mine[LIVE] = {NULL};
	uint64_t x = 88172645463325252u + (uint64_t)me * 7919;

	for (long i = 0; i < team.n_turns; i++) {
		sem_wait(&team.turn[me]);
		team.take(mine, &x);
		sem_post(&team.turn[(me + 1) % team.n_threads]);
	}
	sem_wait(&team.turn[me]);
	for (int i = 0; i < LIVE; i++)
		free(mine[i]);
	sem_post(&team.turn[(me + 1) % team.n_threads]);
	return NULL;
}

static void
run_turns(long n_turns, int n_threads, void (*take)(void **, uint64_t *)) {
	pthread_t t[THREADS_MAX];

	team.n_threads = n_threads;
	team.n_turns = n_turns;
	op_ns = (uint64_t)(1000 / n_threads);
	team.take = take;
	for (int i = 0; i < n_threads; i++)
		sem_init(&team.turn[i], 0, i == 0);
	for (int i = 0; i < n_threads; i++)
		pthread_create(&t[i], NULL, team_thread, (void *)(uintptr_t)i);
	for (int i = 0; i < n_threads; i++)
		pthread_join(t[i], NULL);
}

static void
run_team(long n, int n_threads, size_t least, size_t most, void (*take)(void **, uint64_t *)) {
	team.least = least;
	team.most = most;
	run_turns(n / n_threads / LIVE, n_threads, take);
}

#define TEAM_OF(name, n_threads, least, most, take) \
	static void name(long n) { run_team(n, n_threads, least, most, take); }
TEAM_OF(steady64k1, 1, 49152, 81920, take_steady)
TEAM_OF(steady64k8, 8, 49152, 81920, take_steady)
TEAM_OF(steady64k64, 64, 49152, 81920, take_steady)
TEAM_OF(steady64k250, 250, 49152, 81920, take_steady)
TEAM_OF(steady1m8, 8, 524288, 2097152, take_steady)
TEAM_OF(live64k64, 64, 65536, 65536, take_live)
TEAM_OF(round64k16, 16, 65536, 65536, take_round)

#define LIVE_OF(name, size) static void name(long n) { live(n, size); }
LIVE_OF(live256, 256)
LIVE_OF(live512, 512)
LIVE_OF(live1k, 1024)
LIVE_OF(live2k, 2048)
LIVE_OF(live3k, 3072)
LIVE_OF(live4k, 4096)
LIVE_OF(live16k, 16384)
LIVE_OF(live64k, 65536)
LIVE_OF(live128k, 131072)
LIVE_OF(live512k, 524288)
LIVE_OF(live2m, 2097152)

static void
steady100k(long n) {
	steady(n, 4096, 106496);
}

static void
steady1m(long n) {
	steady(n, 524288, 2097152);
}

struct operation {
	const char *name;
	void (*run)(long);
	int order;		/* of the frees in a batch: 0 as allocated, 1 reverse, 2 random */
	int is_wide;		/* of the wide table only */
	long turn;		/* rounds of a turn, or 0: it has threads of its own */
};

static const struct operation operations[] = {
	{"pair64", pair64, 0, 0, BATCH},
	{"sized64", sized64, 0, 0, BATCH},
	{"new64", new64, 0, 0, BATCH},
	{"calloc64", calloc64, 0, 0, BATCH},
	{"aligned64", aligned64, 0, 0, BATCH},
	{"usable", usable, 0, 0, BATCH},
	{"mixed", mixed, 0, 0, BATCH},
	{"batch-order", batch, 0, 0, BATCH},
	{"batch-reverse", batch, 1, 0, BATCH},
	{"batch-random", batch, 2, 0, BATCH},
	{"pair16k", pair16k, 0, 0, BATCH},
	{"pair256k", pair256k, 0, 0, BATCH},
	{"pair4m", pair4m, 0, 0, BATCH},
	{"realloc-steps", realloc_steps, 0, 0, 256},
	{"live-256", live256, 2, 1, BATCH},
	{"live-512", live512, 2, 1, BATCH},
	{"live-1K", live1k, 2, 1, BATCH},
	{"live-2K", live2k, 2, 1, BATCH},
	{"live-3K", live3k, 2, 1, BATCH},
	{"live-4K", live4k, 2, 1, BATCH},
	{"live-16K", live16k, 2, 1, BATCH},
	{"live-64K", live64k, 2, 1, BATCH},
	{"live-128K", live128k, 2, 1, BATCH},
	{"live-512K", live512k, 2, 1, BATCH},
	{"live-2M", live2m, 2, 1, BATCH},
	{"steady-4K-104K", steady100k, 0, 1, BATCH},
	{"steady-512K-2M", steady1m, 0, 1, BATCH},
	{"hand-64", hand64, 0, 1, 0},
	{"hand-1K", hand1k, 0, 1, 0},
	{"hand-1K-1000", hand1k1000, 0, 1, 0},
	{"hand-16K", hand16k, 0, 1, 0},
	{"hand-16K-1000", hand16k1000, 0, 1, 0},
	{"hand-64K", hand64k, 0, 1, 0},
	{"hand-64K-256", hand64k256, 0, 1, 0},
	{"hand-256K", hand256k, 0, 1, 0},
	{"hand-256K-1000", hand256k1000, 0, 1, 0},
	{"steady-64K-1t", steady64k1, 0, 1, 0},
	{"steady-64K-8t", steady64k8, 0, 1, 0},
	{"steady-64K-64t", steady64k64, 0, 1, 0},
	{"steady-64K-250t", steady64k250, 0, 1, 0},
	{"steady-1M-8t", steady1m8, 0, 1, 0},
	{"live-64K-64t", live64k64, 2, 1, 0},
	{"round-64K-16t", round64k16, 0, 1, 0},
	{"realloc-grow", realloc_grow, 0, 1, 256},
	{"realloc-half", realloc_half, 0, 1, 10},
	{"realloc-double", realloc_double, 0, 1, 0},
};

static void
make_order(int how, unsigned count) {
	uint64_t x = 88172645463325252u;

	for (unsigned i = 0; i < count; i++)
		order[i] = how == 1 ? count - 1 - i : i;
	for (unsigned i = count - 1; how == 2 && i > 0; i--) {
		unsigned j, t = order[i];

		x = next_random(x);
		j = (unsigned)(x % (i + 1));
		order[i] = order[j];
		order[j] = t;
	}
}

static const struct operation *
operation_of(const char *name) {
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (strcmp(operations[i].name, name) == 0)
			return &operations[i];
	}
	return NULL;
}

int
main(int argc, char **argv) {
	long rounds = argc > 2 ? atol(argv[2]) : 0;
	int n_threads = argc > 3 ? atoi(argv[3]) : 0;
	const struct operation *o;

	if (argc < 2 || strcmp(argv[1], "--all") == 0) {
		for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
			if (argc > 1 || !operations[i].is_wide)
				puts(operations[i].name);
		}
		return 0;
	}
	if (argc > 2 && strcmp(argv[1], "--turn") == 0) {
		o = operation_of(argv[2]);
		printf("%ld\n", o == NULL ? 0 : o->turn);
		return 0;
	}
	o = operation_of(argv[1]);
	if (o == NULL || n_threads > THREADS_MAX || (n_threads > 0 && o->turn == 0))
		return 2;
	if ((o->run == sized64 && sdallocx == NULL) || (o->run == new64 && _Znwm == NULL))
		return 3;
	make_order(o->order, o->is_wide ? LIVE : BATCH);
	if (n_threads > 0) {
		team.run = o->run;
		team.rounds = o->turn;
		run_turns(rounds, n_threads, take_operation);
	} else {
		o->run(rounds);
	}
	return 0;
}
