/*
 * Creation, recall and end of a thread's data (tsd.h). A recall is a request of another thread, or
 * of this one, that the thread notice a change (thread/recall.h).
 *
 * Invariant: tls->tsd is set from tsd_make() to tsd_cleanup(). The gate's list gets the thread
 * before tls->tsd is set (the C library may allocate in between) and loses it just before tls->tsd
 * is cleared. The fast path is open while tls->cache points at the bins of the thread's cache, and
 * closed while it points at the boot block. Locks: none here; what is called takes those of the
 * gate's list, of arenas, and of an arena's list of caches and bins. Called by imalloc.c and
 * irealloc.c (slow paths), by libc at the end of a thread, at heartbeats, by tcache_set.c,
 * user_event.c, mallctl, jemalloc_init.c and jemalloc_fork.c. tsd_boot() sets pointers to functions
 * of this file for ehooks.c (around extent hooks), background_thread.c (around calls of libc about
 * threads) and inspect.c (statistics).
 */
#include "thread/tsd.h"

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "arena/vacant.h"
#include "meta/freepool.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "thread/claim.h"
#include "thread/deferred.h"
#include "thread/quarantine.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/thread_event.h"
#include "util/hash.h"

bool tsd_all_slow;
atomic_b_t tsd_no_fast_path;
void (*const *tsd_cleanups)(tsd_t *tsd);

static struct {
	atomic_u32_t count;  /* threads that have a tsd */
	bool is_booted;
	uint64_t seed;       /* source of the threads' seeds */
	struct tls_hook_s at_exit; /* calls tsd_at_exit(); made at boot */
} tsds;

/* For statistics (inspect_tcache): adds the cache with this link in its arena's list. */
static void
tsd_inspect_tcache(ql_t *link, inspect_caches_t *sum) {
	const tcache_t *tc = container_of(link, tcache_t, link);
	sum->bytes += tcache_cached_bytes(tc);
	if (sum->requests != NULL) {
		tcache_add_requests(tc, sum->requests);
	}
}

static void tsd_cleanup(tsd_t *tsd);

/*
 * The destructor of the key ends the thread's own tsd, whatever the key holds. Another C library in
 * the process (dlmopen) numbers its keys from the same number on and stores them in the same place,
 * and a program may set a key that it never created: the value is then not ours.
 */
static void
tsd_at_exit(void *arg UNUSED) {
	tsd_t *tsd = tls_get()->tsd;
	if (tsd != NULL) {
		tsd_cleanup(tsd);
	}
}

/* In the result of tsd_hook_begin(), besides the state: the fast path was closed before. */
#define HOOK_WAS_CLOSED ((uint32_t)1 << 31)

/*
 * An extent hook of the user may allocate while its thread is in the middle of an operation. Until
 * tsd_hook_end() the thread is served without its tsd and cache, because its state says so
 * (tls->tsd stays set), and tls_s.inside is raised. Returns the previous state, for tsd_hook_end();
 * hooks may nest. A fast path that was closed, as during a fill of a bin, stays so at the end: who
 * has closed it opens it.
 */
static uint32_t
tsd_hook_begin(void) {
	struct tls_s *t = tls_get();
	void *boot = (void *)(uintptr_t)tls_boot_cache;
	uint32_t before = t->state | (tls_cache_is_boot(t) ? HOOK_WAS_CLOSED : 0);
	t->inside++;
	t->state = tsd_state_in_hook;
	__atomic_store_n(&t->cache, boot, __ATOMIC_SEQ_CST);
	return before;
}

static void
tsd_hook_end(uint32_t before) {
	struct tls_s *t = tls_get();
	assert(t->state == tsd_state_in_hook && t->inside > 0);
	t->state = before & ~HOOK_WAS_CLOSED;
	t->inside--;
	if (before == tsd_state_nominal) {
		tsd_fast_path_update(t->tsd);
	}
}

int
tsd_boot(void) {
	ehooks_begin = tsd_hook_begin;
	ehooks_end = tsd_hook_end;
	tsds.seed = sys_random();
	int err = tls_hook_init(&tsds.at_exit, tsd_at_exit);
	inspect_tcache = tsd_inspect_tcache;
	tsds.is_booted = err == 0;
	return err;
}

unsigned
tsd_count(void) {
	return atomic_load_u32(&tsds.count, MO_RELAXED);
}

void
tsd_fast_path_update(tsd_t *tsd) {
	struct tls_s *t = tsd->tls;
	bool is_closed = tsd->is_slow || tsd->tcache == NULL
	    || atomic_load_b(&tsd_no_fast_path, MO_SEQ_CST);
	recall_open(t, is_closed ? (void *)(uintptr_t)tls_boot_cache : tsd->tcache->bins);
}

/*
 * Whether the thread may handle a recall now. Not in a nested operation. Not while a sample is due
 * that is not recorded yet (a countdown has ended): a new distance would replace the one that has
 * ended, so the sample would be lost; or the sample would be weighed by the new interval, though it
 * was drawn with the old one. The recall then stays until the next request, and the fast path stays
 * closed so long.
 */
static bool
tsd_may_look(const tsd_t *tsd) {
	const struct tls_s *t = tsd->tls;
	return t->inside == 0 && t->gate_depth == 1
	    && (tsd->tcache == NULL || !tcache_is_due(tsd->tcache));
}

/* Takes over the published settings (RECALL_SETTINGS): draws all distances to samples anew. */
static void
tsd_take_settings(tsd_t *tsd) {
	thread_event_take_interval(tsd);
	/* The next large request looks for a heartbeat: a threshold or a hook may wait for that. */
	tsd->n_direct = 0;
	if (tsd->tcache != NULL) {
		tcache_retune(tsd, tsd->tcache);
	}
	thread_event_take_strictness(tsd);
}

/*
 * Handles a recall of this thread, if there is one and it may be handled now. In any case ends a
 * claim: another thread may be taking objects of the cache of this one (thread/claim.h).
 */
static void
tsd_look(tsd_t *tsd) {
	tsd_assert_own(tsd);
	struct tls_s *t = tsd->tls;
	claim_settle(tsd);
	uint32_t what = tsd_may_look(tsd) ? __atomic_exchange_n(&t->recall, 0, __ATOMIC_SEQ_CST) : 0;
	if (what == 0) {
		return;
	}
	/* Again: the exchange may have cleared the bit of a claim announced after the first look. */
	claim_settle(tsd);
	if ((what & RECALL_PACE) != 0) {
		tcache_shorten_interval(tsd);
	}
	if ((what & RECALL_SETTINGS) != 0) {
		tsd_take_settings(tsd);
	}
	if ((what & RECALL_GRANTS) != 0 && tsd->tcache != NULL) {
		tcache_return_grants(tsd, tsd->tcache);
	}
	tsd_fast_path_update(tsd);
}

static size_t
tsd_arena_mapped(const tsd_t *tsd) {
	return atomic_load_zu(&tsd->arena->pac.mapped, MO_RELAXED);
}

static uint64_t
tsd_next_seed(void) {
	return __atomic_add_fetch(&tsds.seed, UINT64_C(0x9e3779b97f4a7c15), __ATOMIC_RELAXED);
}

/* Makes the data of a thread, without a cache; NULL: no memory. */
static tsd_t *
tsd_new(struct tls_s *t) {
	assert(t->tsd == NULL && t->state == tsd_state_making);
	tsd_t *tsd = meta_alloc(sizeof(tsd_t));
	if (tsd == NULL) {
		return NULL;
	}
	uint32_t n = atomic_fetch_add_u32(&tsds.count, 1, MO_RELAXED);
	tsd->tls = t;
	/* Threads get different seeds. The address is no seed, because addresses are reused. */
	tsd->prng = hash_mix64(tsd_next_seed());
	tsd->shard_seed = (uint8_t)n;
	tsd->is_slow = tsd_all_slow;
	tsd->tcache_max = tcache_max_default;
	thread_event_begin(tsd);
	tsd->arena = arenas_bind_least();
	tsd->arena_mapped = tsd_arena_mapped(tsd);
	thread_event_take_interval(tsd);
	thread_event_take_strictness(tsd);
	tsd->is_cached = opt_tcache;
	tsd->direct_dalloc = t->early_bytes;
	return tsd;
}

void
tsd_make_cache(tsd_t *tsd) {
	tsd_assert_own(tsd);
	tsd->n_uncached = 0;
	if (tsd->tcache == NULL && tsd->is_cached) {
		tsd->tcache = tcache_new(tsd, tsd->arena, tsd->tcache_max, true);
		tsd_fast_path_update(tsd);
	}
}

/* Makes and registers the thread's tsd at its first slow path; NULL: it gets none now. */
static tsd_t *
tsd_make(struct tls_s *t) {
	assert(t == tls_get() && t->state == tsd_state_fresh);
	t->state = tsd_state_making;
	while (gate_has_absent() && tsd_try_end_absent()) {
		/* Threads that do not exist still count as users of arenas (tsd_try_end_absent). */
	}
	tsd_t *tsd = tsd_new(t);
	if (tsd == NULL) {
		t->state = tsd_state_fresh; /* no memory; the next call tries again */
		return NULL;
	}
	gate_register(t, &tsd->gate);
	/* May allocate in the C library: those calls find no tsd and continue without one. */
	if (tls_hook_arm(&tsds.at_exit, tsd) != 0) {
		tsd_cleanup(tsd);
		t->state = tsd_state_fresh;
		return NULL;
	}
	__atomic_store_n(&t->tsd, tsd, __ATOMIC_RELEASE); /* claim.c of another thread may read it */
	t->state = tsd_state_nominal;
	/* The sample rate may have changed between drawing the distances and registering. */
	recall_one(t, RECALL_SETTINGS);
	tsd_look(tsd);
	return tsd;
}

tsd_t *
tsd_fetch_slow(struct tls_s *t) {
	assert(t->gate_depth > 0);
	if (t->state == tsd_state_nominal) {
		tsd_look(t->tsd);
		return t->tsd;
	}
	/* Deeper is a handler that interrupted its thread inside, perhaps amid the steps of gate.c. */
	bool may_make = t->state == tsd_state_fresh && t->gate_depth == 1 && tsds.is_booted;
	return may_make ? tsd_make(t) : NULL;
}

void
tsd_move(tsd_t *tsd, arena_t *to) {
	tsd_assert_own(tsd);
	arena_t *from = tsd->arena;
	assert(to != from && atomic_load_u32(&from->nthreads, MO_RELAXED) > 0);
	assert(atomic_load_u32(&to->nthreads, MO_RELAXED) > 0);
	if (tsd->tcache != NULL) {
		tcache_rebind(tsd->tcache, to);
	}
	tsd->arena = to;
	vacant_thread_left(from);
}

void
tsd_percpu_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	arena_t *here = tsd->arena->ind < arenas_percpu_limit() ? arenas_of_cpu() : NULL;
	if (here != NULL && here != tsd->arena) {
		vacant_thread_bound(here);
		tsd_move(tsd, here);
	}
}

void
tsd_borrow_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	size_t mapped = tsd_arena_mapped(tsd);
	tsd->arena_mapped = min_zu(tsd->arena_mapped, mapped);
	if (likely(mapped - tsd->arena_mapped < VACANT_LENT) || tsd->is_arena_known) {
		return;
	}
	arena_t *to = vacant_try_bind(tsd->arena, arenas_narenas_auto());
	if (to != NULL) {
		tsd_move(tsd, to);
	}
	tsd->arena_mapped = tsd_arena_mapped(tsd);
}

tsd_t *
tsd_enter(void) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	tsd_t *tsd = tsd_fetch_in_gate(t);
	if (tsd != NULL) {
		tsd_make_cache(tsd);
	}
	return tsd;
}

void
tsd_leave(void) {
	assert(gate_is_entered(tls_get()));
	gate_exit(tls_get());
}

/* Flushes and deletes the quarantine and cache of a thread that ends or is absent; unbinds it. */
static void
tsd_give_back(tsd_t *tsd) {
	assert(tsd->tls == tls_get() && tsd->tls->inside > 0);
	quarantine_delete(tsd);
	tcache_t *tc = tsd->tcache;
	tsd->tcache = NULL;
	if (tsd->tls->tsd == tsd) {
		tsd_fast_path_update(tsd); /* a signal handler may allocate while the cache is deleted */
	}
	if (tc != NULL) {
		tcache_delete(tsd, tc);
	}
	vacant_thread_left(tsd->arena);
}

static void
tsd_run_cleanups(tsd_t *tsd) {
	for (size_t i = 0; tsd_cleanups != NULL && tsd_cleanups[i] != NULL; i++) {
		tsd_cleanups[i](tsd);
	}
}

/*
 * Ends an absent thread: one of the process that forked, which does not exist in this child, or one
 * that has ended untold (link->tls is NULL). The former was outside the gate when the process
 * forked, at most in the fast path, whose every instruction leaves a valid cache
 * (arena/cache_bin.h). Its profiler's record was ended at the fork.
 */
bool
tsd_try_end_absent(void) {
	struct tls_s *t = tls_get();
	gate_link_t *link = gate_take_absent();
	if (link == NULL) {
		return false;
	}
	tsd_t *tsd = container_of(link, tsd_t, gate);
	tsd->tls = t;
	t->inside++;
	claim_settle(tsd);
	if (link->tls == NULL) {
		tsd_run_cleanups(tsd);
		atomic_fetch_sub_u32(&tsds.count, 1, MO_RELAXED);
	}
	tsd_give_back(tsd);
	meta_free(tsd, sizeof(*tsd));
	t->inside--;
	return true;
}

/*
 * Ends and frees the data of the calling thread; in a lost child (gate.h) does nothing. tsd_make()
 * calls it before tls->tsd is set, if the destructor of the key cannot be armed.
 */
static void
tsd_cleanup(tsd_t *tsd) {
	struct tls_s *t = tsd->tls;
	assert(t == tls_get() && (t->tsd == tsd || t->tsd == NULL));
	if (gate_is_lost()) {
		return;
	}
	gate_enter(t);
	t->inside++;
	claim_settle(tsd);
	tsd_run_cleanups(tsd);
	tsd_give_back(tsd);
	if (vacant_may_exceed()) {
		arenas_keep_limit(thread_event_try_end_last(tsd, tsd_count()));
	}
	gate_unregister(t, &tsd->gate);
	/* From here on the thread is served without a tsd. */
	__atomic_store_n(&t->cache, (void *)(uintptr_t)tls_boot_cache, __ATOMIC_SEQ_CST);
	t->tsd = NULL;
	__atomic_store_n(&t->recall, 0, __ATOMIC_RELAXED);
	t->state = tsd_state_gone;
	meta_free(tsd, sizeof(*tsd));
	atomic_fetch_sub_u32(&tsds.count, 1, MO_RELAXED);
	t->inside--;
	gate_exit(t);
	mutex_id_release();
}

/*
 * Gives a forked child a new seed and new distances, so that children that do the same do not
 * sample the same objects. The seed comes from the clock and the parent's seed, and not from
 * sys_random(), a system call that the parent may have forbidden to its children. The parent's seed
 * changes at each fork (tsd_postfork_parent), so two children get different ones.
 */
static void
tsd_reseed(tsd_t *mine) {
	tsds.seed = hash_mix64(tsds.seed ^ hash_mix64(nstime_monotonic_ns()));
	if (mine != NULL) {
		mine->prng = hash_mix64(mine->prng ^ tsds.seed);
		if (mine->sample_interval != 0) {
			recall_one(mine->tls, RECALL_SETTINGS);
		}
	}
}

void
tsd_postfork_parent(void) {
	tsd_next_seed();
}

void
tsd_postfork_child(void) {
	tsd_t *mine = tls_get()->tsd;
	assert(mine == NULL || mine->tls == tls_get());
	assert(!gate_is_entered(tls_get()));
	tsd_reseed(mine);
	atomic_store_u32(&tsds.count, mine != NULL, MO_RELAXED);
	if (gate_has_absent()) {
		deferred_remind();
	}
}

uint64_t
tsd_allocated(tsd_t *tsd) {
	if (tsd->tcache != NULL) {
		tcache_fold(tsd, tsd->tcache);
	}
	return tsd->popped + tsd->direct_alloc;
}

/*
 * A free pushes an object into the cache. The fast path does not count that, so the bytes pushed
 * are computed: each byte that was filled or pushed is still cached or was popped or flushed, so
 * pushed = cached + popped + flushed - filled.
 */
uint64_t
tsd_deallocated(tsd_t *tsd) {
	uint64_t cached = 0;
	if (tsd->tcache != NULL) {
		tcache_fold(tsd, tsd->tcache);
		cached = tcache_cached_bytes(tsd->tcache);
	}
	return cached + tsd->popped + tsd->flushed - tsd->filled + tsd->direct_dalloc;
}

/* From now on each operation of the thread takes the slow path, which updates the exact counts. */
static void
tsd_count_exactly(tsd_t *tsd) {
	if (!tsd->is_counted) {
		tsd->counted_alloc = tsd_allocated(tsd);
		tsd->counted_dalloc = tsd_deallocated(tsd);
		tsd->is_counted = true;
		tsd->is_slow = true;
		tsd_fast_path_update(tsd);
	}
}

uint64_t *
tsd_allocatedp(tsd_t *tsd) {
	tsd_count_exactly(tsd);
	return &tsd->counted_alloc;
}

uint64_t *
tsd_deallocatedp(tsd_t *tsd) {
	tsd_count_exactly(tsd);
	return &tsd->counted_dalloc;
}
