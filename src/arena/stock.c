/*
 * Putting regions into a stock, and its room; stock.h has the contract.
 * Invariant: stock_check(). The caller holds the lock of the bin, except for stock_room_for(),
 * which is an estimate. Only bin.h and the arena's functions of small objects call it.
 */
#include "arena/stock.h"

/* Pointers that a stock has room for at first; it doubles from there. */
#define STOCK_ROOM_FIRST 64u

/* Two pointers in one register. */
typedef uint64_t pair_t __attribute__((vector_size(16), aligned(8), may_alias));

/* Checks the invariant; called after each change. */
static void
stock_check(const stock_t *s UNUSED) {
	assert(s->n <= s->room && s->low <= s->n && (s->room == 0) == (s->ptrs == NULL));
}

/*
 * Copies n pointers. If all lie in one leaf of the page map, returns the address at which that
 * leaf's elements would begin if the first one stood for address 0. NULL otherwise.
 */
static const char *
stock_copy(void **to, void *const *from, unsigned n) {
	uintptr_t first = (uintptr_t)from[0];
	pair_t differs = {0, 0}, firsts = {first, first};
	void *const *end = from + n, *const *strides_end = end - n % STOCK_STRIDE;
	for (; from < strides_end; from += STOCK_STRIDE, to += STOCK_STRIDE) {
#pragma GCC unroll 8
		for (unsigned i = 0; i < STOCK_STRIDE; i += 2) {
			pair_t p = *(const pair_t *)(from + i);
			*(pair_t *)(to + i) = p;
			differs |= p ^ firsts;
		}
	}
	uintptr_t far = differs[0] | differs[1];
	for (; from < end; from++, to++) {
		far |= (uintptr_t)*from ^ first;
		*to = *from;
	}
	if (unlikely((far >> EMAP_LG_LEAF | first >> 48) != 0)) {
		return NULL;
	}
	const emap_leaf_t *leaf = atomic_load_p(&emap_root[first >> EMAP_LG_LEAF], MO_RELAXED);
	return unlikely(leaf == NULL) ? NULL
	    : (const char *)leaf->elems - (first >> EMAP_LG_LEAF) * sizeof(leaf->elems);
}

/* The page-map element of p; elems: the result of stock_copy(). */
ALWAYS_INLINE uint64_t
stock_elem(const char *elems, const void *p) {
	size_t at = ((uintptr_t)p >> EMAP_LG_GRANULE) * sizeof(atomic_u64_t);
	return atomic_load_u64((const atomic_u64_t *)(elems + at), MO_RELAXED);
}

ALWAYS_INLINE bool
stock_is_home_of(stock_home_t home, uint64_t elem) {
	const edata_t *e = elem_edata(elem);
	return e != NULL && e->home == home.edata;
}

/*
 * Whether all n regions have this home. If home.elem is set, the elements alone decide (for whole
 * strides) and no descriptor is touched, which saves a cache miss for each slab.
 */
static bool
stock_are_all_of(stock_home_t home, const char *elems, void *const *ptrs, unsigned n) {
	void *const *end = ptrs + n, *const *strides_end = end - n % STOCK_STRIDE;
	uint64_t strange = 0;
	for (; home.elem != 0 && ptrs < strides_end; ptrs += STOCK_STRIDE) {
#pragma GCC unroll 16
		for (unsigned i = 0; i < STOCK_STRIDE; i++) {
			strange |= stock_elem(elems, ptrs[i]) ^ home.elem;
		}
		if ((strange & ~ELEM_EDATA_MASK) != 0) {
			return false;
		}
	}
	for (; ptrs < end; ptrs++) {
		if (!stock_is_home_of(home, stock_elem(elems, *ptrs))) {
			return false;
		}
	}
	return true;
}

/*
 * Puts those of n regions that have this home into the stock and moves the others to the front of
 * ptrs. Returns the number of the others.
 */
static unsigned
stock_put_some(stock_t *s, stock_home_t home, void **ptrs, unsigned n) {
	void **kept = ptrs;
	unsigned top = s->n;
	for (unsigned i = 0; i < n; i++) {
		void *p = ptrs[i];
		if (stock_is_home_of(home, emap_elem_any(p))) {
			s->ptrs[top++] = p;
		} else {
			*kept++ = p;
		}
	}
	STOCK_SET(s->n, top);
	return (unsigned)(kept - ptrs);
}

unsigned
stock_put(stock_t *s, stock_home_t home, void **ptrs, unsigned n) {
	unsigned m = (unsigned)min_zu(n, s->room - s->n), left = n - m;
	/* If the first one is not of this home, likely none is: the caller sorts them. */
	if (m == 0 || !stock_is_home_of(home, emap_elem_any(ptrs[left]))) {
		return n;
	}
	/* Pointers above s->n are not valid content: copying before the check reads ptrs only once. */
	const char *elems = stock_copy(s->ptrs + s->n, ptrs + left, m);
	if (likely(elems != NULL) && likely(stock_are_all_of(home, elems, ptrs + left, m))) {
		STOCK_SET(s->n, s->n + m);
	} else {
		left += stock_put_some(s, home, ptrs + left, m);
	}
	stock_check(s);
	return left;
}

unsigned
stock_room_for(const stock_t *s, unsigned n, unsigned max) {
	unsigned has = STOCK_SEEN(s->room), wanted = STOCK_SEEN(s->n) + n;
	size_t room = has == 0 ? STOCK_ROOM_FIRST : has;
	while (room < wanted && room < max) {
		room *= 2;
	}
	return (unsigned)max_zu(min_zu(room, max), has);
}

void **
stock_set_room(stock_t *s, void **ptrs, unsigned room, unsigned *old_room) {
	void **old = s->ptrs;
	assert(room >= s->n);
	*old_room = s->room;
	if (s->n > 0) {
		memcpy(ptrs, old, s->n * sizeof(void *));
	}
	s->ptrs = ptrs;
	STOCK_SET(s->room, room);
	stock_check(s);
	return old;
}

void
stock_drop_oldest(stock_t *s, unsigned n) {
	assert(n <= s->n);
	STOCK_SET(s->n, s->n - n);
	if (n > 0 && s->n > 0) {
		memmove(s->ptrs, s->ptrs + n, s->n * sizeof(void *));
	}
	s->low = s->n;
	stock_check(s);
}
