/*
 * From an index to an arena: the table alone, so that an arena can find the owner of an extent
 * without knowing how arenas are made and chosen (arenas.h).
 * An arena once in the table stays there; reading needs no lock.
 */
#ifndef ARENA_ARENA_TABLE_H
#define ARENA_ARENA_TABLE_H

#include "util/atomic.h"

#define ARENA_LIMIT 4095u          /* indices that a user can see are below this */
#define ARENA_SAMPLED_IND 4095u    /* the hidden arena of sampled objects */

struct arena_s;

extern HIDDEN atomic_p_t arena_table[ARENA_LIMIT + 1];

/* NULL: no such arena (yet). ind <= ARENA_SAMPLED_IND. */
static inline struct arena_s *
arena_table_get(unsigned ind) {
	return atomic_load_p(&arena_table[ind], MO_ACQUIRE);
}

static inline void
arena_table_set(unsigned ind, struct arena_s *a) {
	atomic_store_p(&arena_table[ind], a, MO_RELEASE);
}

#endif
