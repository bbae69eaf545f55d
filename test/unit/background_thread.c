/*
 * arena/background_thread.h inside one process: a thread that cannot be made, at the switch and at
 * a heartbeat; where heartbeats make none; max. What the threads do for memory: test/integration.
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
beat(void) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	t->inside++;
	background_thread_heartbeat();
	t->inside--;
	gate_exit(t);
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
	is_uint(nthreads(), 2, "two threads for two arenas");
	fail_creates_from(1);
	is_int(background_thread_max_set(1), EFAULT, "the maximum changes, no thread can be made");
	ok(!background_thread_is_on() && nthreads() == 0, "then it is off");
	is_uint(background_thread_max(), 1, "the maximum has changed");
	is_int(background_thread_max_set(opt_max_background_threads), 0, "back");
}

/* As after a fork: switched on, no thread there. */
static void
test_failing_heartbeat(void) {
	fail_creates_from(1000);
	is_int(background_thread_set(true), 0, "on");
	is_int(background_thread_set(false), 0, "off");
	is_int(background_thread_set(false), 0, "off when off");
	fail_creates_from(1);
	opt_background_thread = true;
	background_thread_boot();
	beat();
	beat();
	is_int(ncreates, 1, "a failure at a heartbeat is not repeated at the next");
	const char *first = strstr(said, "could not be started");
	ok(first != NULL && strstr(first + 1, "could not be started") == NULL, "and said once");
	ok(background_thread_is_on() && nthreads() == 0, "it stays on, without threads");
	ok(!atomic_load_b(&arenas_get(0)->pac.is_served, MO_RELAXED), "arenas decay by heartbeats");
	fail_creates_from(1000);
	is_int(background_thread_set(false), 0, "off");
	is_int(background_thread_set(true), 0, "on: tried again");
	is_uint(nthreads(), 2, "and there");
	is_int(background_thread_set(false), 0, "off");
}

static void
test_unsafe_places(void) {
	struct tls_s *t = tls_get();
	fail_creates_from(1000);
	background_thread_boot();
	gate_enter(t);
	gate_enter(t);
	t->inside++;
	background_thread_heartbeat();
	is_int(ncreates, 0, "none is made inside another operation");
	t->inside--;
	gate_exit(t);
	gate_exit(t);
	t->inside++;
	beat();
	t->inside--;
	is_int(ncreates, 0, "nor inside a hook");
	atomic_store_p(&gate_forker, &ncreates, MO_SEQ_CST);
	background_thread_heartbeat();
	is_int(ncreates, 0, "nor while a fork is under way");
	atomic_store_p(&gate_forker, NULL, MO_SEQ_CST);
	beat();
	is_int(ncreates, 2, "but at the next plain heartbeat");
	beat();
	is_int(ncreates, 2, "once");
}

/* Threads of their arenas, and the arenas of a child. */
static void
test_served(void) {
	arena_t *a = arenas_get(0);
	background_thread_stats_t s;
	int tries = 0;
	/* Each of the two has come to its work. */
	do {
		usleep(1000);
		background_thread_stats_read(&s);
	} while ((s.num_runs < 2 || !atomic_load_b(&a->pac.is_served, MO_RELAXED)) && tries++ < 100000);
	ok(atomic_load_b(&a->pac.is_served, MO_RELAXED), "arena 0 is served");
	is_int(background_thread_max_set(0), EINVAL, "a maximum of 0");
	is_int(background_thread_max_set(opt_max_background_threads + 1), EINVAL, "one too many");
	is_uint(nthreads(), 2, "nothing has changed");
	is_int(background_thread_set(false), 0, "off");
	ok(!atomic_load_b(&a->pac.is_served, MO_RELAXED), "arena 0 is not served any more");
	is_uint(atomic_load_zu(&a->pac.wake_above, MO_RELAXED), SIZE_MAX, "and wakes nobody");
	background_thread_stats_read(&s);
	ok(s.num_runs >= 2 && s.mutex.n_lock_ops > 10 && s.max_per_thread.n_lock_ops > 0,
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
	test_failing_switch();
	test_failing_heartbeat();
	test_unsafe_places();
	test_served();
	return done_testing();
}
