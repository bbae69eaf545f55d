/*
 * Searches for a row of adjacent unused extents, called pieces here, and takes it. join.h explains
 * why. The search goes through the page classes of the dirty cache from the request's downwards,
 * JOIN_LOOK_MAX extents in all, under that cache's lock. It reads sizes and arenas of neighbours
 * without their locks, as hints only. Invariant: at any time each piece is in a cache or active and
 * owned by this thread, so after a failure no page is lost. Called by pac.c. (Pieces here are not
 * the huge pieces of piece.h.)
 */
#include "extent/join.h"

/* Dirty extents that a search examines, and pieces that are examined on each side of one. */
#define JOIN_LOOK_MAX 24
#define JOIN_PIECES_MAX 8

/*
 * The cache that contains the unused piece of this arena at addr, which is an address at its begin
 * or end; *size: its apparent size in bytes. NULL if there is none that can be joined; *size is
 * undefined then.
 */
static ecache_t *
join_piece(const extent_src_t *src, ecache_t *const *caches, const char *addr, size_t *size) {
	uint64_t elem = emap_elem_any(addr);
	extent_state_t state = elem_state(elem);
	for (unsigned i = 0; i < JOIN_NCACHES; i++) {
		if (caches[i]->state == state) {
			const edata_t *n = elem_edata(elem);
			*size = __atomic_load_n(&n->size, __ATOMIC_RELAXED);
			return edata_is_of(n, src->ehooks.arena_ind) ? caches[i] : NULL;
		}
	}
	return NULL;
}

/* Unused bytes from the address `end` on, or (without is_behind) before it; at most `want`. */
static size_t
join_room(const extent_src_t *src, ecache_t *const *caches, const char *end, size_t want,
    bool is_behind) {
	size_t room = 0, size;
	for (unsigned i = 0; room < want && i < JOIN_PIECES_MAX; i++) {
		const char *at = is_behind ? end + room : end - room - 1;
		if (join_piece(src, caches, at, &size) == NULL || size == 0) {
			break;
		}
		room += size;
	}
	return min_zu(room, want);
}

/* Bytes by which a row of size bytes with e in it has to begin before e; SIZE_MAX: no room. */
static size_t
join_lead(const extent_src_t *src, ecache_t *const *caches, const edata_t *e, size_t size,
    size_t alignment) {
	size_t want = size - e->size;
	size_t behind = join_room(src, caches, edata_end(e), want, true);
	size_t lead = want - behind;
	uintptr_t start = ((uintptr_t)e->addr - lead) & ~(alignment - 1);
	lead = (uintptr_t)e->addr - start;
	if (lead > want) {
		return SIZE_MAX; /* the row would end inside e */
	}
	return join_room(src, caches, e->addr, lead, false) == lead ? lead : SIZE_MAX;
}

/*
 * The longest of the examined extents of a class that are shorter than the request and have enough
 * room around them, or NULL; *lead as returned by join_lead(). Longer ones are left to eset_fit().
 * *looks: how many extents may still be examined.
 */
static edata_t *
join_pick_class(const extent_src_t *src, ecache_t *const *caches, const eset_class_t *c,
    size_t size, size_t alignment, unsigned *looks, size_t *lead) {
	ph_link_t *todo[JOIN_LOOK_MAX];
	unsigned n = 0;
	edata_t *best = NULL;
	if (!ph_is_empty(&c->heap)) {
		todo[n++] = ph_any(&c->heap);
	}
	while (n > 0 && *looks > 0) {
		ph_link_t *l = todo[--n];
		edata_t *e = edata_of_heap(l);
		size_t far = SIZE_MAX;
		--*looks;
		if (e->size < size && (best == NULL || e->size > best->size)) {
			far = join_lead(src, caches, e, size, alignment);
		}
		if (far != SIZE_MAX) {
			best = e;
			*lead = far;
		}
		if (l->next != NULL && n < JOIN_LOOK_MAX) {
			todo[n++] = l->next;
		}
		if (l->lchild != NULL && n < JOIN_LOOK_MAX) {
			todo[n++] = l->lchild;
		}
	}
	return best;
}

/*
 * Searches from the class of the request, rounded down, to that of a 16th of the request. The
 * caller holds the dirty cache's lock. Returns an extent that stays in the cache, or NULL.
 */
static edata_t *
join_pick_locked(const extent_src_t *src, ecache_t *const *caches, size_t size, size_t alignment,
    size_t *lead) {
	const eset_t *s = &caches[0]->eset;
	unsigned looks = JOIN_LOOK_MAX;
	mutex_assert_owner(&caches[0]->mtx);
	for (unsigned i = (unsigned)min_zu(sz_psz_floor(size) + 1, SC_NPSIZES); i-- > 0 && looks > 0;) {
		/* A piece that is small compared with the request saves nothing. */
		if (sz_pind2sz(i) < size / 16) {
			break;
		}
		edata_t *e = join_pick_class(src, caches, &s->classes[i], size, alignment, &looks, lead);
		if (e != NULL) {
			return e;
		}
	}
	return NULL;
}

/*
 * Adds `want` bytes behind or before *e, which is the longer extent then. Returns 0 or ENOMEM, with
 * what was added before in *e. *added grows by the bytes that came from the retained cache (muzzy
 * pages count as mapped already).
 */
static int
join_add(extent_src_t *src, ecache_t *const *caches, edata_t **e, size_t want, bool is_behind,
    size_t *added) {
	while (want > 0) {
		size_t size;
		char *at = is_behind ? edata_end(*e) : (*e)->addr - 1;
		ecache_t *c = join_piece(src, caches, at, &size);
		size = min_zu(size, want);
		edata_t *t = c == NULL || size == 0 ? NULL
		    : ecache_take_piece(src, c, is_behind ? at : at + 1 - size, size, is_behind);
		if (t == NULL) {
			return ENOMEM;
		}
		edata_t *low = is_behind ? *e : t, *high = is_behind ? t : *e;
		if (extent_commit(src, t) != 0 || extent_merge(src, low, high) != 0) {
			ecache_put(src, c, t);
			return ENOMEM;
		}
		*e = low;
		*added += c == caches[JOIN_NCACHES - 1] ? size : 0;
		want -= size;
	}
	return 0;
}

edata_t *
join_take(extent_src_t *src, ecache_t *const *caches, size_t size, size_t alignment,
    size_t *added) {
	size_t lead = 0;
	*added = 0;
	assert((size & PAGE_MASK) == 0 && is_pow2_zu(alignment) && alignment >= PAGE);
	if (size < JOIN_MIN || ecache_npages(caches[0]) < (size / 16) >> LG_PAGE
	    || ehooks_are_custom(&src->ehooks)) {
		return NULL;
	}
	mutex_lock(&caches[0]->mtx);
	edata_t *e = join_pick_locked(src, caches, size, alignment, &lead);
	char *addr = e == NULL ? NULL : e->addr;
	size_t have = e == NULL ? 0 : e->size;
	mutex_unlock(&caches[0]->mtx);
	assert(have + lead <= size);
	e = e == NULL ? NULL : ecache_take_at(src, caches[0], addr, have);
	if (e == NULL) {
		return NULL;
	}
	if (join_add(src, caches, &e, size - lead - e->size, true, added) != 0
	    || join_add(src, caches, &e, lead, false, added) != 0) {
		ecache_put(src, caches[0], e);
		return NULL;
	}
	assert(e->size == size && is_aligned((uintptr_t)e->addr, alignment));
	return e;
}
