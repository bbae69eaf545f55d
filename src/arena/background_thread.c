/*
 * Creation, work and end of background threads; background_thread.h has the contract.
 *
 * Invariant: is_made is set in slot k (seen under bg.mtx) from the creation of thread k until it is
 * joined, and its tls from its start until then. It ends when is_on is false, or by itself when no
 * thread of the program is left. Locks: bg.mtx for creating and ending threads, a mutex of each
 * thread for its counters. Wakes need no lock: an arena may call them with any lock held.
 */
#include "arena/background_thread.h"

#include <stdlib.h>

#include "arena/arenas.h"
#include "arena/holes.h"
#include "extent/pac_serve.h"
#include "meta/base.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/thread.h"
#include "os/witness.h"

bool opt_background_thread;
size_t opt_max_background_threads = 4;
uint64_t (*background_thread_hook)(uint64_t now);
bool background_thread_abort;

/* Least sleep of a thread between two rounds (10 ms), however much is due, unless it is woken. */
#define GAP_NS (10 * NSTIME_PER_MSEC)
/* Longest sleep when the process's first thread has ended. */
#define ALONE_NS (200 * NSTIME_PER_MSEC)

typedef struct bg_thread_s {
	mutex_t mtx;          /* guards the next three */
	uint64_t nruns;       /* runs (rounds over the thread's arenas) so far */
	uint64_t nbetween;    /* times from the begin of a run to that of the next */
	uint64_t between_ns;  /* their sum */
	atomic_u32_t wakes;   /* the futex word on which the thread sleeps; a wake adds 1 */
	atomic_p_t tls;       /* the thread's TLS block; NULL: it does not run */
	atomic_b_t is_made;   /* written under bg.mtx, like the handle */
	os_thread_t handle;
} ALIGNED(CACHELINE) bg_thread_t;

static struct {
	mutex_t mtx;
	atomic_p_t threads;   /* opt_max_background_threads elements, made at first use */
	atomic_zu_t max;      /* most threads; changed only while no thread runs */
	atomic_b_t is_on;
	atomic_b_t has_first_ended; /* the process's first thread, by pthread_exit() */
} bg = {.mtx = MUTEX_INITIALIZER("background_thread", WITNESS_RANK_BACKGROUND_THREAD_GLOBAL)};

static bg_thread_t *
bg_threads(void) {
	return atomic_load_p(&bg.threads, MO_ACQUIRE);
}

bool
background_thread_is_on(void) {
	return atomic_load_b(&bg.is_on, MO_RELAXED);
}

size_t
background_thread_max(void) {
	return atomic_load_zu(&bg.max, MO_RELAXED);
}

/* Number of threads while they are on: never more than automatic arenas. */
static unsigned
bg_count(void) {
	return (unsigned)min_zu(background_thread_max(), arenas_narenas_auto());
}

/* ------------------------------------------------------------------ waking */

/*
 * Wakes a thread if it runs. The word is changed before tls is read, and a starting thread sets tls
 * before it reads what may have changed (its arenas, is_on). So if tls is still NULL here, the
 * thread will find the change.
 */
static void
bg_thread_wake(bg_thread_t *t) {
	atomic_fetch_add_u32(&t->wakes, 1, MO_SEQ_CST);
	if (atomic_load_p(&t->tls, MO_SEQ_CST) != NULL) {
		os_word_wake(&t->wakes, 1);
	}
}

/*
 * pac_wake_hook and arenas_made_hook: wakes the thread of an arena that has work or is new. Any
 * locks may be held.
 */
static void
bg_wake_arena(unsigned arena_ind) {
	bg_thread_t *threads = bg_threads();
	if (threads != NULL && background_thread_is_on()) {
		bg_thread_wake(&threads[arena_ind_visible(arena_ind) % bg_count()]);
	}
}

/* ------------------------------------------------------------------ the thread */

/* Does what is due in an arena. Returns ns until more is due; UINT64_MAX: nothing, or a is NULL. */
static uint64_t
bg_serve(arena_t *a) {
	if (a == NULL) {
		return UINT64_MAX;
	}
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	uint64_t now = nstime_monotonic_ns();
	pac_tick(&a->pac, now);
	/* These come first, because pac_serve() also handles the pages of deleted slabs. */
	uint64_t trim = arena_trim_tick(a, now), holes = holes_tick(a, now);
	uint64_t next = pac_serve(&a->pac, now);
	gate_exit(tls);
	next = trim < next ? trim : next;
	return holes < next ? holes : next;
}

/* What the first thread does besides. Returns ns until the next time; UINT64_MAX: not known. */
static uint64_t
bg_serve_caches(unsigned k) {
	uint64_t (*serve)(uint64_t) = k == 0 ? background_thread_hook : NULL;
	if (serve == NULL) {
		return UINT64_MAX;
	}
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	uint64_t next = serve(nstime_monotonic_ns());
	gate_exit(tls);
	return next;
}

/* Serves all arenas of thread k. Returns ns until the next one is due. */
static uint64_t
bg_serve_all(unsigned k) {
	uint64_t next = bg_serve_caches(k);
	unsigned n = arenas_narenas_total();
	for (unsigned i = k; i < n; i += bg_count()) {
		uint64_t own = bg_serve(arenas_get(i));
		uint64_t hidden = bg_serve(arenas_sampled_get(i));
		next = own < next ? own : next;
		next = hidden < next ? hidden : next;
	}
	return next > GAP_NS ? next : GAP_NS;
}

/* From now on heartbeats purge the arenas of thread k. */
static void
bg_unserve_all(unsigned k) {
	unsigned n = arenas_narenas_total();
	for (unsigned i = k; i < n; i += bg_count()) {
		arena_t *both[] = {arenas_get(i), arenas_sampled_get(i)};
		for (unsigned j = 0; j < ARRAY_LEN(both); j++) {
			if (both[j] != NULL) {
				pac_unserve(&both[j]->pac);
			}
		}
	}
}

/*
 * Counts a run that begins. last_ns: monotonic time of the last one; 0: none. Returns that of now.
 */
static uint64_t
bg_count_run(bg_thread_t *t, uint64_t last_ns) {
	gate_lock(&t->mtx);
	uint64_t now = nstime_monotonic_ns();
	if (last_ns != 0) {
		t->nbetween++;
		t->between_ns += nstime_ns_between(last_ns, now);
	}
	t->nruns++;
	gate_unlock(&t->mtx);
	return now;
}

static void *
bg_main(void *arg) {
	bg_thread_t *t = arg;
	unsigned k = (unsigned)(t - bg_threads());
	struct tls_s *tls = tls_get();
	tls->inside++; /* allocations in this thread are never sampled */
	atomic_store_p(&t->tls, tls, MO_SEQ_CST);
	for (uint64_t run_ns = 0;;) {
		uint32_t seen = atomic_load_u32(&t->wakes, MO_ACQUIRE);
		bool is_alone = atomic_load_b(&bg.has_first_ended, MO_ACQUIRE);
		if (!background_thread_is_on() || (is_alone && !os_thread_has_users())) {
			break;
		}
		run_ns = bg_count_run(t, run_ns);
		uint64_t next = bg_serve_all(k);
		os_word_wait(&t->wakes, seen, is_alone && next > ALONE_NS ? ALONE_NS : next);
	}
	bg_unserve_all(k);
	tls->inside--;
	return NULL;
}

/* ------------------------------------------------------------------ making and ending */

/* The array for the maximum number of threads. NULL if there is no memory. */
static bg_thread_t *
bg_threads_locked(void) {
	mutex_assert_owner(&bg.mtx);
	bg_thread_t *threads = bg_threads();
	if (threads != NULL) {
		return threads;
	}
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	threads = base_alloc(base_b0(), opt_max_background_threads * sizeof(*threads), CACHELINE);
	gate_exit(tls);
	/* Zeroed memory is a valid thread; only the lock-order check needs the lock's name. */
	for (size_t i = 0; config_debug && threads != NULL && i < opt_max_background_threads; i++) {
		mutex_init(&threads[i].mtx, "background_thread_one", WITNESS_RANK_BACKGROUND_THREAD);
	}
	atomic_store_p(&bg.threads, threads, MO_RELEASE);
	return threads;
}

COLD static void
bg_report_failure(int err) {
	malloc_printf("<jemalloc>: a background thread could not be started (error %d); memory goes "
	    "back at the program's own calls\n", err);
	if (background_thread_abort) {
		abort();
	}
}

/*
 * Between bg_libc_begin() and bg_libc_end() the C library may allocate for a new thread. Its
 * requests are served like those inside a user's hook: neither from this thread's cache, which may
 * be half changed, nor from an arena with hooks, which might call the library.
 */
static uint32_t
bg_libc_begin(void) {
	return ehooks_begin != NULL ? ehooks_begin() : 0;
}

static void
bg_libc_end(uint32_t token) {
	if (ehooks_end != NULL) {
		ehooks_end(token);
	}
}

/* Starts a thread if it does not run. 0 or an errno value. */
static int
bg_make_locked(bg_thread_t *t) {
	mutex_assert_owner(&bg.mtx);
	assert(tls_get()->gate_depth == 0);
	if (atomic_load_b(&t->is_made, MO_RELAXED)) {
		return 0;
	}
	uint32_t token = bg_libc_begin();
	int err = os_thread_create(&t->handle, "jemalloc_bg_thd", bg_main, t);
	bg_libc_end(token);
	atomic_store_b(&t->is_made, err == 0, MO_RELAXED);
	return err;
}

/*
 * Starts all threads that are missing. 0 or an errno value, which the caller reports after it has
 * released the lock: the user's malloc_message may call mallctl.
 */
static int
bg_make_all_locked(void) {
	bg_thread_t *threads = bg_threads_locked();
	int err = threads == NULL ? ENOMEM : 0;
	for (size_t k = 0; err == 0 && k < bg_count(); k++) {
		err = bg_make_locked(&threads[k]);
	}
	return err;
}

/* Switches them off, which is what tells them to end. */
static void
bg_end_all_locked(void) {
	mutex_assert_owner(&bg.mtx);
	assert(tls_get()->gate_depth == 0);
	atomic_store_b(&bg.is_on, false, MO_RELEASE);
	bg_thread_t *threads = bg_threads();
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		if (atomic_load_b(&threads[k].is_made, MO_RELAXED)) {
			bg_thread_wake(&threads[k]);
		}
	}
	uint32_t token = bg_libc_begin();
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		if (atomic_load_b(&threads[k].is_made, MO_RELAXED)) {
			os_thread_join(&threads[k].handle);
			atomic_store_p(&threads[k].tls, NULL, MO_RELAXED);
			atomic_store_b(&threads[k].is_made, false, MO_RELAXED);
		}
	}
	bg_libc_end(token);
}

/*
 * Whether the caller is one of the threads: a user's hook there, also one that is called while the
 * thread ends, cannot wait for that end. (A new thread of the program that gets the TLS block of
 * one that was joined just now may be taken for it, until its slot is cleared.)
 */
static bool
is_background_thread(void) {
	const bg_thread_t *threads = bg_threads();
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		if (atomic_load_p(&threads[k].tls, MO_RELAXED) == tls_get()) {
			return true;
		}
	}
	return false;
}

/* ------------------------------------------------------------------ switching */

/* Switches them on; if that fails, off. 0 or the errno value of bg_make_all_locked(). */
static int
bg_switch_on_locked(void) {
	atomic_store_b(&bg.is_on, true, MO_RELEASE);
	int err = bg_make_all_locked();
	if (err != 0) {
		bg_end_all_locked();
	}
	return err;
}

/* Reports an error of bg_make_all_locked(). Returns what the public functions return for it. */
static int
bg_report(int err) {
	if (err != 0) {
		bg_report_failure(err);
	}
	return err == 0 ? 0 : EFAULT;
}

int
background_thread_set(bool on) {
	int err = 0;
	assert(tls_get()->gate_depth == 0);
	if (is_background_thread()) {
		return EFAULT;
	}
	mutex_lock(&bg.mtx);
	if (on) {
		err = bg_switch_on_locked();
	} else if (background_thread_is_on()) {
		bg_end_all_locked();
	}
	mutex_unlock(&bg.mtx);
	return bg_report(err);
}

int
background_thread_max_set(size_t max) {
	int err = 0;
	assert(tls_get()->gate_depth == 0);
	if (max == 0 || max > opt_max_background_threads) {
		return EINVAL;
	}
	if (is_background_thread()) {
		return EFAULT;
	}
	mutex_lock(&bg.mtx);
	if (max != background_thread_max()) {
		bool was_on = background_thread_is_on();
		bg_end_all_locked();
		atomic_store_zu(&bg.max, max, MO_RELAXED);
		err = was_on ? bg_switch_on_locked() : 0;
	}
	mutex_unlock(&bg.mtx);
	return bg_report(err);
}

void
background_thread_boot(void) {
	assert(opt_max_background_threads > 0
	    && opt_max_background_threads <= BACKGROUND_THREADS_LIMIT);
	atomic_store_zu(&bg.max, opt_max_background_threads, MO_RELAXED);
	pac_wake_hook = bg_wake_arena;
	arenas_made_hook = bg_wake_arena;
	atomic_store_b(&bg.is_on, opt_background_thread, MO_RELAXED);
}

/* After a failure the switch stays on, and the arenas without a thread decay at heartbeats. */
void
background_thread_boot_late(void) {
	if (background_thread_is_on()) {
		mutex_lock(&bg.mtx);
		int err = bg_make_all_locked();
		mutex_unlock(&bg.mtx);
		(void)bg_report(err);
	}
}

void
background_thread_cleanup(struct tsd_s *tsd UNUSED) {
	if (!os_thread_is_first()) {
		return;
	}
	/* Also while they are off: another thread may switch them on later. */
	atomic_store_b(&bg.has_first_ended, true, MO_SEQ_CST);
	bg_thread_t *threads = bg_threads();
	for (unsigned k = 0; threads != NULL && k < bg_count(); k++) {
		bg_thread_wake(&threads[k]);
	}
}

/* ------------------------------------------------------------------ fork */

/* Threads do not exist in a forked child, so all slots are reset, and they are off. */
void
background_thread_postfork_child(void) {
	bg_thread_t *threads = bg_threads();
	mutex_renew_in_child(&bg.mtx, "background_thread", WITNESS_RANK_BACKGROUND_THREAD_GLOBAL);
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		atomic_store_b(&threads[k].is_made, false, MO_RELAXED);
		atomic_store_p(&threads[k].tls, NULL, MO_RELAXED);
	}
	for (unsigned k = 0; k < bg_count(); k++) {
		bg_unserve_all(k);
	}
	atomic_store_b(&bg.is_on, false, MO_RELAXED);
	atomic_store_b(&bg.has_first_ended, false, MO_RELAXED);
}

/* ------------------------------------------------------------------ statistics */

void
background_thread_stats_read(background_thread_stats_t *out) {
	bg_thread_t *threads = bg_threads();
	uint64_t between = 0, nbetween = 0;
	memset(out, 0, sizeof(*out));
	/* Read without the lock, which may be held for long while a thread's end is awaited. */
	mutex_prof_read(&out->mutex, &bg.mtx);
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		mutex_prof_data_t data;
		out->num_threads += atomic_load_b(&threads[k].is_made, MO_RELAXED);
		mutex_lock(&threads[k].mtx);
		out->num_runs += threads[k].nruns;
		between += threads[k].between_ns;
		nbetween += threads[k].nbetween;
		mutex_prof_read(&data, &threads[k].mtx);
		mutex_unlock(&threads[k].mtx);
		if (data.n_lock_ops > out->max_per_thread.n_lock_ops) {
			out->max_per_thread = data;
		}
	}
	out->run_interval = nbetween > 0 ? between / nbetween : 0;
}

void
background_thread_stats_reset(void) {
	bg_thread_t *threads = bg_threads();
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		mutex_lock(&threads[k].mtx);
		mutex_prof_reset(&threads[k].mtx);
		mutex_unlock(&threads[k].mtx);
	}
	if (mutex_trylock(&bg.mtx)) {
		mutex_prof_reset(&bg.mtx);
		mutex_unlock(&bg.mtx);
	}
}
