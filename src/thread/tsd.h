/*
 * The data that the allocator has for a thread, apart from the words in its TLS.
 *
 * A tsd is created at the first slow path of a thread and freed at its end. A thread without one
 * (before its first allocation, without memory, in its last destructors, at boot) is served from
 * arena 0 without a cache; all functions accept NULL for such a thread. Only the thread itself uses
 * its tsd. Other threads can make it look at a change (thread/recall.h).
 */
#ifndef THREAD_TSD_H
#define THREAD_TSD_H

#include "thread/tsd_types.h"

/* Called once at boot; 0 or an errno. */
int tsd_boot(void);

/*
 * Returns the calling thread's tsd, made if necessary; NULL if it has none. Inside the gate; looks
 * at recalls.
 */
tsd_t *tsd_fetch_slow(struct tls_s *t);

ALWAYS_INLINE tsd_t *
tsd_fetch_in_gate(struct tls_s *t) {
	if (likely(t->state == tsd_state_nominal
	    && __atomic_load_n(&t->recall, __ATOMIC_RELAXED) == 0)) {
		return t->tsd;
	}
	return tsd_fetch_slow(t);
}

/*
 * The same for a free. A thread that has only freed a few objects does not get a tsd, because the C
 * library frees after the destructors of a thread's keys (the TLS of earlier threads). Nobody would
 * clean up a tsd made then, and the gate's list would keep a link into the TLS of a thread that has
 * ended.
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
 * A thread gets a cache only after TSD_UNCACHED_MAX slow operations, because one that allocates a
 * few objects in its life should not cost more than it uses. This function makes the cache now if
 * it is due anyway.
 */
#define TSD_UNCACHED_MAX 32
void tsd_make_cache(tsd_t *tsd);

ALWAYS_INLINE struct tcache_s *
tsd_cache(tsd_t *tsd) {
	if (unlikely(tsd->tcache == NULL) && tsd->is_cached
	    && ++tsd->n_uncached >= TSD_UNCACHED_MAX) {
		tsd_make_cache(tsd);
	}
	return tsd->tcache;
}

/* Binds the thread and its cache to arena `to`. */
void tsd_move(tsd_t *tsd, arena_t *to);
/*
 * Heartbeat hook with per-CPU arenas: moves a thread of such an arena to that of the present CPU.
 */
void tsd_percpu_heartbeat(tsd_t *tsd, uint64_t bytes);

/*
 * For entry points other than malloc and free: enters the gate, waiting for a fork to end, and
 * makes the cache.
 */
tsd_t *tsd_enter(void);
void tsd_leave(void);

/*
 * Opens the fast path if this thread may use it, otherwise closes it; after is_slow or the cache
 * changed.
 */
void tsd_fast_path_update(tsd_t *tsd);

/* While it is set no thread has a fast path. After a change call recall_all(RECALL_SETTINGS). */
extern HIDDEN atomic_b_t tsd_no_fast_path;

/* Whether new threads keep the fast path closed; set from the options at boot. */
extern bool tsd_all_slow;

/*
 * Called in order at the end of a thread, inside the gate, before the cache is freed; the last
 * entry is NULL.
 */
extern void (*const *tsd_cleanups)(tsd_t *tsd);

/* thread.allocated and thread.deallocated, exact at the time of the call. */
uint64_t tsd_allocated(tsd_t *tsd);
uint64_t tsd_deallocated(tsd_t *tsd);

/*
 * Addresses at which the two can be read at any time. From the first such request on the thread
 * takes the slow path, which updates them.
 */
uint64_t *tsd_allocatedp(tsd_t *tsd);
uint64_t *tsd_deallocatedp(tsd_t *tsd);

/* Called in a forked child: the other threads do not exist there. */
void tsd_postfork_child(void);

/* Number of threads that have a tsd. */
unsigned tsd_count(void);

#endif
