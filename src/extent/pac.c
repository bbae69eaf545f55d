/* The way of pages through the caches of one arena. */
#include "extent/pac.h"

#include "os/nstime.h"
#include "os/witness.h"

ssize_t opt_dirty_decay_ms = 10000;
ssize_t opt_muzzy_decay_ms = 0;
size_t opt_calloc_madvise_threshold = (size_t)8 << 20;
void (*pac_new_maximum_hook)(void);

static struct {
	atomic_zu_t mapped; /* bytes, all arenas */
	atomic_zu_t max;
} pac_all;

void
pac_init(pac_t *pac, base_t *base, unsigned arena_ind, ssize_t dirty_ms, ssize_t muzzy_ms,
    uint64_t now) {
	extent_src_init(&pac->src, base, arena_ind);
	ecache_init(&pac->dirty, extent_state_dirty, "extents_dirty", WITNESS_RANK_EXTENT_DIRTY);
	ecache_init(&pac->muzzy, extent_state_muzzy, "extents_muzzy", WITNESS_RANK_EXTENT_MUZZY);
	ecache_init(&pac->retained, extent_state_retained, "extents_retained",
	    WITNESS_RANK_EXTENT_RETAINED);
	decay_init(&pac->decay_dirty.decay, "decay_dirty", WITNESS_RANK_DECAY, dirty_ms, now);
	decay_init(&pac->decay_muzzy.decay, "decay_muzzy", WITNESS_RANK_DECAY_MUZZY, muzzy_ms, now);
	pac->decay_dirty.cache = &pac->dirty;
	pac->decay_muzzy.cache = &pac->muzzy;
}

size_t
pac_mapped_max(void) {
	return atomic_load_zu(&pac_all.max, MO_RELAXED);
}

static void
pac_mapped_add(pac_t *pac, size_t bytes) {
	atomic_fetch_add_zu(&pac->mapped, bytes, MO_RELAXED);
	size_t now = atomic_fetch_add_zu(&pac_all.mapped, bytes, MO_RELAXED) + bytes;
	size_t max = atomic_load_zu(&pac_all.max, MO_RELAXED);
	while (now > max) {
		if (atomic_cas_weak_zu(&pac_all.max, &max, now, MO_RELAXED, MO_RELAXED)) {
			if (pac_new_maximum_hook != NULL) {
				pac_new_maximum_hook();
			}
			return;
		}
	}
}

static void
pac_mapped_sub(pac_t *pac, size_t bytes) {
	assert(atomic_load_zu(&pac->mapped, MO_RELAXED) >= bytes);
	atomic_fetch_sub_zu(&pac->mapped, bytes, MO_RELAXED);
	atomic_fetch_sub_zu(&pac_all.mapped, bytes, MO_RELAXED);
}

/* Zeroes an extent that may hold old data: large ones by the system, small ones by hand. */
static void
pac_zero(pac_t *pac, edata_t *e) {
	if (e->is_zeroed) {
		return;
	}
	if (e->size < opt_calloc_madvise_threshold || ehooks_purge_forced(&pac->src.ehooks, e->addr, e->size) != 0) {
		memset(e->addr, 0, e->size);
	}
}

/* ------------------------------------------------------------------ hot extents */

/* What was in the slot; it is the caller's, its page-map elements still say hot. */
static edata_t *
pac_hot_swap(pac_t *pac, unsigned pind, edata_t *fresh) {
	if (fresh != NULL) {
		atomic_fetch_add_zu(&pac->nhot, fresh->size >> LG_PAGE, MO_RELAXED);
	}
	edata_t *old = atomic_exchange_p(&pac->hot[pind], fresh, MO_ACQ_REL);
	if (old != NULL) {
		atomic_fetch_sub_zu(&pac->nhot, old->size >> LG_PAGE, MO_RELAXED);
		assert(old->state == extent_state_hot && old != fresh);
		old->state = extent_state_active;
	}
	return old;
}

static void
pac_hot_leave(pac_t *pac, edata_t *e) {
	edata_check(e);
	e->szind = SC_NSIZES;
	e->is_sampled = false;
	e->state = extent_state_hot;
	emap_set_boundary(e);
	edata_t *old = pac_hot_swap(pac, sz_psz_floor(e->size), e);
	if (old != NULL) {
		ecache_put(&pac->src, &pac->dirty, old);
	}
}

/* NULL: none of this size. The caller of pac_alloc writes the page map. */
static edata_t *
pac_hot_take(pac_t *pac, size_t size, size_t alignment) {
	unsigned pind = sz_psz_floor(size);
	if (atomic_load_p(&pac->hot[pind], MO_RELAXED) == NULL) {
		return NULL;
	}
	edata_t *e = pac_hot_swap(pac, pind, NULL);
	if (e != NULL && (e->size != size || !is_aligned((uintptr_t)e->addr, max_zu(alignment, 1)))) {
		ecache_put(&pac->src, &pac->dirty, e);
		e = NULL;
	}
	return e;
}

static void
pac_hot_flush(pac_t *pac) {
	if (atomic_load_zu(&pac->nhot, MO_RELAXED) == 0) {
		return;
	}
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		edata_t *e = atomic_load_p(&pac->hot[i], MO_RELAXED) == NULL ? NULL
		    : pac_hot_swap(pac, i, NULL);
		if (e != NULL) {
			ecache_put(&pac->src, &pac->dirty, e);
		}
	}
}

/* ------------------------------------------------------------------ allocation */

/* Pages that lie unused but are still mapped. */
static edata_t *
pac_take_cached(pac_t *pac, size_t size, size_t alignment, unsigned lg_max_fit) {
	edata_t *e = ecache_take(&pac->src, &pac->dirty, size, alignment, lg_max_fit);
	return e != NULL ? e : ecache_take(&pac->src, &pac->muzzy, size, alignment, lg_max_fit);
}

/* Address space that has no pages now. */
static edata_t *
pac_take_new(pac_t *pac, size_t size, size_t alignment) {
	edata_t *e = ecache_take(&pac->src, &pac->retained, size, alignment, 64);
	if (e == NULL) {
		e = extent_grow(&pac->src, &pac->retained, size, alignment);
	}
	if (e != NULL && extent_commit(&pac->src, e) != 0) {
		ecache_put(&pac->src, &pac->retained, e);
		e = NULL;
	}
	if (e != NULL) {
		pac_mapped_add(pac, size);
	}
	return e;
}

edata_t *
pac_alloc(pac_t *pac, size_t size, size_t alignment, bool zero) {
	assert(size > 0 && (size & PAGE_MASK) == 0);
	edata_t *e = pac_hot_take(pac, size, alignment);
	if (e == NULL) {
		e = pac_take_cached(pac, size, alignment, (unsigned)opt_lg_extent_max_active_fit);
	}
	if (e == NULL) {
		e = pac_take_new(pac, size, alignment);
	}
	if (e == NULL) {
		/* No more to be had: rather break up something large than fail. */
		pac_hot_flush(pac);
		e = pac_take_cached(pac, size, alignment, 64);
	}
	if (e == NULL) {
		return NULL;
	}
	assert(e->size == size && e->state == extent_state_active);
	atomic_fetch_add_zu(&pac->nactive, size >> LG_PAGE, MO_RELAXED);
	if (zero) {
		pac_zero(pac, e);
	}
	return e;
}

/* The pages are gone from the process; the address space is kept or goes too. */
static void
pac_retain(pac_t *pac, edata_t *e) {
	edata_check(e);
	pac_mapped_sub(pac, e->size);
	if (!opt_retain && pac->src.grow_alignment <= PAGE && extent_unmap(&pac->src, e) == 0) {
		return;
	}
	if (!e->is_zeroed && ehooks_purge_forced(&pac->src.ehooks, e->addr, e->size) == 0) {
		e->is_zeroed = true;
	}
	ecache_put(&pac->src, &pac->retained, e);
}

static void
pac_purge_extent(pac_t *pac, pac_decay_t *d, edata_t *e) {
	mutex_assert_owner(&d->decay.mtx);
	assert(e->state == extent_state_active && !e->is_slab);
	atomic_fetch_add_u64(&d->nmadvise, 1, MO_RELAXED);
	atomic_fetch_add_u64(&d->purged, e->size >> LG_PAGE, MO_RELAXED);
	if (d->cache == &pac->dirty && decay_ms(&pac->decay_muzzy.decay) != 0 &&
	    ehooks_purge_lazy(&pac->src.ehooks, e->addr, e->size) == 0) {
		ecache_put(&pac->src, &pac->muzzy, e);
		return;
	}
	pac_retain(pac, e);
}

/* Purges the oldest extents until at most npages are left; d's lock is held. */
static void
pac_purge_to_locked(pac_t *pac, pac_decay_t *d, size_t npages) {
	/* Work that arrives meanwhile is left to the next pass. */
	size_t budget = ecache_npages(d->cache);
	edata_t *e;
	if (budget > npages) {
		atomic_fetch_add_u64(&d->npurge, 1, MO_RELAXED);
	}
	while (budget > 0 && (e = ecache_evict(d->cache, npages)) != NULL) {
		size_t n = e->size >> LG_PAGE;
		budget = n < budget ? budget - n : 0;
		pac_purge_extent(pac, d, e);
	}
	decay_purged_locked(&d->decay, ecache_npages(d->cache));
}

static void
pac_decay_run_locked(pac_t *pac, pac_decay_t *d, uint64_t now) {
	size_t npages = ecache_npages(d->cache);
	ssize_t ms = decay_ms(&d->decay);
	if (ms < 0) {
		return;
	}
	if (ms == 0) {
		pac_purge_to_locked(pac, d, 0);
		return;
	}
	if (!decay_is_due(&d->decay, now)) {
		return;
	}
	decay_advance_locked(&d->decay, now, npages);
	size_t limit = decay_limit_locked(&d->decay);
	if (npages > limit) {
		pac_purge_to_locked(pac, d, limit);
	}
}

static bool
pac_decay_is_due(const pac_decay_t *d, uint64_t now) {
	ssize_t ms = decay_ms(&d->decay);
	return ms == 0 ? ecache_npages(d->cache) != 0 : decay_is_due(&d->decay, now);
}

static void
pac_decay_try(pac_t *pac, pac_decay_t *d, uint64_t now) {
	if (pac_decay_is_due(d, now) && mutex_trylock(&d->decay.mtx)) {
		if (d == &pac->decay_dirty) {
			pac_hot_flush(pac);
		}
		pac_decay_run_locked(pac, d, now);
		mutex_unlock(&d->decay.mtx);
	}
}

void
pac_tick(pac_t *pac, uint64_t now) {
	pac_decay_try(pac, &pac->decay_dirty, now);
	pac_decay_try(pac, &pac->decay_muzzy, now);
}

static void
pac_purge_one(pac_t *pac, pac_decay_t *d, uint64_t now, bool all) {
	mutex_lock(&d->decay.mtx);
	pac_hot_flush(pac);
	if (all) {
		pac_purge_to_locked(pac, d, 0);
	} else {
		pac_decay_run_locked(pac, d, now);
	}
	mutex_unlock(&d->decay.mtx);
}

void
pac_purge(pac_t *pac, uint64_t now, bool all) {
	pac_purge_one(pac, &pac->decay_dirty, now, all);
	pac_purge_one(pac, &pac->decay_muzzy, now, all);
}

int
pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now) {
	if (!decay_ms_is_valid(ms)) {
		return EINVAL;
	}
	mutex_lock(&d->decay.mtx);
	decay_set_locked(&d->decay, ms, now);
	pac_hot_flush(pac);
	if (ms == 0) {
		pac_purge_to_locked(pac, d, 0);
	}
	mutex_unlock(&d->decay.mtx);
	return 0;
}

void
pac_dalloc(pac_t *pac, edata_t *e) {
	edata_check(e);
	assert(e->state == extent_state_active && e->arena_ind == pac->src.ehooks.arena_ind);
	assert(atomic_load_zu(&pac->nactive, MO_RELAXED) >= e->size >> LG_PAGE);
	atomic_fetch_sub_zu(&pac->nactive, e->size >> LG_PAGE, MO_RELAXED);
	e->is_zeroed = false;
	assert(!e->is_slab && e->recs == NULL);
	if (likely(decay_ms(&pac->decay_dirty.decay) != 0)) {
		pac_hot_leave(pac, e);
		return;
	}
	ecache_put(&pac->src, &pac->dirty, e);
	pac_tick(pac, nstime_monotonic_coarse_ns());
}

/* The unused pages directly behind e, active and e's to merge; NULL: not to be had. */
static edata_t *
pac_take_behind(pac_t *pac, const edata_t *e, size_t size) {
	char *addr = edata_end(e);
	edata_t *t = ecache_take_at(&pac->src, &pac->dirty, addr, size);
	if (t == NULL) {
		t = ecache_take_at(&pac->src, &pac->muzzy, addr, size);
	}
	if (t != NULL) {
		return t;
	}
	t = ecache_take_at(&pac->src, &pac->retained, addr, size);
	if (t != NULL && (t->is_committed != e->is_committed && extent_commit(&pac->src, t) != 0)) {
		ecache_put(&pac->src, &pac->retained, t);
		return NULL;
	}
	if (t != NULL) {
		pac_mapped_add(pac, size);
	}
	return t;
}

int
pac_expand(pac_t *pac, edata_t *e, size_t size, bool zero) {
	assert(size > e->size && (size & PAGE_MASK) == 0);
	edata_t *t = pac_take_behind(pac, e, size - e->size);
	if (t == NULL) {
		return ENOMEM;
	}
	atomic_fetch_add_zu(&pac->nactive, t->size >> LG_PAGE, MO_RELAXED);
	if (zero) {
		pac_zero(pac, t);
	}
	extent_merge(&pac->src, e, t);
	assert(e->size == size);
	return 0;
}

int
pac_shrink(pac_t *pac, edata_t *e, size_t size) {
	assert(size < e->size && size > 0 && (size & PAGE_MASK) == 0);
	edata_t *t = extent_split(&pac->src, e, size);
	if (t == NULL) {
		return ENOMEM;
	}
	pac_dalloc(pac, t);
	return 0;
}
