/* The search for a row of pieces, and its taking. */
#include "extent/join.h"

/* How many dirty extents are looked at, and how many pieces to each side. */
#define JOIN_LOOK_MAX 24
#define JOIN_PIECES_MAX 8

/* The cache of the unused piece of this arena at addr, and its size as it seems; NULL: none that can be joined. */
static ecache_t *
join_piece(const extent_src_t *src, ecache_t *const *caches, const char *addr, size_t *size) {
	uint64_t elem = emap_elem_any(addr);
	extent_state_t state = elem_state(elem);
	for (unsigned i = 0; i < JOIN_NCACHES; i++) {
		if (caches[i]->state == state) {
			const edata_t *n = elem_edata(elem);
			*size = __atomic_load_n(&n->size, __ATOMIC_RELAXED);
			return __atomic_load_n(&n->arena_ind, __ATOMIC_RELAXED) == src->ehooks.arena_ind ? caches[i] : NULL;
		}
	}
	return NULL;
}

/* Unused bytes behind end, or before it; about as many as are wanted, or fewer. */
static size_t
join_room(const extent_src_t *src, ecache_t *const *caches, const char *end, size_t want, bool is_behind) {
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

/* How far to the left of e the row has to begin; SIZE_MAX: no room around it. */
static size_t
join_lead(const extent_src_t *src, ecache_t *const *caches, const edata_t *e, size_t size, size_t alignment) {
	size_t want = size - e->size;
	size_t behind = join_room(src, caches, edata_end(e), want, true);
	size_t lead = want - behind;
	uintptr_t start = ((uintptr_t)e->addr - lead) & ~(alignment - 1);
	lead = (uintptr_t)e->addr - start;
	if (lead > want) {
		return SIZE_MAX; /* it would end inside e */
	}
	return join_room(src, caches, e->addr, lead, false) == lead ? lead : SIZE_MAX;
}

/* The longest of the first few extents of the class that have room; *lead as above. */
static edata_t *
join_pick_class(const extent_src_t *src, ecache_t *const *caches, const eset_class_t *c, size_t size,
    size_t alignment, unsigned *looks, size_t *lead) {
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

/* From the largest classes downwards, under the dirty cache's lock. */
static edata_t *
join_pick_locked(const extent_src_t *src, ecache_t *const *caches, size_t size, size_t alignment, size_t *lead) {
	const eset_t *s = &caches[0]->eset;
	unsigned looks = JOIN_LOOK_MAX;
	mutex_assert_owner(&caches[0]->mtx);
	for (unsigned i = (unsigned)min_zu(sz_psz_floor(size) + 1, SC_NPSIZES); i-- > 0 && looks > 0;) {
		/* A piece that is small beside the request saves nothing. */
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

/* Adds want bytes before or behind *e; what was added although it is less counts too. 0 or ENOMEM. */
static int
join_add(extent_src_t *src, ecache_t *const *caches, edata_t **e, size_t want, bool is_behind, size_t *added) {
	while (want > 0) {
		size_t size;
		char *at = is_behind ? edata_end(*e) : (*e)->addr - 1;
		ecache_t *c = join_piece(src, caches, at, &size);
		size = min_zu(size, want);
		edata_t *t = c == NULL || size == 0 ? NULL : is_behind ? ecache_take_at(src, c, at, size)
		    : ecache_take_before(src, c, at + 1, size);
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
join_take(extent_src_t *src, ecache_t *const *caches, size_t size, size_t alignment, size_t *added) {
	size_t lead = 0;
	*added = 0;
	assert((size & PAGE_MASK) == 0 && is_pow2_zu(alignment) && alignment >= PAGE);
	if (size < JOIN_MIN || ecache_npages(caches[0]) < (size / 16) >> LG_PAGE || ehooks_are_own(&src->ehooks)) {
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
	if (join_add(src, caches, &e, size - lead - e->size, true, added) != 0 ||
	    join_add(src, caches, &e, lead, false, added) != 0) {
		ecache_put(src, caches[0], e);
		return NULL;
	}
	assert(e->size == size && is_aligned((uintptr_t)e->addr, alignment));
	return e;
}
