/*
 * thread/tcache_budget.h: what caches may be granted together follows from the bytes that are
 * mapped and from the number of caches; many threads stay within it, those that end give
 * back what they were granted.
 */
#include "ctl.h"

#include <pthread.h>
#include <semaphore.h>

#include "os/room.h"
#include "thread/tcache.h"
#include "thread/tcache_budget.h"
#include "thread/tsd.h"

#define MIB ((size_t)1 << 20)

const char *malloc_conf = "narenas:2,populate:false";

/* ------------------------------------------------------------------ the rules */

static void
test_budget(void) {
	size_t mapped = atomic_load_zu(&room_mapped, MO_RELAXED), sum = tcache_budget_sum();
	is_uint(sum, 0, "nothing is granted");
	is_uint(tcache_budget(), TCACHE_BUDGET_MIN, "a small process");
	atomic_store_zu(&room_mapped, 16 * TCACHE_BUDGET_SHARE * TCACHE_BUDGET_MIN, MO_RELAXED);
	is_uint(tcache_budget_more(0), 2 * TCACHE_BUDGET_MIN, "one cache gets an eighth");
	is_uint(tcache_budget_more(TCACHE_BUDGET_MIN), TCACHE_BUDGET_MIN, "with what it has");
	atomic_store_zu(&room_mapped, 2 * TCACHE_BUDGET_SHARE * TCACHE_BUDGET_MIN, MO_RELAXED);
	size_t all = 2 * TCACHE_BUDGET_MIN;
	is_uint(tcache_budget(), all, "a large one: a share of what is mapped");
	is_uint(tcache_budget_more(0), all / 2, "of which one cache gets no less than in a small one");
	tcache_budget_change(0, all / 4);
	is_uint(tcache_budget_more(0), all / 2, "two caches get halves");
	tcache_budget_change(all / 4, all);
	tcache_budget_change(0, MIB);
	is_uint(tcache_budget_more(MIB), 0, "of what is used up nobody gets more");
	ok(tcache_budget_is_exceeded(all), "who has more than the part gives back");
	ok(!tcache_budget_is_exceeded(all / 2) && !tcache_budget_is_exceeded(MIB), "not the others");
	tcache_budget_change(all, all / 2);
	is_uint(tcache_budget_more(MIB), all / 2 - MIB, "they get their parts then");
	for (unsigned i = 0; i < 8; i++) {
		tcache_budget_change(0, 1);
	}
	ok(!tcache_budget_is_exceeded(all / 2), "nobody gives back while there is room for a part");
	for (unsigned i = 0; i < 8; i++) {
		tcache_budget_change(1, 0);
	}
	size_t part = all * 2 / 5;
	tcache_budget_change(MIB, part);
	tcache_budget_change(all / 2, all - part);
	ok(!tcache_budget_is_exceeded(all - part), "a quarter more than its part may be kept");
	ok(!tcache_budget_try_wait(all / 3 + 1), "nobody waits for more than a part");
	ok(!tcache_budget_is_exceeded(all - part), "and then nobody gives back");
	ok(tcache_budget_try_wait(all / 3), "but a cache waits for its part");
	ok(tcache_budget_is_exceeded(all - part), "who has more than the parts of then gives back");
	ok(tcache_budget_is_exceeded(all / 3 + 1), "all of it");
	ok(!tcache_budget_is_exceeded(all / 3), "not the part itself");
	tcache_budget_end_wait();
	ok(!tcache_budget_is_exceeded(all - part), "until it ends to wait");
	tcache_budget_change(part, 0);
	tcache_budget_change(all - part, all);
	atomic_store_zu(&room_mapped, 16 * TCACHE_BUDGET_SHARE * TCACHE_BUDGET_MIN, MO_RELAXED);
	ok(!tcache_budget_is_exceeded(all), "alone in a large process: what one cache may have");
	atomic_store_zu(&room_mapped, 8 * TCACHE_BUDGET_SHARE * TCACHE_BUDGET_MIN, MO_RELAXED);
	ok(tcache_budget_is_exceeded(all) && !tcache_budget_is_exceeded(all / 2),
	    "in one that has become half as large it gives back what is more");
	tcache_budget_change(0, MIB);
	tcache_budget_change(all, all / 2);
	atomic_store_zu(&room_mapped, mapped, MO_RELAXED);
	ok(tcache_budget_is_exceeded(all / 2), "a process that has become small takes back");
	tcache_budget_change(all / 2, 0);
	tcache_budget_change(MIB, 0);
	is_uint(tcache_budget_sum(), 0, "the sum is that of the changes");
	is_uint(tcache_budget_more(0), TCACHE_BUDGET_MIN, "and the number of caches");
}

/* ------------------------------------------------------------------ many threads */

#define N_THREADS 100u
#define N_OBJECTS 40u
/* Hardened builds grant nothing above 32 KiB. */
#define SIZE (config_hardening ? (size_t)24 << 10 : max_zu((size_t)64 << 10, SC_LARGE_MINCLASS))

/* Two threads that ask at once may both get the last of it, so two at most work at once. */
#define N_AT_ONCE 2u
#define SLACK (8 * MIB)

static pthread_barrier_t turn;
static sem_t at_work;
static atomic_zu_t n_over;

static void
swing(void) {
	void *p[N_OBJECTS];
	for (unsigned r = 0; r < 6; r++) {
		for (unsigned i = 0; i < N_OBJECTS; i++) {
			p[i] = keep(malloc(SIZE));
		}
		for (unsigned i = 0; i < N_OBJECTS; i++) {
			free(p[i]);
		}
		atomic_fetch_add_zu(&n_over, tcache_budget_sum() > tcache_budget() + SLACK, MO_RELAXED);
	}
}

static void *
sleeper(void *arg) {
	while (sem_wait(&at_work) != 0) { }
	swing();
	sem_post(&at_work);
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	return arg;
}

static void
test_threads(void) {
	pthread_t t[N_THREADS];
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	pthread_barrier_init(&turn, NULL, N_THREADS + 1);
	sem_init(&at_work, 0, N_AT_ONCE);
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_create(&t[i], &attr, sleeper, NULL);
	}
	pthread_barrier_wait(&turn);
	size_t granted = tcache_budget_sum();
	ok(granted > 16 * MIB && granted <= tcache_budget() + SLACK,
	    "%u threads have been granted %zu bytes of %zu", N_THREADS, granted, tcache_budget());
	is_uint(atomic_load_zu(&n_over, MO_RELAXED), 0, "the sum was within the budget at each look");
	pthread_barrier_wait(&turn);
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_join(t[i], NULL);
	}
	is_uint(tcache_budget_sum(), 0, "threads that end give back all");
}

/* ------------------------------------------------------------------ late threads */

#define N_IN_TURN 12u
#define N_EACH 100u /* objects, more than 1 / N_IN_TURN of the budget where SIZE is 64 KiB */
#define N_TURNS 12u

static sem_t turn_of[N_IN_TURN];
static size_t granted_to[N_IN_TURN];

static void *
one_in_turn(void *arg) {
	unsigned me = (unsigned)(uintptr_t)arg;
	void *p[N_EACH];
	for (unsigned t = 0; t < N_TURNS; t++) {
		while (sem_wait(&turn_of[me]) != 0) { }
		for (unsigned r = 0; r < 10; r++) {
			for (unsigned i = 0; i < N_EACH; i++) {
				p[i] = keep(malloc(SIZE));
			}
			for (unsigned i = 0; i < N_EACH; i++) {
				free(p[i]);
			}
		}
		if (t == N_TURNS - 2) { /* before a thread ends */
			granted_to[me] = tls_get()->tsd->tcache->granted;
		}
		sem_post(&turn_of[(me + 1) % N_IN_TURN]);
	}
	return NULL;
}

/* Who comes when the others have used up the budget gets a part too. */
static void
test_late_threads(void) {
	pthread_t t[N_IN_TURN];
	size_t least = SIZE_MAX;
	for (unsigned i = 0; i < N_IN_TURN; i++) {
		sem_init(&turn_of[i], 0, i == 0);
	}
	for (unsigned i = 0; i < N_IN_TURN; i++) {
		pthread_create(&t[i], NULL, one_in_turn, (void *)(uintptr_t)i);
	}
	for (unsigned i = 0; i < N_IN_TURN; i++) {
		pthread_join(t[i], NULL);
		least = min_zu(least, granted_to[i]);
	}
	ok(least >= TCACHE_BUDGET_MIN / N_IN_TURN / 4 || least >= N_EACH * SIZE / 4,
	    "each of %u threads has been granted %zu bytes at least", N_IN_TURN, least);
}

int
main(void) {
	free(keep(malloc(1)));
	tsd_enter();
	tsd_leave();
	test_budget();
	test_late_threads(); /* first, while little is mapped */
	test_threads();
	return done_testing();
}
