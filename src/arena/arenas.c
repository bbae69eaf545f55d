/*
 * Creation, choice and end of arenas, and work on all of them; arenas.h has the contract.
 *
 * Lock: arenas.mtx guards additions to the table, the choice of the arena with the fewest threads
 * (that by CPU, or of a vacant arena, needs no lock), and the fields of arena_t that are under the
 * lock "arenas". It is not held while an arena is reset or destroyed and its slots are cleared;
 * is_ending keeps out other resets and destructions, and the user promises that no thread uses the
 * arena. Counts and times are atomic and read without it; narenas_auto, first_manual and
 * percpu_limit are set at boot. Callers: arenas.h names them; arenas_relieve() is also called
 * through pac_shed_hook, whenever a thread leaves too much address space without use (pac_step.h).
 */
#include "arena/arenas.h"

#include "arena/holes.h"
#include "arena/large.h"
#include "arena/vacant.h"
#include "extent/guard.h"
#include "extent/pac_life.h"
#include "extent/pac_relieve.h"
#include "meta/recs.h"
#include "os/malloc_io.h"
#include "os/thread.h"
#include "os/witness.h"
#include "util/fmt.h"

unsigned opt_narenas = 0;
fxp_t opt_narenas_ratio = (fxp_t)4 << 16;
bool opt_huge_arena_pac_thp;
size_t opt_oversize_threshold = (size_t)8 << 20;
EARLY_DATA size_t arenas_oversize_min = SIZE_MAX;
void (*arenas_made_hook)(unsigned ind);
unsigned opt_percpu_arena = percpu_arena_disabled;
const char *const percpu_arena_names[] = {"percpu", "phycpu", "disabled", NULL};

/* pac_bound() gets this many times the threshold of an arena. */
#define OVERSIZE_KEEP 4

/* The limits of pac_rise_step, the step in which an arena reports more unused bytes; in bytes. */
#define RISE_STEP_MAX ((size_t)1 << 20)
#define RISE_STEP_MIN ((size_t)16 << LG_PAGE)

/* Minimum time between two rounds of decay over all arenas (10 ms). */
#define TICK_NS ((uint64_t)10 * 1000 * 1000)

static struct {
	mutex_t mtx;
	atomic_u32_t total;     /* slots in use, see arenas_narenas_total() */
	unsigned narenas_auto;
	unsigned first_manual;  /* first explicit slot; that of oversized requests, if any, precedes */
	unsigned percpu_limit;  /* number of arenas that are chosen by CPU; 0: none is */
	atomic_u64_t next_tick; /* time of the next round of decay, coarse monotonic ns */
	atomic_zu_t dirty_ms;   /* default decay times of new arenas, ms */
	atomic_zu_t muzzy_ms;
	arena_t *gone;          /* destroyed arenas, the last one first */
	/*
	 * Unused bytes after the last arenas_try_relieve() that did not help, or fewer if there were
	 * fewer since; a new try needs more than these. 0: the last try helped.
	 */
	atomic_zu_t useless;
	atomic_u32_t keeping; /* the flags KEEP_*, of arenas_keep_limit() */
} arenas;

/* A thread is in vacant_keep_limit(); one is to be; that one has found all other threads idle. */
#define KEEP_NOW 1u
#define KEEP_WANTED 2u
#define KEEP_IDLE 4u

unsigned
arenas_narenas_total(void) {
	return atomic_load_u32(&arenas.total, MO_ACQUIRE);
}

unsigned
arenas_narenas_auto(void) {
	return arenas.narenas_auto;
}

arena_t *
arenas_get(unsigned ind) {
	return ind < ARENA_LIMIT ? arena_table_get(ind) : NULL;
}

arena_t *
arenas_sampled_get(unsigned ind) {
	return ind < ARENA_LIMIT ? arena_table_get(ARENA_HIDDEN(ind)) : NULL;
}

arena_t *
arenas_sampled_wait(unsigned ind) {
	mutex_lock(&arenas.mtx);
	arena_t *hidden = arenas_sampled_get(ind);
	mutex_unlock(&arenas.mtx);
	return hidden;
}

static void
arenas_made(unsigned ind) {
	mutex_assert_owner(&arenas.mtx);
	assert(ind < ARENA_LIMIT && arenas_get(ind) != NULL);
	if (arenas_made_hook != NULL) {
		arenas_made_hook(ind);
	}
}

/* Asks for huge pages for a new mapping. A refusal is no error: the pages are usable. */
static void
arenas_oversize_grown(void *addr, size_t size) {
	pages_advise(addr, size, PAGES_HUGE);
}

/*
 * Whether to ask for huge pages: the option is set, the system gives them on request, no other
 * option decides about them, and metadata has them too.
 */
static bool
arenas_oversize_is_huge(void) {
	return opt_huge_arena_pac_thp && opt_metadata_thp != metadata_thp_disabled
	    && opt_thp == thp_mode_default && pages_system_thp_mode() == thp_mode_default;
}

static bool
oversize_is_threshold(size_t size) {
	return size >= SC_LARGE_MINCLASS && size <= SC_LARGE_MAXCLASS;
}

void
arenas_oversize_threshold_set(arena_t *a, size_t threshold) {
	size_t keep = min_zu(threshold, SC_LARGE_MAXCLASS / OVERSIZE_KEEP) * OVERSIZE_KEEP;
	atomic_store_zu(&a->oversize_threshold, threshold, MO_RELAXED);
	pac_bound(&a->pac, oversize_is_threshold(threshold) ? keep : 0);
}

/* The arena with this index, made if it does not exist (is_auto, hooks); NULL: no memory. */
static arena_t *
arenas_init_locked(unsigned ind, bool is_auto, ehooks_table_t *hooks) {
	mutex_assert_owner(&arenas.mtx);
	assert(ind < ARENA_LIMIT);
	arena_t *a = arenas_get(ind);
	if (a == NULL) {
		a = arena_new(ind, is_auto, arenas_decay_ms_default_get(true),
		    arenas_decay_ms_default_get(false), hooks);
		if (a != NULL) {
			atomic_store_zu(&a->oversize_threshold, opt_oversize_threshold, MO_RELAXED);
		}
		if (a != NULL && is_auto && ind >= arenas.narenas_auto) {
			fmt_snprintf(a->name, sizeof(a->name), "auto_oversize");
			arenas_oversize_threshold_set(a, opt_oversize_threshold);
			pac_yields(&a->pac);
			a->pac.src.grown = arenas_oversize_is_huge() ? arenas_oversize_grown : NULL;
		}
		if (a != NULL) {
			arena_table_set(ind, a);
			arenas_made(ind);
		}
	}
	return a;
}

arena_t *
arenas_oversize(void) {
	assert(arenas.first_manual == arenas.narenas_auto + 1);
	return arenas_get_or_init(arenas.narenas_auto);
}

arena_t *
arenas_get_or_init(unsigned ind) {
	arena_t *a = arenas_get(ind);
	if (a != NULL || ind >= arenas.first_manual) {
		return a;
	}
	mutex_lock(&arenas.mtx);
	a = arenas_init_locked(ind, true, NULL);
	mutex_unlock(&arenas.mtx);
	return a;
}

/*
 * ------------------------------------------------------------------ explicit arenas, and their end
 */

/* Takes the arena that was destroyed last off their list and renews it. NULL: the list is empty. */
static arena_t *
arenas_revive_locked(ehooks_table_t *hooks) {
	arena_t *a = arenas.gone;
	if (a != NULL) {
		assert(arenas_get(a->ind) == NULL && a->ind >= arenas.first_manual);
		arenas.gone = a->next_gone;
		arena_renew(a, arenas_decay_ms_default_get(true), arenas_decay_ms_default_get(false),
		    hooks);
		atomic_store_zu(&a->oversize_threshold, opt_oversize_threshold, MO_RELAXED);
		arena_table_set(a->ind, a);
		arenas_made(a->ind);
	}
	return a;
}

int
arenas_create(unsigned *ind, ehooks_table_t *hooks) {
	mutex_lock(&arenas.mtx);
	unsigned n = atomic_load_u32(&arenas.total, MO_RELAXED);
	arena_t *a = arenas_revive_locked(hooks);
	if (a == NULL && n < ARENA_LIMIT) {
		a = arenas_init_locked(n, false, hooks);
		if (a != NULL) {
			atomic_store_u32(&arenas.total, n + 1, MO_RELEASE);
		}
	}
	mutex_unlock(&arenas.mtx);
	if (a != NULL) {
		*ind = a->ind;
	}
	return a != NULL ? 0 : EAGAIN;
}

static bool
arena_has_users(arena_t *a) {
	mutex_lock(&a->tcache_list_mtx);
	bool has_caches = ql_first(&a->tcaches) != NULL;
	mutex_unlock(&a->tcache_list_mtx);
	return has_caches || atomic_load_u32(&a->nthreads, MO_RELAXED) > 0;
}

/* Reserves the arena for reset or destruction by this thread. NULL: that is not possible now. */
static arena_t *
arenas_end_begin(unsigned ind, bool is_destroy) {
	/* In a hook of the arena's, this thread is amid work on it: a request, a free or a purge. */
	bool is_possible = ind >= arenas.first_manual && !ehooks_may_be_calling(ind);
	arena_t *a = is_possible ? arenas_get(ind) : NULL;
	mutex_lock(&arenas.mtx);
	if (a != NULL && (a != arenas_get(ind) || a->is_ending
	    || (is_destroy && arena_has_users(a)))) {
		a = NULL;
	}
	if (a != NULL) {
		a->is_ending = true;
	}
	mutex_unlock(&arenas.mtx);
	return a;
}

/* arena_end() of the arena and its hidden one. */
static void
arenas_end_both(arena_t *a, arena_t *hidden, arena_sample_fn_t *on_sample, bool is_destroy) {
	assert(a->is_ending);
	arena_end(a, on_sample, is_destroy);
	if (hidden != NULL) {
		arena_end(hidden, on_sample, is_destroy);
	}
}

/* Ends what arenas_end_begin() began; is_gone: the arena waits for the next arenas_create(). */
static void
arenas_end_done(arena_t *a, bool is_gone) {
	mutex_lock(&arenas.mtx);
	a->is_ending = false;
	if (is_gone) {
		a->next_gone = arenas.gone;
		arenas.gone = a;
	}
	mutex_unlock(&arenas.mtx);
}

int
arenas_reset(unsigned ind, arena_sample_fn_t *on_sample) {
	arena_t *a = arenas_end_begin(ind, false);
	if (a == NULL) {
		return EFAULT;
	}
	arenas_end_both(a, arenas_sampled_get(ind), on_sample, false);
	arenas_end_done(a, false);
	return 0;
}

int
arenas_destroy(unsigned ind, arena_sample_fn_t *on_sample,
    void (*on_gone)(arena_t *a, arena_t *hidden)) {
	arena_t *a = arenas_end_begin(ind, true);
	if (a == NULL) {
		return EFAULT;
	}
	arena_t *hidden = arenas_sampled_get(ind);
	arenas_end_both(a, hidden, on_sample, true);
	/* The index is still reserved: it is used again only after arenas_end_done(). */
	arena_table_set(ind, NULL);
	arena_table_set(ARENA_HIDDEN(ind), NULL);
	on_gone(a, hidden);
	arenas_end_done(a, true);
	return 0;
}

int
arenas_hooks(unsigned ind, ehooks_table_t *table, ehooks_table_t **old) {
	if (ind >= arenas_narenas_total()) {
		return EFAULT;
	}
	mutex_lock(&arenas.mtx);
	arena_t *a = arenas_get(ind);
	arena_t *hidden = arenas_sampled_get(ind);
	int err = a == NULL && ind >= arenas.first_manual ? EFAULT : 0;
	*old = a != NULL ? ehooks_get(&a->pac.src.ehooks) : &ehooks_system;
	if (err == 0 && table != NULL && a == NULL) {
		err = arenas_init_locked(ind, true, table) == NULL ? EFAULT : 0;
	} else if (err == 0 && table != NULL) {
		pac_hooks_set(&a->pac, table);
		if (hidden != NULL && ind >= arenas.first_manual) {
			pac_hooks_set(&hidden->pac, table);
		}
	}
	mutex_unlock(&arenas.mtx);
	return err;
}

arena_t *
arenas_fallback(void) {
	arena_t *a = arenas_get(0);
	if (likely(a == NULL || !ehooks_are_custom(&a->pac.src.ehooks))) {
		return a;
	}
	return arenas_sampled(a);
}

/*
 * One thread at a time purges, and does so anew for those that come meanwhile: each of several at
 * once would purge as much as exceeds the limit, and skip the arenas that the others are purging.
 */
void
arenas_keep_limit(bool is_idle) {
	uint32_t flags = KEEP_NOW | KEEP_WANTED | (is_idle ? KEEP_IDLE : 0);
	if ((atomic_fetch_or_u32(&arenas.keeping, flags, MO_SEQ_CST) & KEEP_NOW) != 0) {
		return;
	}
	do {
		flags = atomic_fetch_and_u32(&arenas.keeping, KEEP_NOW, MO_SEQ_CST);
		vacant_keep_limit(arenas_narenas_total(), (flags & KEEP_IDLE) != 0);
		flags = KEEP_NOW;
	} while (!atomic_cas_strong_u32(&arenas.keeping, &flags, 0, MO_SEQ_CST, MO_SEQ_CST));
}

/*
 * The automatic arena with the fewest threads; *empty: the first slot without an arena, or
 * narenas_auto if each has one.
 */
static arena_t *
arenas_least_locked(unsigned *empty) {
	mutex_assert_owner(&arenas.mtx);
	arena_t *least = NULL;
	*empty = arenas.narenas_auto;
	for (unsigned i = 0; i < arenas.narenas_auto; i++) {
		arena_t *a = arenas_get(i);
		if (a == NULL) {
			*empty = *empty == arenas.narenas_auto ? i : *empty;
		} else if (least == NULL || atomic_load_u32(&a->nthreads, MO_RELAXED) <
		    atomic_load_u32(&least->nthreads, MO_RELAXED)) {
			least = a;
		}
	}
	return least;
}

unsigned
arenas_percpu_limit(void) {
	return arenas.percpu_limit;
}

/* CPU numbers may exceed the number of CPUs that the process may run on, hence the modulo. */
arena_t *
arenas_of_cpu(void) {
	int cpu = os_cpu();
	assert(arenas.percpu_limit > 0);
	return arenas_get_or_init(cpu < 0 ? 0 : (unsigned)cpu % arenas.percpu_limit);
}

arena_t *
arenas_bind_least(void) {
	unsigned empty;
	arena_t *here = arenas.percpu_limit > 0 ? arenas_of_cpu() : NULL;
	if (here != NULL) {
		vacant_thread_bound(here);
		return here;
	}
	mutex_lock(&arenas.mtx);
	arena_t *a = arenas_least_locked(&empty);
	if (atomic_load_u32(&a->nthreads, MO_RELAXED) > 0 && empty < arenas.narenas_auto) {
		arena_t *fresh = arenas_init_locked(empty, true, NULL);
		a = fresh != NULL ? fresh : a;
	}
	vacant_thread_bound(a);
	mutex_unlock(&arenas.mtx);
	return a;
}

/* Marks a new mapping of a hidden arena before it is used. */
static void
arenas_sampled_grown(void *addr, size_t size) {
	arena_mark_slow_sized_free(addr, size);
}

/* The hidden arena of arena ind, made or renewed if necessary; NULL: no arena ind, or no memory. */
static arena_t *
arenas_sampled_init_locked(unsigned ind) {
	mutex_assert_owner(&arenas.mtx);
	arena_t *hidden = arenas_sampled_get(ind);
	if (hidden != NULL) {
		return hidden;
	}
	arena_t *a = arenas_get(ind);
	if (a == NULL) {
		return NULL;
	}
	ehooks_table_t *hooks = !a->is_auto ? ehooks_get(&a->pac.src.ehooks) : NULL;
	ssize_t dirty_ms = arena_decay_ms_get(a, true), muzzy_ms = arena_decay_ms_get(a, false);
	if (a->hidden != NULL) {
		hidden = a->hidden;
		arena_renew(hidden, dirty_ms, muzzy_ms, hooks);
	} else {
		bin_info_boot_sampled();
		hidden = arena_new(ARENA_HIDDEN(ind), false, dirty_ms, muzzy_ms, hooks);
	}
	if (hidden != NULL) {
		a->hidden = hidden;
		hidden->pac.visible = &a->pac;
		ehooks_dss_set(&hidden->pac.src.ehooks, ehooks_dss_get(&a->pac.src.ehooks));
		/* It grows by whole marked pieces, and keeps them until it is destroyed. */
		hidden->pac.src.grow_alignment = max_zu((size_t)1 << SAMPLED_MAP_LG_PIECE, PAGE);
		hidden->pac.src.grow_next = hidden->pac.src.grow_alignment;
		hidden->pac.src.grown = arenas_sampled_grown;
		arena_table_set(ARENA_HIDDEN(ind), hidden);
		arenas_made(ind);
	}
	return hidden;
}

arena_t *
arenas_sampled(const arena_t *a) {
	unsigned ind = a->is_auto ? 0 : a->ind;
	arena_t *hidden = arenas_sampled_get(ind);
	if (unlikely(hidden == NULL)) {
		mutex_lock(&arenas.mtx);
		hidden = arenas_sampled_init_locked(ind);
		mutex_unlock(&arenas.mtx);
	}
	return hidden;
}

static unsigned
arenas_auto_count(void) {
	unsigned ncpus = os_ncpus();
	if (opt_narenas != 0) {
		return opt_narenas;
	}
	if (ncpus <= 1) {
		return 1;
	}
	uint64_t n = ((uint64_t)ncpus * opt_narenas_ratio + (1u << 15)) >> 16;
	return n == 0 ? 1 : (unsigned)min_zu(n, UINT_MAX);
}

/*
 * Reserves the slot of the arena for oversized requests. A request is oversized if its size class
 * reaches the threshold, so its size may be below: large sizes are rounded up to pages and not to
 * classes. A threshold that is no large size is set to 0: none.
 */
static void
arenas_oversize_boot(void) {
	arenas.first_manual = arenas.narenas_auto;
	arenas_oversize_min = SIZE_MAX;
	if (!oversize_is_threshold(opt_oversize_threshold)) {
		opt_oversize_threshold = 0;
	} else {
		assert(arenas.narenas_auto <= ARENA_LIMIT_AUTO);
		arenas.first_manual++;
		/* The class below ends at most a page before the smallest size that reaches it. */
		size_t below = sz_i2s(sz_s2i(opt_oversize_threshold) - 1);
		arenas_oversize_min = min_zu(opt_oversize_threshold, below + PAGE);
	}
}

/* Number of arenas chosen by CPU; 0: the option is off, or the system does not report the CPU. */
static unsigned
arenas_percpu_count(void) {
	unsigned ncpus = os_ncpus();
	if (opt_percpu_arena == percpu_arena_disabled) {
		return 0;
	}
	if (os_cpu() < 0) {
		opt_percpu_arena = percpu_arena_disabled;
		malloc_printf("<jemalloc>: perCPU arena getcpu() not available. Setting narenas to %u.\n",
		    arenas_auto_count());
		return 0;
	}
	bool is_odd = opt_percpu_arena == percpu_arena_phycpu && ncpus > 1 && ncpus % 2 != 0;
	if (is_odd) {
		malloc_printf("<jemalloc>: invalid configuration -- per physical CPU arena with odd number "
		    "(%u) of CPUs (no hyper threading?).\n", ncpus);
	}
	unsigned n = opt_percpu_arena == percpu_arena_phycpu ? (ncpus + 1) / 2 : ncpus;
	if (n > ARENA_LIMIT_AUTO) {
		malloc_printf("<jemalloc>: narenas w/ percpuarena beyond limit (%u)\n", n);
		n = ARENA_LIMIT_AUTO;
	}
	return n;
}

static size_t arenas_relieve(size_t want, bool *was_busy);

int
arenas_boot(void) {
	mutex_init(&arenas.mtx, "arenas", WITNESS_RANK_ARENAS);
	arenas_decay_ms_default_set(true, opt_dirty_decay_ms);
	arenas_decay_ms_default_set(false, opt_muzzy_decay_ms);
	arenas.percpu_limit = arenas_percpu_count();
	opt_narenas = (unsigned)max_zu(arenas_auto_count(), arenas.percpu_limit);
	arenas.narenas_auto = opt_narenas;
	if (opt_narenas > ARENA_LIMIT_AUTO) {
		arenas.narenas_auto = ARENA_LIMIT_AUTO;
		malloc_printf("<jemalloc>: Reducing narenas to limit (%u)\n", ARENA_LIMIT_AUTO);
	}
	pac_shed_hook = arenas_relieve;
	pac_rise_step = max_zu(min_zu(ARENAS_RISE / (arenas.narenas_auto + 1), RISE_STEP_MAX),
	    RISE_STEP_MIN);
	arenas_oversize_boot();
	atomic_store_u32(&arenas.total, arenas.first_manual, MO_RELEASE);
	mutex_lock(&arenas.mtx);
	arena_t *a = arenas_init_locked(0, true, NULL);
	mutex_unlock(&arenas.mtx);
	return a == NULL ? ENOMEM : 0;
}

int
arenas_decay_ms_default_set(bool is_dirty, ssize_t ms) {
	if (!decay_ms_is_valid(ms)) {
		return EINVAL;
	}
	atomic_store_zu(is_dirty ? &arenas.dirty_ms : &arenas.muzzy_ms, (size_t)ms, MO_RELAXED);
	return 0;
}

ssize_t
arenas_decay_ms_default_get(bool is_dirty) {
	return (ssize_t)atomic_load_zu(is_dirty ? &arenas.dirty_ms : &arenas.muzzy_ms, MO_RELAXED);
}

void
arenas_decay(arena_t *a, bool all) {
	uint64_t now = nstime_monotonic_coarse_ns();
	if (all) {
		arena_trim(a, true);
		holes_make_all(a);
	} else {
		arena_trim_tick(a, now);
		holes_tick(a, now);
	}
	pac_purge(&a->pac, now, all);
}

/* Enumerates all arenas, hidden ones too; NULL: none has the number k. */
static arena_t *
arenas_nth(unsigned k) {
	return k % 2 == 0 ? arenas_get(k / 2) : arenas_sampled_get(k / 2);
}

static unsigned
arenas_nth_end(void) {
	return 2 * arenas_narenas_total();
}

bool
arenas_try_tick(uint64_t now) {
	uint64_t due = atomic_load_u64(&arenas.next_tick, MO_RELAXED);
	if (now < due || !atomic_cas_strong_u64(&arenas.next_tick, &due, now + TICK_NS, MO_RELAXED,
	    MO_RELAXED)) {
		return false;
	}
	for (unsigned k = 0; k < arenas_nth_end(); k++) {
		arena_t *a = arenas_nth(k);
		if (a == NULL) {
			continue;
		}
		arena_trim_tick(a, now);
		if (!atomic_load_b(&a->pac.is_served, MO_RELAXED)) {
			pac_tick(&a->pac, now);
			holes_tick(a, now);
		}
	}
	if (vacant_may_exceed()) {
		arenas_keep_limit(false);
	}
	return true;
}

size_t
arenas_decaying(void) {
	size_t sum = 0;
	for (unsigned k = 0; k < arenas_nth_end(); k++) {
		const arena_t *a = arenas_nth(k);
		if (a != NULL && !atomic_load_b(&a->pac.is_served, MO_RELAXED)
		    && arena_decay_ms_get(a, true) > 0) {
			sum += pac_unused(&a->pac);
		}
	}
	return sum;
}

static size_t
arenas_relievable(void) {
	size_t sum = 0;
	for (unsigned k = 0; k < arenas_nth_end(); k++) {
		const arena_t *a = arenas_nth(k);
		sum += a != NULL ? pac_relievable(&a->pac) : 0;
	}
	return sum;
}

/* Whether the system can map `size` bytes now: maps and unmaps them. */
static bool
arenas_try_space(size_t size) {
	void *p = pages_map(NULL, PAGE_CEILING(size), PAGE, NULL);
	if (p != NULL) {
		pages_unmap_in_time(p, PAGE_CEILING(size));
	}
	return p != NULL;
}

/*
 * Returns up to about `want` bytes to the system, from arenas that have at least `least` unused
 * bytes each. was_busy: as for pac_relieve(). Returns the number of bytes.
 */
static size_t
arenas_relieve_from(size_t want, size_t least, bool *was_busy) {
	size_t gone = 0;
	for (unsigned k = 0; k < arenas_nth_end() && gone < want; k++) {
		arena_t *a = arenas_nth(k);
		if (a != NULL && pac_relievable(&a->pac) >= least) {
			gone += pac_relieve(&a->pac, want - gone, was_busy);
		}
	}
	return gone;
}

/*
 * Returns up to about `want` bytes to the system, first from arenas that have as many unused, so
 * that few pieces are unmapped. was_busy: as for pac_relieve(): NULL waits for the passes of other
 * threads. Returns the number of bytes. pac_shed_hook is this function.
 */
static size_t
arenas_relieve(size_t want, bool *was_busy) {
	size_t gone = arenas_relieve_from(want, want, was_busy);
	return gone < want ? gone + arenas_relieve_from(want - gone, PAGE, was_busy) : gone;
}

bool
arenas_try_relieve(size_t want) {
	assert(witness_depth_from(WITNESS_RANK_ARENAS) == 0);
	size_t has = arenas_relievable();
	if (has < want) {
		for (unsigned k = 0; k < arenas_nth_end(); k++) {
			arena_t *a = arenas_nth(k);
			/* A hook of the user must not be called: the caller may hold a lock. */
			if (a != NULL && !ehooks_are_custom(&a->pac.src.ehooks)) {
				arena_trim(a, true);
			}
		}
		has = arenas_relievable();
	}
	size_t useless = min_zu(atomic_load_zu(&arenas.useless, MO_RELAXED), has);
	atomic_store_zu(&arenas.useless, useless, MO_RELAXED);
	if (has == useless || (has < want && !arenas_try_space(want - has))) {
		return false;
	}
	/*
	 * A system that accounts for writable pages counts them in steps of some megabytes for each
	 * CPU, and retained address space has none: there only all that is unused surely helps.
	 */
	return arenas_relieve(pages_can_decommit() ? max_zu(want, has) : want, NULL) > 0;
}

void
arenas_relieve_end(bool has_helped) {
	atomic_store_zu(&arenas.useless, has_helped ? 0 : arenas_relievable(), MO_RELAXED);
}

void *
arenas_malloc_sampled(arena_t *a, size_t usize, size_t alignment, bool zero, unsigned nrequests,
    sample_rec_t **rec) {
	bool is_small = usize < SC_LARGE_MINCLASS && alignment <= PAGE;
	/* The hidden arena cuts its slabs from large pieces, which hooks may not allow. */
	bool can_hide = a->is_auto || ehooks_can_split(&a->pac.src.ehooks);
	arena_t *hidden = is_small && can_hide ? arenas_sampled(a) : NULL;
	void *p = arena_malloc(hidden != NULL ? hidden : a, usize, alignment, zero, nrequests);
	*rec = NULL;
	if (unlikely(p == NULL) && hidden != NULL) {
		/* Hooks may lack pages for the hidden arena, which takes whole pieces of address space. */
		hidden = NULL;
		p = arena_malloc(a, usize, alignment, zero, nrequests);
	}
	if (p != NULL && hidden != NULL) {
		*rec = slab_rec(emap_edata(p), p);
	} else if (p != NULL && !is_small) {
		*rec = arena_large_make_sampled(emap_edata(p), recs_alloc(1));
	}
	return p;
}
