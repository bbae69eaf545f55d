/*
 * The page cache of an arena: allocation (pac_alloc_as), release (pac_dalloc), resizing in place,
 * and purging: by decay (pac_decay_run_locked), by limit (pac_trim), down to a number of pages
 * (pac_purge_oldest), and when the system has no memory (pac_relieve). pac.h explains the caches,
 * the order in which they are tried and their locks. Functions named _locked need the mutex of the
 * decay that is their argument. Invariant: `mapped` counts the bytes of extents in use, hot, dirty
 * and muzzy, nactive the pages in use; both are relaxed atomics that are exact whenever no
 * operation is under way.
 */
#include "extent/pac.h"

#include "extent/ahead.h"
#include "extent/guard.h"
#include "extent/join.h"
#include "extent/pac_hot.h"
#include "extent/pac_hpa.h"
#include "extent/purge_batch.h"
#include "os/nstime.h"
#include "os/room.h"
#include "os/witness.h"

ssize_t opt_dirty_decay_ms = 10000;
ssize_t opt_muzzy_decay_ms = 0;
size_t opt_calloc_madvise_threshold = (size_t)8 << 20;
void (*pac_new_maximum_hook)(void);
void (*pac_wake_hook)(unsigned arena_ind);
void (*pac_rise_hook)(void);
size_t pac_rise_step;

static struct {
	atomic_zu_t max;     /* greatest value of room_mapped so far */
	atomic_p_t yielding; /* pac_t *, of pac_yields() */
} pac_all;

void
pac_tell_by_default(pac_t *pac) {
	size_t limit = decay_ms(&pac->decay_dirty.decay) == 0 ? 0 : SIZE_MAX;
	atomic_store_zu(&pac->wake_above, limit, MO_SEQ_CST);
}

void
pac_wake(pac_t *pac) {
	if (pac_wake_hook != NULL) {
		pac_wake_hook(pac->src.ehooks.arena_ind);
	}
}

/*
 * Wakes the background thread if more pages than wake_above are unused. The thread that exceeds
 * that number sets it to SIZE_MAX, so that it wakes once.
 */
static void
pac_wake_above(pac_t *pac) {
	size_t npages = ecache_npages(&pac->dirty) + atomic_load_zu(&pac->hot_npages, MO_SEQ_CST);
	size_t limit = atomic_load_zu(&pac->wake_above, MO_SEQ_CST);
	if (limit != SIZE_MAX && npages > limit
	    && atomic_exchange_zu(&pac->wake_above, SIZE_MAX, MO_SEQ_CST) != SIZE_MAX) {
		pac_wake(pac);
	}
}

void
pac_tell_slow(pac_t *pac) {
	if (decay_ms(&pac->decay_dirty.decay) == 0) {
		pac_hot_flush(pac);
		pac_tick(pac, nstime_monotonic_coarse_ns());
	} else {
		pac_wake_above(pac);
	}
}

/* Sets rise_above a step above what is unused now. */
static void
pac_rise_again(pac_t *pac) {
	atomic_store_zu(&pac->rise_above, pac_unused(pac) + pac_rise_step, MO_RELAXED);
}

void
pac_tell_rise(pac_t *pac) {
	pac_rise_again(pac);
	if (pac_rise_hook != NULL && decay_ms(&pac->decay_dirty.decay) > 0
	    && !atomic_load_b(&pac->is_served, MO_RELAXED)) {
		pac_rise_hook();
	}
}

void
pac_tell_back(pac_t *pac) {
	if (unlikely(atomic_load_zu(&pac->wake_above, MO_SEQ_CST) != SIZE_MAX)
	    && decay_ms(&pac->decay_dirty.decay) != 0) {
		pac_wake_above(pac);
	}
}

static void pac_yield(const pac_t *grown);

/*
 * Counts bytes that are mapped from now on. If the sum of all arenas is a new maximum, some pages
 * of the yielding cache are purged and pac_new_maximum_hook is called; so the caller holds no lock.
 */
static void
pac_mapped_add(pac_t *pac, size_t bytes) {
	atomic_fetch_add_zu(&pac->mapped, bytes, MO_RELAXED);
	size_t now = atomic_fetch_add_zu(&room_mapped, bytes, MO_RELAXED) + bytes;
	size_t max = atomic_load_zu(&pac_all.max, MO_RELAXED);
	while (now > max) {
		if (atomic_cas_weak_zu(&pac_all.max, &max, now, MO_RELAXED, MO_RELAXED)) {
			void (*hook)(void) = __atomic_load_n(&pac_new_maximum_hook, MO_ACQUIRE);
			pac_yield(pac);
			if (hook != NULL) {
				hook();
			}
			return;
		}
	}
}

size_t
pac_mapped_all(void) {
	return atomic_load_zu(&room_mapped, MO_RELAXED);
}

/* Zeroes an extent that may contain old data: large ones by purging, small ones by memset(). */
static void
pac_zero(pac_t *pac, edata_t *e) {
	if (e->is_zeroed) {
		return;
	}
	bool is_purged = e->size >= opt_calloc_madvise_threshold && !ehooks_are_own(&pac->src.ehooks);
	if (is_purged) {
		piece_break(e->addr, e->size);
		is_purged = ehooks_purge_forced(&pac->src.ehooks, e->addr, e->size) == 0;
	}
	if (!is_purged) {
		memset(e->addr, 0, e->size);
	}
}

/* ------------------------------------------------------------------ allocation */

/* Takes an extent that is unused but still mapped. */
static edata_t *
pac_take_cached(pac_t *pac, size_t size, size_t alignment, unsigned lg_max_fit) {
	edata_t *e = ecache_take(&pac->src, &pac->dirty, size, alignment, lg_max_fit);
	return e != NULL ? e : ecache_take(&pac->src, &pac->muzzy, size, alignment, lg_max_fit);
}

/*
 * For a dense request: takes from a huge piece (extent/piece.h), or puts a run of populated pages
 * into the dirty cache and takes from there (extent/ahead.h). NULL: the arena is too small for
 * either, populating is off or has failed, or there is no memory.
 */
static edata_t *
pac_take_ahead(pac_t *pac, size_t size) {
	size_t use = atomic_load_zu(&pac->nactive, MO_RELAXED) << LG_PAGE, run = ahead_run(use, size),
	    added;
	if (run == 0 || decay_ms(&pac->decay_dirty.decay) == 0 || pac_is_bounded(pac)
	    || ehooks_are_own(&pac->src.ehooks)) {
		return NULL;
	}
	edata_t *e = piece_take(&pac->src, &pac->piece, &pac->dirty, &pac->retained, use, size, &added);
	if (e == NULL) {
		added = ahead_fill(&pac->src, &pac->dirty, &pac->retained, size, run);
	}
	if (added == 0) {
		return e;
	}
	pac_mapped_add(pac, added);
	return e != NULL ? e : ecache_take(&pac->src, &pac->dirty, size, PAGE, 64);
}

/* Takes address space without pages: retained, or newly mapped. */
static edata_t *
pac_take_new(pac_t *pac, size_t size, size_t alignment, bool is_dense) {
	edata_t *e = is_dense ? pac_take_ahead(pac, size) : NULL;
	if (e != NULL) {
		return e;
	}
	e = pac_committed(pac, ecache_take(&pac->src, &pac->retained, size, alignment, 64));
	if (e == NULL) {
		e = pac_committed(pac, extent_grow(&pac->src, &pac->retained, size, alignment));
	}
	if (e != NULL) {
		pac_mapped_add(pac, size);
	}
	return e;
}

/* Takes mapped pages together with unmapped ones beside them. */
static edata_t *
pac_take_joined(pac_t *pac, size_t size, size_t alignment) {
	ecache_t *const caches[JOIN_NCACHES] = {&pac->dirty, &pac->muzzy, &pac->retained};
	size_t added;
	edata_t *e = join_take(&pac->src, caches, size, alignment, &added);
	if (added > 0) {
		pac_mapped_add(pac, added);
	}
	return e;
}

static void pac_trim(pac_t *pac);

/*
 * Counts pages that are in use now. are_new: they were fetched for a large request, so the limit of
 * unused pages is enforced.
 */
static void
pac_active_add(pac_t *pac, size_t npages, bool are_new) {
	size_t now = pac_active_count(pac, npages);
	size_t peak = atomic_load_zu(&pac->npeak, MO_RELAXED);
	while (now > peak && !atomic_cas_weak_zu(&pac->npeak, &peak, now, MO_RELAXED, MO_RELAXED)) {}
	if (are_new || pac_is_bounded(pac)) {
		pac_trim(pac);
	}
}

/*
 * Whether more than 1 MiB and an eighth of the pages in use are dirty. Then a small request splits
 * a large extent rather than get new pages; otherwise large extents are kept for large requests
 * (opt_lg_extent_max_active_fit).
 */
static bool
pac_has_plenty(const pac_t *pac) {
	size_t active = atomic_load_zu(&pac->nactive, MO_RELAXED);
	return ecache_npages(&pac->dirty) > active / 8 + (JOIN_MIN >> LG_PAGE);
}

/*
 * Takes an extent if no dirty or muzzy one fits well. Tries in this order: to split a large extent,
 * if the request is small and pac_has_plenty(); to join pieces; new pages; to split any extent.
 */
static edata_t *
pac_take_more(pac_t *pac, size_t size, size_t alignment, bool is_dense) {
	bool is_split = size < JOIN_MIN && pac_has_plenty(pac);
	edata_t *e = is_split ? pac_take_cached(pac, size, alignment, 64) : NULL;
	if (e == NULL) {
		e = pac_take_joined(pac, size, alignment);
	}
	if (e == NULL) {
		e = pac_take_new(pac, size, alignment, is_dense);
	}
	if (e == NULL) {
		/* There is no more memory; splitting something large is better than failing. */
		pac_hot_flush(pac);
		piece_flush(&pac->src, &pac->piece, &pac->dirty);
		e = pac_take_cached(pac, size, alignment, 64);
	}
	return e;
}

/*
 * Takes a dirty or muzzy extent that fits well. If there is none, all hot extents are made dirty,
 * which joins them with their neighbours, and the search is repeated before the system is asked.
 */
static edata_t *
pac_take_fit(pac_t *pac, size_t size, size_t alignment) {
	unsigned lg_max_fit = (unsigned)opt_lg_extent_max_active_fit;
	edata_t *e = pac_take_cached(pac, size, alignment, lg_max_fit);
	if (e == NULL && atomic_load_zu(&pac->hot_npages, MO_RELAXED) >= size >> LG_PAGE) {
		pac_hot_flush(pac);
		e = pac_take_cached(pac, size, alignment, lg_max_fit);
	}
	return e;
}

/* Takes an extent of a huge slab. A slab that is fetched for it may bring a new maximum. */
static edata_t *
pac_take_huge(pac_t *pac, size_t size, bool is_dense) {
	size_t mapped = atomic_load_zu(&pac->mapped, MO_RELAXED);
	edata_t *e = pac_hpa_take(pac, size, is_dense);
	if (unlikely(atomic_load_zu(&pac->mapped, MO_RELAXED) > mapped)) {
		pac_mapped_add(pac, 0);
	}
	return e;
}

edata_t *
pac_alloc_as(pac_t *pac, size_t size, size_t alignment, bool zero, bool is_dense) {
	assert(size > 0 && (size & PAGE_MASK) == 0);
	edata_t *e = NULL;
	bool is_new = false;
	pac_hot_take(pac, size, size, max_zu(alignment, PAGE), &e, 1);
	if (e == NULL && pac_hpa_serves(pac, size, alignment)) {
		e = pac_take_huge(pac, size, is_dense);
	}
	if (e == NULL) {
		e = pac_take_fit(pac, size, alignment);
		is_new = e == NULL;
		e = is_new ? pac_take_more(pac, size, alignment, is_dense) : e;
		/* The rest of a longer extent may have been put into a cache again. */
		pac_tell_back(pac);
	}
	if (e == NULL) {
		return NULL;
	}
	assert(e->size == size && e->state == extent_state_active);
	pac_active_add(pac, size >> LG_PAGE, is_new && size >= JOIN_MIN);
	if (zero) {
		pac_zero(pac, e);
	}
	return e;
}

/* Takes address space with as much behind it as `room`, which stays retained. */
static edata_t *
pac_take_roomy(pac_t *pac, size_t size, size_t room, size_t alignment) {
	edata_t *e = ecache_take(&pac->src, &pac->retained, size + room, alignment, 64);
	if (e == NULL) {
		e = extent_grow(&pac->src, &pac->retained, size + room, alignment);
	}
	edata_t *tail = e == NULL ? NULL : extent_split(&pac->src, e, size);
	if (tail == NULL) {
		if (e != NULL) {
			ecache_put(&pac->src, &pac->retained, e);
		}
		return NULL;
	}
	ecache_put(&pac->src, &pac->retained, tail);
	e = pac_committed(pac, e);
	if (e != NULL) {
		pac_mapped_add(pac, size);
	}
	return e;
}

edata_t *
pac_alloc_new(pac_t *pac, size_t size, size_t room, size_t alignment) {
	assert(size > 0 && ((size | room) & PAGE_MASK) == 0);
	edata_t *e = room == 0 ? NULL : pac_take_roomy(pac, size, room, alignment);
	if (e == NULL) {
		e = pac_take_new(pac, size, alignment, false);
	}
	if (e != NULL) {
		assert(e->size == size && e->state == extent_state_active);
		pac_active_add(pac, size >> LG_PAGE, true);
	}
	return e;
}

edata_t *
pac_alloc_guarded(pac_t *pac, size_t size, size_t alignment, bool zero) {
	size_t more = guard_bytes(alignment);
	edata_t *e = NULL;
	if (size + more > size && !ehooks_are_own(&pac->src.ehooks) && guard_is_allowed()) {
		e = pac_alloc(pac, size + more, alignment, false);
	}
	if (e == NULL) {
		return pac_alloc(pac, size, alignment, zero);
	}
	guard_on(e, more);
	atomic_fetch_sub_zu(&pac->nactive, more >> LG_PAGE, MO_RELAXED);
	atomic_fetch_add_zu(&pac->nguard, more >> LG_PAGE, MO_RELAXED);
	pac_mapped_sub(pac, more);
	if (zero) {
		pac_zero(pac, e);
	}
	return e;
}

/*
 * Makes a guarded extent, whose pages the caller has yet to count as unused, a plain one. The
 * caller may hold a lock, so the hook for a new maximum is not called; the next mapping calls it.
 */
static void
pac_unguard(pac_t *pac, edata_t *e) {
	atomic_fetch_sub_zu(&pac->nguard, e->nguards, MO_RELAXED);
	pac_mapped_count(pac, guard_off(e));
}

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

static void
pac_purge_extent(pac_t *pac, pac_decay_t *d, edata_t *e, bool is_over, purge_batch_t *batch) {
	assert(d->passer == tls_get());
	assert(e->state == extent_state_active && !e->is_slab);
	atomic_fetch_add_u64(&d->nmadvise, 1, MO_RELAXED);
	atomic_fetch_add_u64(&d->purged, e->size >> LG_PAGE, MO_RELAXED);
	if (d->cache == &pac->dirty && pac_may_become_muzzy(pac, is_over)
	    && ehooks_purge_lazy(&pac->src.ehooks, e->addr, e->size) == 0) {
		ecache_put(&pac->src, &pac->muzzy, e);
		return;
	}
	pac_retain(pac, e, batch);
}

/*
 * Takes the oldest extent out of the cache, or only its first part if the cache exceeds npages by
 * less (rounded up to PAC_GRAIN bytes).
 */
static edata_t *
pac_evict_some(pac_t *pac, pac_decay_t *d, size_t npages) {
	edata_t *e = ecache_evict(d->cache, npages);
	if (e == NULL || ehooks_are_own(&pac->src.ehooks)) {
		return e;
	}
	size_t all = ecache_npages(d->cache) + (e->size >> LG_PAGE);
	size_t above = align_up((all > npages ? all - npages : 1) << LG_PAGE, PAC_GRAIN);
	edata_t *rest = above < e->size ? extent_split(&pac->src, e, above) : NULL;
	if (rest != NULL) {
		ecache_put(&pac->src, d->cache, rest);
		pac_tell_back(pac);
	}
	return e;
}

/*
 * Takes the next extent to purge out of the cache. While more than npages are there: the oldest
 * that is not only part of a huge piece, without those of its ends that are parts of huge pieces.
 * If there is none and more than npages_held are there: the oldest of all. Otherwise NULL.
 */
static edata_t *
pac_evict_due(pac_t *pac, pac_decay_t *d, size_t npages, size_t npages_held) {
	edata_t *e = npages == npages_held ? NULL : ecache_evict_spare(d->cache, npages);
	if (e == NULL) {
		return ecache_evict(d->cache, npages_held);
	}
	size_t lead, size = eset_spare(e, &lead);
	if (size == 0 || ehooks_are_own(&pac->src.ehooks)) {
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
	return rest;
}

/*
 * Purges the oldest extents until at most npages are left, but extents that are only parts of huge
 * pieces only while more than npages_held are left. The caller holds d's lock and has begun a pass.
 * is_over: the pages exceed a limit, whatever their age; then the last extent is cut to size.
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
		bool is_own = ehooks_are_own(&pac->src.ehooks);
		if (is_own) {
			mutex_unlock(&d->decay.mtx);
		}
		pac_purge_extent(pac, d, e, is_over, &batch);
		if (is_own) {
			mutex_lock(&d->decay.mtx);
		}
	}
	purge_batch_flush(&batch);
	/* pac_purge_extent() counted each extent as a system call of its own. */
	atomic_fetch_sub_u64(&d->nmadvise, batch.ntaken - batch.ncalls, MO_RELAXED);
	decay_purged_locked(&d->decay, ecache_npages(d->cache));
}

size_t
pac_npages_kept(const pac_t *pac) {
	return piece_kept(atomic_load_zu(&pac->nactive, MO_RELAXED) << LG_PAGE) >> LG_PAGE;
}

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
	size_t limit = decay_limit_locked(&d->decay);
	if (npages > limit) {
		size_t held = max_zu(decay_recent_locked(&d->decay), pac_npages_kept(pac));
		pac_purge_to_locked(pac, d, limit, max_zu(limit, held), false);
	}
}

/* Makes the rest of the huge piece dirty. */
static void
pac_flush_piece_locked(pac_t *pac, pac_decay_t *d) {
	if (d == &pac->decay_dirty) {
		piece_flush(&pac->src, &pac->piece, &pac->dirty);
	}
}

void
pac_flush_hot_locked(pac_t *pac, pac_decay_t *d) {
	assert(d->passer == tls_get());
	bool is_own = ehooks_are_own(&pac->src.ehooks);
	if (is_own) {
		mutex_unlock(&d->decay.mtx);
	}
	pac_hot_flush(pac);
	pac_tell_back(pac);
	if (is_own) {
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

static void
pac_decay_try(pac_t *pac, pac_decay_t *d, uint64_t now) {
	if (!pac_decay_is_due(d, now) || pac_pass_lock(d, false) != 0) {
		return;
	}
	if (d == &pac->decay_dirty) {
		pac_flush_hot_locked(pac, d);
		pac_purge_idle_locked(pac, d, now);
	}
	pac_decay_run_locked(pac, d, now);
	pac_pass_unlock(d);
}

void
pac_tick(pac_t *pac, uint64_t now) {
	if (pac_is_bounded(pac)) {
		pac_trim(pac);
	}
	pac_decay_try(pac, &pac->decay_dirty, now);
	pac_decay_try(pac, &pac->decay_muzzy, now);
	pac_hpa_tick(pac, now);
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
 * Pages that may be unused, see pac_bound(). In a cache that is not bounded the limit is enforced
 * only when a large request needs new pages, and is a quarter of the peak higher: otherwise a block
 * that grows step by step would have each of its former places purged and fetched again.
 */
static size_t
pac_trim_limit(const pac_t *pac, size_t active) {
	size_t peak = atomic_load_zu(&pac->npeak, MO_RELAXED);
	size_t least = atomic_load_zu(&pac->bound, MO_RELAXED) >> LG_PAGE;
	size_t room = peak > active ? peak - active : 0;
	return least == 0 ? room + peak / 4 : min_zu(room, max_zu(active / 2, least));
}

/* Unused pages to which the limit applies: dirty and hot ones. */
static size_t
pac_nunused(const pac_t *pac) {
	return ecache_npages(&pac->dirty) + atomic_load_zu(&pac->hot_npages, MO_RELAXED);
}

/* Whether the limit allows npages pages in use to become unused too. */
static bool
pac_has_room(const pac_t *pac, size_t npages) {
	size_t active = atomic_load_zu(&pac->nactive, MO_RELAXED);
	assert(active >= npages);
	return pac_nunused(pac) + npages <= pac_trim_limit(pac, active - npages);
}

/*
 * Purges the oldest unused pages, whatever their age, until at most npages are left. with_piece:
 * the rest of the huge piece is among them. Returns false if a thread purges already.
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

/*
 * Purges unused pages that exceed the limit. If another thread purges, nothing is done: when it is
 * in this function, it checks the limit again.
 */
static void
pac_trim(pac_t *pac) {
	bool is_done = false;
	while (!is_done && decay_ms(&pac->decay_dirty.decay) > 0 && !pac_has_room(pac, 0)) {
		size_t active = atomic_load_zu(&pac->nactive, MO_RELAXED);
		is_done = !pac_try_purge_to(pac, pac_trim_limit(pac, active), false);
	}
}

void
pac_yields(pac_t *pac) {
	atomic_store_p(&pac_all.yielding, pac, MO_RELEASE);
}

/* Called when `grown` has brought the pages of all arenas to a new maximum: see pac_yields(). */
static void
pac_yield(const pac_t *grown) {
	pac_t *pac = atomic_load_p(&pac_all.yielding, MO_ACQUIRE);
	if (pac == NULL || pac == grown || !pac_is_bounded(pac) || ehooks_are_own(&pac->src.ehooks)) {
		return;
	}
	size_t used = atomic_load_zu(&pac->nactive, MO_RELAXED) << LG_PAGE;
	size_t n = pac_nunused(pac), part = PAC_YIELD >> LG_PAGE;
	if (atomic_load_zu(&pac->mapped, MO_RELAXED) > used && decay_ms(&pac->decay_dirty.decay) > 0) {
		pac_try_purge_to(pac, n > part ? n - part : 0, false);
	}
}

void
pac_purge_oldest(pac_t *pac, size_t npages) {
	pac_hpa_try_purge(pac, npages);
	size_t held = pac_hpa_nidle(pac);
	if (pac_ndirty(pac) + held > npages) {
		pac_try_purge_to(pac, npages > held ? npages - held : 0, true);
	}
	if (npages == 0) {
		edata_cache_purge(&pac->src.edata_cache);
	}
}

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
	pac_hpa_decay(pac, now, all);
	if (all) {
		edata_cache_purge(&pac->src.edata_cache);
	}
}

void
pac_bound(pac_t *pac, size_t bytes) {
	atomic_store_zu(&pac->bound, bytes, MO_RELAXED);
	pac_hot_flush(pac);
	pac_tell_back(pac);
	piece_flush(&pac->src, &pac->piece, &pac->dirty);
	if (bytes != 0) {
		pac_trim(pac);
	}
	/* From now on nothing becomes muzzy; pages that already are would not be counted. */
	if (bytes != 0 && decay_ms(&pac->decay_muzzy.decay) > 0 && ecache_npages(&pac->muzzy) > 0) {
		pac_purge_one(pac, &pac->decay_muzzy, 0, true);
	}
}

/* ------------------------------------------------------------------ the system has no more */

/*
 * With a grow_alignment above a page, no part of a mapping is unmapped: it has a mark for huge
 * pages, which is to stay.
 */
static bool
pac_may_unmap(const pac_t *pac) {
	return pac->src.grow_alignment <= PAGE;
}

size_t
pac_relievable(const pac_t *pac) {
	if (ehooks_are_own(&pac->src.ehooks) || (!pac_may_unmap(pac) && !pages_can_decommit())) {
		return 0;
	}
	size_t mapped = atomic_load_zu(&pac->mapped, MO_RELAXED) >> LG_PAGE;
	size_t active = atomic_load_zu(&pac->nactive, MO_RELAXED);
	active += pac_hpa_held(pac) >> LG_PAGE;
	size_t unused = mapped > active ? mapped - active : 0;
	return (unused + (pac_may_unmap(pac) ? ecache_npages(&pac->retained) : 0)) << LG_PAGE;
}

/*
 * Unmaps, or else decommits, an extent that was taken out of c during a pass. Returns the bytes
 * returned to the system; 0: the system refused, and the extent is in c again.
 */
static size_t
pac_let_go(pac_t *pac, ecache_t *c, edata_t *e) {
	size_t size = e->size;
	bool is_mapped = c != &pac->retained;
	piece_break(e->addr, size);
	if (pac_may_unmap(pac) && extent_unmap(&pac->src, e) == 0) {
		pac_mapped_sub(pac, is_mapped ? size : 0);
		return size;
	}
	bool is_done = is_mapped && pac_try_decommit(e);
	pac_mapped_sub(pac, is_done ? size : 0);
	ecache_put(&pac->src, is_done ? &pac->retained : c, e);
	return is_done ? size : 0;
}

/*
 * Returns extents of one cache to the system, the largest first, and of the last one only as much
 * as is wanted. Returns the bytes; stops at the first refusal.
 */
static size_t
pac_relieve_from_locked(pac_t *pac, ecache_t *c, size_t want) {
	pac_decay_t *d = &pac->decay_dirty;
	size_t gone = 0, now = 1;
	edata_t *e;
	assert(d->passer == tls_get() && !ehooks_are_own(&pac->src.ehooks));
	while (gone < want && now > 0 && (e = ecache_take_largest(c)) != NULL) {
		size_t part = align_up(min_zu(want - gone, e->size), max_zu(PAC_GRAIN, PAGE));
		edata_t *rest = part < e->size ? extent_split(&pac->src, e, part) : NULL;
		if (rest != NULL) {
			ecache_put(&pac->src, c, rest);
		}
		now = pac_let_go(pac, c, e);
		gone += now;
	}
	if (c == &pac->dirty && gone > 0) {
		atomic_fetch_add_u64(&d->npurge, 1, MO_RELAXED);
		atomic_fetch_add_u64(&d->purged, gone >> LG_PAGE, MO_RELAXED);
		decay_purged_locked(&d->decay, ecache_npages(c));
	}
	return gone;
}

/*
 * Begins with retained extents, which cost least to return because they have no pages. Where the
 * system accounts for writable pages they count for nothing, and come last.
 */
size_t
pac_relieve(pac_t *pac, size_t want, bool may_wait) {
	ecache_t *const first[] = {&pac->retained, &pac->dirty, &pac->muzzy, &pac->dirty, &pac->muzzy,
	    &pac->retained};
	pac_decay_t *d = &pac->decay_dirty;
	unsigned from = pages_can_decommit() ? 3 : 0;
	size_t gone = 0;
	if (pac_relievable(pac) == 0) {
		return 0;
	}
	if (may_wait) {
		pac_hpa_purge(pac, false);
	} else {
		pac_hpa_try_purge(pac, want >> LG_PAGE);
	}
	mutex_lock(&d->decay.mtx);
	if (pac_pass_begin_locked(d, may_wait) == 0) {
		for (unsigned i = from; i < from + 3 && gone < want; i++) {
			if (first[i] == &pac->dirty) {
				pac_flush_hot_locked(pac, d);
				pac_flush_piece_locked(pac, d);
			}
			bool is_kept = first[i] == &pac->retained && !pac_may_unmap(pac);
			gone += is_kept ? 0 : pac_relieve_from_locked(pac, first[i], want - gone);
		}
		pac_pass_end_locked(d);
	}
	mutex_unlock(&d->decay.mtx);
	pac_tell_back(pac);
	return gone;
}

int
pac_pass_enter(pac_t *pac, bool may_wait) {
	return pac_pass_begin(&pac->decay_dirty, may_wait);
}

void
pac_pass_leave(pac_t *pac) {
	pac_pass_end(&pac->decay_dirty);
	if (decay_ms(&pac->decay_dirty.decay) == 0) {
		pac_tick(pac, nstime_monotonic_coarse_ns());
	}
}

/* ------------------------------------------------------------------ set, free, resize */

int
pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now) {
	if (!decay_ms_is_valid(ms)) {
		return EINVAL;
	}
	mutex_lock(&d->decay.mtx);
	decay_set_locked(&d->decay, ms, now);
	pac_tell_by_default(pac);
	mutex_unlock(&d->decay.mtx);
	if (pac_pass_lock(d, true) == 0) {
		pac_flush_hot_locked(pac, d);
		if (ms == 0) {
			pac_flush_piece_locked(pac, d);
			pac_purge_to_locked(pac, d, 0, 0, false);
		}
		pac_pass_unlock(d);
	}
	pac_wake(pac);
	return 0;
}

/* Makes e hot, or puts it into a small extent cache. Returns false if there is no room. */
static bool
pac_try_keep(pac_t *pac, edata_t *e) {
	return (unlikely(e->is_hpa) && pac_hpa_try_keep(pac, e)) || pac_hot_try_keep(pac, e);
}

void
pac_dalloc(pac_t *pac, edata_t *e) {
	edata_check(e);
	assert(e->state == extent_state_active && e->arena_ind == pac->src.ehooks.arena_ind);
	assert(atomic_load_zu(&pac->nactive, MO_RELAXED) >= e->size >> LG_PAGE);
	bool goes_now = decay_ms(&pac->decay_dirty.decay) == 0;
	bool is_kept = !goes_now
	    && (!pac_is_bounded(pac) || pac_has_room(pac, e->size >> LG_PAGE));
	if (unlikely(e->nguards != 0)) {
		/* The size grows by the guards, which were not counted as active. */
		atomic_fetch_add_zu(&pac->nactive, e->nguards, MO_RELAXED);
		pac_unguard(pac, e);
	}
	e->is_zeroed = false;
	assert(!e->is_slab && e->recs == NULL);
	size_t npages = e->size >> LG_PAGE;
	if (!is_kept || !pac_try_keep(pac, e)) {
		pac_put_unused(pac, e);
	}
	pac_active_uncount(pac, npages);
	if (goes_now) {
		pac_tick(pac, nstime_monotonic_coarse_ns());
	} else {
		if (!is_kept) {
			pac_trim(pac);
		}
		pac_tell(pac);
	}
}

/*
 * Takes the unused pages directly behind e, active and ready to be merged with e; NULL if they are
 * not available.
 */
static edata_t *
pac_take_behind(pac_t *pac, const edata_t *e, size_t size) {
	char *addr = edata_end(e);
	pac_hot_cool_at(pac, addr, size);
	if (e->is_hpa) {
		return pac_hpa_take_at(pac, addr, size);
	}
	edata_t *t = ecache_take_at(&pac->src, &pac->dirty, addr, size);
	if (t == NULL) {
		t = ecache_take_at(&pac->src, &pac->muzzy, addr, size);
	}
	if (t != NULL) {
		return t;
	}
	t = ecache_take_at(&pac->src, &pac->retained, addr, size);
	t = pac_committed(pac, t);
	if (t != NULL) {
		pac_mapped_add(pac, size);
	}
	return t;
}

int
pac_expand(pac_t *pac, edata_t *e, size_t size, bool zero) {
	assert(size > e->size && (size & PAGE_MASK) == 0 && e->nguards == 0);
	edata_t *t = pac_take_behind(pac, e, size - e->size);
	pac_tell_back(pac);
	if (t == NULL) {
		return ENOMEM;
	}
	pac_active_add(pac, t->size >> LG_PAGE, false);
	if (zero) {
		pac_zero(pac, t);
	}
	if (extent_merge(&pac->src, e, t) != 0) {
		pac_dalloc(pac, t);
		return ENOMEM;
	}
	assert(e->size == size);
	return 0;
}

int
pac_shrink(pac_t *pac, edata_t *e, size_t size) {
	assert(size < e->size && size > 0 && (size & PAGE_MASK) == 0 && e->nguards == 0);
	edata_t *t = extent_split(&pac->src, e, size);
	if (t == NULL) {
		return ENOMEM;
	}
	pac_dalloc(pac, t);
	return 0;
}
