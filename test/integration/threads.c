/*
 * Threads come and go: destructors of thread-specific data that allocate after the cache
 * of the thread is gone, four rounds; blocks freed by another thread; many threads alive
 * at once; thread churn.
 */
#include "ctl.h"
#include <malloc.h>
#include <pthread.h>

#define ROUNDS 4

static pthread_key_t keys[8];
static int destroyed;

/* Frees what the last round left, allocates anew, and asks for another round. */
static void
destructor(void *arg) {
	char *old = arg;
	int round = old[0];
	int key = old[1];
	size_t size = (size_t)(32 + round * 1000);
	char *p = keep(malloc(size));
	char *q = keep(calloc(3, 20000));

	__atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
	free(old);
	p = keep(realloc(p, size * 2));
	if (p == NULL || q == NULL || !is_filled(q, 0, 60000))
		abort();
	memset(q, 1, 60000);
	free(q);
	p[0] = (char)(round + 1);
	p[1] = (char)key;
	if (round + 1 < ROUNDS)
		pthread_setspecific(keys[key], p);
	else
		free(p);
}

static void *
thread_with_keys(void *arg) {
	(void)arg;
	for (int i = 0; i < 8; i++) {
		char *p = keep(malloc(64));

		p[0] = 0;
		p[1] = (char)i;
		pthread_setspecific(keys[i], p);
	}
	return NULL;
}

/* Allocates in each of the rounds; its value is the number of the round. */
static void
destructor_one(void *arg) {
	int round = (int)(intptr_t)arg;
	void *p[300];

	for (int i = 0; i < 300; i++) {
		p[i] = keep(malloc((size_t)(i * 97 % 9000 + 1)));
		*(char *)p[i] = 1;
	}
	for (int i = 0; i < 300; i++)
		free(p[i]);
	__atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
	if (round < ROUNDS)
		pthread_setspecific(keys[0], (void *)(intptr_t)(round + 1));
}

static void *
thread_with_one(void *arg) {
	(void)arg;
	pthread_setspecific(keys[0], (void *)1);
	return NULL;
}

/* The only allocations of this thread's life are in its destructor. */
static void
test_destructors(void) {
	pthread_t t;

	pthread_key_create(&keys[0], destructor_one);
	for (int i = 0; i < 50; i++) {
		pthread_create(&t, NULL, thread_with_one, NULL);
		pthread_join(t, NULL);
	}
	is_int(destroyed, 50 * ROUNDS, "destructors that allocate, four rounds");
	pthread_key_delete(keys[0]);
	destroyed = 0;
	for (int i = 0; i < 8; i++)
		pthread_key_create(&keys[i], destructor);
	for (int i = 0; i < 50; i++) {
		pthread_create(&t, NULL, thread_with_keys, NULL);
		pthread_join(t, NULL);
	}
	ok(destroyed >= 50 * 8, "destructors of eight keys that free and allocate (%d)", destroyed);
	for (int i = 0; i < 8; i++)
		pthread_key_delete(keys[i]);
}

/* -------------------------------------------------------------- hand-over */

#define N_HANDED 20000

static void *handed[N_HANDED];

static void *
producer(void *arg) {
	uint64_t seed = 5;

	(void)arg;
	for (int i = 0; i < N_HANDED; i++) {
		size_t size = 16 + test_random(&seed) % (i % 50 == 0 ? 100000 : 700);
		size_t *p = keep(malloc(size));

		*p = size;
		((char *)p)[size - 1] = (char)size;
		handed[i] = p;
	}
	return NULL;
}

static void *
consumer(void *arg) {
	size_t *bad = arg;

	for (int i = 0; i < N_HANDED; i++) {
		size_t *p = handed[i];

		if (((char *)p)[*p - 1] != (char)*p)
			(*bad)++;
		free(p);
	}
	return NULL;
}

static void
test_hand_over(void) {
	size_t bad = 0;

	for (int round = 0; round < 5; round++) {
		pthread_t t;

		pthread_create(&t, NULL, producer, NULL);
		pthread_join(t, NULL);
		pthread_create(&t, NULL, consumer, &bad);
		pthread_join(t, NULL);
	}
	is_uint(bad, 0, "blocks of a thread that is gone, freed by another");
}

/* -------------------------------------------------------------- many threads */

static pthread_barrier_t all_here;

static void *
short_life(void *arg) {
	char *p = keep(malloc((size_t)(uintptr_t)arg % 3000 + 1));
	char *q = keep(malloc(100));

	p[0] = q[0] = 1;
	free(p);
	return q;
}

static void *
alive(void *arg) {
	char *p[4];

	(void)arg;
	for (int i = 0; i < 4; i++) {
		p[i] = keep(malloc((size_t)(i * 50 + 20)));
		p[i][0] = 1;
	}
	pthread_barrier_wait(&all_here);
	pthread_barrier_wait(&all_here);
	for (int i = 0; i < 4; i++)
		free(p[i]);
	return NULL;
}

static void
test_many(void) {
	enum { N = 500 };
	static pthread_t t[N];
	pthread_attr_t attr;
	unsigned nthreads = 0;
	int started = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	pthread_barrier_init(&all_here, NULL, N + 1);
	for (int i = 0; i < N; i++)
		started += pthread_create(&t[i], &attr, alive, NULL) == 0;
	if (started < N)
		bail_out("cannot start 500 threads");
	pthread_barrier_wait(&all_here);
	ctl_epoch();
	nthreads = ctl_unsigned("stats.arenas.4096.nthreads");
	ok(nthreads >= N + 1, "500 threads alive are counted (%u)", nthreads);
	pthread_barrier_wait(&all_here);
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	ctl_epoch();
	is_uint(ctl_unsigned("stats.arenas.4096.nthreads"), 1, "and are not when they are gone");
	pthread_attr_destroy(&attr);
}

static void
churn_threads(int n, pthread_attr_t *attr) {
	for (int i = 0; i < n; i++) {
		pthread_t t;
		void *left;

		if (pthread_create(&t, attr, short_life, (void *)(uintptr_t)(i * 37)) != 0)
			bail_out("pthread_create");
		pthread_join(t, &left);
		free(left);
	}
}

static void
test_churn(void) {
	pthread_attr_t attr;
	size_t before, after;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	churn_threads(500, &attr);
	ctl_epoch();
	before = ctl_size("stats.metadata");
	churn_threads(4000, &attr);
	ctl_epoch();
	after = ctl_size("stats.metadata");
	ok(after <= before + 65536, "4000 threads leave nothing behind (metadata %zu -> %zu)",
	    before, after);
	pthread_attr_destroy(&attr);
}

int
main(void) {
	test_destructors();
	test_hand_over();
	test_many();
	test_churn();
	return done_testing();
}
