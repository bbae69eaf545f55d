/*
 * Extents of huge slabs for the page cache, and memory for the slabs; pac_hpa.h has the contract.
 * hpa.c calls slab_get() and slab_put() when a slab is fetched or returned: slab_get() with the
 * shard's grow_mtx held, slab_put() with no lock. Other locks: those that hpa.c, pac_hot.c and
 * extent.c take themselves, and the mutex of the dirty pages' decay at the begin and at the end of
 * a pass. Invariant: pac->mapped counts whole slabs. Called by pac.c, pac_purge.c, pac_relieve.c
 * and arena.c; pac_hpa.h says who calls its inline functions.
 */
#include "extent/pac_hpa.h"

/* ------------------------------------------------------------------ memory for slabs */

/*
 * Fetches the memory of a slab: retained or newly mapped, and zero. *home is set to its descriptor.
 * NULL: there is no memory, it cannot be made zero, or the arena has hooks of the user. While the
 * memory is a slab, the page map has the descriptors of the extents in it, not that of the slab.
 */
static char *
slab_get(void *ctx, void **home) {
	pac_t *pac = ctx;
	extent_src_t *src = &pac->src;
	if (ehooks_are_custom(&src->ehooks)) {
		return NULL; /* set since pac_hpa_serves(); they may not be called under grow_mtx */
	}
	edata_t *e = pac_committed(pac, ecache_take(src, &pac->retained, HSLAB_SIZE, HSLAB_SIZE, 64));
	if (e == NULL) {
		e = pac_committed(pac, extent_grow(src, &pac->retained, HSLAB_SIZE, HSLAB_SIZE));
	}
	if (e != NULL && !e->is_zeroed && ehooks_purge_forced(&src->ehooks, e->addr, e->size) != 0) {
		ecache_put(src, &pac->retained, e);
		return NULL;
	}
	if (e == NULL) {
		return NULL;
	}
	pac_mapped_count(pac, HSLAB_SIZE);
	emap_clear_boundary(e);
	e->state = extent_state_none;
	e->is_zeroed = false;
	*home = e;
	return e->addr;
}

/*
 * Makes the memory of a slab retained, or unmaps it (pac_retain). is_marked: the system may have
 * recorded a request for or against huge pages there (madvise), which must not outlive the slab:
 * memory that is fetched again is used as if it were new. If it cannot be withdrawn, pac_retain()
 * is made to map the memory anew.
 */
static void
slab_put(void *ctx, void *home, bool is_marked) {
	pac_t *pac = ctx;
	edata_t *e = home;
	int err = 0;
	e->state = extent_state_active;
	emap_set_boundary(e);
	if (is_marked) {
		err = pages_advise(e->addr, e->size, hpa_sys() == hpa_sys_always ? PAGES_HUGE
		    : PAGES_NO_HUGE);
	}
	if (unlikely(err != 0)) {
		extent_set_moved(e, true);
	}
	pac_retain(pac, e, NULL);
}

static const hpa_source_t slab_source = {slab_get, slab_put};

COLD int
pac_hpa_init(pac_t *pac, base_t *base) {
	if (!opt_hpa || pac->hpa != NULL) {
		return 0;
	}
	pac->hpa = hpa_new(base, &slab_source, pac);
	return pac->hpa == NULL ? ENOMEM : 0;
}

/* ------------------------------------------------------------------ extents */

/* Makes a descriptor that of an active extent of a slab, and enters it in the page map. */
static edata_t *
hpa_extent(edata_t *e, char *addr, size_t size, bool is_zeroed) {
	edata_init(e, addr, size, true, is_zeroed);
	e->is_hpa = true;
	emap_set_boundary(e);
	return e;
}

/* Adds n descriptors that no extent uses to a list; fewer if there is no memory for more. */
static void
hpa_get_descriptors(pac_t *pac, ql_t *list, size_t n) {
	edata_t *e;
	for (; n > 0 && (e = edata_cache_get(&pac->src.edata_cache)) != NULL; n--) {
		ql_init(&e->link);
		ql_push_tail(list, &e->link);
	}
}

/* Puts the descriptors of a list back. */
static void
hpa_put_descriptors(pac_t *pac, ql_t *list) {
	ql_t *l;
	while ((l = ql_first(list)) != NULL) {
		ql_remove(l);
		edata_cache_put(&pac->src.edata_cache, edata_of_link(l));
	}
}

/* Whether extents of this size are those of the small extent cache: by class, as their stacks. */
static bool
sec_serves(size_t size) {
	return opt_hpa_sec_nshards != 0
	    && sz_psz_floor(size) <= sz_psz_floor(opt_hpa_sec_max_alloc);
}

size_t
pac_hpa_sec_bytes(pac_t *pac) {
	bool has_none = pac->hpa == NULL || opt_hpa_sec_nshards == 0;
	return has_none ? 0 : pac_hot_sec_bytes(pac, opt_hpa_sec_max_alloc);
}

/* Whether the small extent cache may have `size` bytes more. */
static bool
sec_has_room(pac_t *pac, size_t size) {
	return (pac_hpa_sec_bytes(pac) + size - 1) / opt_hpa_sec_nshards < opt_hpa_sec_max_bytes;
}

static void
sec_count(atomic_u64_t *count) {
	atomic_fetch_add_u64(count, 1, MO_RELAXED);
}

/* Takes up to n extents from slabs; returns the first or NULL, makes the others hot. */
static edata_t *
hpa_fetch(pac_t *pac, size_t size, bool is_dense, size_t n) {
	ql_t list;
	edata_t *first = NULL;
	bool is_over = false;
	ql_init(&list);
	hpa_get_descriptors(pac, &list, n);
	bool has_slabs = atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED) != 0;
	unsigned got = ql_is_empty(&list) ? 0 : hpa_alloc_some(pac->hpa, size, is_dense, &list);
	for (; got > 0; got--) {
		edata_t *e = edata_of_link(ql_first(&list));
		ql_remove(&e->link);
		hpa_extent(e, e->addr, size, e->is_zeroed);
		if (first == NULL) {
			first = e;
		} else if (!sec_has_room(pac, size) || !pac_hot_try_keep(pac, e)) {
			pac_hpa_put(pac, e);
			is_over = true;
		}
	}
	hpa_put_descriptors(pac, &list);
	if (unlikely(!has_slabs && first != NULL)) {
		pac_wake(pac); /* pac_hpa_sleep_max() */
	}
	if (unlikely(is_over)) {
		sec_count(&pac->hpa->sec_overfills);
	}
	return first;
}

edata_t *
pac_hpa_take(pac_t *pac, size_t size, bool is_dense) {
	bool is_small = sec_serves(size);
	edata_t *e = NULL;
	size_t n = 1;
	if (!is_small || is_dense) {
		pac_hot_take(pac, size, size, PAGE, &e, 1);
	}
	if (is_small && is_dense && decay_ms(&pac->decay_dirty.decay) != 0) {
		sec_count(e != NULL ? &pac->hpa->sec_hits : &pac->hpa->sec_misses);
		n += opt_hpa_sec_batch_fill_extra;
	}
	return e != NULL ? e : hpa_fetch(pac, size, is_dense, n);
}

bool
pac_hpa_try_keep(pac_t *pac, edata_t *e) {
	if (!sec_serves(e->size)) {
		return pac_hot_try_keep(pac, e);
	}
	/* The slab cannot change its kind, because the extent counts as in use there. */
	if (!atomic_load_b(&hslab_of(e->addr)->is_dense, MO_RELAXED)) {
		return false;
	}
	bool is_kept = sec_has_room(pac, e->size) && pac_hot_try_keep(pac, e);
	sec_count(is_kept ? &pac->hpa->sec_dalloc_noflush : &pac->hpa->sec_dalloc_flush);
	return is_kept;
}

edata_t *
pac_hpa_take_at(pac_t *pac, char *addr, size_t size) {
	edata_t *e = edata_cache_get(&pac->src.edata_cache);
	bool is_zeroed;
	if (e == NULL) {
		return NULL;
	}
	if (!hpa_try_alloc_at(pac->hpa, addr, size, &is_zeroed)) {
		edata_cache_put(&pac->src.edata_cache, e);
		return NULL;
	}
	return hpa_extent(e, addr, size, is_zeroed);
}

/* ------------------------------------------------------------------ purging */

void
pac_hpa_tick(pac_t *pac, uint64_t now) {
	pac_decay_t *d = &pac->decay_dirty;
	if (likely(pac->hpa == NULL) || pac_pass_begin(d, false) != 0) {
		return;
	}
	bool may_collapse = opt_hpa_hugify_sync || atomic_load_b(&pac->is_served, MO_RELAXED);
	hpa_tick(pac->hpa, now, decay_ms(&d->decay), may_collapse);
	pac_pass_end(d);
}

size_t
pac_hpa_purge(pac_t *pac, bool is_all, bool may_wait) {
	size_t bytes = 0;
	if (unlikely(pac->hpa != NULL) && pac_pass_begin(&pac->decay_dirty, may_wait) == 0) {
		bytes = hpa_purge(pac->hpa, is_all);
		pac_pass_end(&pac->decay_dirty);
	}
	return bytes;
}

size_t
pac_hpa_held(const pac_t *pac) {
	if (pac->hpa == NULL) {
		return 0;
	}
	size_t nslabs = atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED);
	size_t nempty = atomic_load_zu(&pac->hpa->nempty, MO_RELAXED);
	size_t all = (nslabs > nempty ? nslabs - nempty : 0) * HSLAB_NPAGES;
	size_t active = atomic_load_zu(&pac->hpa->nactive, MO_RELAXED);
	return all > active ? (all - active) << LG_PAGE : 0;
}
