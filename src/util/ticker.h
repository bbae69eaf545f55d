/*
 * Countdown for work that is due every so many events.  Not thread safe: it lives in the data of one
 * thread or under its owner's lock.
 */
#ifndef UTIL_TICKER_H
#define UTIL_TICKER_H

#include "util/assert.h"
#include "util/compiler.h"

typedef struct {
	int32_t left;   /* events until it fires; it fires on going below one */
	int32_t period;
} ticker_t;

static inline void
ticker_init(ticker_t *t, int32_t period) {
	assert(period > 0);
	t->left = period;
	t->period = period;
}

static inline int32_t
ticker_read(const ticker_t *t) {
	return t->left;
}

/* Counts n events; true when the period is full, which also starts the next one. */
ALWAYS_INLINE bool
ticker_ticks(ticker_t *t, int32_t n) {
	assert(n >= 0);
	if (likely(n < t->left)) {
		t->left -= n;
		return false;
	}
	t->left = t->period;
	return true;
}

ALWAYS_INLINE bool
ticker_tick(ticker_t *t) {
	return ticker_ticks(t, 1);
}

/* The next tick fires. */
static inline void
ticker_expire(ticker_t *t) {
	t->left = 1;
}

#endif /* UTIL_TICKER_H */
