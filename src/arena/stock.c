/*
 * The slow steps of a stock: the choice of its room (the length of its array), the change to
 * another array, and the removal of its oldest pointers; stock.h has the contract. Invariant:
 * stock_check(). The caller holds the lock of the bin. Only stock_room_for() may be called without
 * it, and its result is then an estimate. Called by arena.c (room) and bin.c (removal).
 */
#include "arena/stock.h"

/* Room of a stock at first, in pointers, unless its maximum is less; it doubles from there. */
#define STOCK_ROOM_FIRST 64u

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
	if (n > 0) {
		memmove(s->ptrs, s->ptrs + n, s->n * sizeof(void *));
	}
	s->low = s->n;
	stock_check(s);
}
