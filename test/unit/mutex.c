/* The lock: exclusion, counters, waiting, fork, and the order check of debug builds. */
#include "test.h"

#include <pthread.h>

#include "os/mutex.h"

#define N_THREADS 4
#define N_ROUNDS 20000

/* Without a rank: what is done while it is held may allocate. */
static mutex_t mtx;
static uint64_t counter;

static void *
add_many(void *arg) {
	(void)arg;
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		mutex_lock(&mtx);
		counter++;
		mutex_unlock(&mtx);
	}
	return NULL;
}

static void
run_threads(void *(*fn)(void *)) {
	pthread_t t[N_THREADS];
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_create(&t[i], NULL, fn, NULL);
	}
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_join(t[i], NULL);
	}
}

static void
lock_it(void *arg) {
	mutex_lock(arg);
	mutex_unlock(arg);
}

static void
test_basics(void) {
	static mutex_t zero;
	if (config_debug) {
		dies(SIGABRT, "Failed assertion", lock_it, &zero, "an all-zero mutex has no name");
	} else {
		lock_it(&zero);
		pass("an all-zero mutex works");
	}
	mutex_init(&mtx, "test", WITNESS_RANK_OMIT);
	ok(!mutex_is_owner(&mtx), "free: not the owner");
	ok(mutex_trylock(&mtx), "trylock of a free one");
	ok(mutex_is_owner(&mtx), "taken: the owner");
	ok(!mutex_trylock(&mtx), "trylock of a taken one");
	mutex_assert_owner(&mtx);
	mutex_unlock(&mtx);
	mutex_assert_not_owner(&mtx);
	ok(mutex_trylock(&mtx), "free again");
	mutex_unlock(&mtx);
	mutex_prof_data_t d;
	mutex_prof_read(&d, &mtx);
	is_uint(d.n_lock_ops, 2, "two operations are counted");
	is_uint(d.n_owner_switches, 1, "one owner");
}

static void
test_exclusion(int64_t spin) {
	opt_mutex_max_spin = spin;
	counter = 0;
	mutex_init(&mtx, "test", WITNESS_RANK_OMIT);
	errno = 7;
	run_threads(add_many);
	is_uint(counter, N_THREADS * N_ROUNDS, "no increment is lost, spin %lld", (long long)spin);
	mutex_prof_data_t d;
	mutex_prof_read(&d, &mtx);
	is_uint(d.n_lock_ops, N_THREADS * N_ROUNDS, "every operation is counted");
	ok(d.n_owner_switches >= N_THREADS
	    && atomic_load_u32(&mtx.counts.n_waiting_thds, MO_RELAXED) == 0,
	    "owners change, nobody waits");
	ok(d.n_wait_times == 0 || (d.tot_wait_time >= d.max_wait_time && d.max_n_thds > 0),
	    "wait times fit together");
	opt_mutex_max_spin = 600;
}

/* A signal handler takes the thread's first lock while a number is assigned to the thread. */
static void
test_number(void) {
	uint32_t early = mutex_self(), id = mutex_id_assign();
	ok(id == early && mutex_self() == id, "the number that came first stays");
	mutex_init(&mtx, "test", WITNESS_RANK_OMIT);
	mutex_lock(&mtx);
	ok(mutex_is_owner(&mtx), "for the next lock too");
	mutex_unlock(&mtx);
}

/* A holder that keeps the lock until another thread really sleeps on it. */
static void *
wait_for_it(void *arg) {
	(void)arg;
	mutex_lock(&mtx);
	counter++;
	mutex_unlock(&mtx);
	return NULL;
}

static void
test_sleepers(void) {
	mutex_init(&mtx, "test", WITNESS_RANK_OMIT);
	counter = 0;
	pthread_t t[N_THREADS];
	mutex_lock(&mtx);
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_create(&t[i], NULL, wait_for_it, NULL);
	}
	while (atomic_load_u32(&mtx.counts.n_waiting_thds, MO_RELAXED) < N_THREADS) {
		usleep(1000);
	}
	usleep(20000);
	is_uint(counter, 0, "sleepers stay out");
	mutex_unlock(&mtx);
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_join(t[i], NULL);
	}
	is_uint(counter, N_THREADS, "all sleepers got it");
	mutex_prof_data_t d, sum = {0};
	mutex_prof_read(&d, &mtx);
	is_uint(d.n_wait_times, N_THREADS, "each waited once");
	is_uint(d.max_n_thds, N_THREADS, "all at once");
	ok(d.max_wait_time >= 20000000, "the longest wait is what it was");
	mutex_prof_merge(&sum, &d);
	mutex_prof_merge(&sum, &d);
	is_uint(sum.n_wait_times, 2 * N_THREADS, "merged: sum of waits");
	is_uint(sum.max_wait_time, d.max_wait_time, "merged: longest wait");
	is_uint(sum.tot_wait_time, 2 * d.tot_wait_time, "merged: total wait");
	mutex_prof_reset(&mtx);
	mutex_prof_read(&d, &mtx);
	ok(d.n_lock_ops == 0 && d.n_wait_times == 0 && d.max_n_thds == 0, "reset");
}

/* ---- fork ---- */

static void *
keep_locking(void *arg) {
	while (atomic_load_b(arg, MO_RELAXED)) {
		mutex_lock(&mtx);
		counter++;
		mutex_unlock(&mtx);
	}
	return NULL;
}

static int
fork_and_lock_in_child(void) {
	pid_t pid = fork();
	if (pid == 0) {
		mutex_renew_in_child(&mtx, "test", WITNESS_RANK_OMIT);
		alarm(400);
		mutex_lock(&mtx);
		mutex_unlock(&mtx);
		_exit(mtx.counts.n_waiting_thds.repr == 0 ? 0 : 1);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	return status;
}

static void
test_forks(void) {
	mutex_init(&mtx, "test", WITNESS_RANK_OMIT);
	atomic_b_t go_on = {true};
	pthread_t t[2];
	pthread_create(&t[0], NULL, keep_locking, &go_on);
	pthread_create(&t[1], NULL, keep_locking, &go_on);
	unsigned n_bad = 0;
	for (unsigned i = 0; i < 50; i++) {
		n_bad += fork_and_lock_in_child() != 0;
	}
	atomic_store_b(&go_on, false, MO_RELAXED);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	is_uint(n_bad, 0, "50 children of a fork under contention can lock");

	mutex_lock(&mtx);
	pid_t pid = fork();
	if (pid == 0) {
		mutex_renew_in_child(&mtx, "test", WITNESS_RANK_OMIT);
		bool is_mine = mutex_is_owner(&mtx);
		mutex_unlock(&mtx);
		_exit(is_mine && mutex_trylock(&mtx) ? 0 : 1);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	is_int(status, 0, "fork by the holder: the child holds it still");
	ok(mutex_is_owner(&mtx), "and so does the parent");
	mutex_unlock(&mtx);
}

/* ---- a lost child ---- */

static void *
try_for_a_moment(void *arg) {
	mutex_lock(&mtx);
	counter++;
	mutex_unlock(&mtx);
	return arg;
}

/* Whether the thread that forked keeps mtx, which it holds, and gets what an absent one held. */
static int
lost_child(mutex_t *of_absent) {
	pthread_t t;
	mutex_disown();
	mutex_lock(of_absent); /* returns, although nobody releases it here */
	mutex_unlock(of_absent);
	counter = 0;
	if (pthread_create(&t, NULL, try_for_a_moment, NULL) != 0) {
		return 2;
	}
	while (atomic_load_u32(&mtx.counts.n_waiting_thds, MO_RELAXED) == 0 && counter == 0) {
		usleep(1000);
	}
	usleep(20000);
	if (counter != 0 || !mutex_is_owner(&mtx)) {
		return 3;
	}
	mutex_unlock(&mtx);
	pthread_join(t, NULL);
	return counter == 1 ? 0 : 4;
}

static mutex_t of_another;

static void *
hold_until(void *arg) {
	mutex_lock(&of_another);
	atomic_store_u32(arg, 1, MO_RELEASE);
	while (atomic_load_u32(arg, MO_ACQUIRE) != 2) {
		usleep(1000);
	}
	mutex_unlock(&of_another);
	return NULL;
}

static void
test_lost_child(void) {
	static atomic_u32_t step;
	pthread_t t;
	mutex_init(&mtx, "test", WITNESS_RANK_OMIT);
	mutex_init(&of_another, "test", WITNESS_RANK_OMIT);
	pthread_create(&t, NULL, hold_until, &step);
	while (atomic_load_u32(&step, MO_ACQUIRE) != 1) {
		usleep(1000);
	}
	mutex_lock(&mtx);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(400);
		_exit(lost_child(&of_another));
	}
	int status = -1;
	waitpid(pid, &status, 0);
	is_int(status, 0, "a lost child: what an absent thread held is taken, not what this one holds");
	mutex_unlock(&mtx);
	atomic_store_u32(&step, 2, MO_RELEASE);
	pthread_join(t, NULL);
}

/* ---- order ---- */

static mutex_t outer, inner, same[2];

static void
lock_in_wrong_order(void *arg) {
	(void)arg;
	mutex_lock(&inner);
	mutex_lock(&outer);
}

static void
lock_same_rank(void *arg) {
	(void)arg;
	mutex_lock(&same[0]);
	mutex_lock(&same[1]);
}

static void
lock_twice(void *arg) {
	(void)arg;
	mutex_lock(&outer);
	mutex_lock(&outer);
}

static void
assert_lockless(void *arg) {
	mutex_lock(arg);
	witness_assert_lockless();
}

static void
test_order(void) {
	if (!config_debug) {
		skip(6, "only debug builds check the order");
		return;
	}
	mutex_init(&outer, "outer", WITNESS_RANK_CTL);
	mutex_init(&inner, "inner", WITNESS_RANK_LEAF);
	mutex_init(&same[0], "same", WITNESS_RANK_BIN);
	mutex_init(&same[1], "same", WITNESS_RANK_BIN);
	mutex_lock(&outer);
	mutex_lock(&same[0]);
	mutex_lock(&inner);
	is_uint(witness_depth_from(0), 3, "right order: three are held");
	is_uint(witness_depth_from(WITNESS_RANK_BIN), 2, "two of them from the bin's rank on");
	mutex_unlock(&same[0]);
	mutex_unlock(&outer);
	mutex_unlock(&inner);
	witness_assert_lockless();
	dies(SIGABRT, "Lock order violated: outer", lock_in_wrong_order, NULL, "wrong order aborts");
	dies(SIGABRT, "Lock order violated: same", lock_same_rank, NULL, "two of one rank abort");
	dies(SIGABRT, "Failed assertion", lock_twice, NULL, "locking twice aborts");
	dies(SIGABRT, "Failed assertion", assert_lockless, &outer, "assert_lockless");
}

/* Read and forgotten beside the holder: under the thread sanitizer there is no race. */
static void
test_counters(void) {
	mutex_prof_data_t d = {0};
	atomic_b_t go_on = {true};
	pthread_t t;
	pthread_create(&t, NULL, keep_locking, &go_on);
	for (unsigned i = 0; i < 1000 || d.n_lock_ops == 0; i++) {
		mutex_prof_reset(&mtx);
		usleep(20);
		mutex_prof_read(&d, &mtx);
	}
	atomic_store_b(&go_on, false, MO_RELAXED);
	pthread_join(t, NULL);
	mutex_prof_reset(&mtx);
	mutex_prof_read(&d, &mtx);
	is_uint(d.n_lock_ops + d.n_owner_switches + d.max_n_thds, 0,
	    "what is counted can be forgotten at any time");
}

int
main(void) {
	test_basics();
	test_number();
	test_exclusion(600);
	test_exclusion(0);
	test_sleepers();
	test_forks();
	test_lost_child();
	test_counters();
	test_order();
	return done_testing();
}
