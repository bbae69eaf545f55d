/*
 * thread/shelter.h: what a thread gets while another one is between fork's handlers, and what
 * becomes of it afterwards.
 */
#include "ctl.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "arena/arena.h"
#include "arena/safety.h"
#include "imalloc.h"
#include "jemalloc_fork.h"
#include "os/gate.h"
#include "os/sys.h"
#include "thread/deferred.h"
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
static size_t kept_size[N], kept_align[N];

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
		char *p = keep(mallocx(size, MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(alignment)
		    | MALLOCX_ZERO));
		bad += wrong_if(p == NULL) || wrong_if(((uintptr_t)p & (alignment - 1)) != 0)
		    || wrong_if(!is_filled(p, 0, size));
		bad += malloc_usable_size(p) < size;
		n_sheltered += is_sheltered(p);
		memset(p, (int)(i & 0xff), malloc_usable_size(p));
		kept[i] = p;
		kept_size[i] = size;
		kept_align[i] = alignment;
	}
	is_uint(bad, 0, "objects at a closed gate: aligned, zeroed, large enough");
	is_uint(n_sheltered, N, "all of them from the shelter");
	for (unsigned i = 0; i < N; i++) {
		bad += !is_filled(kept[i], (int)(i & 0xff), kept_size[i]);
		if (i % 4 == 0) {
			kept[i] = keep(realloc(kept[i], kept_size[i] + 1000));
			bad += wrong_if(kept[i] == NULL)
			    || wrong_if(!is_filled(kept[i], (int)(i & 0xff), kept_size[i]));
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
	ok(shelter_malloc(SIZE_MAX, 0) == NULL && shelter_malloc(16, (size_t)1 << 62) == NULL,
	    "too large for it");
	set_closed(false);
	for (unsigned i = 0; i < N; i++) {
		bad += !is_filled(kept[i], (int)(i & 0xff), kept_size[i]);
		if (i % 4 == 1) {
			kept[i] = keep(realloc(kept[i], kept_size[i] + 5000));
			bad += wrong_if(is_sheltered(kept[i]))
			    || wrong_if(!is_filled(kept[i], (int)(i & 0xff), kept_size[i]));
		}
	}
	is_uint(bad, 0, "the gate is open: they are as they were, and can be resized out of the "
	    "shelter");
}

/* By size alone such an object looks like one of a class that is larger than it is. */
static void
test_sized_frees(void) {
	static char *p[N];
	unsigned bad = 0;
	for (unsigned i = 0; i < N; i++) {
		if (i % 3 == 0 && i % 4 > 1) {
			sdallocx(kept[i], kept_size[i], MALLOCX_ALIGN(kept_align[i]));
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

/*
 * A copy that takes long. The handler of a fault in the midst of it closes the gate, as a fork does
 * that must not wait for the copy.
 */
static struct {
	char *page; /* without access until the copy reaches it */
	unsigned faults, inside;
} slow;

static void
on_fault(int sig UNUSED) {
	slow.faults++;
	if (gate_is_entered(tls_get())) {
		slow.inside++;
	} else {
		set_closed(true);
	}
	mprotect(slow.page, PAGE, PROT_READ | PROT_WRITE);
}

#define SLOW_SIZE ((size_t)4 << 20)

/* A request and a free that no cache of the thread serves. */
static void
enter_gate(void) {
	dallocx(keep(mallocx(100000, MALLOCX_TCACHE_NONE)), MALLOCX_TCACHE_NONE);
}

/* Moves p, of SLOW_SIZE bytes, to a block of `size` bytes with an alignment that p has not. */
static void
is_copied_outside(char *p, size_t size, int flags, const char *what) {
	size_t alignment = (size_t)2 << __builtin_ctzll((uintptr_t)p);
	bool was_sheltered = is_sheltered(p);
	memset(p, 0x61, SLOW_SIZE);
	slow.page = p + SLOW_SIZE / 2;
	slow.page -= (uintptr_t)slow.page % PAGE;
	slow.faults = slow.inside = 0;
	mprotect(slow.page, PAGE, PROT_NONE);
	char *q = keep(rallocx(p, size, flags | MALLOCX_ALIGN(alignment)));
	is_uint(slow.faults, 1, "%s is copied", what);
	is_uint(slow.inside, 0, "outside the gate");
	size_t copied = size < SLOW_SIZE ? size : SLOW_SIZE;
	ok(q != NULL && q != p && !is_sheltered(q) && is_filled(q, 0x61, copied),
	    "its contents are the same");
	if ((flags & MALLOCX_ZERO) != 0) {
		ok(is_filled(q + copied, 0, malloc_usable_size(q) - copied), "and zero behind them");
	}
	ok(deferred_has_any() != was_sheltered, "only an arena's block waits to be freed");
	set_closed(false);
	free(q);
	enter_gate();
	ok(!deferred_has_any(), "and no longer");
}

static void
test_slow_copy(void) {
	struct sigaction act = {.sa_handler = on_fault}, old;
	uint64_t before = net();
	sigaction(SIGSEGV, &act, &old);
	is_copied_outside(keep(malloc(SLOW_SIZE)), SLOW_SIZE, 0, "a block of an arena");
	is_copied_outside(keep(malloc(SLOW_SIZE)), 2 * SLOW_SIZE, MALLOCX_ZERO, "one that grows");
	is_copied_outside(keep(malloc(SLOW_SIZE)), SLOW_SIZE - 5000, MALLOCX_ZERO, "one that shrinks");
	is_uint(net(), before, "each is counted as freed");
	is_copied_outside(keep(shelter_malloc(SLOW_SIZE, 0)), SLOW_SIZE, 0, "a block of the shelter");
	sigaction(SIGSEGV, &old, NULL);
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
	ok(deferred_has_any(), "frees at a closed gate wait");
	set_closed(false);
	enter_gate();
	ok(!deferred_has_any(), "the next one in the gate does them");
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
		bad += deferred_has_any();
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
	size_t usize = canary_usize(8, 0);
	ok(more >= 60000 * usize && more <= 120000 * usize, "counted: %llu bytes",
	    (unsigned long long)more);
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
		enter_gate();
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

/* ------------------------------------------------------------------ blocks that are misused */

static char message[128];

/* Keeps the first one: it would have ended the process. */
static void
on_crime(const char *line) {
	if (message[0] == '\0') {
		snprintf(message, sizeof(message), "%s", line);
	}
}

static void
is_crime(const char *wanted, const char *what) {
	is_str(message, wanted, "%s", what);
	message[0] = '\0';
}

static void
test_misuse(void) {
	set_closed(true);
	char *p = keep(mallocx(100, MALLOCX_TCACHE_NONE)), *q = keep(mallocx(100, MALLOCX_TCACHE_NONE));
	char *large = keep(mallocx((size_t)5 << 20, MALLOCX_TCACHE_NONE));
	char *huge = keep(mallocx((size_t)100 << 20, MALLOCX_TCACHE_NONE));
	safety_abort_hook = on_crime;
	free(keep(p + 16));
	is_crime("<jemalloc>: pointer into a block\n", "at a closed gate: a pointer into a block");
	free(keep(large + 4096));
	ok(message[0] != '\0', "and into a large one: %s", message);
	message[0] = '\0';
	free(keep(p));
	free(keep(p));
	is_crime("<jemalloc>: double free\n", "a block freed twice");
	memset(keep(p), 0xff, 8);
	void *r = keep(mallocx(100, MALLOCX_TCACHE_NONE));
	is_crime("<jemalloc>: write to a freed block\n", "a freed one that is written to");
	ok(r == p && is_filled(r, 0, 100), "and is not believed");
	free(large);
	free(keep(large));
	is_crime("<jemalloc>: double free\n", "a large block freed twice");
	free(huge);
	free(keep(huge));
	is_crime("<jemalloc>: free of a pointer that is no block\n", "a huge one");
	free(r);
	free(q);
	large = keep(mallocx(20 * PAGE, MALLOCX_TCACHE_NONE));
	large[-1] = 1;
	free(keep(large));
	is_crime("<jemalloc>: write in front of a block\n", "a byte in front of a large block");
	/* The first word of the header of a slab, half a page in front of its first block. */
	large = keep(mallocx(20 * PAGE, MALLOCX_TCACHE_NONE));
	char **header = (char **)(void *)(large - PAGE / 2);
	*header = NULL;
	free(keep(large));
	is_crime("<jemalloc>: write in front of a block\n", "a write into what describes the blocks");
	set_closed(false);
	safety_abort_hook = NULL;
}

/*
 * Frees that wait: each is looked at when it comes, and nothing is written into what may be no
 * block.
 */
static void
test_deferred_misuse(void) {
	static char text[64];
	char *p = keep(mallocx(100, MALLOCX_TCACHE_NONE)),
	    *gone = keep(mallocx((size_t)1 << 20, MALLOCX_TCACHE_NONE));
	memset(p, 7, 100);
	dallocx(gone, MALLOCX_TCACHE_NONE);
	set_closed(true);
	safety_abort_hook = on_crime;
	dallocx(keep(&text[16]), MALLOCX_TCACHE_NONE);
	is_crime("<jemalloc>: free of a pointer that is no block\n",
	    "a free at a closed gate: no block");
	ok(is_filled(text, 0, sizeof(text)), "and nothing is written there");
	dallocx(keep(gone), MALLOCX_TCACHE_NONE);
	/* Its pages may have been joined with others since: then nothing says that it was a block. */
	ok(message[0] != '\0', "one that is free: %s", message);
	message[0] = '\0';
	dallocx(p, MALLOCX_TCACHE_NONE);
	ok(message[0] == '\0' && is_filled(keep(p), 7, 100), "a block that waits is as it was");
	dallocx(keep(p), MALLOCX_TCACHE_NONE);
	is_crime("<jemalloc>: double free\n", "one that waits already");
	set_closed(false);
	free(keep(mallocx(100000, MALLOCX_TCACHE_NONE)));
	is_crime("", "it is freed once");
	safety_abort_hook = NULL;
}

/* ------------------------------------------------------------------ what stays */

static struct os_hooks_s hooks;
static atomic_zu_t mapped;
static atomic_u32_t n_purges;

static void *
counting_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	atomic_fetch_add_zu(&mapped, size, MO_RELAXED);
	return os_hooks_real.mmap(addr, size, prot, flags, fd, off);
}

static int
counting_munmap(void *addr, size_t size) {
	atomic_fetch_sub_zu(&mapped, size, MO_RELAXED);
	return os_hooks_real.munmap(addr, size);
}

static int
counting_madvise(void *addr, size_t size, int advice) {
	atomic_fetch_add_u32(&n_purges, 1, MO_RELAXED);
	return os_hooks_real.madvise(addr, size, advice);
}

#define MANY 20000

/*
 * As many blocks again and again need no more memory, and their pages go back when the gate has
 * opened.
 */
static void
test_reuse(void) {
	static void *p[MANY];
	size_t first = 0;
	hooks = os_hooks_real;
	hooks.mmap = counting_mmap;
	hooks.munmap = counting_munmap;
	hooks.madvise = counting_madvise;
	os_hooks = &hooks;
	for (unsigned round = 0; round < 4; round++) {
		set_closed(true);
		for (unsigned i = 0; i < MANY; i++) {
			p[i] = keep(mallocx(i % 100 == 0 ? 50000 : 64, MALLOCX_TCACHE_NONE));
		}
		for (unsigned i = 0; i < MANY; i++) {
			dallocx(p[i], MALLOCX_TCACHE_NONE);
		}
		atomic_store_u32(&n_purges, 0, MO_RELAXED);
		set_closed(false);
		first = round == 0 ? atomic_load_zu(&mapped, MO_RELAXED) : first;
	}
	os_hooks = &os_hooks_real;
	is_uint(atomic_load_zu(&mapped, MO_RELAXED), first,
	    "four windows keep no more mapped than the first of them");
	ok(first > 0 && atomic_load_u32(&n_purges, MO_RELAXED) >= MANY / 1024,
	    "pages go back when the gate has opened");
}

/* ------------------------------------------------------------------ a signal in the midst of it */

static void *sheltered, *from_handler;
static atomic_b_t is_in_handler;

/* The thread is about to map memory for the shelter; what it was at holds nobody up. */
static void
on_signal(int sig UNUSED) {
	dallocx(sheltered, MALLOCX_TCACHE_NONE);
	from_handler = keep(mallocx(100, MALLOCX_TCACHE_NONE));
	atomic_store_b(&is_in_handler, true, MO_SEQ_CST);
	pid_t pid = fork();
	if (pid == 0) {
		_exit(7);
	}
	waitpid(pid, NULL, 0);
}

static void *
interrupted_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	os_hooks = &os_hooks_real;
	raise(SIGUSR1);
	return os_hooks_real.mmap(addr, size, prot, flags, fd, off);
}

static atomic_b_t is_inside;

/* Inside, so that the gate waits for this thread; uses the shelter there, as a handler does. */
static void *
use_inside(void *arg) {
	struct tls_s *t = tls_get();
	void *p = arg;
	gate_enter(t);
	atomic_store_b(&is_inside, true, MO_SEQ_CST);
	while (!atomic_load_b(&is_in_handler, MO_SEQ_CST)) {
		usleep(1000);
	}
	usleep(50000); /* how long decides only how surely the handler waits */
	shelter_free(p);
	p = shelter_malloc(100, 0);
	gate_exit(t);
	return p;
}

static void *
close_and_open(void *arg) {
	jemalloc_prefork();
	jemalloc_postfork_parent();
	return arg;
}

static int
interrupted(void) {
	pthread_t user, closer;
	void *ret;
	alarm(300);
	signal(SIGUSR1, on_signal);
	hooks = os_hooks_real;
	hooks.mmap = interrupted_mmap;
	sheltered = shelter_malloc(100, 0);
	pthread_create(&user, NULL, use_inside, shelter_malloc(100, 0));
	while (!atomic_load_b(&is_inside, MO_SEQ_CST)) {
		usleep(100);
	}
	pthread_create(&closer, NULL, close_and_open, NULL);
	while (!gate_is_closed()) {
		usleep(100);
	}
	os_hooks = &hooks;
	char *p = keep(mallocx((size_t)3 << 20, MALLOCX_TCACHE_NONE));
	pthread_join(closer, NULL);
	pthread_join(user, &ret);
	bool good = p != NULL && is_sheltered(p) && is_sheltered(ret) && is_sheltered(from_handler)
	    && !gate_is_closed() && os_hooks == &os_hooks_real;
	free(p);
	free(ret);
	free(from_handler);
	return good && !deferred_has_any() ? 0 : 1;
}

/* As in a handler that has interrupted the first free of a thread, which has no tsd. */
static void *
use_fresh(void *arg) {
	struct tls_s *t = tls_get();
	bool was_fresh = t->state == tsd_state_fresh;
	gate_enter(t);
	void *p = keep(malloc(100));
	free(arg);
	bool is_deferred = deferred_has_any();
	gate_exit(t);
	*(bool *)p = was_fresh && is_sheltered(p) && is_deferred;
	return p;
}

static void
test_fresh(void) {
	pthread_t thread;
	void *p;
	pthread_create(&thread, NULL, use_fresh, keep(malloc(100)));
	pthread_join(thread, &p);
	ok(*(bool *)p, "a handler in a thread without a tsd: it takes no lock");
	free(p);
}

static void
test_interrupted(void) {
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(interrupted());
	}
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	    "a handler that forks inside the shelter, which another thread uses inside the gate: both "
	    "end");
}

int
main(void) {
	pthread_t t;
	free(keep(malloc(1)));
	pthread_create(&t, NULL, forker, NULL);
	test_objects();
	test_sized_frees();
	test_slow_copy();
	test_deferred();
	test_deferred_end();
	test_countdown();
	test_child();
	test_misuse();
	test_deferred_misuse();
	test_reuse();
	test_interrupted();
	test_fresh();
	wish = 3;
	pthread_join(t, NULL);
	return done_testing();
}
