/*
 * The set of unused extents: insert, remove, and the search for a fitting one. Invariant: an extent
 * is filed under the largest page class that is not above its size, so every extent of a class from
 * the request's own upward fits, if an alignment of one page is enough. The class just below the
 * request's may contain extents that fit too, since sizes need not be class sizes; up to
 * ESET_PEEK_MAX of them are examined first. Called by extent.c and piece.c under the lock of the
 * ecache, which protects the set; by ecache.c before other threads know the set; and by
 * pac_purge.c, which calls only eset_spare(), for an extent that it owns, so without the lock.
 */
#include "extent/eset.h"

#include "meta/emap.h"

/* Extents of one class that eset_peek() examines at most. */
#define ESET_PEEK_MAX 24

void
eset_init(eset_t *s, eset_class_t *classes) {
	/* the set lies in zeroed memory; touching less of it saves page faults */
	assert(fb_is_empty(s->used, SC_NPSIZES_MAX));
	ql_init(&s->lru);
	ql_init(&s->lru_held);
	s->classes = classes;
}

size_t
eset_spare(const edata_t *e, size_t *lead) {
	const uintptr_t mask = ((uintptr_t)1 << EMAP_LG_HUGE) - 1;
	uintptr_t from = (uintptr_t)e->addr, to = from + e->size;
	if ((from & mask) != 0 && emap_is_huge(e->addr)) {
		from = (from | mask) + 1;
	}
	if ((to & mask) != 0 && to > from && emap_is_huge((const char *)to - 1)) {
		to &= ~mask;
	}
	*lead = from - (uintptr_t)e->addr;
	return to > from ? to - from : 0;
}

/*
 * Whether the extent consists only of a part of one huge piece, or of parts of two, that reach
 * beyond it. Such an extent is held back: purging it would break the pieces.
 */
static bool
eset_is_held(const edata_t *e) {
	size_t lead;
	return emap_is_huge(e->addr) && eset_spare(e, &lead) == 0;
}

/* Makes e, which is on no list, the newest of its list. */
static void
eset_list(eset_t *s, edata_t *e) {
	assert(ql_is_empty(&e->link));
	ql_push_tail(eset_is_held(e) ? &s->lru_held : &s->lru, &e->link);
}

/* Puts e into the heap of its class. */
ALWAYS_INLINE void
eset_file(eset_t *s, edata_t *e, unsigned pind) {
	eset_class_t *c = &s->classes[pind];
	assert(pind < SC_NPSIZES && sz_pind2sz(pind) <= e->size && !e->is_slab);
	if (ph_is_empty(&c->heap)) {
		fb_set(s->used, SC_NPSIZES_MAX, pind);
	}
	ph_insert(&c->heap, &e->heap, edata_cmp_addr);
	atomic_add_nonatomic_zu(&c->nextents, 1);
	atomic_add_nonatomic_zu(&c->nbytes, e->size);
}

/* Takes e out of the heap of its class. */
ALWAYS_INLINE void
eset_unlink(eset_t *s, edata_t *e, unsigned pind) {
	eset_class_t *c = &s->classes[pind];
	assert(pind < SC_NPSIZES && !ph_is_empty(&c->heap));
	assert(fb_get(s->used, SC_NPSIZES_MAX, pind) && !ql_is_empty(&e->link));
	assert(atomic_load_zu(&c->nextents, MO_RELAXED) > 0);
	ph_remove(&c->heap, &e->heap, edata_cmp_addr);
	if (ph_is_empty(&c->heap)) {
		fb_unset(s->used, SC_NPSIZES_MAX, pind);
	}
	atomic_add_nonatomic_zu(&c->nextents, (size_t)-1);
	atomic_add_nonatomic_zu(&c->nbytes, (size_t)0 - e->size);
}

void
eset_insert(eset_t *s, edata_t *e) {
	eset_file(s, e, sz_psz_floor(e->size));
	eset_list(s, e);
	atomic_add_nonatomic_zu(&s->npages, e->size >> LG_PAGE);
}

void
eset_remove(eset_t *s, edata_t *e) {
	assert(eset_npages(s) >= e->size >> LG_PAGE);
	eset_unlink(s, e, sz_psz_floor(e->size));
	ql_remove(&e->link);
	atomic_add_nonatomic_zu(&s->npages, (size_t)0 - (e->size >> LG_PAGE));
}

void
eset_resize(eset_t *s, edata_t *e, char *addr, size_t size) {
	unsigned from = sz_psz_floor(e->size), to = sz_psz_floor(size);
	size_t more = size - e->size; /* wraps around if it becomes shorter */
	assert(size > 0 && (size & PAGE_MASK) == 0 && eset_npages(s) >= e->size >> LG_PAGE);
	assert(addr < edata_end(e) && e->addr < addr + size);
	if (from != to) {
		eset_unlink(s, e, from);
	}
	e->addr = addr;
	edata_set_size(e, size);
	if (from != to) {
		eset_file(s, e, to);
	} else {
		atomic_add_nonatomic_zu(&s->classes[to].nbytes, more);
	}
	ql_remove(&e->link);
	eset_list(s, e);
	atomic_add_nonatomic_zu(&s->npages, (size_t)((ssize_t)more >> LG_PAGE));
}

/* Whether the extent holds size bytes at the alignment. */
static bool
eset_holds(const edata_t *e, size_t size, size_t alignment) {
	uintptr_t from = align_up((uintptr_t)e->addr, alignment);
	return from - (uintptr_t)e->addr <= e->size && e->size - (from - (uintptr_t)e->addr) >= size;
}

/*
 * Looks at up to ESET_PEEK_MAX extents of a class, and returns the one with the lowest address of
 * those that fit; NULL: none.
 */
static edata_t *
eset_peek(const eset_class_t *c, size_t size, size_t alignment) {
	ph_link_t *todo[ESET_PEEK_MAX];
	unsigned n = 0, seen = 0;
	edata_t *best = NULL;
	if (!ph_is_empty(&c->heap)) {
		todo[n++] = ph_any(&c->heap);
	}
	while (n > 0 && seen++ < ESET_PEEK_MAX) {
		ph_link_t *l = todo[--n];
		edata_t *e = edata_of_heap(l);
		if (eset_holds(e, size, alignment) && (best == NULL || e->addr < best->addr)) {
			best = e;
		}
		if (l->next != NULL && n < ESET_PEEK_MAX) {
			todo[n++] = l->next;
		}
		if (l->lchild != NULL && n < ESET_PEEK_MAX) {
			todo[n++] = l->lchild;
		}
	}
	return best;
}

/*
 * Whether a class of `have` bytes is above 2^lg_max_fit times `want` bytes; with lg_max_fit 64 none
 * is.
 */
static bool
eset_is_too_big(size_t have, size_t want, unsigned lg_max_fit) {
	return lg_max_fit < 64 && (have >> lg_max_fit) > want;
}

/*
 * The extent with the lowest address of the first class, from pind on, that has any: each extent of
 * that class is large enough. NULL: no class has any, or the class found is too big.
 */
static edata_t *
eset_first_class(const eset_t *s, unsigned pind, size_t size, unsigned lg_max_fit) {
	ssize_t i = pind >= SC_NPSIZES_MAX ? -1 : fb_first_set(s->used, SC_NPSIZES_MAX, pind);
	if (i < 0 || eset_is_too_big(sz_pind2sz((unsigned)i), size, lg_max_fit)) {
		return NULL;
	}
	return edata_of_heap(ph_first(&s->classes[i].heap, edata_cmp_addr));
}

edata_t *
eset_fit(const eset_t *s, size_t size, size_t alignment, unsigned lg_max_fit) {
	assert(size > 0 && (size & PAGE_MASK) == 0 && is_pow2_zu(alignment));
	alignment = max_zu(alignment, PAGE);
	unsigned pind = sz_psz2ind(size);
	bool is_class_exact = pind < SC_NPSIZES && sz_pind2sz(pind) == size;
	edata_t *e = NULL;
	if (!is_class_exact && pind > 0) {
		e = eset_peek(&s->classes[pind - 1], size, alignment);
	}
	if (e == NULL && alignment > PAGE && pind < SC_NPSIZES) {
		e = eset_peek(&s->classes[pind], size, alignment);
	}
	if (e != NULL) {
		return e;
	}
	size_t need = size + alignment - PAGE;
	return need < size ? NULL : eset_first_class(s, sz_psz2ind(need), size, lg_max_fit);
}

edata_t *
eset_largest(const eset_t *s) {
	for (unsigned i = FB_NWORDS(SC_NPSIZES_MAX); i-- > 0;) {
		if (s->used[i] != 0) {
			unsigned pind = i * FB_WORD_BITS + FB_WORD_BITS - 1
			    - (unsigned)__builtin_clzll(s->used[i]);
			return edata_of_heap(ph_any(&s->classes[pind].heap));
		}
	}
	return NULL;
}

edata_t *
eset_oldest(const eset_t *s, bool may_be_held) {
	ql_t *l = ql_first(&s->lru);
	l = l == NULL && may_be_held ? ql_first(&s->lru_held) : l;
	return l == NULL ? NULL : edata_of_link(l);
}
