/*
 * Definition of the thread's words and of the thread-exit hook (a pthread key: its destructors
 * run after those of thread_local objects and are repeated up to four rounds, which lets the
 * owner of the hook arm it again while other destructors still allocate).
 */
#include "os/tls.h"

#include <pthread.h>

#include "util/assert.h"

HIDDEN ALIGNED(CACHELINE) const unsigned char tls_boot_cache[TLS_BOOT_CACHE_BYTES] = {0};

HIDDEN TLS_MODEL __thread struct tls_s tls_words = {
	.cache = (void *)(uintptr_t)tls_boot_cache,
};

static struct {
	pthread_key_t key;
	bool is_made;
} tls_cleanup;

int
tls_cleanup_init(void (*fn)(void *)) {
	assert(!tls_cleanup.is_made);
	int err = pthread_key_create(&tls_cleanup.key, fn);
	if (err == 0) {
		tls_cleanup.is_made = true;
	}
	return err;
}

int
tls_cleanup_arm(void *arg) {
	assert(arg != NULL);
	if (!tls_cleanup.is_made) {
		return EAGAIN;
	}
	int saved = errno;
	int err = pthread_setspecific(tls_cleanup.key, arg);
	errno = saved;
	return err;
}
