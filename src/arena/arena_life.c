/*
 * Reset, destruction and renewal of an explicit arena (made by the program: arenas.create) or a
 * hidden one (made by the library for the samples of another arena); arena_life.h has the contract.
 * Reset and destruction free every object, found through the list of all extent descriptors of the
 * arena (meta/edata_cache.h). Invariant: the page cache is closed meanwhile (pac_close), so that no
 * other thread purges. An extent is active while a thread purges it; so without such threads each
 * active extent is a slab or a large object. Locks: those of the bins, one at a time, and inside
 * the page cache its own; arena_mutexes_zero() takes each lock of the arena by itself. Descriptors
 * are read without a lock, as no thread uses the arena. Called by arenas.c (reset and destruction
 * without a lock, renewal under its lock "arenas") and inspect.c (arena_mutexes_zero(), under that
 * of the snapshot).
 */
#include "arena/arena_life.h"

#include "arena/large.h"
#include "extent/pac_hpa.h"
#include "extent/pac_life.h"
#include "os/nstime.h"

/* Reports the samples of a slab of samples: of its regions that are not free (e->bits). */
static void
life_report_samples(const edata_t *e, arena_sample_fn_t *on_sample) {
	size_t reg = sz_i2s(e->szind);
	unsigned nregs = slab_info_of(e->szind, true)->nregs;
	for (unsigned i = 0; i < nregs; i++) {
		if (!fb_get(e->bits, nregs, i) && e->recs[i].tctx != NULL) {
			on_sample(e->addr + i * reg, &e->recs[i], reg);
		}
	}
}

static void
life_free_slab(arena_t *a, edata_t *e, arena_sample_fn_t *on_sample) {
	if (e->is_sampled) {
		life_report_samples(e, on_sample);
	}
	/* No bin refers to the slab after bin_forget(); slab_fini() wants one that is all free. */
	e->nfree = slab_info_of(e->szind, e->is_sampled)->nregs;
	e->is_listed = false;
	ql_init(&e->link);
	slab_fini(e);
	pac_dalloc(&a->pac, e);
}

static void
life_free_large(edata_t *e, arena_sample_fn_t *on_sample) {
	if (e->recs != NULL && e->recs->tctx != NULL) {
		on_sample(e->u.large_start, e->recs, e->u.large_usize);
	}
	arena_large_dalloc(e);
}

/*
 * Frees what is in an active extent. The state is another one if the extent is unused or if the
 * descriptor has no extent; also extent_state_none, which is 0, if the page in which the descriptor
 * lies was given back to the system.
 */
static void
life_free_extent(arena_t *a, edata_t *e, arena_sample_fn_t *on_sample) {
	if (e->state != extent_state_active) {
		return;
	}
	assert(e->arena_ind == a->ind);
	if (e->is_slab) {
		life_free_slab(a, e, on_sample);
	} else {
		life_free_large(e, on_sample);
	}
}

/* Frees all objects. The page cache is closed. */
static void
life_free_objects(arena_t *a, arena_sample_fn_t *on_sample) {
	for (bin_t *bin = a->bins[0]; bin < arena_bins_end(a); bin++) {
		bin_forget(bin);
	}
	edata_block_t *b = edata_cache_blocks(&a->pac.src.edata_cache);
	for (; b != NULL; b = b->next) {
		for (uint32_t i = 0; i < b->nmade; i++) {
			life_free_extent(a, edata_block_at(b, i), on_sample);
		}
	}
	assert(pac_nactive(&a->pac) == 0);
	assert(atomic_load_zu(&a->large_allocated, MO_RELAXED) == 0);
}

/*
 * The page cache is opened again in both cases, as arena_renew() uses a destroyed arena anew; with
 * a decay time of 0 pac_open() purges what a reset has left in it.
 */
void
arena_end(arena_t *a, arena_sample_fn_t *on_sample, bool is_destroy) {
	assert(!a->is_auto);
	pac_close(&a->pac);
	life_free_objects(a, on_sample);
	if (is_destroy) {
		a->holes.is_under_way = false; /* here, as this thread is in the pass of dirty pages */
		pac_destroy(&a->pac);
	}
	pac_open(&a->pac);
}

static void
life_zero_mutex(mutex_t *m) {
	if (m != NULL) {
		mutex_lock(m);
		mutex_prof_reset(m);
		mutex_unlock(m);
	}
}

void
arena_mutexes_zero(arena_t *a) {
#define ZERO_MUTEX(name, expr, says) life_zero_mutex(expr);
	ARENA_MUTEXES(ZERO_MUTEX)
#undef ZERO_MUTEX
	for (bin_t *bin = a->bins[0]; bin < arena_bins_end(a); bin++) {
		life_zero_mutex(&bin->mtx);
	}
}

static void
life_zero_counters(arena_t *a) {
	for (bin_t *bin = a->bins[0]; bin < arena_bins_end(a); bin++) {
		mutex_lock(&bin->mtx);
		assert(bin->stats.curregs == 0 && bin->slabcur == NULL);
		bin_stats_zero_locked(bin);
		mutex_unlock(&bin->mtx);
	}
#define ZERO_LARGE(name, type, says) atomic_store_u64(&a->large[i].name, 0, MO_RELAXED);
	for (unsigned i = 0; i < SC_NSIZES - SC_NBINS; i++) {
		LARGE_COUNT_FIELDS(ZERO_LARGE)
	}
#undef ZERO_LARGE
#define ZERO_ALL(name, type, says) atomic_store_u64(&a->large_all.name, 0, MO_RELAXED);
	CLASS_OF_ALL_FIELDS(ZERO_ALL)
#undef ZERO_ALL
	atomic_store_u64(&a->guard_small, 0, MO_RELAXED);
	atomic_store_u64(&a->guard_large, 0, MO_RELAXED);
}

void
arena_renew(arena_t *a, ssize_t dirty_ms, ssize_t muzzy_ms, ehooks_table_t *hooks) {
	assert(atomic_load_u32(&a->nthreads, MO_RELAXED) == 0 && !a->is_auto);
	life_zero_counters(a);
	atomic_store_u64(&a->left, 0, MO_RELAXED);
	atomic_store_u64(&a->holes.due, 0, MO_RELAXED);
	atomic_store_u32(&a->holes.nrefused, 0, MO_RELAXED);
	atomic_store_b(&a->holes.is_wanted, false, MO_RELAXED);
	atomic_store_b(&a->holes.is_busy, false, MO_RELAXED);
	ehooks_set(&a->pac.src.ehooks, hooks != NULL ? hooks : &ehooks_system);
	ehooks_dss_set(&a->pac.src.ehooks, dss_default_get());
	pac_renew(&a->pac, dirty_ms, muzzy_ms, nstime_monotonic_coarse_ns());
	arena_mutexes_zero(a);
	a->created_ns = nstime_monotonic_ns();
	arena_name_default(a);
}
