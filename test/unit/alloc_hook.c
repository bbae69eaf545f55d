/*
 * thread/alloc_hook.h: the fast path is shut while there is a hook, for this thread and for one
 * that comes later; hooks that change while they are called.
 */
#include "test.h"

#include "imalloc.h"
#include "os/gate.h"

#include <pthread.h>

static unsigned n_calls;

/*
 * Out of line: where tls_get() is inlined and the undefined behaviour sanitizer looks at its
 * result, the linker may replace the addition whose flags are looked at by one that sets none.
 */
static NOINLINE struct tls_s *
self(void) {
	return tls_get();
}

static void
on_alloc(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	(void)how, (void)p, (void)result, (void)args;
	n_calls++;
	ok(extra == &n_calls && !gate_is_entered(self()), "called outside of the gate");
}

static bool
has_fast_path(void) {
	for (unsigned i = 0; i < 2 * TSD_UNCACHED_MAX; i++) {
		ifree_default(imalloc_default(100)); /* it looks at what is new */
	}
	return !tls_cache_is_boot(self());
}

static void *
thread(void *has) {
	*(bool *)has = has_fast_path();
	return NULL;
}

static bool
has_thread_fast_path(void) {
	bool has = true;
	pthread_t t;
	pthread_create(&t, NULL, thread, &has);
	pthread_join(t, NULL);
	return has;
}

static void *
install(const alloc_hooks_t *hooks) {
	void *handle = NULL;
	gate_enter(self());
	is_int(alloc_hook_install(hooks, &handle), 0, "installed");
	gate_exit(self());
	return handle;
}

static void
removes(const void *handle) {
	gate_enter(self());
	is_int(alloc_hook_remove(handle), 0, "removed");
	gate_exit(self());
}

/* Hooks come and go while others call them: each gets its own word, never another's. */
#define N_CHANGES 2000

static unsigned words[2];
static unsigned n_wrong;
static bool has_begun, is_over;

static void
on_first(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	(void)how, (void)p, (void)result, (void)args;
	__atomic_fetch_add(&n_wrong, extra != &words[0], __ATOMIC_RELAXED);
}

static void
on_second(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	(void)how, (void)p, (void)result, (void)args;
	__atomic_fetch_add(&n_wrong, extra != &words[1], __ATOMIC_RELAXED);
}

static void *
calling_thread(void *arg) {
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		ifree_default(imalloc_default(100));
		__atomic_store_n(&has_begun, true, __ATOMIC_RELAXED);
	}
	return arg;
}

static void
test_changes(void) {
	alloc_hooks_t both[2] = {{on_first, NULL, NULL, &words[0]}, {on_second, NULL, NULL, &words[1]}};
	unsigned n_failed = 0;
	pthread_t t;
	pthread_create(&t, NULL, calling_thread, NULL);
	while (!__atomic_load_n(&has_begun, __ATOMIC_RELAXED)) {
		sched_yield();
	}
	for (unsigned i = 0; i < N_CHANGES; i++) {
		void *handle = NULL;
		gate_enter(self());
		n_failed += alloc_hook_install(&both[i % 2], &handle) != 0;
		gate_exit(self());
		ifree_default(imalloc_default(100));
		gate_enter(self());
		n_failed += alloc_hook_remove(handle) != 0;
		gate_exit(self());
	}
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	is_uint(n_failed, 0, "%d times installed and removed", N_CHANGES);
	is_uint(n_wrong, 0, "each hook is called with its own word");
}

int
main(void) {
	alloc_hooks_t none = {NULL, NULL, NULL, NULL}, one = {on_alloc, NULL, NULL, &n_calls};
	bool has = has_fast_path(); /* not in a debug build */
	void *a = install(&none), *b = install(&none);
	ok(tls_cache_is_boot(self()), "shut at once");
	ok(!has_fast_path() && !has_thread_fast_path(), "and for good");
	removes(a);
	ok(!has_fast_path(), "one is left");
	removes(b);
	ok(has_fast_path() == has && has_thread_fast_path() == has, "open when none is");
	a = install(&one);
	void *p = imalloc_default(100);
	is_uint(n_calls, 1, "one call");
	ifree_default(p);
	self()->inside++;
	p = imalloc_default(100);
	self()->inside--;
	is_uint(n_calls, 1, "none for the library's own");
	ifree_default(p);
	removes(a);
	test_changes();
	return done_testing();
}
