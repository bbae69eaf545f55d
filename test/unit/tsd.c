/*
 * thread/tsd.h: made at the first slow path, recalled by others, gone at the end; the polled
 * counters.
 */
#include "core.h"
#include "ctl.h"

#include <pthread.h>

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/tsd.h"

/* ------------------------------------------------------------------ life */

static void *
thread_life(void *arg) {
	struct tls_s *t = tls_get();
	unsigned *bad = arg;
	unsigned before = tsd_count();
	*bad += t->state == tsd_state_fresh
	    && (wrong_if(t->tsd != NULL) || wrong_if(!tls_cache_is_boot(t)));
	free(keep(malloc(10)));
	*bad += t->tsd->tcache != NULL; /* too early for a cache */
	for (unsigned i = 0; i < TSD_UNCACHED_MAX; i++) {
		free(keep(malloc(10)));
	}
	*bad += t->tsd->tcache == NULL;
	*bad += wrong_if(t->state != tsd_state_nominal) || wrong_if(t->tsd == NULL)
	    || wrong_if(t->tsd->tls != t);
	*bad += wrong_if(t->tsd->arena == NULL) || wrong_if(tsd_count() < before)
	    || wrong_if(tsd_count() > before + 1);
	*bad += !config_debug && tls_cache_is_boot(t); /* debug: junk keeps the fast path closed */
	*bad += wrong_if(t->gate_depth != 0) || wrong_if(t->inside != 0);
	return NULL;
}

static void
test_life(void) {
	pthread_t t;
	unsigned bad = 0, n = tsd_count();
	for (unsigned i = 0; i < 200; i++) {
		pthread_create(&t, NULL, thread_life, &bad);
		pthread_join(t, NULL);
	}
	is_uint(bad, 0, "two hundred threads come and go");
	is_uint(tsd_count(), n, "none is left");
}

/* Only frees: the C library may be doing that at the very end of a thread. */
static void *
thread_frees(void *arg) {
	void **blocks = arg;
	struct tls_s *t = tls_get();
	unsigned before = tsd_count();
	uintptr_t bad = t->state != tsd_state_fresh;
	for (unsigned i = 0; i < TSD_EARLY_FREES; i++) {
		free(blocks[i]);
		bad += wrong_if(t->tsd != NULL) || wrong_if(t->state != tsd_state_fresh)
		    || wrong_if(tsd_count() != before);
	}
	free(blocks[TSD_EARLY_FREES]);
	bad += wrong_if(t->tsd == NULL) || wrong_if(tsd_count() != before + 1);
	tsd_t *tsd = tsd_enter();
	bad += wrong_if(tsd_deallocated(tsd) != (TSD_EARLY_FREES + 1) * canary_usize(100, 0))
	    || wrong_if(tsd_allocated(tsd) != 0);
	tsd_leave();
	return (void *)bad;
}

static void
test_frees(void) {
	pthread_t t;
	void *blocks[TSD_EARLY_FREES + 1], *bad = &t;
	unsigned n = tsd_count();
	for (unsigned i = 0; i <= TSD_EARLY_FREES; i++) {
		blocks[i] = keep(malloc(100));
	}
	pthread_create(&t, NULL, thread_frees, blocks);
	pthread_join(t, &bad);
	is_uint((uintptr_t)bad, 0, "a thread that only frees has a tsd after some frees, and all are "
	    "counted");
	is_uint(tsd_count(), n, "and it goes with the thread");
}

/* ------------------------------------------------------------------ a key overwritten */

/* Puts something else into the key that holds the tsd, as a second C library does (dlmopen). */
static void *
thread_overwrites(void *arg) {
	free(keep(malloc(10)));
	void *tsd = tls_get()->tsd;
	for (pthread_key_t key = 0; key < 128; key++) {
		if (pthread_getspecific(key) == tsd && pthread_setspecific(key, arg) == 0) {
			return tsd;
		}
	}
	return NULL;
}

static void
test_key_overwritten(void) {
	pthread_t t;
	void *is_found;
	unsigned n = tsd_count();
	char other[64] = {0};
	pthread_create(&t, NULL, thread_overwrites, other);
	pthread_join(t, &is_found);
	ok(is_found != NULL, "a thread overwrote the key of its tsd");
	is_uint(tsd_count(), n, "its tsd goes with it nevertheless");
	ok(is_filled(other, 0, sizeof(other)), "and nothing was done with what the key held");
}

/* ------------------------------------------------------------------ last destructors */

static pthread_key_t keys[4];
static unsigned n_rounds, bad_rounds;

/* Allocates in each of the four rounds, also after the tsd is gone, and comes again. */
static void
destructor(void *arg) {
	char *p = keep(malloc(300)), *q = keep(calloc(1, 100000)), *r;
	struct tls_s *t = tls_get();
	bad_rounds += wrong_if(p == NULL) || wrong_if(q == NULL)
	    || wrong_if(!is_filled(q, 0, 100000));
	memset(p, 'x', 300);
	r = keep(realloc(p, 5000));
	bad_rounds += wrong_if(r == NULL) || wrong_if(!is_filled(r, 'x', 300));
	free(r);
	free(q);
	bad_rounds += t->state == tsd_state_gone
	    && (wrong_if(t->tsd != NULL) || wrong_if(!tls_cache_is_boot(t)));
	n_rounds++;
	pthread_key_t *key = arg;
	pthread_setspecific(*key, arg);
}

static void *
thread_destructors(void *arg) {
	free(keep(malloc(10)));
	for (unsigned i = 0; i < 4; i++) {
		pthread_setspecific(keys[i], &keys[i]);
	}
	return arg;
}

static void *
thread_destructors_only(void *arg) {
	for (unsigned i = 0; i < 4; i++) {
		pthread_setspecific(keys[i], &keys[i]);
	}
	return arg;
}

static void
test_destructors(void) {
	pthread_t t;
	unsigned n = tsd_count();
	for (unsigned i = 0; i < 4; i++) {
		pthread_key_create(&keys[i], destructor);
	}
	for (unsigned i = 0; i < 20; i++) {
		pthread_create(&t, NULL, i % 2 == 0 ? thread_destructors : thread_destructors_only, NULL);
		pthread_join(t, NULL);
	}
	is_uint(n_rounds, 20 * 4 * PTHREAD_DESTRUCTOR_ITERATIONS, "four rounds of four destructors");
	is_uint(bad_rounds, 0, "all of them could allocate");
	/* A tsd made in the very last round of all outlives its thread until a walk; no other does. */
	ok(tsd_count() <= n + 10, "threads left: %u", tsd_count() - n);
}

/* ------------------------------------------------------------------ made too late to be told */

#define STACK_BYTES ((size_t)1 << 20)
#define N_LATE 3

static pthread_key_t late_key;

/* Allocates for the first time in the last round, after which no destructor is called. */
static void
late_destructor(void *arg) {
	uintptr_t round = (uintptr_t)arg;
	if (round < PTHREAD_DESTRUCTOR_ITERATIONS) {
		pthread_setspecific(late_key, (void *)(round + 1));
		return;
	}
	for (unsigned i = 0; i < 2 * TSD_UNCACHED_MAX; i++) {
		free(keep(malloc(10)));
	}
	free(keep(malloc(100000)));
}

static void *
thread_late(void *arg) {
	pthread_setspecific(late_key, arg);
	return NULL;
}

static void *
thread_allocates(void *arg) {
	free(keep(malloc(10)));
	return arg;
}

static void
count_threads(struct tls_s *t UNUSED, void *n) {
	(*(unsigned *)n)++;
}

static unsigned
threads_listed(void) {
	unsigned n = 0;
	gate_enter(tls_get());
	gate_for_each(count_threads, &n);
	gate_exit(tls_get());
	return n;
}

/* Runs fn in a thread whose stack and words are unmapped when it has ended. */
static void
run_on_own_stack(void *(*fn)(void *), void *arg) {
	pthread_t t = 0;
	pthread_attr_t attr;
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	    0);
	pthread_attr_init(&attr);
	if (stack == MAP_FAILED || pthread_attr_setstack(&attr, stack, STACK_BYTES) != 0
	    || pthread_create(&t, &attr, fn, arg) != 0) {
		bail_out("no thread");
	}
	pthread_attr_destroy(&attr);
	pthread_join(t, NULL);
	munmap(stack, STACK_BYTES);
}

/* A fork, and everything else that looks at all threads, comes after the end of such threads. */
static int
body_late(void) {
	unsigned n = tsd_count();
	int status = -1;
	pthread_key_create(&late_key, late_destructor);
	for (unsigned i = 0; i < N_LATE; i++) {
		run_on_own_stack(thread_late, (void *)1);
	}
	pid_t pid = fork();
	if (pid == 0) {
		run_on_own_stack(thread_late, (void *)1);
		_exit(recall_all(RECALL_SETTINGS) != 1 || fork() < 0);
	}
	waitpid(pid, &status, 0);
	for (unsigned i = 0; i < 20; i++) {
		run_on_own_stack(thread_late, (void *)1);
	}
	if (tsd_count() > n + 3) {
		return 3; /* they pile up */
	}
	if (status != 0 || threads_listed() != n) {
		return 1;
	}
	run_on_own_stack(thread_allocates, NULL); /* a thread that begins ends those that are gone */
	return tsd_count() != n ? 2 : 0;
}

static void
test_late(void) {
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(body_late());
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "threads that end untold are found, in forks and by recalls");
}

/* Holds a robust mutex whose memory is unmapped, as of a shared file, forks and ends. */
static void *
thread_robust(void *arg) {
	pthread_mutexattr_t attr;
	pthread_mutex_t *m = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	    -1, 0);
	int status = -1;
	free(keep(malloc(10)));
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (m == MAP_FAILED || pthread_mutex_init(m, &attr) != 0 || pthread_mutex_lock(m) != 0) {
		return NULL;
	}
	munmap(m, STACK_BYTES);
	free(keep(malloc(100000)));
	pid_t pid = fork();
	if (pid == 0) {
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status == 0 ? arg : NULL;
}

static void
robust_now(void *arg UNUSED) {
	pthread_t t;
	void *ret = NULL;
	pthread_create(&t, NULL, thread_robust, &late_key);
	pthread_join(t, &ret);
	_exit(ret == &late_key && threads_listed() == 1 ? 0 : 1);
}

static void
test_robust(void) {
	static struct test_result r;
#ifndef __GLIBC__
	skip(1, "musl itself writes there when the thread ends");
	return;
#endif
	run_forked(&r, robust_now, NULL);
	child_exits(&r, 0, "no list of the C library is touched at a fork or at the end of a thread");
}

/* ------------------------------------------------------------------ recall */

static volatile int stop;

static void
count_unlooked(struct tls_s *t, void *ctx) {
	*(unsigned *)ctx += __atomic_load_n(&t->recall, __ATOMIC_SEQ_CST) != 0;
}

static void *
thread_busy(void *arg) {
	uint64_t *allocs = arg;
	while (!stop) {
		free(keep(malloc(64)));
		__atomic_fetch_add(allocs, 1, __ATOMIC_RELAXED);
	}
	/* Exact also when recalls came in between. */
	tsd_t *tsd = tsd_enter();
	uint64_t counted = tsd_allocated(tsd);
	tsd_leave();
	return (void *)(uintptr_t)(counted / canary_usize(64, 0) - *allocs);
}

static void *
thread_number(void *arg UNUSED) {
	free(keep(malloc(64)));
	return (void *)(uintptr_t)mutex_self();
}

/* Threads that come and go: their numbers as lock owners, which are finite, do not rise. */
static void
test_numbers(void) {
	uint32_t before = 0;
	for (unsigned i = 0; i < 200; i++) {
		pthread_t t[5];
		for (unsigned k = 0; k < 5; k++) {
			pthread_create(&t[k], NULL, thread_number, NULL);
		}
		for (unsigned k = 0; k < 5; k++) {
			void *number;
			pthread_join(t[k], &number);
			before = i == 0 && (uintptr_t)number > before ? (uint32_t)(uintptr_t)number : before;
			if ((uintptr_t)number > before + 64) {
				fail("the numbers of threads rise");
				return;
			}
		}
	}
	pass("a thousand threads have few numbers");
}

#define N_BUSY 4

static void
test_recall(void) {
	pthread_t t[N_BUSY];
	static uint64_t allocs[N_BUSY];
	unsigned bad = 0;
	for (unsigned i = 0; i < N_BUSY; i++) {
		pthread_create(&t[i], NULL, thread_busy, &allocs[i]);
	}
	for (unsigned i = 0; i < N_BUSY; i++) {
		while (__atomic_load_n(&allocs[i], __ATOMIC_RELAXED) < 100) {
			sched_yield();
		}
	}
	for (unsigned round = 0; round < 40; round++) {
		uint64_t start = 0;
		unsigned n_unlooked = 0;
		recall_all(RECALL_SETTINGS);
		free(keep(malloc(64)));
		/* Each thread looks within its next call or two. */
		for (unsigned i = 0; i < N_BUSY; i++) {
			start = __atomic_load_n(&allocs[i], __ATOMIC_SEQ_CST);
			while (__atomic_load_n(&allocs[i], __ATOMIC_SEQ_CST) < start + 3) {
				sched_yield();
			}
		}
		gate_enter(tls_get());
		gate_for_each(count_unlooked, &n_unlooked);
		gate_exit(tls_get());
		bad += n_unlooked != 0;
	}
	is_uint(bad, 0, "each recall reaches every thread at its next call");
	stop = 1;
	uintptr_t off = 0;
	for (unsigned i = 0; i < N_BUSY; i++) {
		void *ret;
		pthread_join(t[i], &ret);
		off += (uintptr_t)ret > 400 ? 1 : 0;
	}
	is_uint(off, 0, "and does not disturb the counts");
}

/* ------------------------------------------------------------------ polled counters */

static void
test_polled(void) {
	uint64_t seed = 2, *a, *d;
	unsigned bad = 0;
	static char *p[100];
	tsd_t *tsd = tsd_enter();
	a = tsd_allocatedp(tsd);
	d = tsd_deallocatedp(tsd);
	tsd_leave();
	for (unsigned i = 0; i < 20000; i++) {
		unsigned k = (unsigned)draw_below(&seed, 100);
		size_t size = 1 + draw_below(&seed, i % 20 == 0 ? 100000 : 2000);
		if (draw_below(&seed, 3) == 0) {
			p[k] = keep(realloc(p[k], size));
		} else {
			free(p[k]);
			p[k] = draw_below(&seed, 2) == 0 ? keep(malloc(size)) : keep(calloc(1, size));
		}
		tsd_enter();
		bad += wrong_if(*a != tsd_allocated(tsd)) || wrong_if(*d != tsd_deallocated(tsd));
		tsd_leave();
	}
	is_uint(bad, 0, "the polled counters equal the computed ones after each of 20000 steps");
}

/* ------------------------------------------------------------------ threads of the parent */

#define N_ABSENT 5

static pthread_barrier_t cached, forked;

static void *
thread_caches(void *arg) {
	static __thread void *p[64];
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 64; i++) {
			p[i] = keep(malloc(i % 8 == 0 ? 100000 : 64));
		}
		for (unsigned i = 0; i < 64; i++) {
			free(p[i]);
		}
	}
	pthread_barrier_wait(&cached);
	pthread_barrier_wait(&forked);
	return arg;
}

static size_t
bytes_in_caches(void) {
	size_t bytes = 0;
	gate_enter(tls_get());
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		bytes += arenas_get(i) == NULL ? 0 : arena_cached_bytes(arenas_get(i));
	}
	gate_exit(tls_get());
	return bytes;
}

static unsigned
threads_of_arenas(void) {
	unsigned n = 0;
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		n += arenas_get(i) == NULL ? 0 : atomic_load_u32(&arenas_get(i)->nthreads, MO_RELAXED);
	}
	return n;
}

/*
 * Nothing is done before a slow call, and then one thread is ended in each. With checks any call
 * may be a slow one.
 */
static int
child_of_caches(void) {
	size_t before = bytes_in_caches(), own = tcache_cached_bytes(tls_get()->tsd->tcache);
	if (!tls_get()->tsd->is_slow && !config_hardening) {
		free(keep(malloc(64)));
	}
	size_t each = config_hardening ? 5000 : 100000; /* with checks no cache has large blocks */
	if (!gate_has_absent() || bytes_in_caches() != before || before < own + N_ABSENT * each) {
		return 1;
	}
	for (unsigned i = 0; i < N_ABSENT; i++) {
		if (!gate_has_absent() || threads_of_arenas() != 1 + N_ABSENT - i) {
			return 2;
		}
		keep(mallocx(50000, MALLOCX_TCACHE_NONE));
	}
	own = tcache_cached_bytes(tls_get()->tsd->tcache);
	return gate_has_absent() || bytes_in_caches() != own || threads_of_arenas() != 1 ? 3 : 0;
}

static void
test_absent(void) {
	pthread_t t[N_ABSENT];
	int status = -1;
	pthread_barrier_init(&cached, NULL, N_ABSENT + 1);
	pthread_barrier_init(&forked, NULL, N_ABSENT + 1);
	for (unsigned i = 0; i < N_ABSENT; i++) {
		pthread_create(&t[i], NULL, thread_caches, NULL);
	}
	pthread_barrier_wait(&cached);
	tsd_enter(); /* has a cache from now on */
	tsd_leave();
	free(keep(malloc(64)));
	pid_t pid = fork();
	if (pid == 0) {
		_exit(child_of_caches());
	}
	waitpid(pid, &status, 0);
	pthread_barrier_wait(&forked);
	for (unsigned i = 0; i < N_ABSENT; i++) {
		pthread_join(t[i], NULL);
	}
	is_int(status, 0, "a child ends the threads of its parent, one in each slow call");
}

int
main(void) {
	free(keep(malloc(1)));
	test_absent();
	test_life();
	test_frees();
	test_key_overwritten();
	test_destructors();
	test_late();
	test_robust();
	test_numbers();
	test_recall();
	test_polled();
	return done_testing();
}
