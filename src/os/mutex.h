/*
 * The allocator's lock.
 *
 * One word: 0 = free, else the owner's number, with MUTEX_WAITERS added while some thread may
 * sleep on it (futex).  The owner is in the word itself, so "do I hold it" has an exact answer at
 * any instant, also in a signal handler that interrupted the owner; the fork handlers use that.
 * An all-zero mutex is valid and free: locks work before and without initialisation.
 * The contention counters are written by the holder only, except the two that waiters share.
 */
#ifndef OS_MUTEX_H
#define OS_MUTEX_H

#include "os/tls.h"
#include "os/witness.h"
#include "util/assert.h"
#include "util/atomic.h"
#include "util/compiler.h"

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define MUTEX_HAS_SINGLE_THREADED 1
#endif
#endif

#define MUTEX_WAITERS UINT32_C(0x80000000)

/* A copy of a mutex's counters; times in nanoseconds. */
typedef struct {
	uint64_t tot_wait_time;
	uint64_t max_wait_time;
	/* Acquisitions that had to sleep, and those that spinning got. */
	uint64_t n_wait_times;
	uint64_t n_spin_acquired;
	/* Most threads that ever waited at once, and those that wait now. */
	uint32_t max_n_thds;
	uint32_t n_waiting_thds;
	uint64_t n_owner_switches;
	uint64_t n_lock_ops;
} mutex_prof_data_t;

typedef struct mutex_s {
	atomic_u32_t word;
	/* The last owner's number: written by the holder. */
	uint32_t prev_owner;
	uint64_t n_lock_ops;
	uint64_t n_owner_switches;
	uint64_t n_spin_acquired;
	uint64_t n_wait_times;
	uint64_t tot_wait_time;
	uint64_t max_wait_time;
	uint32_t max_n_thds;
	atomic_u32_t n_waiting_thds;
	/* The forking thread held it already (it was interrupted inside): leave it as it is. */
	bool fork_nested;
#if CONFIG_DEBUG
	witness_t witness;
#endif
} mutex_t;

#if CONFIG_DEBUG
#define MUTEX_INITIALIZER(name, rank) {.witness = {(name), (rank), NULL}}
#else
#define MUTEX_INITIALIZER(name, rank) {.fork_nested = false}
#endif

/* How often to look at a taken lock before sleeping; -1: for ever, never sleep. */
extern HIDDEN int64_t opt_mutex_max_spin;

void mutex_init(mutex_t *m, const char *name, unsigned rank);
void mutex_prefork(mutex_t *m);
void mutex_postfork_parent(mutex_t *m);
void mutex_postfork_child(mutex_t *m);
/*
 * In a forked child, for a lock that another thread of the parent may have held: it becomes free and
 * new.  If the forking thread holds it itself it goes on holding it.
 */
void mutex_renew_in_child(mutex_t *m, const char *name, unsigned rank);
/* Copies m's counters (exact if the caller holds m), adds src to dst, forgets m's history. */
void mutex_prof_read(mutex_prof_data_t *dst, mutex_t *m);
void mutex_prof_merge(mutex_prof_data_t *dst, const mutex_prof_data_t *src);
void mutex_prof_reset(mutex_t *m);

/* Backing of the inline functions below. */
uint32_t mutex_id_assign(void);
void mutex_lock_slow(mutex_t *m, uint32_t me);
void mutex_wake(mutex_t *m);
void mutex_debug_before_lock(mutex_t *m);
void mutex_debug_after_lock(mutex_t *m);
void mutex_debug_before_unlock(mutex_t *m);

ALWAYS_INLINE bool
mutex_is_single_threaded(void) {
#ifdef MUTEX_HAS_SINGLE_THREADED
	return __libc_single_threaded != 0;
#else
	return false;
#endif
}

/* This thread's number as an owner: unique among living threads, never 0. */
ALWAYS_INLINE uint32_t
mutex_self(void) {
	uint32_t me = tls_get()->lock_id;
	return likely(me != 0) ? me : mutex_id_assign();
}

ALWAYS_INLINE bool
mutex_is_owner(const mutex_t *m) {
	uint32_t owner = atomic_load_u32(&m->word, MO_RELAXED) & ~MUTEX_WAITERS;
	return owner != 0 && owner == tls_get()->lock_id;
}

ALWAYS_INLINE bool
mutex_try_word(mutex_t *m, uint32_t me) {
	uint32_t expected = 0;
	if (mutex_is_single_threaded()) {
		/* Nobody else: a plain store will do, and spares the locked bus cycle. */
		if (atomic_load_u32(&m->word, MO_RELAXED) != 0) {
			return false;
		}
		atomic_store_u32(&m->word, me, MO_RELAXED);
		return true;
	}
	return atomic_cas_strong_u32(&m->word, &expected, me, MO_ACQUIRE, MO_RELAXED);
}

/* Counters change under the lock and are read without it. */
#define MUTEX_SET(counter, value) __atomic_store_n(&(counter), (value), __ATOMIC_RELAXED)

ALWAYS_INLINE void
mutex_count_owner(mutex_t *m, uint32_t me) {
	MUTEX_SET(m->n_lock_ops, m->n_lock_ops + 1);
	if (m->prev_owner != me) {
		m->prev_owner = me;
		MUTEX_SET(m->n_owner_switches, m->n_owner_switches + 1);
	}
}

/* True if the mutex was free and is now held. */
ALWAYS_INLINE bool
mutex_trylock(mutex_t *m) {
	uint32_t me = mutex_self();
	if (!mutex_try_word(m, me)) {
		return false;
	}
	mutex_count_owner(m, me);
	if (config_debug) {
		mutex_debug_after_lock(m);
	}
	return true;
}

ALWAYS_INLINE void
mutex_lock(mutex_t *m) {
	uint32_t me = mutex_self();
	if (config_debug) {
		mutex_debug_before_lock(m);
	}
	if (unlikely(!mutex_try_word(m, me))) {
		mutex_lock_slow(m, me);
	}
	mutex_count_owner(m, me);
	if (config_debug) {
		mutex_debug_after_lock(m);
	}
}

ALWAYS_INLINE void
mutex_unlock(mutex_t *m) {
	if (config_debug) {
		mutex_debug_before_unlock(m);
	}
	if (mutex_is_single_threaded()) {
		if (likely((atomic_load_u32(&m->word, MO_RELAXED) & MUTEX_WAITERS) == 0)) {
			atomic_store_u32(&m->word, 0, MO_RELEASE);
			return;
		}
	}
	if (unlikely((atomic_exchange_u32(&m->word, 0, MO_RELEASE) & MUTEX_WAITERS) != 0)) {
		mutex_wake(m);
	}
}

ALWAYS_INLINE void
mutex_assert_owner(const mutex_t *m) {
	assert(mutex_is_owner(m));
	(void)m;
}

ALWAYS_INLINE void
mutex_assert_not_owner(const mutex_t *m) {
	assert(!mutex_is_owner(m));
	(void)m;
}

#endif
