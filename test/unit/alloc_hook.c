/* thread/alloc_hook.h: the fast path is shut while there is a hook, for this thread and for one that comes later. */
#include "test.h"

#include "imalloc.h"
#include "os/gate.h"

#include <pthread.h>

static unsigned n_calls;

static void
on_alloc(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	(void)how, (void)p, (void)result, (void)args;
	n_calls++;
	ok(extra == &n_calls && !gate_is_entered(tls_get()), "called outside of the gate");
}

static bool
has_fast_path(void) {
	for (unsigned i = 0; i < 2 * TSD_UNCACHED_MAX; i++) {
		ifree_default(imalloc_default(100)); /* it looks at what is new */
	}
	return !tls_cache_is_boot(tls_get());
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
	gate_enter(tls_get());
	is_int(alloc_hook_install(hooks, &handle), 0, "installed");
	gate_exit(tls_get());
	return handle;
}

static void
removes(const void *handle) {
	gate_enter(tls_get());
	is_int(alloc_hook_remove(handle), 0, "removed");
	gate_exit(tls_get());
}

int
main(void) {
	alloc_hooks_t none = {NULL, NULL, NULL, NULL}, one = {on_alloc, NULL, NULL, &n_calls};
	bool has = has_fast_path(); /* not in a debug build */
	void *a = install(&none), *b = install(&none);
	ok(tls_cache_is_boot(tls_get()), "shut at once");
	ok(!has_fast_path() && !has_thread_fast_path(), "and for good");
	removes(a);
	ok(!has_fast_path(), "one is left");
	removes(b);
	ok(has_fast_path() == has && has_thread_fast_path() == has, "open when none is");
	a = install(&one);
	void *p = imalloc_default(100);
	is_uint(n_calls, 1, "one call");
	ifree_default(p);
	tls_get()->inside++;
	p = imalloc_default(100);
	tls_get()->inside--;
	is_uint(n_calls, 1, "none for the library's own");
	ifree_default(p);
	removes(a);
	return done_testing();
}
