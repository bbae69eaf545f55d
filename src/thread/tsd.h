/*
 * The tsd: the data that the allocator has for a thread, apart from the words in its TLS.
 *
 * A tsd is created at the first slow path of a thread (if it only frees, later: tsd_fetch_to_free)
 * and freed at its end. A thread without one (before that, without memory, in its last destructors,
 * at boot), or in an extent hook of the user, is served without a cache from arena 0, or if that
 * has hooks of the user from its hidden one (arenas_fallback); its tsd is NULL in the slow path.
 * Only the thread itself uses its tsd, but for a claim of its cache (thread/claim.h) and what
 * tsd_types.h names. Other threads can make it handle a change of settings (thread/recall.h). All
 * functions here are called inside the gate, but for tsd_boot(), tsd_enter(), tsd_count() and the
 * handlers of fork. Called by imalloc.c and irealloc.c (slow paths), mallctl, jemalloc_init.c,
 * jemalloc_fork.c, tcache_set.c, user_event.c, and at heartbeats; alloc_hook.c sets
 * tsd_no_fast_path.
 */
#pragma once

#include "thread/tsd_types.h"

/* Called once at boot; 0 or an errno. */
int tsd_boot(void);

/*
 * Returns the calling thread's tsd, made if necessary; NULL if it can have none now, or has none
 * and has entered the gate more than once. Handles recalls. The caller is inside the gate.
 */
tsd_t *tsd_fetch_slow(struct tls_s *t);

/* Whether the thread has a tsd and is not being recalled. */
ALWAYS_INLINE bool
tsd_is_ready(const struct tls_s *t) {
	return t->state == tsd_state_nominal && __atomic_load_n(&t->recall, __ATOMIC_RELAXED) == 0;
}

ALWAYS_INLINE tsd_t *
tsd_fetch_in_gate(struct tls_s *t) {
	return likely(tsd_is_ready(t)) ? t->tsd : tsd_fetch_slow(t);
}

/*
 * tsd_fetch_in_gate() for a free. A thread that has only freed a few objects does not get a tsd,
 * because the C library frees memory after the destructors of a thread's keys have run. A tsd made
 * then stays until a walk of the gate's list finds that its thread has ended (tsd_try_end_absent).
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
 * A thread gets a cache only after TSD_UNCACHED_MAX slow operations, because a cache would cost
 * more memory than a thread uses that allocates a few objects in its life. tsd_make_cache() makes
 * it now, if the thread is to have one and has none; without memory the next try is after as many
 * operations more.
 */
#define TSD_UNCACHED_MAX 32
void tsd_make_cache(tsd_t *tsd);

/* The thread's cache, made if it is due now; NULL: it has none (yet). Counts the operation. */
ALWAYS_INLINE struct tcache_s *
tsd_cache(tsd_t *tsd) {
	if (unlikely(tsd->tcache == NULL) && tsd->is_cached
	    && ++tsd->n_uncached >= TSD_UNCACHED_MAX) {
		tsd_make_cache(tsd);
	}
	return tsd->tcache;
}

/*
 * Moves the thread and its cache to the arena `to`, which counts the thread already
 * (vacant_thread_bound) and is not its present arena. That one no longer counts it.
 */
void tsd_move(tsd_t *tsd, arena_t *to);
/*
 * Heartbeat hook with per-CPU arenas: moves a thread of such an arena to that of the present CPU.
 */
void tsd_percpu_heartbeat(tsd_t *tsd, uint64_t bytes);
/*
 * Heartbeat hook without per-CPU arenas: moves a thread whose arena has grown by VACANT_LENT bytes
 * to a vacant one with unused pages (arena/vacant.h). Not a thread that has chosen its arena or has
 * asked which it is.
 */
void tsd_borrow_heartbeat(tsd_t *tsd, uint64_t bytes);

/*
 * For code that is not called in malloc or free, as the one at exit: enters the gate, waiting for a
 * fork to end, and makes the tsd and its cache. Returns the tsd, or NULL as tsd_fetch_slow(); the
 * thread is inside in any case. tsd_leave() leaves the gate.
 */
tsd_t *tsd_enter(void);
void tsd_leave(void);

/*
 * Opens the fast path (tls_s.cache) if this thread may use it and is not being recalled, otherwise
 * closes it. To be called by the thread after its is_slow, its cache or tsd_no_fast_path changed.
 */
void tsd_fast_path_update(tsd_t *tsd);

/* While it is set no thread has a fast path. After a change call recall_all(RECALL_SETTINGS). */
extern HIDDEN atomic_b_t tsd_no_fast_path;

/* Whether new threads keep the fast path closed; set from the options at boot. */
extern bool tsd_all_slow;

/*
 * Called in order at the end of a thread, inside the gate, before the cache is freed; the last
 * entry is NULL. For a thread that ended untold a later thread calls them; not for those of the
 * parent, in a child.
 */
extern void (*const *tsd_cleanups)(tsd_t *tsd);

/* thread.allocated and thread.deallocated, in bytes, exact at the time of the call. */
uint64_t tsd_allocated(tsd_t *tsd);
uint64_t tsd_deallocated(tsd_t *tsd);

/*
 * Addresses at which the two counters can be read at any time until the thread ends. From the first
 * call on the thread always takes the slow path, which updates them.
 */
uint64_t *tsd_allocatedp(tsd_t *tsd);
uint64_t *tsd_deallocatedp(tsd_t *tsd);

/* Called in the parent after a fork: the next child gets other seeds. */
void tsd_postfork_parent(void);
/*
 * Called in a forked child: gives its thread a new seed, and has the data of the other threads,
 * which do not exist there, freed by later calls (tsd_try_end_absent).
 */
void tsd_postfork_child(void);
/*
 * Returns what the cache, the spares and the quarantine of an absent thread hold, and frees its
 * data: in a forked child one of its ancestors, anywhere one whose end was not told, since its tsd
 * was made later. False if there is none left. Called in a child by slow paths, one thread in each,
 * so that a child that executes another program at once is not delayed; and for all threads before
 * a mallctl, before a new thread chooses its arena, and when the system has refused memory. Inside
 * the gate without a lock.
 */
bool tsd_try_end_absent(void);

/* Number of threads that have a tsd. */
unsigned tsd_count(void);
