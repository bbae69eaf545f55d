/* The thread's words and the exit hook. */
#include "test.h"

#include <pthread.h>

#include "os/tls.h"
#include "util/atomic.h"

static struct tls_hook_s hook;
static atomic_u32_t n_runs;
static atomic_p_t last_arg;
static pthread_key_t other_key;
static unsigned rounds;

static void
on_exit_of_thread(void *arg) {
	atomic_fetch_add_u32(&n_runs, 1, MO_RELAXED);
	atomic_store_p(&last_arg, arg, MO_RELAXED);
	if (rounds > 0) {
		rounds--;
		tls_hook_arm(&hook, arg);
	}
}

static void *
armed(void *arg) {
	struct tls_s *t = tls_get();
	bool is_fresh = tls_cache_is_boot(t) && t->tsd == NULL && t->inside == 0 && t->state == 0;
	errno = 3;
	int err = tls_hook_arm(&hook, arg);
	return (void *)(uintptr_t)(is_fresh && err == 0 && errno == 3);
}

static void *
unarmed(void *arg) {
	return arg;
}

static void *
run(void *(*fn)(void *), void *arg) {
	pthread_t t;
	void *ret = NULL;
	pthread_create(&t, NULL, fn, arg);
	pthread_join(t, &ret);
	return ret;
}

int
main(void) {
	int word = 0;
	bool is_zero = true;
	for (size_t i = 0; i < TLS_BOOT_CACHE_BYTES; i++) {
		is_zero = is_zero && tls_boot_cache[i] == 0;
	}
	ok(is_zero, "the boot block is all zero");
	is_ptr_aligned((void *)(uintptr_t)tls_boot_cache, CACHELINE, "and aligned");
	ok(sizeof(struct tls_s) <= 128, "the words are few: %zu bytes", sizeof(struct tls_s));
	is_int(tls_hook_arm(&hook, &word), EAGAIN, "a hook that is not made cannot be armed");
	is_int(tls_hook_init(&hook, on_exit_of_thread), 0, "the hook can be made");
	ok(pthread_key_create(&other_key, NULL) == 0, "other keys are not disturbed");
	ok(run(armed, &word) != NULL, "a new thread's words are fresh; arming keeps errno");
	is_uint(atomic_load_u32(&n_runs, MO_RELAXED), 1, "the hook ran");
	ok(atomic_load_p(&last_arg, MO_RELAXED) == &word, "with its argument");
	run(unarmed, &word);
	is_uint(atomic_load_u32(&n_runs, MO_RELAXED), 1, "it does not run for a thread that was not "
	    "armed");
	rounds = 2;
	run(armed, &word);
	is_uint(atomic_load_u32(&n_runs, MO_RELAXED), 4, "armed again in the hook, it runs again");
	return done_testing();
}
