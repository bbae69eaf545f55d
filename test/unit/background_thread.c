/*
 * arena/background_thread.h inside one process: a thread that cannot be made, at the switch and at
 * the start; how many there are; max. What the threads do for memory: test/integration.
 */
#include "test.h"

#include <pthread.h>

#include "arena/arenas.h"
#include "arena/background_thread.h"
#include "extent/pac_serve.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/sys.h"

static struct os_hooks_s hooks;
static int ncreates, fail_from;
static size_t count; /* threads that there are when they are on */
static char said[1024];

static int
create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
	return ++ncreates >= fail_from ? EAGAIN : os_hooks_real.pthread_create(t, attr, fn, arg);
}

static void
hear(void *opaque, const char *s) {
	(void)opaque;
	strncat(said, s, sizeof(said) - strlen(said) - 1);
	(void)background_thread_max_set(background_thread_max()); /* as by mallctl */
}

static size_t
nthreads(void) {
	background_thread_stats_t s;
	background_thread_stats_read(&s);
	return s.num_threads;
}

static void
fail_creates_from(int n) {
	ncreates = 0;
	fail_from = n;
	said[0] = '\0';
}

static void
test_failing_switch(void) {
	fail_creates_from(2);
	is_int(background_thread_set(true), EFAULT, "the second thread cannot be made: EFAULT");
	ok(!background_thread_is_on(), "it is off as before");
	is_uint(nthreads(), 0, "the first one has ended");
	is_int(ncreates, 2, "two tries");
	contains(said, "could not be started", "it is said");
	fail_creates_from(1000);
	is_int(background_thread_set(true), 0, "when the system has threads again it works");
	is_uint(nthreads(), count, "as many threads as there can be arenas, or as the option says");
	fail_creates_from(1);
	is_int(background_thread_max_set(1), EFAULT, "the maximum changes, no thread can be made");
	ok(!background_thread_is_on() && nthreads() == 0, "then it is off");
	is_uint(background_thread_max(), 1, "the maximum has changed");
	is_int(background_thread_max_set(opt_max_background_threads), 0, "back");
}

/* As at the start: switched on, no thread there. */
static void
test_failing_start(void) {
	fail_creates_from(1000);
	is_int(background_thread_set(true), 0, "on");
	is_int(background_thread_set(false), 0, "off");
	is_int(background_thread_set(false), 0, "off when off");
	fail_creates_from(1);
	opt_background_thread = true;
	background_thread_boot();
	background_thread_boot_late();
	is_int(ncreates, 1, "one try at the start");
	contains(said, "could not be started", "it is said");
	ok(background_thread_is_on() && nthreads() == 0, "it stays on, without threads");
	ok(!atomic_load_b(&arenas_get(0)->pac.is_served, MO_RELAXED), "arenas decay by heartbeats");
	fail_creates_from(1000);
	is_int(background_thread_set(true), 0, "on once more: tried again");
	is_uint(nthreads(), count, "and there");
	ncreates = 0;
	is_int(background_thread_set(true), 0, "on when all are there");
	is_int(ncreates, 0, "none is made");
	is_int(background_thread_set(false), 0, "off");
	ncreates = 0;
	background_thread_boot_late();
	is_int(ncreates, 0, "off at the start: none is made");
	background_thread_boot();
	background_thread_boot_late();
	is_int(ncreates, (int)count, "on: all");
}

/* For ever: nothing becomes due in these arenas, and their threads sleep until they are woken. */
static arena_t *
idle_arena(unsigned ind) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	arena_t *a = arenas_get_or_init(ind);
	if (a != NULL) {
		pac_decay_ms_set(&a->pac, &a->pac.decay_dirty, -1, nstime_monotonic_ns());
		pac_decay_ms_set(&a->pac, &a->pac.decay_muzzy, -1, nstime_monotonic_ns());
	}
	gate_exit(t);
	return a;
}

/* What thread 0 does first in each round: it counts, and is woken meanwhile if that is asked. */
static atomic_u32_t n_rounds;
static atomic_b_t is_wake_due;

static uint64_t
wake_in_round(uint64_t now UNUSED) {
	if (atomic_exchange_b(&is_wake_due, false, MO_SEQ_CST)) {
		pac_wake_hook(0);
	}
	atomic_fetch_add_u32(&n_rounds, 1, MO_SEQ_CST);
	return UINT64_MAX;
}

static bool
comes_true(const atomic_b_t *b) {
	for (unsigned i = 0; !atomic_load_b(b, MO_SEQ_CST) && i < 20000; i++) {
		usleep(1000);
	}
	return atomic_load_b(b, MO_SEQ_CST);
}

/* A wake reaches the thread of the arena, whatever that does at the moment. */
static void
test_wakes(void) {
	unsigned n = (unsigned)count + 2;
	uint64_t (*hook)(uint64_t) = background_thread_hook;
	static arena_t *a[BACKGROUND_THREADS_LIMIT + 2];
	is_int(background_thread_set(false), 0, "off");
	for (unsigned i = 0; i < n; i++) {
		a[i] = idle_arena(i);
	}
	if (n > arenas_narenas_auto() || a[n - 1] == NULL) {
		skip(1, "too few arenas");
		return;
	}
	background_thread_hook = wake_in_round;
	is_int(background_thread_set(true), 0, "on");
	for (unsigned i = 0; i < n; i++) {
		ok(comes_true(&a[i]->pac.is_served), "arena %u is served", i);
		usleep(10000); /* most likely they sleep by now: this decides nothing */
		pac_unserve(&a[i]->pac);
		pac_wake_hook(i);
		ok(comes_true(&a[i]->pac.is_served), "and again when its thread is woken");
	}
	usleep(600000); /* so that nothing is left for which the thread would come by itself */
	uint32_t before = atomic_load_u32(&n_rounds, MO_SEQ_CST);
	atomic_store_b(&is_wake_due, true, MO_SEQ_CST);
	pac_wake_hook(0);
	for (unsigned i = 0; atomic_load_u32(&n_rounds, MO_SEQ_CST) < before + 2 && i < 20000; i++) {
		usleep(1000);
	}
	ok(atomic_load_u32(&n_rounds, MO_SEQ_CST) >= before + 2, "woken in a round: another follows");
	background_thread_hook = hook;
}

/* Threads of their arenas, and the arenas of a child. */
static void
test_served(void) {
	arena_t *a = arenas_get(0);
	background_thread_stats_t s;
	int tries = 0;
	/* Each has come to its work. */
	do {
		usleep(1000);
		background_thread_stats_read(&s);
	} while ((s.num_runs < count || !atomic_load_b(&a->pac.is_served, MO_RELAXED))
	    && tries++ < 100000);
	ok(atomic_load_b(&a->pac.is_served, MO_RELAXED), "arena 0 is served");
	is_int(background_thread_max_set(0), EINVAL, "a maximum of 0");
	is_int(background_thread_max_set(opt_max_background_threads + 1), EINVAL, "one too many");
	is_uint(nthreads(), count, "nothing has changed");
	is_int(background_thread_set(false), 0, "off");
	ok(!atomic_load_b(&a->pac.is_served, MO_RELAXED), "arena 0 is not served any more");
	is_uint(atomic_load_zu(&a->pac.wake_above, MO_RELAXED), SIZE_MAX, "and wakes nobody");
	background_thread_stats_read(&s);
	ok(s.num_runs >= count && s.mutex.n_lock_ops > 10 && s.max_per_thread.n_lock_ops > 0,
	    "counters: %llu runs", (unsigned long long)s.num_runs);
	background_thread_stats_reset();
	background_thread_stats_read(&s);
	ok(s.mutex.n_lock_ops <= 1 && s.max_per_thread.n_lock_ops <= 1, "reset");
}

int
main(void) {
	free(keep(malloc(1)));
	hooks = os_hooks_real;
	hooks.pthread_create = create;
	os_hooks = &hooks;
	malloc_io_message = hear;
	background_thread_abort = false;
	struct tls_s *t = tls_get();
	gate_enter(t);
	arena_t *second = arenas_get_or_init(1);
	gate_exit(t);
	if (second == NULL) {
		bail_out("a second arena");
	}
	count = min_zu(opt_max_background_threads, arenas_narenas_auto());
	test_failing_switch();
	test_failing_start();
	test_served();
	test_wakes();
	return done_testing();
}
