/*
 * The thread's words: the whole static TLS of the allocator's fast path.
 *
 * `cache` always points to a readable block: a thread that has none of its own points to
 * tls_boot_cache, whose all-zero bins read "empty" for malloc and "full" for free, so that the
 * fast path has no test for "initialised".  The boot block is shared and never written.
 * `inside` > 0 says that this thread is inside the allocator: a nested call (user hook, atfork
 * handler, signal handler) must not sample and must run no events.
 * Only the thread itself writes its words, but for `recall` and, with it, `cache` (thread/recall.h).
 */
#ifndef OS_TLS_H
#define OS_TLS_H

#include <pthread.h>

#include "util/compiler.h"

#define TLS_BOOT_CACHE_BYTES 16384

struct tsd_s;

struct tls_s {
	void *cache;
	struct tsd_s *tsd;
	uint32_t inside;
	/* Owned by thread/tsd: 0 = never initialised. */
	uint32_t state;
	/* Owned by os/mutex: this thread's number as a lock owner, 0 = not given yet. */
	uint32_t lock_id;
	/* Owned by os/gate: nonzero while inside the gate; read by the thread that forks. */
	uint32_t gate;
	uint32_t gate_depth;
	/* Owned by thread/recall: set by others, what this thread is to look at. */
	uint32_t recall;
	/* Owned by thread/tsd: frees before the thread had a tsd, and their bytes. */
	uint32_t n_early;
	uint64_t early_bytes;
};

#if CONFIG_INITIAL_EXEC_TLS
#define TLS_MODEL __attribute__((tls_model("initial-exec")))
#else
#define TLS_MODEL
#endif

extern HIDDEN TLS_MODEL __thread struct tls_s tls_words;
extern HIDDEN const unsigned char tls_boot_cache[TLS_BOOT_CACHE_BYTES];

ALWAYS_INLINE struct tls_s *
tls_get(void) {
	return &tls_words;
}

ALWAYS_INLINE bool
tls_cache_is_boot(const struct tls_s *t) {
	return __atomic_load_n(&t->cache, __ATOMIC_RELAXED) == (const void *)tls_boot_cache;
}

/* Something to be done at the exit of each thread that armed it. */
struct tls_hook_s {
	pthread_key_t key;
	bool is_made;
};

/* Creates the hook: fn(arg) runs at the exit of a thread that was armed with arg. */
int tls_hook_init(struct tls_hook_s *hook, void (*fn)(void *));
/*
 * Arms the current thread (again); arg must not be NULL.  EAGAIN: there is no such hook yet.  May
 * allocate inside the C library, so the caller marks the thread as inside first.
 */
int tls_hook_arm(const struct tls_hook_s *hook, void *arg);

/* The same with the one hook of the allocator itself. */
int tls_cleanup_init(void (*fn)(void *));
int tls_cleanup_arm(void *arg);

#endif
