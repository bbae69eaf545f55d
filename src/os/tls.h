/*
 * The thread's words: the whole static TLS of the allocator's fast path. Invariant: `cache` always
 * points to a readable block. A thread without a cache of its own points to tls_boot_cache, whose
 * zeroed bins read as "empty" for malloc and "full" for free, so the fast path needs no test for
 * initialisation. That block is shared and never written. `inside` > 0 means that the thread does
 * work of the library's own (a heartbeat, which is upkeep after some bytes allocated; a dump; the
 * start or end of a profiling session; a hook of the user): allocations that it makes meanwhile are
 * not sampled and run no heartbeat. Only the thread itself writes its words, except `recall` and,
 * together with it, `cache`, both from any thread (thread/recall.h), and `label`, to which the
 * program has the address. Other threads read `gate`, `beat` and `lock_id`, and `tsd` under the
 * lock of the gate's list. No lock; `cache`, `tsd`, `recall`, `gate`, `beat` and `lock_id` are
 * accessed by atomic builtins where another thread may write or read them. Used by most folders of
 * src/, not by util/.
 */
#pragma once

#include <pthread.h>

#include "util/compiler.h"

/* Bytes of the boot block: more than the bins of any cache that the fast path indexes. */
#define TLS_BOOT_CACHE_BYTES 16384

struct tsd_s;

/* A word belongs to the module that is named, if one is. The fast path needs `cache` first. */
struct tls_s {
	/* The first of the bins of the thread's cache (tcache_t.bins), or tls_boot_cache. */
	void *cache;
	/* The thread's other data; NULL before it is made. Owned by thread/tsd. */
	struct tsd_s *tsd;
	/* How deep the thread is in work of the library's own: any module raises it; not gate_depth. */
	uint32_t inside;
	/* Owned by thread/tsd: the thread's state; 0 means never initialised. */
	uint32_t state;
	/* Owned by os/mutex: this thread's number as a lock owner, until its end; 0: none yet. */
	uint32_t lock_id;
	/* Owned by os/gate: whether the thread is inside, and other marks (gate.h); others read it. */
	uint32_t gate;
	/* Owned by os/gate: levels of gate_enter() and gate_try_enter() that are not left yet. */
	uint32_t gate_depth;
	/*
	 * Owned by thread/thread_event: monotonic time of the last heartbeat in steps of 2^20 ns, its
	 * low 32 bits; 0: none yet, or the thread ends. Read by other threads.
	 */
	uint32_t beat;
	/*
	 * Owned by thread/recall: RECALL_* bits, requests that any thread sets and this thread carries
	 * out.
	 */
	uint32_t recall;
	/* Owned by thread/tsd: frees that made no tsd; tsd_fetch_to_free() limits their number. */
	uint32_t n_early;
	/* Bytes of all frees without a tsd; the tsd, if one is made later, starts with them. */
	uint64_t early_bytes;
	/*
	 * Owned by prof/sites/prof_label: number of the label that the thread's samples get; 0: none.
	 * The program writes it too, at the address that thread.prof.labelp gives.
	 */
	uint32_t label;
	/*
	 * Owned by extent/ehooks: index + 1 of the arena whose hook of the user is being called; 0 if
	 * none is, UINT32_MAX if hooks of several are.
	 */
	uint32_t hook_arena;
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

/*
 * Whether the thread's fast path is closed: it has no cache of its own, is being recalled, is in an
 * extent hook, is changing a bin (recall_close), or always takes the slow path.
 */
ALWAYS_INLINE bool
tls_cache_is_boot(const struct tls_s *t) {
	return __atomic_load_n(&t->cache, __ATOMIC_RELAXED) == (const void *)tls_boot_cache;
}

/* A hook that runs at the exit of each thread that armed it. The library has one (thread/tsd.c). */
struct tls_hook_s {
	pthread_key_t key;
	bool is_made;
};

/*
 * Creates the hook: fn(arg) runs at the exit of a thread that was armed with arg. Returns 0 or an
 * errno value.
 */
int tls_hook_init(struct tls_hook_s *hook, void (*fn)(void *));
/*
 * Makes fn(arg) run once when the calling thread exits; a later call only replaces arg, which must
 * not be NULL. 0 or an errno value; EAGAIN: tls_hook_init() was not called, or failed. The C
 * library may allocate: the caller's thread must be ready to be served then (tsd_state_making).
 */
int tls_hook_arm(const struct tls_hook_s *hook, void *arg);
