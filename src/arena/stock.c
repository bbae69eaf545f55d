/* The way into the stock, and its room. */
#include "arena/stock.h"

#include "meta/emap.h"

/* The first room. */
#define STOCK_ROOM_FIRST 64u
/* Pointers that are looked at in one go. */
#define STRIDE 8u

/* Sizes and order, after each change. */
static void
stock_check(const stock_t *s UNUSED) {
	assert(s->n <= s->room && s->low <= s->n && (s->room == 0) == (s->ptrs == NULL));
}

/* elems: where the elements of address 0 would lie in the leaf that p's element lies in. */
ALWAYS_INLINE bool
stock_is_of(uint64_t home, uintptr_t elems, const void *p) {
	size_t at = ((uintptr_t)p >> EMAP_LG_GRANULE) * sizeof(atomic_u64_t);
	const edata_t *e = elem_edata(atomic_load_u64((const atomic_u64_t *)(elems + at), MO_RELAXED));
	return likely(e != NULL) && likely(e->home == home);
}

/* Whether the slabs of all n are of this home, and their elements in one leaf, which is then found once. */
static bool
stock_are_all_of(uint64_t home, void *const *ptrs, unsigned n) {
	uintptr_t any = 0, all = UINTPTR_MAX;
#pragma GCC unroll 8
	for (unsigned i = 0; i < n; i++) {
		any |= (uintptr_t)ptrs[i];
		all &= (uintptr_t)ptrs[i];
	}
	if (unlikely(((any ^ all) >> EMAP_LG_LEAF | any >> 48) != 0)) {
		return false;
	}
	const emap_leaf_t *leaf = atomic_load_p(&emap_root[all >> EMAP_LG_LEAF], MO_RELAXED);
	if (unlikely(leaf == NULL)) {
		return false;
	}
	uintptr_t elems = (uintptr_t)leaf->elems - (all >> EMAP_LG_LEAF) * sizeof(leaf->elems);
	void *const *end = ptrs + n, *const *strides_end = end - n % STRIDE;
	for (; ptrs < strides_end; ptrs += STRIDE) {
#pragma GCC unroll 8
		for (unsigned i = 0; i < STRIDE; i++) {
			if (!stock_is_of(home, elems, ptrs[i])) {
				return false;
			}
		}
	}
	for (; ptrs < end; ptrs++) {
		if (!stock_is_of(home, elems, *ptrs)) {
			return false;
		}
	}
	return true;
}

/* The same one by one: what fits goes to the top, what does not stays at the front. */
static unsigned
stock_put_some(stock_t *s, uint64_t home, void **ptrs, unsigned n) {
	void **kept = ptrs;
	unsigned top = s->n;
	for (unsigned i = 0; i < n; i++) {
		void *p = ptrs[i];
		uint64_t elem = emap_elem_any(p);
		if (elem_edata(elem) != NULL && elem_edata(elem)->home == home) {
			s->ptrs[top++] = p;
		} else {
			*kept++ = p;
		}
	}
	STOCK_SET(s->n, top);
	return (unsigned)(kept - ptrs);
}

unsigned
stock_put(stock_t *s, uint64_t home, void **ptrs, unsigned n) {
	unsigned m = (unsigned)min_zu(n, s->room - s->n), left = n - m;
	if (m == 0) {
		return n;
	}
	if (likely(stock_are_all_of(home, ptrs + left, m))) {
		memcpy(s->ptrs + s->n, ptrs + left, m * sizeof(void *));
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
