/*
 * Operations on extents: take from and put into a cache, split, merge, commit, return; new
 * mappings. extent.h says who owns an extent when. ecache_..._locked() need the lock of the cache
 * that is their argument; extent_grow_..._locked() need grow_mtx and no cache's lock. Functions
 * named custom_ are the variants for arenas with hooks of the user. Their caller holds no lock,
 * because hooks are called without any. Invariant: the page map describes every extent whenever
 * another thread can find it; its elements change under the cache's lock or while the caller owns
 * the extent. New mappings grow by page classes (grow_next), so that their number stays small; the
 * surplus of a mapping becomes retained. Called by the page cache and its parts (pac*, join, piece,
 * ahead, purge_batch), and by mallctl (ctl_arena.c).
 */
#include "extent/extent.h"

#include "os/room.h"
#include "os/witness.h"

size_t opt_lg_extent_max_active_fit = 6;
static atomic_zu_t extent_all_moved; /* extents of all arenas with is_moved (pac_move.h) */

void
extent_src_init(extent_src_t *src, base_t *base, unsigned arena_ind) {
	ehooks_init(&src->ehooks, arena_ind, arena_ind, NULL);
	edata_cache_init(&src->edata_cache, base, arena_ind);
	mutex_init(&src->grow_mtx, "extent_grow", WITNESS_RANK_PAC_GROW);
	src->grow_alignment = PAGE;
	src->grown = NULL;
	extent_src_renew(src);
}

void
extent_src_renew(extent_src_t *src) {
	mutex_lock(&src->grow_mtx);
	src->grow_next = max_zu(HUGEPAGE, src->grow_alignment);
	src->grow_limit = SC_LARGE_MAXCLASS;
	mutex_unlock(&src->grow_mtx);
}

size_t
extent_grow_limit_get(extent_src_t *src) {
	mutex_lock(&src->grow_mtx);
	size_t limit = src->grow_limit;
	mutex_unlock(&src->grow_mtx);
	return limit;
}

int
extent_grow_limit_set(extent_src_t *src, size_t limit) {
	if (limit < PAGE) {
		return EINVAL;
	}
	mutex_lock(&src->grow_mtx);
	src->grow_limit = sz_pind2sz(sz_psz_floor(min_zu(PAGE_FLOOR(limit), SC_LARGE_MAXCLASS)));
	src->grow_next = min_zu(src->grow_next, max_zu(src->grow_limit, src->grow_alignment));
	mutex_unlock(&src->grow_mtx);
	return 0;
}

size_t
extent_nmoved(void) {
	return atomic_load_zu(&extent_all_moved, MO_RELAXED);
}

void
extent_set_moved(edata_t *e, bool is_moved) {
	if (e->is_moved != is_moved) {
		e->is_moved = is_moved;
		atomic_fetch_add_zu(&extent_all_moved, is_moved ? 1 : SIZE_MAX, MO_RELAXED);
	}
}

/* b becomes a part of a: a has is_moved if one of them had it. */
static void
extent_join_moved(edata_t *a, edata_t *b) {
	extent_set_moved(a, a->is_moved || b->is_moved);
	extent_set_moved(b, false);
}

/*
 * Cuts e: it keeps the first size_a bytes, and tail becomes the descriptor of the others, in the
 * same state. The caller writes the page map. The record of a sampled object stays with e.
 */
static void
extent_cut(edata_t *e, edata_t *tail, size_t size_a) {
	assert(size_a > 0 && size_a < e->size && (size_a & PAGE_MASK) == 0);
	assert(!e->is_slab && (!e->is_sampled || e->state == extent_state_active));
	edata_init(tail, e->addr + size_a, e->size - size_a, e->is_committed, e->is_zeroed);
	tail->state = e->state;
	tail->is_hpa = e->is_hpa;
	extent_set_moved(tail, e->is_moved);
	edata_set_size(e, size_a);
}

edata_t *
extent_split(extent_src_t *src, edata_t *e, size_t size_a) {
	assert(e->state == extent_state_active && !e->is_slab);
	edata_t *tail = edata_cache_get(&src->edata_cache);
	if (tail == NULL) {
		return NULL;
	}
	if (ehooks_split(&src->ehooks, e->addr, e->size, size_a, e->is_committed) != 0) {
		edata_cache_put(&src->edata_cache, tail);
		return NULL;
	}
	extent_cut(e, tail, size_a);
	emap_set_boundary(tail);
	emap_set_boundary(e);
	return tail;
}

int
extent_merge(extent_src_t *src, edata_t *a, edata_t *b) {
	assert(edata_end(a) == b->addr && a->state == b->state);
	assert(a->arena_ind == b->arena_ind && a != b && !b->is_slab && b->recs == NULL);
	assert(a->is_committed == b->is_committed);
	int err = ehooks_merge(&src->ehooks, a->addr, a->size, b->addr, b->size, a->is_committed);
	if (err != 0) {
		return err;
	}
	/*
	 * The borders of both are removed from the page map first, so that no thread finds b any more.
	 */
	emap_clear_boundary(b);
	emap_clear_boundary(a);
	edata_set_size(a, a->size + b->size);
	a->is_zeroed = a->is_zeroed && b->is_zeroed;
	extent_join_moved(a, b);
	emap_set_boundary(a);
	edata_cache_put(&src->edata_cache, b);
	return 0;
}

/*
 * The neighbour of e that begins at addr, or whose last byte is at addr; NULL if it is not in c or
 * cannot be joined with e.
 */
static edata_t *
ecache_neighbour_locked(const ecache_t *c, const edata_t *e, const char *addr) {
	uint64_t elem = emap_elem_any(addr);
	if (elem_state(elem) != c->state) {
		return NULL;
	}
	edata_t *n = elem_edata(elem);
	/* A descriptor of another arena may change at any time, but its arena does not. */
	return edata_is_of(n, e->arena_ind) && n->is_committed == e->is_committed ? n : NULL;
}

/* Enters e in the cache's set and its state in the page map. */
static void
ecache_file_locked(ecache_t *c, edata_t *e) {
	mutex_assert_owner(&c->mtx);
	e->state = c->state;
	emap_set_boundary(e);
	assert(elem_edata(emap_elem(e->addr)) == e && elem_edata(emap_elem(edata_end(e) - 1)) == e);
	eset_insert(&c->eset, e);
}

/* b, in no set, becomes a part of its neighbour a, whose size the caller sets; *spare gets b. */
static void
extent_absorb(edata_t *a, edata_t *b, edata_t **spare) {
	assert(a->arena_ind == b->arena_ind && a->is_committed == b->is_committed);
	emap_clear_boundary(b);
	a->is_zeroed = a->is_zeroed && b->is_zeroed;
	extent_join_moved(a, b);
	b->heap.next = *spare == NULL ? NULL : &(*spare)->heap;
	*spare = b;
}

/*
 * Enters e, which the caller owns, in the cache, joined with its neighbours there: one neighbour
 * grows in its place in the set. Descriptors that are no longer needed are pushed on *spare.
 */
static void
ecache_file_joined_locked(ecache_t *c, edata_t *e, edata_t **spare) {
	edata_t *low = ecache_neighbour_locked(c, e, e->addr - 1);
	edata_t *high = ecache_neighbour_locked(c, e, edata_end(e));
	edata_t *n = low != NULL ? low : high;
	if (n == NULL) {
		ecache_file_locked(c, e);
		return;
	}
	char *addr = low != NULL ? low->addr : e->addr;
	size_t size = n->size + e->size;
	assert((low == NULL || edata_end(low) == e->addr) && n->state == c->state);
	assert(high == NULL || high->addr == edata_end(e));
	emap_clear_boundary(n);
	extent_absorb(n, e, spare);
	if (low != NULL && high != NULL) {
		eset_remove(&c->eset, high);
		size += high->size;
		extent_absorb(n, high, spare);
	}
	eset_resize(&c->eset, n, addr, size);
	emap_set_boundary(n);
}

/*
 * Puts a list of descriptors, linked by heap.next, into the edata_cache; called after the lock of
 * the ecache was released.
 */
static void
extent_spares_put(extent_src_t *src, edata_t *spare) {
	while (spare != NULL) {
		edata_t *next = spare->heap.next == NULL ? NULL : edata_of_heap(spare->heap.next);
		edata_cache_put(&src->edata_cache, spare);
		spare = next;
	}
}

/* ------------------------------------------------------------------ with hooks of the user */

static void ecache_unlink_locked(ecache_t *c, edata_t *e);

static void
custom_file(ecache_t *c, edata_t *e) {
	mutex_lock(&c->mtx);
	ecache_file_locked(c, e);
	mutex_unlock(&c->mtx);
}

/*
 * Takes the neighbour behind or before e out of c and joins both, if there is one and the user
 * agrees. Returns the result, or e.
 */
static edata_t *
custom_join(extent_src_t *src, ecache_t *c, edata_t *e, bool is_behind) {
	mutex_lock(&c->mtx);
	edata_t *n = ecache_neighbour_locked(c, e, is_behind ? edata_end(e) : e->addr - 1);
	if (n != NULL) {
		ecache_unlink_locked(c, n);
	}
	mutex_unlock(&c->mtx);
	if (n == NULL) {
		return e;
	}
	edata_t *low = is_behind ? e : n, *high = is_behind ? n : e;
	if (extent_merge(src, low, high) != 0) {
		custom_file(c, n);
		return e;
	}
	return low;
}

static void
custom_put(extent_src_t *src, ecache_t *c, edata_t *e) {
	emap_set_boundary(e);
	if (ehooks_can_merge(&src->ehooks)) {
		e = custom_join(src, c, e, true);
		e = custom_join(src, c, e, false);
	}
	custom_file(c, e);
}

/*
 * Cuts [addr, addr + size) out of e, which the caller owns. The rest goes into c, not joined. NULL:
 * there is no descriptor, or a hook refused; then all pages of e are in c.
 */
static edata_t *
custom_carve(extent_src_t *src, ecache_t *c, edata_t *e, char *addr, size_t size) {
	if (addr > e->addr) {
		edata_t *rest = extent_split(src, e, (size_t)(addr - e->addr));
		custom_file(c, e);
		if (rest == NULL) {
			return NULL;
		}
		e = rest;
	}
	if (e->size > size) {
		edata_t *tail = extent_split(src, e, size);
		custom_file(c, tail != NULL ? tail : e);
		if (tail == NULL) {
			return NULL;
		}
	}
	e->szind = SC_NSIZES;
	emap_set_boundary(e);
	return e;
}

void
ecache_put(extent_src_t *src, ecache_t *c, edata_t *e) {
	assert(e->state == extent_state_active && e->recs == NULL);
	assert((e->size & PAGE_MASK) == 0 && e->size > 0);
	edata_t *spare = NULL;
	e->is_slab = false;
	e->is_sampled = false;
	e->szind = SC_NSIZES;
	if (ehooks_are_custom(&src->ehooks)) {
		custom_put(src, c, e);
		return;
	}
	mutex_lock(&c->mtx);
	ecache_file_joined_locked(c, e, &spare);
	mutex_unlock(&c->mtx);
	extent_spares_put(src, spare);
}

/* Takes e out of the cache; its elements become active under the lock, and the caller owns it. */
static void
ecache_unlink_locked(ecache_t *c, edata_t *e) {
	mutex_assert_owner(&c->mtx);
	assert(e->state == c->state);
	eset_remove(&c->eset, e);
	e->state = extent_state_active;
	emap_set_boundary(e);
}

/*
 * Cuts e at addr: e keeps the part before addr and is put into the cache again. Returns the rest, a
 * new descriptor; NULL if there is none, and e is unchanged.
 */
static edata_t *
ecache_cut_lead_locked(extent_src_t *src, ecache_t *c, edata_t *e, char *addr) {
	edata_t *rest = edata_cache_get(&src->edata_cache);
	if (rest != NULL) {
		extent_cut(e, rest, (size_t)(addr - e->addr));
		ecache_file_locked(c, e);
	}
	return rest;
}

/* Cuts e to size bytes and puts the rest into the cache. 0, or ENOMEM with e unchanged. */
static int
ecache_cut_tail_locked(extent_src_t *src, ecache_t *c, edata_t *e, size_t size) {
	edata_t *tail = edata_cache_get(&src->edata_cache);
	if (tail == NULL) {
		return ENOMEM;
	}
	extent_cut(e, tail, size);
	ecache_file_locked(c, tail);
	return 0;
}

/* Takes the first size bytes, which are not all, away from an extent that stays in the cache. */
static void
ecache_trim_front_locked(ecache_t *c, edata_t *e, size_t size) {
	char *from = e->addr;
	mutex_assert_owner(&c->mtx);
	assert(e->state == c->state && size < e->size && (size & PAGE_MASK) == 0);
	eset_resize(&c->eset, e, from + size, e->size - size);
	emap_move_start(e, from);
}

/* ecache_carve_locked() at the start of e: e stays in the cache, and the part is the new extent. */
static edata_t *
ecache_carve_front_locked(extent_src_t *src, ecache_t *c, edata_t *e, size_t size) {
	edata_t *front = edata_cache_get(&src->edata_cache);
	if (front != NULL) {
		edata_init(front, e->addr, size, e->is_committed, e->is_zeroed);
		extent_set_moved(front, e->is_moved);
		ecache_trim_front_locked(c, e, size);
		emap_set_boundary(front);
	}
	return front;
}

/*
 * Takes [addr, addr + size) out of e, which is in the cache. NULL: there is no descriptor, and all
 * pages of e are still in the cache.
 */
static edata_t *
ecache_carve_locked(extent_src_t *src, ecache_t *c, edata_t *e, char *addr, size_t size) {
	assert(!e->is_hpa);
	if (addr == e->addr && size < e->size) {
		return ecache_carve_front_locked(src, c, e, size);
	}
	eset_remove(&c->eset, e);
	if (addr > e->addr) {
		edata_t *rest = ecache_cut_lead_locked(src, c, e, addr);
		if (rest == NULL) {
			eset_insert(&c->eset, e);
			return NULL;
		}
		e = rest;
	}
	if (e->size > size && ecache_cut_tail_locked(src, c, e, size) != 0) {
		/* If a lead was cut off, it and e are now neighbours that were not joined; harmless. */
		ecache_file_locked(c, e);
		return NULL;
	}
	e->state = extent_state_active;
	e->szind = SC_NSIZES;
	emap_set_boundary(e);
	return e;
}

bool
ecache_is_enough(ecache_t *c, size_t size, size_t alignment) {
	if (ecache_npages(c) < size >> LG_PAGE) {
		return false;
	}
	mutex_lock(&c->mtx);
	bool is_enough = eset_fit(&c->eset, size, alignment, 64) != NULL;
	mutex_unlock(&c->mtx);
	return is_enough;
}

edata_t *
ecache_take_upto(extent_src_t *src, ecache_t *c, size_t size, size_t most, size_t alignment,
    unsigned lg_max_fit) {
	assert(most >= size && (most & PAGE_MASK) == 0);
	if (ecache_npages(c) < size >> LG_PAGE) {
		return NULL;
	}
	bool is_custom = ehooks_are_custom(&src->ehooks);
	char *addr = NULL;
	mutex_lock(&c->mtx);
	edata_t *e = eset_fit(&c->eset, size, alignment, lg_max_fit);
	if (e != NULL) {
		addr = (char *)align_up((uintptr_t)e->addr, max_zu(alignment, PAGE));
		size = min_zu(most, (size_t)(edata_end(e) - addr));
		if (!is_custom) {
			e = ecache_carve_locked(src, c, e, addr, size);
		} else if (e->size == size || ehooks_can_split(&src->ehooks)) {
			ecache_unlink_locked(c, e);
		} else {
			e = NULL;
		}
	}
	mutex_unlock(&c->mtx);
	return e != NULL && is_custom ? custom_carve(src, c, e, addr, size) : e;
}

edata_t *
ecache_take(extent_src_t *src, ecache_t *c, size_t size, size_t alignment, unsigned lg_max_fit) {
	return ecache_take_upto(src, c, size, size, alignment, lg_max_fit);
}

edata_t *
ecache_take_piece(extent_src_t *src, ecache_t *c, char *addr, size_t size, bool is_behind) {
	const char *border = is_behind ? addr : addr + size - 1;
	if (elem_state(emap_elem_any(border)) != c->state) {
		return NULL; /* only a hint: the element is read again under the lock */
	}
	bool is_custom = ehooks_are_custom(&src->ehooks);
	edata_t *e = NULL;
	mutex_lock(&c->mtx);
	uint64_t elem = emap_elem_any(border);
	if (elem_state(elem) == c->state) {
		edata_t *n = elem_edata(elem);
		if (edata_is_of(n, src->ehooks.arena_ind) && n->size >= size
		    && (is_behind ? n->addr == addr : edata_end(n) == addr + size)) {
			e = is_custom ? n : ecache_carve_locked(src, c, n, addr, size);
		}
	}
	if (e != NULL && is_custom) {
		ecache_unlink_locked(c, e);
	}
	mutex_unlock(&c->mtx);
	return e != NULL && is_custom ? custom_carve(src, c, e, addr, size) : e;
}

edata_t *
ecache_take_at(extent_src_t *src, ecache_t *c, char *addr, size_t size) {
	return ecache_take_piece(src, c, addr, size, true);
}

/* Gives the first size bytes of n, which is in c, to e; if these are all, n is in no cache then. */
static void
ecache_lend_locked(ecache_t *c, edata_t *e, edata_t *n, size_t size) {
	const char *from = edata_end(e);
	assert(n->addr == from && n->size >= size && (size & PAGE_MASK) == 0);
	if (n->size > size) {
		ecache_trim_front_locked(c, n, size);
	} else {
		eset_remove(&c->eset, n);
		emap_clear_boundary(n);
	}
	edata_set_size(e, e->size + size);
	emap_move_end(e, from);
	e->is_zeroed = e->is_zeroed && n->is_zeroed;
	extent_set_moved(e, e->is_moved || n->is_moved);
}

bool
ecache_try_lend(extent_src_t *src, ecache_t *c, edata_t *e, size_t size) {
	const char *addr = edata_end(e);
	assert(e->state == extent_state_active && !e->is_slab && e->nguards == 0 && !e->is_hpa);
	if (ehooks_are_custom(&src->ehooks) || elem_state(emap_elem_any(addr)) != c->state) {
		return false; /* only a hint: the element is read again under the lock */
	}
	mutex_lock(&c->mtx);
	edata_t *n = ecache_neighbour_locked(c, e, addr);
	bool is_enough = n != NULL && n->size >= size, is_all = is_enough && n->size == size;
	if (is_enough) {
		ecache_lend_locked(c, e, n, size);
	}
	mutex_unlock(&c->mtx);
	if (is_all) {
		extent_set_moved(n, false);
		edata_cache_put(&src->edata_cache, n);
	}
	return is_enough;
}

edata_t *
ecache_take_largest(ecache_t *c) {
	mutex_lock(&c->mtx);
	edata_t *e = eset_largest(&c->eset);
	if (e != NULL) {
		ecache_unlink_locked(c, e);
	}
	mutex_unlock(&c->mtx);
	return e;
}

edata_t *
ecache_evict(ecache_t *c, size_t npages_min, bool may_be_held) {
	edata_t *e = NULL;
	mutex_lock(&c->mtx);
	if (ecache_npages(c) > npages_min) {
		e = eset_oldest(&c->eset, may_be_held);
	}
	if (e != NULL) {
		ecache_unlink_locked(c, e);
	}
	mutex_unlock(&c->mtx);
	return e;
}

int
extent_commit(extent_src_t *src, edata_t *e) {
	assert(e->state == extent_state_active);
	if (e->is_committed) {
		return 0;
	}
	int err = ehooks_commit(&src->ehooks, e->addr, e->size);
	if (err == 0) {
		e->is_committed = true;
	}
	return err;
}

int
extent_unmap(extent_src_t *src, edata_t *e) {
	assert(e->state == extent_state_active);
	/* The page map is cleared first, because another thread may map the same addresses at once. */
	emap_clear_boundary(e);
	int err = ehooks_dalloc(&src->ehooks, e->addr, e->size, e->is_committed);
	if (err != 0) {
		emap_set_boundary(e);
		return err;
	}
	extent_forget(src, e);
	return 0;
}

void
extent_forget(extent_src_t *src, edata_t *e) {
	atomic_fetch_sub_zu(&room_space.mapped, e->size, MO_RELAXED);
	extent_set_moved(e, false);
	edata_cache_put(&src->edata_cache, e);
}

void
extent_destroy(extent_src_t *src, edata_t *e) {
	assert(e->state == extent_state_active && !e->is_slab && e->recs == NULL);
	emap_clear_boundary(e);
	ehooks_destroy(&src->ehooks, e->addr, e->size, e->is_committed);
	extent_forget(src, e);
}

/* Maps bytes and describes the mapping in e. ENOMEM leaves e unchanged. */
static int
extent_map(extent_src_t *src, edata_t *e, size_t bytes, size_t alignment) {
	bool zero, commit;
	void *p = ehooks_alloc(&src->ehooks, bytes, max_zu(alignment, PAGE), &zero, &commit);
	if (p == NULL) {
		return ENOMEM;
	}
	if (emap_reserve(p, bytes) != 0) {
		if (ehooks_dalloc(&src->ehooks, p, bytes, commit) != 0) {
			ehooks_destroy(&src->ehooks, p, bytes, commit);
		}
		return ENOMEM;
	}
	atomic_fetch_add_zu(&room_space.mapped, bytes, MO_RELAXED);
	edata_init(e, p, bytes, commit, zero);
	if (src->grown != NULL) {
		src->grown(p, bytes);
	}
	return 0;
}

/*
 * Bytes to map for a request: grow_next, or else only the request, rounded up to grow_alignment.
 * The latter if that is more than grow_next; if retain is false and grow_alignment is a page; if
 * the request's alignment is above grow_alignment and is not HUGEPAGE; if the surplus would exceed
 * the bound of address space without use (os/room.h). A result below size means that the rounding
 * has overflowed.
 */
static size_t
extent_grow_bytes_locked(extent_src_t *src, size_t size, size_t alignment) {
	size_t need = max_zu(size, src->grow_alignment);
	need = align_up(need, src->grow_alignment);
	if (!opt_retain && src->grow_alignment <= PAGE) {
		return size;
	}
	if (alignment > max_zu(PAGE, src->grow_alignment) && alignment != HUGEPAGE) {
		return need;
	}
	size_t step = src->grow_next;
	return step >= need && room_space_excess(step - need) == 0 ? step : need;
}

/*
 * After a mapping of this many bytes, sets grow_next to the next page class, at most to the limit.
 * If grow_alignment is above a page, grow_next stays as it is.
 */
static void
extent_grow_next_locked(extent_src_t *src, size_t bytes) {
	mutex_assert_owner(&src->grow_mtx);
	assert((bytes & PAGE_MASK) == 0 && bytes > 0);
	unsigned pind = sz_psz2ind(PAGE_CEILING(bytes)) + 1;
	if (pind < SC_NPSIZES && src->grow_alignment <= PAGE) {
		size_t next = sz_pind2sz(pind);
		src->grow_next = next <= src->grow_limit ? next : max_zu(src->grow_limit, PAGE);
	}
}

/* The system or a hook has refused a step, so the steps grow again from the request's size. */
static void
extent_grow_lower_locked(extent_src_t *src, size_t size) {
	mutex_assert_owner(&src->grow_mtx);
	if (src->grow_alignment <= PAGE) {
		src->grow_next = min_zu(src->grow_next, sz_pind2sz(sz_psz_floor(size)));
	}
}

/*
 * Maps a growth step, or if that fails (and grow_alignment is a page), only the request. 0, or
 * ENOMEM with e unused.
 */
static int
extent_grow_map_locked(extent_src_t *src, edata_t *e, size_t size, size_t alignment) {
	size_t bytes = extent_grow_bytes_locked(src, size, alignment);
	size_t map_alignment = max_zu(alignment, src->grow_alignment);
	int err = bytes < size ? ENOMEM : extent_map(src, e, bytes, map_alignment);
	if (err == 0 && bytes >= src->grow_next) {
		extent_grow_next_locked(src, bytes);
	} else if (err != 0 && bytes > size && src->grow_alignment <= PAGE) {
		extent_grow_lower_locked(src, size);
		err = extent_map(src, e, size, map_alignment);
	}
	return err;
}

edata_t *
extent_grow_locked(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment) {
	mutex_assert_owner(&src->grow_mtx);
	edata_t *e = edata_cache_get(&src->edata_cache);
	if (e == NULL) {
		return NULL;
	}
	if (extent_grow_map_locked(src, e, size, alignment) != 0) {
		edata_cache_put(&src->edata_cache, e);
		return NULL;
	}
	emap_set_boundary(e);
	if (e->size > size) {
		edata_t *tail = extent_split(src, e, size);
		if (tail == NULL) {
			ecache_put(src, retained, e);
			return NULL;
		}
		ecache_put(src, retained, tail);
	}
	return e;
}

/*
 * Raises grow_next after a mapping of this size, or lowers it after a hook has refused a step for a
 * request of size bytes; takes grow_mtx.
 */
static void
custom_note(extent_src_t *src, size_t size, bool is_refused) {
	mutex_lock(&src->grow_mtx);
	if (is_refused) {
		extent_grow_lower_locked(src, size);
	} else if (size >= src->grow_next) {
		extent_grow_next_locked(src, size);
	}
	mutex_unlock(&src->grow_mtx);
}

/*
 * extent_grow() for the user's hooks, which are called without grow_mtx. If they refuse to split,
 * or the mapping of a growth step fails, only the request is mapped. While they refuse, no mapping
 * is made that has to be split, because it could not be used. The caller has searched the retained
 * cache, so the last answer is a new one if an extent there fits; without one it may be old, and a
 * growth step asks again.
 */
static edata_t *
custom_grow(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment) {
	mutex_lock(&src->grow_mtx);
	size_t bytes = extent_grow_bytes_locked(src, size, alignment);
	mutex_unlock(&src->grow_mtx);
	size_t least = align_up(size, src->grow_alignment);
	bool is_whole = !ehooks_can_split(&src->ehooks) || (ehooks_has_refused_split(&src->ehooks)
	    && ecache_is_enough(retained, size, alignment));
	if (bytes < size || least < size || (is_whole && least > size)) {
		return NULL;
	}
	bytes = is_whole ? least : bytes;
	for (;; bytes = least) {
		edata_t *e = edata_cache_get(&src->edata_cache);
		if (e == NULL) {
			return NULL;
		}
		if (extent_map(src, e, bytes, max_zu(alignment, src->grow_alignment)) == 0) {
			emap_set_boundary(e);
			e = custom_carve(src, retained, e, e->addr, size);
			if (e != NULL) {
				custom_note(src, bytes, false);
				return e;
			}
		} else {
			edata_cache_put(&src->edata_cache, e);
			if (bytes > least) {
				custom_note(src, size, true);
			}
		}
		if (bytes == least) {
			return NULL;
		}
	}
}

/*
 * Under grow_mtx the retained cache is searched again, because a thread that held it before may
 * have put its surplus there. Otherwise threads that missed at the same time would each map a step,
 * and each step would be larger than the one before.
 */
edata_t *
extent_grow(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment) {
	edata_t *e = NULL;
	mutex_lock(&src->grow_mtx);
	bool is_custom = ehooks_are_custom(&src->ehooks);
	if (!is_custom) {
		e = ecache_take(src, retained, size, alignment, 64);
		if (e == NULL) {
			e = extent_grow_locked(src, retained, size, alignment);
		}
	}
	mutex_unlock(&src->grow_mtx);
	return is_custom ? custom_grow(src, retained, size, alignment) : e;
}
