/*
 * What a thread has of the allocator, beyond the words in its TLS.
 *
 * A tsd is made at the first slow path of a thread and goes when the thread exits; a thread without
 * one (before its first allocation, out of memory, in its last destructors, at boot) is served from
 * arena 0 without a cache: all functions take NULL for such a thread.
 * Only the thread itself uses its tsd.  Others may make it look at something new (thread/recall.h).
 */
#ifndef THREAD_TSD_H
#define THREAD_TSD_H

#include "thread/tsd_types.h"

/* Once. 0 or errno. */
int tsd_boot(void);

/*
 * The calling thread's tsd, made if need be; NULL: it has none.  Inside the gate.  Looks at a recall.
 */
tsd_t *tsd_fetch_slow(struct tls_s *t);

ALWAYS_INLINE tsd_t *
tsd_fetch_in_gate(struct tls_s *t) {
	if (likely(t->state == tsd_state_nominal && __atomic_load_n(&t->recall, __ATOMIC_RELAXED) == 0)) {
		return t->tsd;
	}
	return tsd_fetch_slow(t);
}

/*
 * The same for a free; a thread that has only freed a few objects yet gets none.  The C library frees when
 * the destructors of a thread's keys are over (the TLS of threads that ended before), and of a tsd that is
 * made then nobody would take leave: the gate's list would keep a link to the words of a thread that is gone.
 */
#define TSD_EARLY_FREES 32
ALWAYS_INLINE tsd_t *
tsd_fetch_to_free(struct tls_s *t) {
	if (unlikely(t->state == tsd_state_fresh) && t->n_early < TSD_EARLY_FREES) {
		t->n_early++;
		return NULL;
	}
	return tsd_fetch_in_gate(t);
}

/*
 * A thread gets its cache only after TSD_UNCACHED_MAX slow operations: one that allocates a few
 * objects in its life should not cost more than it uses.  This makes it now if it is due anyway.
 */
#define TSD_UNCACHED_MAX 32
void tsd_make_cache(tsd_t *tsd);

ALWAYS_INLINE struct tcache_s *
tsd_cache(tsd_t *tsd) {
	if (unlikely(tsd->tcache == NULL) && tsd->is_cached &&
	    ++tsd->n_uncached >= TSD_UNCACHED_MAX) {
		tsd_make_cache(tsd);
	}
	return tsd->tcache;
}

/* The thread is bound to arena `to` from now on, its cache too. */
void tsd_move(tsd_t *tsd, arena_t *to);
/* Heartbeat where arenas go by CPU: a thread of one of those moves to that of the CPU that it runs on. */
void tsd_percpu_heartbeat(tsd_t *tsd, uint64_t bytes);

/*
 * For entry points other than malloc and free: enters the gate, waiting for a fork to end, and
 * makes the cache.
 */
tsd_t *tsd_enter(void);
void tsd_leave(void);

/* Opens the fast path if this thread may use it, else closes it: is_slow or the cache changed. */
void tsd_fast_path_update(tsd_t *tsd);

/* While it is set no thread has a fast path.  Whoever changes it calls recall_all(RECALL_SETTINGS) afterwards. */
extern HIDDEN atomic_b_t tsd_no_fast_path;

/* Whether new threads keep the fast path closed; set at boot from the options. */
extern bool tsd_all_slow;

/* Called in order at a thread's exit, inside the gate, before the cache goes; last entry NULL. */
extern void (*const *tsd_cleanups)(tsd_t *tsd);

/* thread.allocated and thread.deallocated: exact now. */
uint64_t tsd_allocated(tsd_t *tsd);
uint64_t tsd_deallocated(tsd_t *tsd);

/*
 * Where the two can be polled.  From the first such request on this thread takes the slow path, which
 * keeps them up.
 */
uint64_t *tsd_allocatedp(tsd_t *tsd);
uint64_t *tsd_deallocatedp(tsd_t *tsd);

/* In the child of a fork: the other threads are gone. */
void tsd_postfork_child(void);

/* Number of threads that have a tsd. */
unsigned tsd_count(void);

#endif
