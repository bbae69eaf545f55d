/*
 * util/atomic.h: the value each operation returns and leaves, and no lost updates between threads.
 */
#include "test.h"

#include <pthread.h>

#include "util/atomic.h"

#define CHECK_INTEGER(T, x) do { \
		atomic_##x##_t a = {40}; \
		T e = 1; \
		is_uint(atomic_fetch_add_##x(&a, 2, MO_RELAXED), 40, #x " fetch_add gives the old value"); \
		is_uint(atomic_fetch_sub_##x(&a, 10, MO_ACQ_REL), 42, #x " fetch_sub"); \
		is_uint(atomic_fetch_or_##x(&a, 15, MO_RELEASE), 32, #x " fetch_or"); \
		is_uint(atomic_fetch_and_##x(&a, 33, MO_ACQUIRE), 47, #x " fetch_and"); \
		is_uint(atomic_exchange_##x(&a, 7, MO_SEQ_CST), 33, #x " exchange"); \
		ok(!atomic_cas_strong_##x(&a, &e, 9, MO_ACQ_REL, MO_RELAXED), #x " cas of another value"); \
		is_uint(e, 7, #x " cas refreshes the expected value"); \
		ok(atomic_cas_strong_##x(&a, &e, 9, MO_ACQ_REL, MO_RELAXED), #x " cas of the value"); \
		while (!atomic_cas_weak_##x(&a, &e, 11, MO_RELEASE, MO_RELAXED)) { } \
		is_uint(atomic_load_##x(&a, MO_ACQUIRE), 11, #x " weak cas"); \
		atomic_store_##x(&a, 5, MO_RELEASE); \
		is_uint(atomic_load_##x(&a, MO_RELAXED), 5, #x " store and load"); \
	} while (0)

#define NTHREADS 4
#define NROUNDS 20000

static atomic_zu_t shared_add;
static atomic_u64_t shared_cas;
static atomic_b_t spin;
static size_t guarded;

static void *
worker(void *arg) {
	(void)arg;
	for (int i = 0; i < NROUNDS; i++) {
		atomic_fetch_add_zu(&shared_add, 3, MO_RELAXED);
		uint64_t seen = atomic_load_u64(&shared_cas, MO_RELAXED);
		while (!atomic_cas_weak_u64(&shared_cas, &seen, seen + 1, MO_RELAXED, MO_RELAXED)) {
			CPU_SPINWAIT();
		}
		while (atomic_exchange_b(&spin, true, MO_ACQUIRE)) {
			CPU_SPINWAIT();
		}
		guarded++;
		atomic_store_b(&spin, false, MO_RELEASE);
	}
	return NULL;
}

int
main(void) {
	CHECK_INTEGER(size_t, zu);
	CHECK_INTEGER(uint32_t, u32);
	CHECK_INTEGER(uint64_t, u64);
	CHECK_INTEGER(uint8_t, u8);

	int x, y;
	atomic_p_t p = {&x};
	void *expected = &y;
	ok(!atomic_cas_strong_p(&p, &expected, &y, MO_SEQ_CST, MO_RELAXED) && expected == &x,
	    "pointer cas refreshes");
	ok(atomic_exchange_p(&p, &y, MO_ACQ_REL) == &x && atomic_load_p(&p, MO_ACQUIRE) == &y,
	    "pointer exchange");

	atomic_zu_t counter = {5};
	atomic_add_nonatomic_zu(&counter, 6);
	is_uint(atomic_load_zu(&counter, MO_RELAXED), 11, "add by the only writer");

	pthread_t threads[NTHREADS];
	for (int i = 0; i < NTHREADS; i++) {
		pthread_create(&threads[i], NULL, worker, NULL);
	}
	for (int i = 0; i < NTHREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	is_uint(atomic_load_zu(&shared_add, MO_RELAXED), 3 * NTHREADS * NROUNDS, "no lost fetch_add");
	is_uint(atomic_load_u64(&shared_cas, MO_RELAXED), NTHREADS * NROUNDS, "no lost cas");
	is_uint(guarded, NTHREADS * NROUNDS, "exchange works as a lock");
	return done_testing();
}
