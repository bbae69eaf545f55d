/*
 * The contended side of the mutex, its renewal in a forked child, and its counters; mutex.h has the
 * contract. A waiter first spins, then sets MUTEX_WAITERS in the word, and sleeps while the word
 * keeps that value. A thread that takes the mutex after the spin loop sets MUTEX_WAITERS too,
 * because others may still sleep. So an unlock may call the kernel although nobody sleeps, but it
 * never leaves a sleeper without a wake-up. Called in all threads.
 */
#include "os/mutex.h"

#include "os/nstime.h"
#include "os/thread.h"

int64_t opt_mutex_max_spin = 600;

/*
 * Longest sleep in one system call, in ns. A signal handler that interrupts the sleep may fork. In
 * the child the owner may not exist, so nobody wakes the thread there; after this time the thread
 * looks whether the owner exists.
 */
#define MUTEX_SLEEP_NS NSTIME_PER_SEC

static struct {
	/* The last number that was made for a thread as a lock owner. */
	atomic_u32_t next_id;
	/*
	 * Numbers of threads that ended, for the next ones; 0: none. So where threads come and go
	 * next_id does not wrap, and no number is that of a second living thread.
	 */
	atomic_u32_t spare_ids[64];
	/*
	 * Owners with a number up to this one do not exist in this process, except `survivor`, the
	 * thread that called mutex_disown(). 0: all exist.
	 */
	atomic_u32_t last_absent;
	uint32_t survivor; /* written before last_absent; 0: it had no number then */
} mutex_state;

/* Makes a maximum at least so great. */
#define RAISE(counter, value) do { \
	if ((value) > MUTEX_GET(counter)) { \
		MUTEX_SET(counter, value); \
	} \
} while (0)

#define N_SPARE_IDS (sizeof(mutex_state.spare_ids) / sizeof(mutex_state.spare_ids[0]))

/* A number that no living thread has. */
static uint32_t
id_take(void) {
	uint32_t id = 0;
	for (size_t i = 0; i < N_SPARE_IDS && id == 0; i++) {
		if (atomic_load_u32(&mutex_state.spare_ids[i], MO_RELAXED) != 0) {
			id = atomic_exchange_u32(&mutex_state.spare_ids[i], 0, MO_ACQUIRE);
		}
	}
	while (id == 0) {
		id = atomic_fetch_add_u32(&mutex_state.next_id, 1, MO_RELAXED) + 1;
		id &= ~MUTEX_WAITERS;
	}
	return id;
}

void
mutex_id_release(void) {
	uint32_t id = __atomic_exchange_n(&tls_get()->lock_id, 0, __ATOMIC_RELAXED), none = 0;
	for (size_t i = 0; i < N_SPARE_IDS && id != 0; i++, none = 0) {
		if (atomic_cas_strong_u32(&mutex_state.spare_ids[i], &none, id, MO_RELEASE, MO_RELAXED)) {
			return;
		}
	}
}

uint32_t
mutex_id_assign(void) {
	uint32_t id = id_take();
	assert((id & MUTEX_WAITERS) == 0);
	/* A handler may have assigned another number meanwhile: the first one stays. */
	uint32_t early = 0;
	return __atomic_compare_exchange_n(&tls_get()->lock_id, &early, id, false, __ATOMIC_RELAXED,
	    __ATOMIC_RELAXED) ? id : early;
}

void
mutex_wake(mutex_t *m) {
	os_word_wake(&m->word, 1);
}

/* Whether a word names an owner that does not exist in this process. */
static bool
is_owner_absent(uint32_t word) {
	uint32_t owner = word & ~MUTEX_WAITERS;
	return unlikely(owner != 0 && owner <= atomic_load_u32(&mutex_state.last_absent, MO_RELAXED))
	    && owner != mutex_state.survivor;
}

/*
 * Spins up to opt_mutex_max_spin times; returns whether the mutex was taken. With one processor
 * spinning is useless: the owner does not run meanwhile.
 */
static bool
mutex_try_spin(mutex_t *m, uint32_t me) {
	assert(opt_mutex_max_spin >= -1);
	if (opt_mutex_max_spin == 0 || (opt_mutex_max_spin > 0 && os_ncpus() == 1)) {
		return false;
	}
	for (int64_t i = 0; opt_mutex_max_spin < 0 || i < opt_mutex_max_spin; i++) {
		CPU_SPINWAIT();
		uint32_t seen = atomic_load_u32(&m->word, MO_RELAXED);
		if (seen == 0 && mutex_try_word(m, me)) {
			return true;
		}
		if (is_owner_absent(seen)) {
			return false;
		}
	}
	return false;
}

/* Sleeps until m is free or its owner absent, and takes it, with MUTEX_WAITERS set in the word. */
static void
sleep_until_got(mutex_t *m, uint32_t me) {
	for (;;) {
		uint32_t seen = atomic_load_u32(&m->word, MO_RELAXED);
		bool is_free = seen == 0 || is_owner_absent(seen);
		uint32_t want = (is_free ? me : seen) | MUTEX_WAITERS;
		/*
		 * A thread never waits for a mutex that it holds itself; debug builds check that in
		 * before_lock.
		 */
		assert((seen & ~MUTEX_WAITERS) != me && seen != MUTEX_WAITERS);
		if (seen != want
		    && !atomic_cas_weak_u32(&m->word, &seen, want, MO_ACQUIRE, MO_RELAXED)) {
			continue;
		}
		if ((want & ~MUTEX_WAITERS) == me) {
			return;
		}
		os_word_wait(&m->word, want, MUTEX_SLEEP_NS);
	}
}

void
mutex_lock_slow(mutex_t *m, uint32_t me) {
	assert(me != 0 && me == tls_get()->lock_id);
	if (mutex_try_spin(m, me)) {
		MUTEX_ADD(m->counts.n_spin_acquired, 1);
		return;
	}
	uint64_t before = nstime_monotonic_ns();
	/* Threads that wait now, with this one. */
	uint32_t n_thds = atomic_fetch_add_u32(&m->counts.n_waiting_thds, 1, MO_RELAXED) + 1;
	sleep_until_got(m, me);
	mutex_assert_owner(m);
	atomic_fetch_sub_u32(&m->counts.n_waiting_thds, 1, MO_RELAXED);
	uint64_t waited = nstime_ns_between(before, nstime_monotonic_ns());
	MUTEX_ADD(m->counts.n_wait_times, 1);
	MUTEX_ADD(m->counts.tot_wait_time, waited);
	RAISE(m->counts.max_wait_time, waited);
	RAISE(m->counts.max_n_thds, n_thds);
}

void
mutex_init(mutex_t *m, const char *name UNUSED, unsigned rank UNUSED) {
	memset(m, 0, sizeof(*m));
#if CONFIG_DEBUG
	witness_init(&m->witness, name, rank);
#endif
}

void
mutex_debug_before_lock(mutex_t *m) {
	mutex_assert_not_owner(m);
#if CONFIG_DEBUG
	/*
	 * The ranks up to this one are held outside the gate and for long. Taking one inside could
	 * wait for an owner that itself waits for the gate (see gate.h).
	 */
	uint32_t rank = m->witness.rank;
	assert(rank > WITNESS_RANK_BACKGROUND_THREAD_GLOBAL || rank == WITNESS_RANK_OMIT
	    || tls_get()->gate_depth == 0);
	witness_check_order(&m->witness);
#endif
}

void
mutex_debug_after_lock(mutex_t *m) {
	mutex_assert_owner(m);
	assert(m->prev_owner == tls_get()->lock_id);
#if CONFIG_DEBUG
	witness_add(&m->witness);
#endif
}

void
mutex_debug_before_unlock(mutex_t *m) {
	mutex_assert_owner(m);
	/*
	 * Only the holder writes prev_owner, so another value means that a second thread was
	 * inside.
	 */
	assert(m->prev_owner == tls_get()->lock_id);
#if CONFIG_DEBUG
	witness_remove(&m->witness);
#endif
}

void
mutex_renew_in_child(mutex_t *m, const char *name, unsigned rank) {
	if (!mutex_is_owner(m)) {
		mutex_init(m, name, rank);
		return;
	}
	/* The parent's waiters do not exist in the child. */
	atomic_store_u32(&m->word, mutex_self(), MO_RELAXED);
	atomic_store_u32(&m->counts.n_waiting_thds, 0, MO_RELAXED);
}

void
mutex_disown(void) {
	mutex_state.survivor = tls_get()->lock_id;
	for (size_t i = 0; i < N_SPARE_IDS; i++) {
		atomic_store_u32(&mutex_state.spare_ids[i], 0, MO_RELAXED); /* they would count as absent */
	}
	atomic_store_u32(&mutex_state.last_absent,
	    atomic_load_u32(&mutex_state.next_id, MO_RELAXED), MO_RELAXED);
}

void
mutex_prof_read(mutex_prof_data_t *dst, mutex_t *m) {
#define READ(counter) dst->counter = MUTEX_GET(m->counts.counter);
	MUTEX_SUMS(READ)
	MUTEX_MAXIMA(READ)
#undef READ
}

void
mutex_prof_merge(mutex_prof_data_t *dst, const mutex_prof_data_t *src) {
#define ADD(counter) dst->counter += src->counter;
#define RAISE_TO(counter) RAISE(dst->counter, src->counter);
	MUTEX_SUMS(ADD)
	MUTEX_MAXIMA(RAISE_TO)
#undef ADD
#undef RAISE_TO
}

void
mutex_prof_reset(mutex_t *m) {
#define CLEAR(counter) MUTEX_SET(m->counts.counter, 0);
	MUTEX_SUMS(CLEAR)
	MUTEX_MAXIMA(CLEAR)
#undef CLEAR
}
