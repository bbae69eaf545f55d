/*
 * The stock of a bin, its transfer cache: free regions that thread caches have returned, to be
 * handed out again as they are.
 *
 * A program that allocates a thousand objects in one thread and frees them in another empties one
 * thread cache and fills the other again and again. A region that passes through the stock needs no
 * search and no change in a bitmap. Therefore a double free is found, if at all, when the region
 * returns to its slab. Debug builds and those with safety checks look at the bitmap also when it
 * enters (bin_put_stock_locked): that finds a region which is free in its slab, not one in the
 * stock.
 *
 * Invariant: at most stock_max regions of the bin's class (bin_info.h), the latest on top; the
 * oldest are returned first. Everything is under the bin's lock. arena_trim() returns regions that
 * were not used between two trims to their slabs, or all. Callers: bin.h, bin.c and arena.c. n
 * is also read by holes.c, defrag.c, tcache.c and prof_frag.c.
 */
#pragma once

#include "util/bits.h"

typedef struct stock_s {
	void **ptrs;      /* array of `room` pointers in metadata; NULL while room is 0 */
	uint32_t n;       /* regions in the stock */
	uint32_t room;    /* length of ptrs */
	uint32_t low;     /* minimum of n since the last trim: this many regions were not used */
} stock_t;

/* n and room are read also without the lock, to find out whether there is anything to do. */
#define STOCK_SET(field, value) __atomic_store_n(&(field), (uint32_t)(value), __ATOMIC_RELAXED)
#define STOCK_SEEN(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* Checks the invariant; called after each change. */
ALWAYS_INLINE void
stock_check(const stock_t *s UNUSED) {
	assert(s->n <= s->room && s->low <= s->n && (s->room == 0) == (s->ptrs == NULL));
}

/* Takes up to n regions, the latest ones, into out. Returns the number. */
ALWAYS_INLINE unsigned
stock_take(stock_t *s, void **out, unsigned n) {
	unsigned got = (unsigned)min_zu(n, s->n);
	if (got > 0) {
		STOCK_SET(s->n, s->n - got);
		s->low = (uint32_t)min_zu(s->low, s->n);
		memcpy(out, s->ptrs + s->n, got * sizeof(void *));
	}
	stock_check(s);
	return got;
}

/* Puts in n regions of this bin, while there is room. Returns the number put in. */
ALWAYS_INLINE unsigned
stock_put(stock_t *s, void *const *ptrs, unsigned n) {
	unsigned m = (unsigned)min_zu(n, s->room - s->n);
	for (unsigned i = 0; i < m; i++) {
		s->ptrs[s->n + i] = ptrs[i];
	}
	STOCK_SET(s->n, s->n + m);
	stock_check(s);
	return m;
}

/*
 * The room (array length) that n more regions need, by doubling; at most max, but never less than
 * the present room. An estimate: may be called without the bin's lock.
 */
unsigned stock_room_for(const stock_t *s, unsigned n, unsigned max);
/*
 * Gives the stock the array ptrs of room pointers, at least n. Returns the old array, of *old_room
 * pointers, which the caller frees; NULL if *old_room is 0.
 */
void **stock_set_room(stock_t *s, void **ptrs, unsigned room, unsigned *old_room);

/*
 * Removes the n oldest regions, which are back in their slabs or, in a reset, go with these. low
 * becomes the number of regions left.
 */
void stock_drop_oldest(stock_t *s, unsigned n);
