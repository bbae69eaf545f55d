/*
 * What becomes of the unused pages of a page cache; pac_purge.h has the contract.
 *
 * Invariant: only the thread in a pass of a decay (pac_step.h) purges the cache of that decay;
 * pac_relieve.c is an exception. Functions named _locked need the mutex of the decay that is their
 * argument. Those that purge, and pac_flush_hot_locked(), release it while hooks of the user may
 * run. pac_purge_idle_locked() and pac_flush_piece_locked() keep it: an arena with hooks of the
 * user has no rest of a huge piece (pac_hooks_set). Called by pac.c and large.c after their steps,
 * by pac_life, pac_serve and pac_relieve, by arena.c, arenas.c, holes.c, vacant.c and background
 * threads.
 */
#include "extent/pac_purge.h"

#include "extent/pac_hot.h"
#include "extent/pac_hpa.h"
#include "extent/purge_batch.h"
#include "os/nstime.h"

ssize_t opt_dirty_decay_ms = 10000;
ssize_t opt_muzzy_decay_ms = 0;
void (*pac_rise_hook)(void);
size_t pac_rise_step;

#define DECAY_ROUNDS 16 /* of pac_decay_try() */

/* The cache that pac_yields() has named, a pac_t *; NULL: none. */
static atomic_p_t pac_yielding;

void
pac_set_wake_default(pac_t *pac) {
	size_t limit = decay_ms(&pac->decay_dirty.decay) == 0 ? 0 : SIZE_MAX;
	atomic_store_zu(&pac->wake_above, limit, MO_SEQ_CST);
}

size_t
pac_nunused(const pac_t *pac) {
	return ecache_npages(&pac->dirty) + atomic_load_zu(&pac->hot_npages, MO_SEQ_CST);
}

/*
 * Wakes the background thread if more pages than wake_above are dirty (pac_ndirty). The thread that
 * exceeds that number sets it to SIZE_MAX, so that the background thread is woken once.
 */
static void
pac_wake_above(pac_t *pac) {
	size_t npages = pac_ndirty(pac);
	size_t limit = atomic_load_zu(&pac->wake_above, MO_SEQ_CST);
	if (limit != SIZE_MAX && npages > limit
	    && atomic_exchange_zu(&pac->wake_above, SIZE_MAX, MO_SEQ_CST) != SIZE_MAX) {
		pac_wake(pac);
	}
}

void
pac_wake_or_purge(pac_t *pac) {
	if (decay_ms(&pac->decay_dirty.decay) == 0) {
		pac_hot_flush(pac);
		pac_tick(pac, nstime_monotonic_coarse_ns());
	} else {
		pac_wake_above(pac);
	}
}

/* Sets rise_above a step above what is unused now; all three are bytes. */
static void
pac_rise_again(pac_t *pac) {
	atomic_store_zu(&pac->rise_above, pac_unused(pac) + pac_rise_step, MO_RELAXED);
}

void
pac_report_rise(pac_t *pac) {
	pac_rise_again(pac);
	if (pac_rise_hook != NULL && decay_ms(&pac->decay_dirty.decay) > 0
	    && !atomic_load_b(&pac->is_served, MO_RELAXED)) {
		pac_rise_hook();
	}
}

void
pac_recheck_wake(pac_t *pac) {
	if (unlikely(atomic_load_zu(&pac->wake_above, MO_SEQ_CST) != SIZE_MAX)
	    && decay_ms(&pac->decay_dirty.decay) != 0) {
		pac_wake_above(pac);
	}
}

/* ------------------------------------------------------------------ purging */

/*
 * Whether dirty pages that are purged become muzzy, and so stay in memory until the system needs
 * them. Not if they exceed a limit (is_over) or in a bounded cache, because muzzy pages still count
 * for the process; with a muzzy decay time of -1 always.
 */
static bool
pac_may_become_muzzy(const pac_t *pac, bool is_over) {
	ssize_t ms = decay_ms(&pac->decay_muzzy.decay);
	return ms < 0 || (ms > 0 && !is_over && !pac_is_bounded(pac));
}

/* Makes e muzzy, or retains it, in a pass of d. With hooks of the user d's mutex is not held. */
static void
pac_purge_extent(pac_t *pac, pac_decay_t *d, edata_t *e, bool is_over, purge_batch_t *batch) {
	assert(d->passer == tls_get());
	assert(e->state == extent_state_active && !e->is_slab);
	atomic_fetch_add_u64(&d->nmadvise, 1, MO_RELAXED);
	atomic_fetch_add_u64(&d->purged, e->size >> LG_PAGE, MO_RELAXED);
	if (d->cache == &pac->dirty && pac_may_become_muzzy(pac, is_over)) {
		piece_break(e->addr, e->size);
		if (ehooks_purge_lazy(&pac->src.ehooks, e->addr, e->size) == 0) {
			ecache_put(&pac->src, &pac->muzzy, e);
			return;
		}
	}
	pac_retain(pac, e, batch);
}

/*
 * Takes the oldest extent out of the cache; NULL if at most npages pages are there. If the extent
 * is longer than what exceeds npages, takes only so much of its begin, rounded up to PAC_GRAIN
 * bytes; all of it with hooks of the user, or if there is no descriptor.
 */
static edata_t *
pac_evict_some(pac_t *pac, pac_decay_t *d, size_t npages) {
	edata_t *e = ecache_evict(d->cache, npages, true);
	if (e == NULL || ehooks_are_custom(&pac->src.ehooks)) {
		return e;
	}
	size_t all = ecache_npages(d->cache) + (e->size >> LG_PAGE);
	size_t above = align_up((all > npages ? all - npages : 1) << LG_PAGE, PAC_GRAIN);
	edata_t *rest = above < e->size ? extent_split(&pac->src, e, above) : NULL;
	if (rest != NULL) {
		ecache_put(&pac->src, d->cache, rest);
		pac_recheck_wake(pac);
	}
	return e;
}

/*
 * Takes the next extent to purge out of the cache. The first choice is the oldest extent of which
 * some part breaks no huge piece (eset_spare()), and of it only that part (all of it with hooks of
 * the user, or if there is no descriptor); only while more than npages are in the cache, and not if
 * npages_held is npages. The second choice is the oldest one of all, while more than npages_held
 * are there. NULL: neither.
 */
static edata_t *
pac_evict_due(pac_t *pac, pac_decay_t *d, size_t npages, size_t npages_held) {
	edata_t *e = npages == npages_held ? NULL : ecache_evict(d->cache, npages, false);
	if (e == NULL) {
		return ecache_evict(d->cache, npages_held, true);
	}
	size_t lead, size = eset_spare(e, &lead);
	if (size == 0 || ehooks_are_custom(&pac->src.ehooks)) {
		return e;
	}
	edata_t *rest = lead > 0 ? extent_split(&pac->src, e, lead) : e;
	if (rest == NULL) {
		return e;
	}
	if (rest != e) {
		ecache_put(&pac->src, d->cache, e);
	}
	edata_t *tail = size < rest->size ? extent_split(&pac->src, rest, size) : NULL;
	if (tail != NULL) {
		ecache_put(&pac->src, d->cache, tail);
	}
	if (rest != e || tail != NULL) {
		pac_recheck_wake(pac);
	}
	return rest;
}

/*
 * Purges the oldest extents until at most npages are left. Extents that lie wholly in huge pieces
 * come last, and stay once at most npages_held pages are left. The caller holds d's lock and has
 * begun a pass. is_over: the pages are purged because they exceed a limit, not because of their
 * age. Then npages_held has no effect, and of the last extent only what exceeds npages, rounded up
 * to PAC_GRAIN bytes, is purged.
 */
static void
pac_purge_to_locked(pac_t *pac, pac_decay_t *d, size_t npages, size_t npages_held, bool is_over) {
	/* Pages that become unused meanwhile are left to the next pass. */
	size_t budget = ecache_npages(d->cache);
	edata_t *e;
	purge_batch_t batch;
	purge_batch_init(&batch, &pac->src, &pac->retained);
	if (budget > npages) {
		atomic_fetch_add_u64(&d->npurge, 1, MO_RELAXED);
	}
	while (budget > 0 && (e = is_over ? pac_evict_some(pac, d, npages)
	    : pac_evict_due(pac, d, npages, npages_held)) != NULL) {
		size_t n = e->size >> LG_PAGE;
		budget = n < budget ? budget - n : 0;
		bool is_custom = ehooks_are_custom(&pac->src.ehooks);
		if (is_custom) {
			mutex_unlock(&d->decay.mtx);
		}
		/* No batch without the mutex: the hooks may be unset now, and set again at its flush. */
		pac_purge_extent(pac, d, e, is_over, is_custom ? NULL : &batch);
		if (is_custom) {
			mutex_lock(&d->decay.mtx);
		}
	}
	purge_batch_flush(&batch);
	/* pac_purge_extent() counted a system call for each extent; the batch made fewer. */
	atomic_fetch_sub_u64(&d->nmadvise, batch.ntaken - batch.ncalls, MO_RELAXED);
	decay_purged_locked(&d->decay, ecache_npages(d->cache));
}

size_t
pac_npages_kept(const pac_t *pac) {
	return piece_kept(pac_nactive(pac) << LG_PAGE) >> LG_PAGE;
}

/* Purges what is due of d's cache, in a pass: nothing with a decay time of -1, all with 0. */
static void
pac_decay_run_locked(pac_t *pac, pac_decay_t *d, uint64_t now) {
	size_t npages = ecache_npages(d->cache);
	ssize_t ms = decay_ms(&d->decay);
	if (ms < 0) {
		return;
	}
	if (ms == 0) {
		pac_purge_to_locked(pac, d, 0, 0, false);
		return;
	}
	if (!decay_is_due(&d->decay, now)) {
		return;
	}
	decay_advance_locked(&d->decay, now, npages);
	if (d == &pac->decay_dirty) {
		size_t peak = atomic_load_zu(&pac->npeak, MO_RELAXED);
		atomic_store_zu(&pac->trade_left, peak / PAC_TRADE_SHARE, MO_RELAXED);
	}
	size_t limit = decay_limit_locked(&d->decay);
	if (npages > limit) {
		size_t held = max_zu(decay_recent_locked(&d->decay), pac_npages_kept(pac));
		pac_purge_to_locked(pac, d, limit, max_zu(limit, held), false);
	}
}

void
pac_flush_piece_locked(pac_t *pac, pac_decay_t *d) {
	if (d == &pac->decay_dirty) {
		piece_flush(&pac->src, &pac->piece, &pac->dirty);
	}
}

void
pac_flush_hot_locked(pac_t *pac, pac_decay_t *d) {
	assert(d->passer == tls_get());
	bool is_custom = ehooks_are_custom(&pac->src.ehooks);
	if (d != &pac->decay_dirty) {
		return;
	}
	if (is_custom) {
		mutex_unlock(&d->decay.mtx);
	}
	pac_hot_flush(pac);
	pac_recheck_wake(pac);
	if (is_custom) {
		mutex_lock(&d->decay.mtx);
	}
}

/* Purges the rest of the huge piece if nothing was taken from it for the decay time. */
static void
pac_purge_idle_locked(pac_t *pac, pac_decay_t *d, uint64_t now) {
	ssize_t ms = decay_ms(&d->decay);
	if (ms >= 0 && piece_try_idle(&pac->piece, now, (uint64_t)ms * NSTIME_PER_MSEC)) {
		edata_t *e = piece_take_rest(&pac->src, &pac->piece);
		if (e != NULL) {
			pac_purge_extent(pac, d, e, false, NULL);
		}
	}
}

static bool
pac_decay_is_due(const pac_decay_t *d, uint64_t now) {
	ssize_t ms = decay_ms(&d->decay);
	return ms == 0 ? ecache_npages(d->cache) != 0 : decay_is_due(&d->decay, now);
}

/* Purges what is due of d's cache, in a pass; false if nothing is, or another thread is in one. */
static bool
pac_decay_try_once(pac_t *pac, pac_decay_t *d, uint64_t now) {
	if (!pac_decay_is_due(d, now) || pac_pass_lock(d, false) != 0) {
		return false;
	}
	if (d == &pac->decay_dirty) {
		pac_flush_hot_locked(pac, d);
		pac_purge_idle_locked(pac, d, now);
	}
	pac_decay_run_locked(pac, d, now);
	pac_pass_unlock(d);
	return true;
}

/*
 * Purges what is due of d's cache. With a decay time of 0 looks again after its pass, because a
 * thread that released pages meanwhile found the pass and left them; DECAY_ROUNDS times at most,
 * then a heartbeat does it. The fences order that thread's release before its look at the pass, and
 * the end of the pass before the next look at the pages.
 */
static void
pac_decay_try(pac_t *pac, pac_decay_t *d, uint64_t now) {
	bool is_at_once = decay_ms(&d->decay) == 0, has_run = true;
	for (unsigned i = 0; has_run && i < (is_at_once ? DECAY_ROUNDS : 1); i++) {
		if (is_at_once) {
			atomic_fence(MO_SEQ_CST);
		}
		has_run = pac_decay_try_once(pac, d, now);
	}
}

void
pac_tick(pac_t *pac, uint64_t now) {
	if (pac_is_bounded(pac)) {
		pac_trim(pac);
	}
	/* Its pass comes before that of the dirty pages, after which a thread looks again. */
	pac_hpa_tick(pac, now);
	pac_decay_try(pac, &pac->decay_dirty, now);
	pac_decay_try(pac, &pac->decay_muzzy, now);
	if (pac_unused(pac) + pac_rise_step < atomic_load_zu(&pac->rise_above, MO_RELAXED)) {
		pac_rise_again(pac);
	}
	ssize_t ms = decay_ms(&pac->decay_dirty.decay);
	if (ms >= 0) {
		size_t period = max_zu((size_t)ms / 4, PAC_SPARE_MS);
		edata_cache_tick(&pac->src.edata_cache, now, period * NSTIME_PER_MSEC);
	}
}

/*
 * Pages that may be unused while `active` pages are in use. pac_bound() has the limit of a bounded
 * cache. In another cache it is the peak of pages in use minus those in use now, plus a quarter of
 * the peak, and is enforced only when a large request needs new pages: otherwise a block that grows
 * step by step would have each of its former places purged and fetched again.
 */
static size_t
pac_trim_limit(const pac_t *pac, size_t active) {
	size_t peak = atomic_load_zu(&pac->npeak, MO_RELAXED);
	size_t least = atomic_load_zu(&pac->bound, MO_RELAXED) >> LG_PAGE;
	size_t room = peak > active ? peak - active : 0;
	return least == 0 ? room + peak / 4 : min_zu(room, max_zu(active / 2, least));
}

bool
pac_has_room(const pac_t *pac, size_t npages) {
	size_t active = pac_nactive(pac);
	assert(active >= npages);
	return pac_nunused(pac) + npages <= pac_trim_limit(pac, active - npages);
}

/*
 * Purges the oldest dirty and hot pages, whatever their age, until at most npages are left.
 * with_piece: the rest of the huge piece is among them. False: some thread purges already.
 */
static bool
pac_try_purge_to(pac_t *pac, size_t npages, bool with_piece) {
	pac_decay_t *d = &pac->decay_dirty;
	if (pac_pass_lock(d, false) != 0) {
		return false;
	}
	pac_flush_hot_locked(pac, d);
	if (with_piece) {
		pac_flush_piece_locked(pac, d);
	}
	pac_purge_to_locked(pac, d, npages, npages, true);
	pac_pass_unlock(d);
	return true;
}

void
pac_trim(pac_t *pac) {
	bool is_done = false;
	while (!is_done && decay_ms(&pac->decay_dirty.decay) > 0 && !pac_has_room(pac, 0)) {
		size_t active = pac_nactive(pac);
		is_done = !pac_try_purge_to(pac, pac_trim_limit(pac, active), false);
	}
}

void
pac_pass_ended(pac_t *pac) {
	if (decay_ms(&pac->decay_dirty.decay) == 0) {
		pac_tick(pac, nstime_monotonic_coarse_ns());
	} else if (pac_is_bounded(pac)) {
		pac_trim(pac);
	}
}

void
pac_trade(pac_t *pac) {
	pac_decay_t *d = &pac->decay_dirty;
	size_t active = pac_nactive(pac), unused = pac_nunused(pac);
	size_t peak = max_zu(atomic_load_zu(&pac->npeak, MO_RELAXED), active);
	size_t more = max_zu(peak / PAC_TRADE_SHARE, PAC_TRADE_MIN >> LG_PAGE);
	size_t left = atomic_load_zu(&pac->trade_left, MO_RELAXED);
	if (active + unused <= peak + more || left == 0 || decay_ms(&d->decay) <= 0
	    || pac_is_bounded(pac) || pac_pass_lock(d, false) != 0) {
		return;
	}
	/* A quarter less than the limit, so that not each of the next requests comes here. */
	size_t n = min_zu(active + unused - peak - more + more / 4, left);
	atomic_store_zu(&pac->trade_left, left - n, MO_RELAXED);
	pac_flush_hot_locked(pac, d);
	pac_purge_to_locked(pac, d, unused - n, max_zu(unused - n, pac_npages_kept(pac)), false);
	pac_pass_unlock(d);
	pac_pass_ended(pac);
}

void
pac_yields(pac_t *pac) {
	atomic_store_p(&pac_yielding, pac, MO_RELEASE);
}

void
pac_yield(const pac_t *grown) {
	pac_t *pac = atomic_load_p(&pac_yielding, MO_ACQUIRE);
	if (pac == NULL || pac == grown || !pac_is_bounded(pac)
	    || ehooks_are_custom(&pac->src.ehooks)) {
		return;
	}
	size_t used = pac_nactive(pac) << LG_PAGE;
	size_t n = pac_nunused(pac), part = PAC_YIELD >> LG_PAGE;
	if (atomic_load_zu(&pac->mapped, MO_RELAXED) > used && decay_ms(&pac->decay_dirty.decay) > 0) {
		pac_try_purge_to(pac, n > part ? n - part : 0, false);
		pac_pass_ended(pac);
	}
}

void
pac_purge_oldest(pac_t *pac, size_t npages) {
	if (unlikely(pac->hpa != NULL) && pac_nidle(pac) > npages) {
		pac_hot_flush(pac);
		pac_recheck_wake(pac);
		pac_hpa_purge(pac, true, false);
	}
	size_t held = pac_hpa_nidle(pac);
	if (pac_ndirty(pac) + held > npages) {
		pac_try_purge_to(pac, npages > held ? npages - held : 0, true);
		pac_pass_ended(pac);
	}
	if (npages == 0) {
		edata_cache_purge(&pac->src.edata_cache);
	}
}

/* pac_purge() for one decay; does nothing if this thread is in a pass of it already. */
static void
pac_purge_one(pac_t *pac, pac_decay_t *d, uint64_t now, bool all) {
	if (pac_pass_lock(d, true) != 0) {
		return;
	}
	pac_flush_hot_locked(pac, d);
	if (all) {
		pac_flush_piece_locked(pac, d);
		pac_purge_to_locked(pac, d, 0, 0, false);
	} else {
		pac_decay_run_locked(pac, d, now);
	}
	pac_pass_unlock(d);
}

void
pac_purge(pac_t *pac, uint64_t now, bool all) {
	pac_purge_one(pac, &pac->decay_dirty, now, all);
	pac_purge_one(pac, &pac->decay_muzzy, now, all);
	if (all) {
		pac_hpa_purge(pac, true, true);
	} else {
		pac_hpa_tick(pac, now);
	}
	pac_pass_ended(pac);
	if (all) {
		edata_cache_purge(&pac->src.edata_cache);
	}
}

void
pac_bound(pac_t *pac, size_t bytes) {
	atomic_store_zu(&pac->bound, bytes, MO_RELAXED);
	pac_hot_flush(pac);
	pac_recheck_wake(pac);
	piece_flush(&pac->src, &pac->piece, &pac->dirty);
	if (bytes != 0) {
		pac_trim(pac);
		pac_hpa_purge(pac, true, true); /* nothing is taken from slabs from now on */
	}
	/*
	 * With a positive muzzy decay time nothing becomes muzzy from now on, and the bound does not
	 * count pages that already are.
	 */
	if (bytes != 0 && decay_ms(&pac->decay_muzzy.decay) > 0 && ecache_npages(&pac->muzzy) > 0) {
		pac_purge_one(pac, &pac->decay_muzzy, 0, true);
	}
}

int
pac_pass_enter(pac_t *pac, bool may_wait) {
	return pac_pass_begin(&pac->decay_dirty, may_wait);
}

void
pac_pass_leave(pac_t *pac) {
	pac_pass_end(&pac->decay_dirty);
	pac_pass_ended(pac);
}

int
pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now) {
	if (!decay_ms_is_valid(ms)) {
		return EINVAL;
	}
	mutex_lock(&d->decay.mtx);
	decay_set_locked(&d->decay, ms, now);
	pac_set_wake_default(pac);
	mutex_unlock(&d->decay.mtx);
	if (pac_pass_lock(d, true) == 0) {
		pac_flush_hot_locked(pac, d);
		if (decay_ms(&d->decay) == 0) { /* another thread may have set it since */
			pac_flush_piece_locked(pac, d);
			pac_purge_to_locked(pac, d, 0, 0, false);
		}
		pac_pass_unlock(d);
	}
	if (d == &pac->decay_dirty && decay_ms(&d->decay) == 0) {
		pac_hpa_purge(pac, false, true); /* behind the hot extents, of which some were of slabs */
	}
	pac_pass_ended(pac);
	pac_wake(pac);
	return 0;
}
