/*
 * The stacks of hot extents, one for each page class, last in, first out.
 * pac_hot.h has the contract, and says what the page map has for a hot extent: `hot` for one that
 * pac_hot_try_keep() got, still `active` for the objects that large.c left (pac_hot_leave).
 * Invariant: hot_npages is the number of pages in the stacks, changed under hot_mtx together with
 * them. Extents that were taken out are made dirty (or returned to their huge slab: pac_put_unused)
 * after the lock is released, because that takes other locks. Called by pac*.c and large.c;
 * inspect.c and the profiler read pages and sizes.
 */
#include "extent/pac_hot.h"

/* A search in one stack ends after so many extents that do not fit. */
#define HOT_LOOKS 16u
/*
 * A hot extent may be longer than the large object that takes it by a quarter of the object's size
 * (size >> HOT_LG_SLACK). From 4 pages up a class exceeds the one before it by at most a quarter of
 * that, so extents of the next larger class fit. An object of at most HOT_EXACT bytes takes only an
 * extent of its own class: a part of another one costs little more, and there are many such
 * objects, of which the rests would be 2 % of the memory (doc/PERFORMANCE.md).
 */
#define HOT_LG_SLACK 2
#define HOT_EXACT ((size_t)128 << 10)
/* Extents that a flush takes out of the stacks at once. */
#define HOT_FLUSH 32u

COLD void
pac_hot_init(pac_t *pac) {
	mutex_init(&pac->hot_mtx, "extents_hot", WITNESS_RANK_EXTENT_HOT);
}

size_t
pac_ndirty(const pac_t *pac) {
	return ecache_npages(&pac->dirty) + atomic_load_zu(&pac->hot_npages, MO_SEQ_CST)
	    + piece_npages(&pac->piece);
}

void
pac_hot_each(pac_t *pac, void (*add)(void *ctx, unsigned pind, size_t size), void *ctx) {
	mutex_lock(&pac->hot_mtx);
	for (unsigned pind = 0; pind < SC_NPSIZES; pind++) {
		for (const edata_t *e = pac->hot[pind].top; e != NULL; e = e->below) {
			add(ctx, pind, e->size);
		}
	}
	/* Not under hot_mtx, but it may be read without a lock (extent/piece.h). */
	size_t rest = piece_npages(&pac->piece) << LG_PAGE;
	if (rest != 0) {
		add(ctx, sz_psz_floor(rest), rest);
	}
	mutex_unlock(&pac->hot_mtx);
}

size_t
pac_hot_sec_bytes(pac_t *pac, size_t most) {
	size_t bytes = 0;
	mutex_lock(&pac->hot_mtx);
	for (unsigned pind = 0, last = sz_psz_floor(most); pind <= last; pind++) {
		bytes += pac->hot[pind].n_sec * sz_pind2sz(pind);
	}
	mutex_unlock(&pac->hot_mtx);
	return bytes;
}

/* ------------------------------------------------------------------ one stack */

/* Counts pages that were added to the stacks and taken out of them. */
static void
hot_count_locked(pac_t *pac, size_t added, size_t taken) {
	mutex_assert_owner(&pac->hot_mtx);
	size_t now = atomic_load_zu(&pac->hot_npages, MO_RELAXED);
	assert(now + added >= taken);
	atomic_store_zu(&pac->hot_npages, now + added - taken, MO_SEQ_CST);
}

static void
hot_check(const edata_t *e UNUSED) {
	assert(e->state == extent_state_hot && !e->is_slab && !e->is_sampled && e->recs == NULL);
}

/* Whether n_sec of its stack counts a hot extent: large objects keep their class. */
static bool
hot_is_sec(const edata_t *e) {
	return e->is_hpa && e->szind == SC_NSIZES;
}

/*
 * Takes the extent to which *at leads out of its stack; at: the stack's top, or `below` of the
 * extent above it. It becomes active. The caller counts its pages.
 */
ALWAYS_INLINE edata_t *
hot_unlink_locked(pac_hot_stack_t *s, edata_t **at) {
	edata_t *e = *at;
	hot_check(e);
	*at = e->below;
	s->n--;
	s->n_sec -= hot_is_sec(e);
	e->state = extent_state_active;
	return e;
}

/* ------------------------------------------------------------------ take and leave */

/* What pac_hot_take() takes: extents of size to size + slack bytes, aligned as the mask says. */
typedef struct {
	size_t size, slack, mask;
} hot_want_t;

ALWAYS_INLINE bool
hot_fits(const edata_t *e, const hot_want_t *w) {
	return e->size - w->size <= w->slack && ((uintptr_t)e->addr & w->mask) == 0;
}

/* Takes the extents on top that fit, up to n. Adds their bytes to *bytes, returns their number. */
ALWAYS_INLINE unsigned
hot_pop_locked(pac_hot_stack_t *s, const hot_want_t *w, edata_t **out, unsigned n, size_t *bytes) {
	edata_t *top = s->top;
	edata_t **end = out + min_zu(n, s->n), **at = out;
	for (; at < end && hot_fits(top, w); top = top->below) {
		hot_check(top);
		top->state = extent_state_active;
		*bytes += top->size;
		*at++ = top;
	}
	s->top = top;
	s->n -= (unsigned)(at - out);
	for (end = at, at = out; unlikely(s->n_sec != 0) && at < end; at++) {
		s->n_sec -= hot_is_sec(*at);
	}
	return (unsigned)(end - out);
}

/* pac_hot_take() from one class: from its top while that fits, then what fits below. */
static unsigned
hot_take_class_locked(pac_hot_stack_t *s, const hot_want_t *w, edata_t **out, unsigned n,
    size_t *bytes) {
	unsigned got = hot_pop_locked(s, w, out, n, bytes);
	edata_t **at = &s->top;
	for (unsigned looks = 0; *at != NULL && got < n && looks < HOT_LOOKS;) {
		if (hot_fits(*at, w)) {
			*bytes += (*at)->size;
			out[got++] = hot_unlink_locked(s, at);
		} else {
			at = &(*at)->below;
			looks++;
		}
	}
	return got;
}

unsigned
pac_hot_take(pac_t *pac, size_t size, size_t most, size_t alignment, edata_t **out, unsigned n) {
	hot_want_t want = {size, most - size, alignment - 1};
	unsigned got = 0, last = sz_psz_floor(most);
	size_t bytes = 0;
	assert(n > 0 && size > 0 && most >= size && most < 2 * size && alignment >= PAGE);
	if (atomic_load_zu(&pac->hot_npages, MO_RELAXED) == 0) {
		return 0;
	}
	mutex_lock(&pac->hot_mtx);
	for (unsigned pind = sz_psz_floor(size); pind <= last && got < n; pind++) {
		got += hot_take_class_locked(&pac->hot[pind], &want, out + got, n - got, &bytes);
	}
	hot_count_locked(pac, 0, bytes >> LG_PAGE);
	mutex_unlock(&pac->hot_mtx);
	return got;
}

size_t
pac_hot_most(const pac_t *pac, size_t size) {
	bool is_exact = size <= HOT_EXACT || ehooks_are_custom(&pac->src.ehooks)
	    || pac_is_bounded(pac);
	size_t more = size < SC_LARGE_MAXCLASS / 2 ? PAGE_FLOOR(size >> HOT_LG_SLACK) : 0;
	return is_exact ? size : size + more;
}

/* Makes n extents hot, for which the stack has room; returns their bytes. */
ALWAYS_INLINE size_t
hot_push_locked(pac_hot_stack_t *s, edata_t *const *es, unsigned n) {
	size_t bytes = 0;
	edata_t *top = s->top;
	assert(n <= PAC_HOT_DEEP - s->n);
	for (unsigned i = 0; i < n; i++) {
		edata_t *e = es[i];
		assert(e->state == extent_state_active && !e->is_slab && !e->is_sampled);
		assert(e->recs == NULL);
		assert(e->szind == SC_NSIZES || elem_state(emap_elem(e->addr)) == extent_state_active);
		e->is_zeroed = false;
		e->state = extent_state_hot;
		e->below = top;
		top = e;
		bytes += e->size;
	}
	s->top = top;
	s->n += n;
	return bytes;
}

/* pac_hot_leave(); are_sec: hot_is_sec() of each of them. */
ALWAYS_INLINE unsigned
hot_leave(pac_t *pac, edata_t *const *es, unsigned n, size_t *npages, bool are_sec) {
	pac_hot_stack_t *s = &pac->hot[sz_psz_floor(es[0]->size)];
	assert(n > 0 && are_sec == hot_is_sec(es[0]));
	mutex_lock(&pac->hot_mtx);
	n = (unsigned)min_zu(n, PAC_HOT_DEEP - s->n);
	*npages = hot_push_locked(s, es, n) >> LG_PAGE;
	s->n_sec += are_sec ? n : 0;
	hot_count_locked(pac, *npages, 0);
	mutex_unlock(&pac->hot_mtx);
	return n;
}

unsigned
pac_hot_leave(pac_t *pac, edata_t *const *es, unsigned n, size_t *npages) {
	return hot_leave(pac, es, n, npages, false);
}

bool
pac_hot_try_keep(pac_t *pac, edata_t *e) {
	size_t npages;
	e->szind = SC_NSIZES;
	e->is_sampled = false;
	/*
	 * It is no object any more, so the page map must not say active (pac_hot.h). Written before
	 * another thread can take the extent. If there is no room, the caller's next step writes the
	 * elements anew (pac_put_unused).
	 */
	e->state = extent_state_hot;
	emap_set_boundary(e);
	e->state = extent_state_active;
	return hot_leave(pac, &e, 1, &npages, e->is_hpa) != 0;
}

/* ------------------------------------------------------------------ becoming dirty */

/*
 * Takes up to n extents from the top of the stacks, those of the smallest classes first. Adds their
 * pages to *taken.
 */
static unsigned
hot_take_any(pac_t *pac, edata_t **out, unsigned n, size_t *taken) {
	unsigned got = 0;
	size_t npages = 0;
	mutex_lock(&pac->hot_mtx);
	size_t left = atomic_load_zu(&pac->hot_npages, MO_RELAXED);
	for (unsigned pind = 0; pind < SC_NPSIZES && npages < left && got < n; pind++) {
		pac_hot_stack_t *s = &pac->hot[pind];
		while (s->top != NULL && got < n) {
			out[got] = hot_unlink_locked(s, &s->top);
			npages += out[got++]->size >> LG_PAGE;
		}
	}
	hot_count_locked(pac, 0, npages);
	mutex_unlock(&pac->hot_mtx);
	*taken += npages;
	return got;
}

void
pac_hot_flush(pac_t *pac) {
	edata_t *es[HOT_FLUSH];
	size_t npages = atomic_load_zu(&pac->hot_npages, MO_SEQ_CST), taken = 0;
	unsigned n = 1;
	while (n > 0 && taken < npages) {
		n = hot_take_any(pac, es, HOT_FLUSH, &taken);
		for (unsigned i = 0; i < n; i++) {
			pac_put_unused(pac, es[i]);
		}
	}
}

bool
pac_hot_try_cool(pac_t *pac, size_t size) {
	edata_t *e = NULL;
	mutex_lock(&pac->hot_mtx);
	for (unsigned pind = sz_psz2ind(size); pind < SC_NPSIZES && e == NULL; pind++) {
		pac_hot_stack_t *s = &pac->hot[pind];
		if (s->top != NULL) {
			e = hot_unlink_locked(s, &s->top);
			hot_count_locked(pac, 0, e->size >> LG_PAGE);
		}
	}
	mutex_unlock(&pac->hot_mtx);
	if (e != NULL) {
		pac_put_unused(pac, e);
	}
	return e != NULL;
}

bool
pac_hot_is_at(const pac_t *pac, const char *addr) {
	edata_t seen = {.state = extent_state_dirty};
	for (unsigned i = 0; i < 2 && seen.state == extent_state_dirty; i++) {
		uint64_t elem = emap_elem_any(addr);
		extent_state_t state = elem_state(elem);
		if (state != extent_state_active && state != extent_state_hot
		    && state != extent_state_dirty) {
			return false;
		}
		seen = edata_seen(elem_edata(elem));
		if (seen.arena_ind != pac->src.ehooks.arena_ind) {
			return false;
		}
		addr += PAGE_FLOOR(__atomic_load_n(&elem_edata(elem)->size, __ATOMIC_RELAXED));
	}
	return seen.state == extent_state_hot;
}
