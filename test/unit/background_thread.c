/*
 * arena/background_thread.h inside one process: a thread that cannot be made, at the switch and at
 * the start; how many there are; max. What the threads do for memory: test/integration.
 */
#include "test.h"

#include <pthread.h>

#include "arena/arenas.h"
#include "arena/background_thread.h"
#include "os/gate.h"
#include "os/malloc_io.h"
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
	is_int(background_thread_set(false), 0, "off");
	is_int(background_thread_set(true), 0, "on: tried again");
	is_uint(nthreads(), count, "and there");
	is_int(background_thread_set(false), 0, "off");
	ncreates = 0;
	background_thread_boot_late();
	is_int(ncreates, 0, "off at the start: none is made");
	background_thread_boot();
	background_thread_boot_late();
	is_int(ncreates, (int)count, "on: all");
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
	return done_testing();
}
