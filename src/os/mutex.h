/*
 * The mutex of the allocator: one futex word, contention counters, and a lock rank in debug builds.
 * The word is 0 when free, otherwise the owner's number, plus MUTEX_WAITERS while a thread may
 * sleep on it. Because the owner is in the word, mutex_is_owner() is exact at any instant, also in
 * a signal handler that interrupted the owner; mutex_renew_in_child() depends on that. A mutex
 * whose bytes are all 0 is valid and free, except in debug builds, which abort when a mutex without
 * a name is locked. The counters are written by the holder and by mutex_prof_reset(). A counter is
 * added to by a load and a store, so an update is lost if both write at once. Only n_waiting_thds
 * is changed by the waiting threads, by atomic additions. Apart from atomic flags, every lock is
 * one of these: in meta/, extent/, hpa/, arena/, thread/, prof/, ctl/, top of src/ and os/gate.
 * Locks that are held for a short time are taken inside the gate (os/gate.h); debug builds check
 * that none from WITNESS_RANK_PROF_SITES on is held when a thread leaves the gate.
 */
#pragma once

#include "os/tls.h"
#include "os/witness.h"
#include "util/atomic.h"
#include "util/compiler.h"

#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define MUTEX_HAS_SINGLE_THREADED 1
#endif
#endif

/* Bit of the word: some thread may sleep in futex(2), so the release has to wake one. */
#define MUTEX_WAITERS UINT32_C(0x80000000)

/* The counters that are added up over several mutexes, and those of which the greatest counts. */
#define MUTEX_SUMS(X) \
	X(n_lock_ops) X(n_owner_switches) X(n_spin_acquired) X(n_wait_times) X(tot_wait_time)
#define MUTEX_MAXIMA(X) X(max_wait_time) X(max_n_thds)

/* The counters of a mutex, or a copy or a sum of such. */
typedef struct {
	/* All acquisitions, and those by another thread than the last owner, the first one too. */
	uint64_t n_lock_ops;
	uint64_t n_owner_switches;
	/* Acquisitions for which spinning was enough, and those that had to wait after that. */
	uint64_t n_spin_acquired;
	uint64_t n_wait_times;
	/* Nanoseconds that these waited after the spin loop: their sum and the longest. */
	uint64_t tot_wait_time;
	uint64_t max_wait_time;
	/* The greatest number of threads that waited at once. */
	uint32_t max_n_thds;
	atomic_u32_t n_waiting_thds; /* that wait now; only in a mutex itself */
} mutex_prof_data_t;

typedef struct mutex_s {
	atomic_u32_t word;
	/* Number of the last owner, to count changes of owner; written by the holder. */
	uint32_t prev_owner;
	mutex_prof_data_t counts;
#if CONFIG_DEBUG
	witness_t witness;
#endif
} mutex_t;

#if CONFIG_DEBUG
#define MUTEX_INITIALIZER(name, rank) {.witness = {(name), (rank), NULL}}
#else
#define MUTEX_INITIALIZER(name, rank) {.word = {0}}
#endif

/* The option mutex_max_spin: turns of the spin loop before a thread sleeps; -1: it never sleeps. */
extern HIDDEN int64_t opt_mutex_max_spin;

/* name must stay valid; rank is a WITNESS_RANK_*. Both are used in debug builds only. */
void mutex_init(mutex_t *m, const char *name, unsigned rank);
/*
 * In a forked child, for a mutex that a thread of the parent may have held. If the calling thread
 * holds it, it stays held, with its counters and without waiters. Otherwise it is made as by
 * mutex_init(). The child has no other thread yet.
 */
void mutex_renew_in_child(mutex_t *m, const char *name, unsigned rank);
/*
 * In a forked child in which any mutex may belong to a thread of the parent (gate_is_lost()). From
 * now on a thread that would wait for a mutex whose owner does not exist here takes it, because
 * waiting would never end; mutex_trylock() fails on it. What it protects may be half changed.
 */
void mutex_disown(void);
/*
 * Counters. mutex_prof_read() copies those of m to dst; if the caller holds m, they are of one
 * instant. mutex_prof_merge() adds src to dst, and takes the greater one of the fields max_*.
 * mutex_prof_reset() sets those of m to 0.
 */
void mutex_prof_read(mutex_prof_data_t *dst, mutex_t *m);
void mutex_prof_merge(mutex_prof_data_t *dst, const mutex_prof_data_t *src);
void mutex_prof_reset(mutex_t *m);
/* What is done with each of several locks: one of the two things, for mutex_prof_data_t `of` it. */
typedef void mutex_visit_t(mutex_t *m, mutex_prof_data_t *of);

/*
 * Lets later threads have the number of the calling one, which holds no mutex and is about to end;
 * if it takes one after all, it gets another number.
 */
void mutex_id_release(void);

/* Out-of-line parts: of mutex_self(), and of mutex_lock(), which wait until thread `me` owns m. */
uint32_t mutex_id_assign(void);
void mutex_lock_slow(mutex_t *m, uint32_t me);

/* Wakes one sleeper. */
void mutex_wake(mutex_t *m);
/*
 * Debug builds. Before a lock: asserts that this thread does not hold m, that the rank order allows
 * it, and that the thread is outside the gate if m is of one of two ranks that are held for long.
 * After it: enters m in the thread's list of held mutexes. Before an unlock: removes it.
 */
void mutex_debug_before_lock(mutex_t *m);
void mutex_debug_after_lock(mutex_t *m);
void mutex_debug_before_unlock(mutex_t *m);

/* Whether the process has a single thread; false if the C library does not provide that. */
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

/* Whether the calling thread holds m. Exact at any instant, also in a signal handler. */
ALWAYS_INLINE bool
mutex_is_owner(const mutex_t *m) {
	uint32_t owner = atomic_load_u32(&m->word, MO_RELAXED) & ~MUTEX_WAITERS;
	return owner != 0 && owner == tls_get()->lock_id;
}

/* Makes `me` the owner of the word if it is free; returns whether it did. Counts nothing. */
ALWAYS_INLINE bool
mutex_try_word(mutex_t *m, uint32_t me) {
	uint32_t expected = 0;
	if (mutex_is_single_threaded()) {
		/* There is no other thread, so a plain store is enough and avoids a locked bus cycle. */
		if (atomic_load_u32(&m->word, MO_RELAXED) != 0) {
			return false;
		}
		atomic_store_u32(&m->word, me, MO_RELAXED);
		return true;
	}
	return atomic_cas_strong_u32(&m->word, &expected, me, MO_ACQUIRE, MO_RELAXED);
}

/* Counters change under the mutex, but are read and reset without it. */
#define MUTEX_SET(counter, value) __atomic_store_n(&(counter), (value), __ATOMIC_RELAXED)
#define MUTEX_GET(counter) __atomic_load_n(&(counter), __ATOMIC_RELAXED)
#define MUTEX_ADD(counter, more) MUTEX_SET(counter, MUTEX_GET(counter) + (more))

/* Counts an acquisition. The caller holds m. */
ALWAYS_INLINE void
mutex_count_owner(mutex_t *m, uint32_t me) {
	MUTEX_ADD(m->counts.n_lock_ops, 1);
	if (m->prev_owner != me) {
		m->prev_owner = me;
		MUTEX_ADD(m->counts.n_owner_switches, 1);
	}
}

/* Takes m if it is free; returns whether it did, false if the caller holds m. No rank check. */
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

/* Acquires m; spins, then sleeps while another thread holds it. Not recursive. */
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

/* Releases m, and wakes one sleeper if there may be one. */
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
mutex_assert_owner(const mutex_t *m UNUSED) {
	assert(mutex_is_owner(m));
}

ALWAYS_INLINE void
mutex_assert_not_owner(const mutex_t *m UNUSED) {
	assert(!mutex_is_owner(m));
}
