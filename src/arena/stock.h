/*
 * The stock of a bin: free regions as thread caches have returned them, handed out again as they are.
 *
 * A program that allocates a thousand objects and frees them empties and fills its cache again and again.
 * What goes through the stock costs a look at its element of the page map on the way back (and at its slab's
 * descriptor, where the element does not say all), to see that it belongs here, and nothing on the way out: no search and no change in a bitmap.  Whether it was free already is
 * therefore noticed when it leaves the stock for its slab, not when it comes.
 * At most stock_max regions of the bin's class (bin_info.h), the latest ones on top.  What has not been used for a while goes
 * to its slab (arena_trim), all of it when a program asks for that.  Under the bin's lock.
 */
#ifndef ARENA_STOCK_H
#define ARENA_STOCK_H

#include "meta/emap.h"

/* So many pointers are looked at in one go: batches of a multiple of it are the cheapest. */
#define STOCK_STRIDE 16u

typedef struct stock_s {
	void **ptrs;      /* room for `room`, metadata; NULL while room is 0 */
	uint32_t n;
	uint32_t room;
	uint32_t low;     /* the least n since the last trim: so many lay unused */
} stock_t;

/* n and room are looked at without the lock, to see whether there is anything to do. */
#define STOCK_SET(field, value) __atomic_store_n(&(field), (uint32_t)(value), __ATOMIC_RELAXED)
#define STOCK_SEEN(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* What tells the slabs of a bin from all other extents. */
typedef struct stock_home_s {
	uint64_t edata; /* their edata's home */
	uint64_t elem;  /* all bits but the edata of their page map's elements; 0: others may have the same */
} stock_home_t;

ALWAYS_INLINE stock_home_t
stock_home_of_bin(unsigned arena_ind, szind_t szind, unsigned shard) {
	bool is_told = elem_bits_tell_bin(arena_ind, szind, shard);
	return (stock_home_t){.edata = edata_home_of_bin(arena_ind, szind, shard),
	    .elem = is_told ? elem_bits_of_slab(arena_ind, szind, shard) : 0};
}

/* Up to n regions, the latest ones, into out; how many. */
ALWAYS_INLINE unsigned
stock_take(stock_t *s, void **out, unsigned n) {
	unsigned got = (unsigned)min_zu(n, s->n);
	if (got > 0) {
		STOCK_SET(s->n, s->n - got);
		s->low = (uint32_t)min_zu(s->low, s->n);
		memcpy(out, s->ptrs + s->n, got * sizeof(void *));
	}
	return got;
}

/*
 * Takes in regions whose slab has this home, while there is room, but none if the first one that there is
 * room for is a stranger.  All others are moved to the front of ptrs; returns how many.
 */
unsigned stock_put(stock_t *s, stock_home_t home, void **ptrs, unsigned n);

/* Takes in the first of n regions that are of this home, while there is room; returns how many. */
ALWAYS_INLINE unsigned
stock_put_own(stock_t *s, void *const *ptrs, unsigned n) {
	unsigned m = (unsigned)min_zu(n, s->room - s->n);
	for (unsigned i = 0; i < m; i++) {
		s->ptrs[s->n + i] = ptrs[i];
	}
	STOCK_SET(s->n, s->n + m);
	return m;
}

/* Room for n more than there are, or the room that it has if that is all it may have. */
unsigned stock_room_for(const stock_t *s, unsigned n, unsigned max);
/* Gives the stock the array ptrs of room pointers; returns the old one, of *old_room. */
void **stock_set_room(stock_t *s, void **ptrs, unsigned room, unsigned *old_room);

/* Forgets the n that have been here longest. */
void stock_drop_oldest(stock_t *s, unsigned n);

#endif
