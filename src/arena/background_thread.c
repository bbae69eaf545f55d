/* Making, serving and ending; see background_thread.h. */
#include "arena/background_thread.h"

#include <stdlib.h>

#include "arena/arenas.h"
#include "meta/base.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/thread.h"
#include "os/witness.h"

bool opt_background_thread;
size_t opt_max_background_threads = 4;
bool background_thread_abort;

/* A thread looks at most this often, however much is due. */
#define GAP_NS (10 * NSTIME_PER_MSEC)

typedef struct bg_thread_s {
	mutex_t mtx;          /* the counters below */
	uint64_t nruns;
	uint64_t between_ns;  /* sum of the times between runs */
	uint64_t last_run_ns;
	atomic_u32_t wakes;   /* it sleeps on this */
	atomic_b_t must_end;
	atomic_p_t tls;       /* its words, while it runs */
	bool is_made;         /* under bg.mtx, as the handle */
	os_thread_t handle;
} ALIGNED(CACHELINE) bg_thread_t;

static struct {
	mutex_t mtx;
	atomic_p_t threads;   /* opt_max_background_threads of them, once they are needed */
	atomic_zu_t max;      /* changed only while none runs */
	atomic_zu_t nthreads;
	atomic_b_t is_on;
	atomic_b_t is_due;    /* some thread is to be made */
	bool has_failed;      /* said once; tried again only when switched on anew */
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

/* ------------------------------------------------------------------ waking */

/*
 * The word is changed before the look at tls, and a thread sets tls before it looks at its arenas: a
 * thread that is not seen here sees what has changed.
 */
static bool
bg_thread_try_wake(bg_thread_t *t) {
	atomic_fetch_add_u32(&t->wakes, 1, MO_SEQ_CST);
	if (atomic_load_p(&t->tls, MO_SEQ_CST) == NULL) {
		return false;
	}
	os_word_wake(&t->wakes, 1);
	return true;
}

/* Something has changed in an arena; whatever locks are held. */
static void
bg_wake_arena(unsigned arena_ind) {
	if (!background_thread_is_on()) {
		return;
	}
	bg_thread_t *threads = bg_threads();
	size_t k = arena_ind_visible(arena_ind) % background_thread_max();
	if (threads == NULL || !bg_thread_try_wake(&threads[k])) {
		atomic_store_b(&bg.is_due, true, MO_RELAXED);
	}
}

/* ------------------------------------------------------------------ the thread */

static uint64_t
bg_serve(arena_t *a) {
	if (a == NULL) {
		return UINT64_MAX;
	}
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	uint64_t now = nstime_monotonic_ns();
	pac_tick(&a->pac, now);
	/* First, because the pages of slabs that are empty now wait for the rest. */
	uint64_t trim = arena_trim_tick(a, now), next = pac_serve(&a->pac, now);
	gate_exit(tls);
	return trim < next ? trim : next;
}

/* All arenas of thread k; ns until the next is due. */
static uint64_t
bg_serve_all(unsigned k) {
	uint64_t next = UINT64_MAX;
	unsigned n = arenas_narenas_total();
	for (unsigned i = k; i < n; i += (unsigned)background_thread_max()) {
		uint64_t own = bg_serve(arenas_get(i));
		uint64_t hidden = bg_serve(arenas_sampled_get(i));
		next = own < next ? own : next;
		next = hidden < next ? hidden : next;
	}
	return next == UINT64_MAX || next > GAP_NS ? next : GAP_NS;
}

static void
bg_unserve_all(unsigned k) {
	unsigned n = arenas_narenas_total();
	for (unsigned i = k; i < n; i += (unsigned)background_thread_max()) {
		arena_t *both[] = {arenas_get(i), arenas_sampled_get(i)};
		for (unsigned j = 0; j < ARRAY_LEN(both); j++) {
			if (both[j] != NULL) {
				pac_unserve(&both[j]->pac);
			}
		}
	}
}

static void
bg_count_run(bg_thread_t *t, bool is_first) {
	struct tls_s *tls = tls_get();
	gate_enter(tls);
	mutex_lock(&t->mtx);
	uint64_t now = nstime_monotonic_ns();
	t->between_ns += is_first ? 0 : nstime_ns_between(t->last_run_ns, now);
	t->last_run_ns = now;
	t->nruns++;
	mutex_unlock(&t->mtx);
	gate_exit(tls);
}

static void *
bg_main(void *arg) {
	bg_thread_t *t = arg;
	unsigned k = (unsigned)(t - bg_threads());
	struct tls_s *tls = tls_get();
	tls->inside++; /* what happens in here is nobody's sample */
	atomic_store_p(&t->tls, tls, MO_SEQ_CST);
	os_thread_name_set("jemalloc_bg_thd");
	for (bool is_first = true;; is_first = false) {
		uint32_t seen = atomic_load_u32(&t->wakes, MO_ACQUIRE);
		if (atomic_load_b(&t->must_end, MO_ACQUIRE)) {
			break;
		}
		bg_count_run(t, is_first);
		os_word_wait(&t->wakes, seen, bg_serve_all(k));
	}
	atomic_store_p(&t->tls, NULL, MO_RELEASE);
	bg_unserve_all(k);
	tls->inside--;
	return NULL;
}

/* ------------------------------------------------------------------ making and ending */

/* Room for as many as there may ever be; NULL: no memory. */
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
	/* Zeroed memory is a valid thread; only the witness wants to know its lock's name. */
	for (size_t i = 0; config_debug && threads != NULL && i < opt_max_background_threads; i++) {
		mutex_init(&threads[i].mtx, "background_thread_one", WITNESS_RANK_BACKGROUND_THREAD);
	}
	atomic_store_p(&bg.threads, threads, MO_RELEASE);
	return threads;
}

COLD static void
bg_report_failure(int err) {
	if (bg.has_failed) {
		return;
	}
	bg.has_failed = true;
	malloc_printf("<jemalloc>: a background thread could not be started (error %d); memory goes "
	    "back at the program's own calls\n", err);
	if (background_thread_abort) {
		abort();
	}
}

/*
 * What the C library allocates for a thread is served as in a hook of the program: not by this thread's
 * cache, which may be in the midst of something, nor by an arena with hooks, which might call us.
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

/* The thread of slot k; 0 or errno. */
static int
bg_make_locked(bg_thread_t *t) {
	mutex_assert_owner(&bg.mtx);
	assert(tls_get()->gate_depth == 0);
	if (t->is_made) {
		return 0;
	}
	atomic_store_b(&t->must_end, false, MO_RELAXED);
	uint32_t token = bg_libc_begin();
	int err = os_thread_create(&t->handle, bg_main, t);
	bg_libc_end(token);
	t->is_made = err == 0;
	if (err == 0) {
		atomic_fetch_add_zu(&bg.nthreads, 1, MO_RELAXED);
	}
	return err;
}

/* Slot k has something to serve. */
static bool
bg_has_arena(size_t k) {
	unsigned n = arenas_narenas_total();
	for (size_t i = k; i < n; i += background_thread_max()) {
		if (arenas_get((unsigned)i) != NULL) {
			return true;
		}
	}
	return false;
}

/* All that are due; 0 or errno: those that could be made are there. */
static int
bg_make_all_locked(void) {
	bg_thread_t *threads = bg_threads_locked();
	int err = threads == NULL ? ENOMEM : 0;
	for (size_t k = 0; err == 0 && k < background_thread_max(); k++) {
		if (bg_has_arena(k)) {
			err = bg_make_locked(&threads[k]);
		}
	}
	if (err != 0) {
		bg_report_failure(err);
	}
	return err;
}

static void
bg_end_all_locked(void) {
	mutex_assert_owner(&bg.mtx);
	assert(tls_get()->gate_depth == 0);
	bg_thread_t *threads = bg_threads();
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		if (threads[k].is_made) {
			atomic_store_b(&threads[k].must_end, true, MO_RELEASE);
			bg_thread_try_wake(&threads[k]);
		}
	}
	uint32_t token = bg_libc_begin();
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		if (threads[k].is_made) {
			os_thread_join(&threads[k].handle);
			threads[k].is_made = false;
			atomic_fetch_sub_zu(&bg.nthreads, 1, MO_RELAXED);
		}
	}
	bg_libc_end(token);
	assert(atomic_load_zu(&bg.nthreads, MO_RELAXED) == 0);
}

/* A hook of the program, called by a thread of ours, cannot wait for that thread's end. */
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

static int
bg_switch_on_locked(void) {
	bg.has_failed = false;
	atomic_store_b(&bg.is_due, false, MO_RELAXED);
	atomic_store_b(&bg.is_on, true, MO_RELEASE);
	if (bg_make_all_locked() == 0) {
		return 0;
	}
	atomic_store_b(&bg.is_on, false, MO_RELEASE);
	bg_end_all_locked();
	return EFAULT;
}

int
background_thread_set(bool on) {
	int err = 0;
	assert(tls_get()->gate_depth == 0);
	if (is_background_thread()) {
		return EFAULT;
	}
	mutex_lock(&bg.mtx);
	if (on && !background_thread_is_on()) {
		err = bg_switch_on_locked();
	} else if (!on && background_thread_is_on()) {
		atomic_store_b(&bg.is_on, false, MO_RELEASE);
		bg_end_all_locked();
	}
	mutex_unlock(&bg.mtx);
	return err;
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
		atomic_store_b(&bg.is_on, false, MO_RELEASE);
		bg_end_all_locked();
		atomic_store_zu(&bg.max, max, MO_RELAXED);
		err = was_on ? bg_switch_on_locked() : 0;
	}
	mutex_unlock(&bg.mtx);
	return err;
}

void
background_thread_boot(void) {
	assert(opt_max_background_threads > 0 && opt_max_background_threads <= BACKGROUND_THREADS_LIMIT);
	atomic_store_zu(&bg.max, opt_max_background_threads, MO_RELAXED);
	pac_wake_hook = bg_wake_arena;
	arenas_made_hook = bg_wake_arena;
	atomic_store_b(&bg.is_on, opt_background_thread, MO_RELAXED);
	atomic_store_b(&bg.is_due, opt_background_thread, MO_RELAXED);
}

/* ------------------------------------------------------------------ heartbeats, fork */

/* Straight from the program, and no fork under way. */
static bool
bg_is_safe(const struct tls_s *tls) {
	return tls->inside <= 1 && tls->gate_depth <= 1 && !gate_is_closed();
}

static void NOINLINE
bg_make_due(void) {
	struct tls_s *tls = tls_get();
	if (!bg_is_safe(tls)) {
		return;
	}
	uint32_t depth = gate_leave_all(tls);
	/* Who holds it makes or ends threads: the flag stays, the next heartbeat looks again. */
	if (mutex_trylock(&bg.mtx)) {
		atomic_store_b(&bg.is_due, false, MO_RELAXED);
		if (background_thread_is_on() && !bg.has_failed) {
			bg_make_all_locked();
		}
		mutex_unlock(&bg.mtx);
	}
	gate_reenter(tls, depth);
}

void
background_thread_heartbeat(void) {
	if (unlikely(atomic_load_b(&bg.is_due, MO_RELAXED))) {
		bg_make_due();
	}
}

/* The threads are the parent's. */
void
background_thread_postfork_child(void) {
	bg_thread_t *threads = bg_threads();
	mutex_renew_in_child(&bg.mtx, "background_thread", WITNESS_RANK_BACKGROUND_THREAD_GLOBAL);
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		threads[k].is_made = false;
		atomic_store_p(&threads[k].tls, NULL, MO_RELAXED);
	}
	for (size_t k = 0; k < background_thread_max(); k++) {
		bg_unserve_all((unsigned)k);
	}
	atomic_store_zu(&bg.nthreads, 0, MO_RELAXED);
	bg.has_failed = false;
	atomic_store_b(&bg.is_due, background_thread_is_on(), MO_RELAXED);
}

/* ------------------------------------------------------------------ statistics */

void
background_thread_stats_read(background_thread_stats_t *out) {
	bg_thread_t *threads = bg_threads();
	uint64_t between = 0;
	memset(out, 0, sizeof(*out));
	out->num_threads = atomic_load_zu(&bg.nthreads, MO_RELAXED);
	/* Not taken: it may be held for long by who waits for a thread's end. */
	mutex_prof_read(&out->mutex, &bg.mtx);
	for (size_t k = 0; threads != NULL && k < opt_max_background_threads; k++) {
		mutex_prof_data_t data;
		mutex_lock(&threads[k].mtx);
		out->num_runs += threads[k].nruns;
		between += threads[k].between_ns;
		mutex_prof_read(&data, &threads[k].mtx);
		mutex_unlock(&threads[k].mtx);
		if (data.n_lock_ops > out->max_per_thread.n_lock_ops) {
			out->max_per_thread = data;
		}
	}
	out->run_interval = out->num_runs > 0 ? between / out->num_runs : 0;
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
