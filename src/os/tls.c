/*
 * Defines the thread's words and implements the thread-exit hook with a pthread key.
 * Destructors of keys run after those of thread_local objects, in any order, and are repeated up to
 * four times. So other destructors may still allocate after the hook has run; its owner
 * (thread/tsd.c) serves them without a tsd and does not arm it again. No lock; the hook is created
 * at boot.
 */
#include "os/tls.h"

/* The fast path reads the cache's address relative to the thread pointer. */
cassert(offsetof(struct tls_s, cache) == 0);
cassert(TLS_BOOT_CACHE_BYTES % CACHELINE == 0);
/* gate, beat and recall are accessed by other threads, so they must be aligned words. */
cassert(sizeof(((struct tls_s *)NULL)->gate) == 4 && offsetof(struct tls_s, gate) % 4 == 0);
cassert(sizeof(((struct tls_s *)NULL)->beat) == 4 && offsetof(struct tls_s, beat) % 4 == 0);
cassert(sizeof(((struct tls_s *)NULL)->recall) == 4 && offsetof(struct tls_s, recall) % 4 == 0);

HIDDEN FIRST_CONST const unsigned char tls_boot_cache[TLS_BOOT_CACHE_BYTES] = {0};

HIDDEN TLS_MODEL __thread struct tls_s tls_words = {
	.cache = (void *)(uintptr_t)tls_boot_cache,
};

int
tls_hook_init(struct tls_hook_s *hook, void (*fn)(void *)) {
	assert(!hook->is_made);
	int err = pthread_key_create(&hook->key, fn);
	if (err == 0) {
		hook->is_made = true;
	}
	return err;
}

int
tls_hook_arm(const struct tls_hook_s *hook, void *arg) {
	assert(arg != NULL);
	if (!hook->is_made) {
		return EAGAIN;
	}
	return pthread_setspecific(hook->key, arg);
}
