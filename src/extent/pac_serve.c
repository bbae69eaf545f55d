/*
 * How long the background thread of a page cache may sleep; pac_serve.h has the contract and the
 * invariant. Releases call pac_note_release(), which wakes the thread. A decay's mutex is held
 * while its cache is read. Called by background_thread.c.
 */
#include "extent/pac_serve.h"

#include "extent/pac_hpa.h"

/*
 * If work is due within SERVE_SOON_NS, the thread sleeps until then, and no release of pages wakes
 * it earlier. Otherwise SERVE_STEP_PAGES (1 MiB) more dirty pages than pac_serve() counted wake it.
 */
#define SERVE_SOON_NS (NSTIME_PER_SEC / 10)
#define SERVE_STEP_PAGES ((ZU(1) << 20) >> LG_PAGE)
/* The longest sleep with a dirty decay time of 0, from which no release wakes the thread. */
#define SERVE_UNWOKEN_NS NSTIME_PER_SEC

/*
 * Makes hot extents dirty. Between stack and cache an extent is in neither, so this is done in a
 * pass, which pac_close() waits for. Returns false if another thread is in one or has the mutex.
 */
static bool
pac_try_flush(pac_t *pac) {
	pac_decay_t *d = &pac->decay_dirty;
	if (pac_pass_lock(d, false) != 0) {
		return false;
	}
	pac_flush_hot_locked(pac, d);
	pac_pass_unlock(d);
	pac_pass_ended(pac);
	return true;
}

/*
 * Nanoseconds until enough pages are due: 1 MiB of them, or a sixteenth of all if that is more.
 * None is due (UINT64_MAX) if there are at most `kept` pages, which may stay for good; if there are
 * more, all count.
 */
static uint64_t
pac_ns_until(pac_decay_t *d, uint64_t now, size_t kept) {
	mutex_lock(&d->decay.mtx);
	size_t npages = ecache_npages(d->cache);
	npages = npages > kept ? npages : 0;
	uint64_t ns = decay_ns_until_locked(&d->decay, now, npages,
	    max_zu(SERVE_STEP_PAGES, npages / 16));
	mutex_unlock(&d->decay.mtx);
	return ns;
}

/*
 * Counts the dirty pages once more, after the limit was published. The counters of the cache and of
 * the huge piece's rest are accessed in relaxed order; the two locks provide the order. Pages that
 * were put there before the lock is taken here are counted; a thread that puts pages there later
 * reads the new limit.
 */
static size_t
pac_ndirty_last(pac_t *pac) {
	mutex_lock(&pac->dirty.mtx);
	mutex_unlock(&pac->dirty.mtx);
	mutex_lock(&pac->src.grow_mtx);
	mutex_unlock(&pac->src.grow_mtx);
	return pac_ndirty(pac);
}

/*
 * The limit is published before the pages are counted for the last time, and a thread that frees
 * adds its pages before it reads the limit, so at least one of the two threads notices the other.
 * For dirty extents the cache's lock ensures that, for a huge piece grow_mtx, for hot extents the
 * sequential consistency of the limit and of hot_npages. While an extent moves from a stack to the
 * cache, and while an allocation or a pass holds a longer extent than it keeps, neither count
 * includes it; pac_recheck_wake() is called afterwards in these cases. test/models/hot.pml is a
 * model of this.
 */
uint64_t
pac_serve(pac_t *pac, uint64_t now) {
	atomic_store_b(&pac->is_served, true, MO_RELAXED);
	if (!pac_try_flush(pac)) {
		return SERVE_SOON_NS; /* the arena is about to end, or another thread purges */
	}
	size_t seen = pac_ndirty(pac);
	ssize_t ms = decay_ms(&pac->decay_dirty.decay);
	uint64_t dirty = pac_ns_until(&pac->decay_dirty, now, pac_npages_kept(pac));
	uint64_t muzzy = pac_ns_until(&pac->decay_muzzy, now, 0);
	if (dirty == UINT64_MAX && ms > 0 && piece_npages(&pac->piece) > 0) {
		dirty = (uint64_t)ms * NSTIME_PER_MSEC;
	}
	uint64_t next = dirty < muzzy ? dirty : muzzy;
	uint64_t sleep_max = pac_hpa_sleep_max(pac);
	next = next < sleep_max ? next : sleep_max;
	uint64_t spare = ms >= 0 ? edata_cache_ns_until(&pac->src.edata_cache, now) : UINT64_MAX;
	next = next < spare ? next : spare;
	if (ms == 0 && next > SERVE_UNWOKEN_NS) {
		next = SERVE_UNWOKEN_NS;
	}
	size_t limit = dirty == UINT64_MAX ? seen : seen + SERVE_STEP_PAGES;
	if (next <= SERVE_SOON_NS || ms <= 0) {
		pac_set_wake_default(pac);
		return next;
	}
	atomic_store_zu(&pac->wake_above, limit, MO_SEQ_CST);
	return pac_ndirty_last(pac) > limit ? 0 : next;
}

void
pac_unserve(pac_t *pac) {
	pac_set_wake_default(pac);
	atomic_store_b(&pac->is_served, false, MO_RELAXED);
}
