/*
 * thread/shelter.h: what a thread gets while another one is between fork's handlers, and what
 * becomes of it afterwards.
 */
#include "ctl.h"

#include <malloc.h>
#include <pthread.h>

#include "arena/arena.h"
#include "imalloc.h"
#include "jemalloc_fork.h"
#include "os/gate.h"
#include "os/sys.h"
#include "thread/shelter.h"
#include "thread/tsd.h"

/* ------------------------------------------------------------------ a thread that "forks" */

static _Atomic int wish, state;

static void *
forker(void *arg) {
	while (wish != 3) {
		if (wish == state) {
			usleep(100);
			continue;
		}
		if (wish == 1) {
			jemalloc_prefork();
			state = 1;
		} else if (wish == 0) {
			jemalloc_postfork_parent();
			state = 0;
		}
	}
	return arg;
}

static void
set_closed(bool closed) {
	wish = closed;
	while (state != (int)closed) {
		usleep(100);
	}
}

static uint64_t
net(void) {
	tsd_t *tsd = tsd_enter();
	uint64_t n = tsd_allocated(tsd) - tsd_deallocated(tsd);
	tsd_leave();
	return n;
}

static bool
is_sheltered(const void *p) {
	return shelter_owns(emap_elem(p));
}

/* ------------------------------------------------------------------ tests */

#define N 400

static char *kept[N];
static size_t kept_size[N];

/* Sizes beyond the cache, so that each request comes to the closed gate. */
static void
test_objects(void) {
	uint64_t seed = 21;
	unsigned bad = 0, n_sheltered = 0;
	set_closed(true);
	for (unsigned i = 0; i < N; i++) {
		size_t size = 1 + (size_t)(test_random(&seed) % 300);
		size = i % 40 == 0 ? size + 33000 : size;
		size_t alignment = (size_t)1 << (test_random(&seed) % 13);
		/* Without a cache: surely through the gate. */
		char *p = keep(mallocx(size, MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(alignment) | MALLOCX_ZERO));
		bad += p == NULL || ((uintptr_t)p & (alignment - 1)) != 0 || !is_filled(p, 0, size);
		bad += malloc_usable_size(p) < size;
		n_sheltered += is_sheltered(p);
		memset(p, (int)(i & 0xff), malloc_usable_size(p));
		kept[i] = p;
		kept_size[i] = size;
	}
	is_uint(bad, 0, "objects at a closed gate: aligned, zeroed, large enough");
	is_uint(n_sheltered, N, "all of them from the shelter");
	for (unsigned i = 0; i < N; i++) {
		bad += !is_filled(kept[i], (int)(i & 0xff), kept_size[i]);
		if (i % 4 == 0) {
			kept[i] = keep(realloc(kept[i], kept_size[i] + 1000));
			bad += kept[i] == NULL || !is_filled(kept[i], (int)(i & 0xff), kept_size[i]);
		}
	}
	is_uint(bad, 0, "they keep their contents, also when resized");
	char *large = keep(malloc((size_t)100 << 20));
	ok(is_sheltered(large) && malloc_usable_size(large) >= (size_t)100 << 20, "a large one");
	large[0] = large[((size_t)100 << 20) - 1] = 7;
	char *aligned = keep(aligned_alloc((size_t)4 << 20, 100));
	is_ptr_aligned(aligned, (size_t)4 << 20, "a large alignment");
	free(large);
	free(aligned);
	ok(shelter_malloc(SIZE_MAX, 16) == NULL && shelter_malloc(16, (size_t)1 << 62) == NULL, "too large for it");
	set_closed(false);
	for (unsigned i = 0; i < N; i++) {
		bad += !is_filled(kept[i], (int)(i & 0xff), kept_size[i]);
		if (i % 4 == 1) {
			kept[i] = keep(realloc(kept[i], kept_size[i] + 5000));
			bad += is_sheltered(kept[i]) || !is_filled(kept[i], (int)(i & 0xff), kept_size[i]);
		}
	}
	is_uint(bad, 0, "the gate is open: they are as they were, and can be resized out of the shelter");
}

/* By size alone such an object looks like one of a class that is larger than it is. */
static void
test_sized_frees(void) {
	static char *p[N];
	unsigned bad = 0;
	for (unsigned i = 0; i < N; i++) {
		if (i % 3 == 0 && i % 4 > 1) {
			sdallocx(kept[i], kept_size[i], 0);
		} else {
			free(kept[i]);
		}
	}
	for (unsigned i = 0; i < N; i++) {
		p[i] = keep(malloc(kept_size[i]));
		bad += is_sheltered(p[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		free(p[i]);
	}
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	is_uint(bad, 0, "freed with their size, they reach no cache");
}

/* Frees at a closed gate wait, and happen then. */
static void
test_deferred(void) {
	static char *p[N];
	uint64_t before = net();
	for (unsigned i = 0; i < N; i++) {
		p[i] = keep(malloc(40000 + i * 100));
	}
	set_closed(true);
	for (unsigned i = 0; i < N; i++) {
		free(p[i]);
	}
	ok(shelter_has_deferred(), "frees at a closed gate wait");
	set_closed(false);
	free(keep(malloc(100000)));
	ok(!shelter_has_deferred(), "the next one in the gate does them");
	is_uint(net(), before, "and counts them");
}

/* An arena ends although frees of its objects wait; what ends it does them, into no cache. */
static void
test_deferred_end(void) {
	unsigned ind, bad = 0;
	size_t len = sizeof(ind);
	char name[64];
	for (unsigned round = 0; round < 3; round++) {
		bad += mallctl("arenas.create", &ind, &len, NULL, 0) != 0;
		int flags = (int)MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
		for (unsigned i = 0; i < N; i++) {
			kept[i] = keep(mallocx(40 + i * 100, flags));
		}
		set_closed(true);
		for (unsigned i = 0; i < N; i++) {
			dallocx(kept[i], MALLOCX_TCACHE_NONE);
		}
		set_closed(false);
		if (round == 1) {
			free(keep(mallocx(100000, MALLOCX_TCACHE_NONE))); /* does them */
		}
		bad += ctl_void(ctl_name(name, "arena.%u.%s", ind, round == 2 ? "reset" : "destroy")) != 0;
		bad += shelter_has_deferred();
		for (unsigned i = 0; i < N; i++) {
			kept[i] = keep(malloc(40 + i * 100));
			memset(kept[i], 1, 40 + i * 100);
		}
		for (unsigned i = 0; i < N; i++) {
			free(kept[i]);
		}
	}
	is_uint(bad, 0, "an arena ends while frees of its objects wait");
}

/* The end of a countdown at a closed gate: counted once, when the gate is open again. */
static void
test_countdown(void) {
	unsigned bad = 0;
	uint64_t before = net();
	tsd_t *tsd = tsd_enter();
	uint64_t allocated = tsd_allocated(tsd);
	tsd_leave();
	set_closed(true);
	for (unsigned i = 0; i < 60000; i++) {
		char *p = keep(malloc(8));
		bad += p == NULL;
		free(p);
	}
	set_closed(false);
	for (unsigned i = 0; i < 60000; i++) {
		free(keep(malloc(8)));
	}
	tsd = tsd_enter();
	uint64_t more = tsd_allocated(tsd) - allocated;
	tsd_leave();
	is_uint(bad, 0, "60000 small ones at a closed gate");
	is_uint(net(), before, "all freed again");
	ok(more >= 60000 * 8 && more <= 120000 * 8, "counted: %llu bytes", (unsigned long long)more);
}

static int
child_after_fork(void) {
	void *p = keep(malloc(100));
	bool good = !is_sheltered(p) && !gate_is_entered(tls_get()) && tsd_count() == 1;
	free(p);
	/* The child makes a shelter of its own when it forks. */
	pid_t pid = fork();
	int status = -1;
	if (pid == 0) {
		free(keep(malloc(100000)));
		_exit(7);
	}
	waitpid(pid, &status, 0);
	return good && WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 1;
}

static void
test_child(void) {
	pid_t pid = fork();
	int status = -1;
	if (pid == 0) {
		_exit(child_after_fork());
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child of a real fork");
	for (unsigned i = 0; i < 50; i++) {
		set_closed(true);
		for (unsigned j = 0; j < 20; j++) {
			kept[j] = keep(malloc(50000));
		}
		set_closed(false);
		for (unsigned j = 0; j < 20; j++) {
			free(kept[j]);
		}
	}
	pass("fifty forks that each use a megabyte of shelter");
}

/* ------------------------------------------------------------------ a signal in the midst of it */

static struct os_hooks_s hooks;
static void *sheltered, *from_handler;
static atomic_b_t is_in_handler;
static bool was_deferred;

/* The thread holds the shelter's lock and is not inside: the free is for later, and the request waits for the gate. */
static void
on_signal(int sig UNUSED) {
	dallocx(sheltered, MALLOCX_TCACHE_NONE);
	was_deferred = shelter_has_deferred();
	atomic_store_b(&is_in_handler, true, MO_SEQ_CST);
	from_handler = keep(mallocx(100, MALLOCX_TCACHE_NONE));
}

static void *
interrupted_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	os_hooks = &os_hooks_real;
	raise(SIGUSR1);
	return os_hooks_real.mmap(addr, size, prot, flags, fd, off);
}

/* Closes the gate; opens it when a handler has come to it. */
static void *
open_later(void *arg) {
	jemalloc_prefork();
	state = 1;
	while (!atomic_load_b(&is_in_handler, MO_SEQ_CST)) {
		usleep(1000);
	}
	usleep(50000); /* how long decides only how surely it waits */
	jemalloc_postfork_parent();
	return arg;
}

static int
interrupted(void) {
	pthread_t t;
	alarm(300);
	signal(SIGUSR1, on_signal);
	hooks = os_hooks_real;
	hooks.mmap = interrupted_mmap;
	state = 0;
	pthread_create(&t, NULL, open_later, NULL);
	while (state == 0) {
		usleep(100);
	}
	sheltered = keep(mallocx(100, MALLOCX_TCACHE_NONE));
	bool good = is_sheltered(sheltered);
	os_hooks = &hooks;
	char *p = keep(mallocx((size_t)3 << 20, MALLOCX_TCACHE_NONE));
	pthread_join(t, NULL);
	good = good && p != NULL && is_sheltered(p) && was_deferred && from_handler != NULL && os_hooks == &os_hooks_real;
	free(p);
	free(from_handler);
	free(keep(malloc(100000)));
	return good && !shelter_has_deferred() ? 0 : 1;
}

static void
test_interrupted(void) {
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(interrupted());
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a handler that allocates and frees where its thread holds the shelter");
}

int
main(void) {
	pthread_t t;
	free(keep(malloc(1)));
	pthread_create(&t, NULL, forker, NULL);
	test_objects();
	test_sized_frees();
	test_deferred();
	test_deferred_end();
	test_countdown();
	test_child();
	test_interrupted();
	wish = 3;
	pthread_join(t, NULL);
	return done_testing();
}
