/*
 * Extents of huge slabs for the page cache, and memory for the slabs; pac_hpa.h has the contract.
 * hpa.c calls slab_get() and slab_put() when a slab is fetched or returned: slab_get() with the
 * shard's grow_mtx held, slab_put() with no lock. Other locks: those that hpa.c, hsec.c and
 * extent.c take themselves, and the mutex of the dirty pages' decay at the begin and at the end of
 * a pass. Invariant: pac->mapped counts whole
 * slabs. Called by pac.c, pac_purge.c, pac_relieve.c, pac_life.c and arena.c; pac_hpa.h says who
 * calls its inline functions.
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
		err = hpa_sys() == hpa_sys_always ? pages_huge(e->addr, e->size)
		    : pages_nohuge(e->addr, e->size);
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

/*
 * Frees the extents of a list, which have the state hot, to their slabs. The page map still says
 * hot: pac_hpa_put() wants an active extent, and clears its entries.
 */
static void
hpa_put_all(pac_t *pac, ql_t *list) {
	ql_t *l;
	while ((l = ql_first(list)) != NULL) {
		edata_t *e = edata_of_link(l);
		ql_remove(l);
		e->state = extent_state_active;
		pac_hpa_put(pac, e);
	}
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

/* Takes up to n extents from slabs; returns the first or NULL, puts the others into a cache. */
static edata_t *
hpa_fetch(pac_t *pac, size_t size, bool is_dense, size_t n) {
	ql_t list, more, out;
	edata_t *first = NULL;
	ql_init(&list);
	ql_init(&more);
	ql_init(&out);
	hpa_get_descriptors(pac, &list, n);
	bool has_slabs = atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED) != 0;
	unsigned got = ql_is_empty(&list) ? 0 : hpa_alloc_some(pac->hpa, size, is_dense, &list);
	for (; got > 0; got--) {
		edata_t *e = edata_of_link(ql_first(&list));
		ql_remove(&e->link);
		hpa_extent(e, e->addr, size, e->is_zeroed);
		if (first == NULL) {
			first = e;
			continue;
		}
		e->state = extent_state_hot;
		emap_set_boundary(e);
		ql_push_tail(&more, &e->link);
	}
	hpa_put_descriptors(pac, &list);
	if (unlikely(!has_slabs && first != NULL)) {
		pac_wake(pac); /* pac_hpa_sleep_max() */
	}
	if (!ql_is_empty(&more)) {
		hsec_put(&pac->hpa->sec, &more, is_dense, false, &out);
		hpa_put_all(pac, &out);
	}
	return first;
}

edata_t *
pac_hpa_take(pac_t *pac, size_t size, bool is_dense) {
	size_t n = 1;
	if (hsec_serves(&pac->hpa->sec, size) && decay_ms(&pac->decay_dirty.decay) != 0) {
		edata_t *e = hsec_take(&pac->hpa->sec, size, is_dense);
		if (e != NULL) {
			e->state = extent_state_active;
			return e;
		}
		n += opt_hpa_sec_batch_fill_extra;
	}
	return hpa_fetch(pac, size, is_dense, n);
}

bool
pac_hpa_try_keep(pac_t *pac, edata_t *e) {
	ql_t one, out;
	if (!hsec_serves(&pac->hpa->sec, e->size)) {
		return false;
	}
	edata_check(e);
	ql_init(&one);
	ql_init(&out);
	e->szind = SC_NSIZES;
	e->is_sampled = false;
	e->state = extent_state_hot;
	emap_set_boundary(e);
	/* The slab cannot change its kind (dense or not), because the extent counts as in use there. */
	bool is_dense = atomic_load_b(&hslab_of(e->addr)->is_dense, MO_RELAXED);
	ql_push_tail(&one, &e->link);
	hsec_put(&pac->hpa->sec, &one, is_dense, true, &out);
	hpa_put_all(pac, &out);
	return true;
}

/* Frees all extents in the small extent caches to their slabs. */
static void
hpa_sec_drain(pac_t *pac) {
	ql_t out;
	ql_init(&out);
	hsec_drain(&pac->hpa->sec, &out);
	hpa_put_all(pac, &out);
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
	ssize_t ms = decay_ms(&d->decay);
	if (ms >= 0 && hsec_try_idle(&pac->hpa->sec, now, (uint64_t)ms * NSTIME_PER_MSEC)) {
		hpa_sec_drain(pac);
	}
	bool may_collapse = opt_hpa_hugify_sync || atomic_load_b(&pac->is_served, MO_RELAXED);
	hpa_tick(pac->hpa, now, ms, may_collapse);
	pac_pass_end(d);
}

size_t
pac_hpa_empty(pac_t *pac, bool is_all) {
	if (pac->hpa == NULL) {
		return 0;
	}
	hpa_sec_drain(pac);
	return hpa_purge(pac->hpa, is_all);
}

size_t
pac_hpa_purge(pac_t *pac, bool is_all, bool may_wait) {
	size_t bytes = 0;
	if (unlikely(pac->hpa != NULL) && pac_pass_begin(&pac->decay_dirty, may_wait) == 0) {
		bytes = pac_hpa_empty(pac, is_all);
		pac_pass_end(&pac->decay_dirty);
	}
	return bytes;
}

void
pac_hpa_try_purge(pac_t *pac, size_t npages) {
	if (unlikely(pac->hpa != NULL) && pac_nidle(pac) > npages) {
		pac_hpa_purge(pac, true, false);
	}
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
