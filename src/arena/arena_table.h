/*
 * The table that maps an index to an arena. Visible arenas have indices below ARENA_LIMIT; the
 * hidden arena of index i has index ARENA_HIDDEN_BASE + i. It is separate from arenas.h so that the
 * code of an arena can find the arena of an extent without depending on how arenas are made and
 * chosen. Invariant: a struct that was in the table stays valid memory for ever, also after its
 * arena was destroyed, so reading needs no lock. Only arenas.c writes entries: it sets them under
 * its lock, and clears them in the thread that destroys the arena. Read by arena/, thread/tcache.c,
 * ctl/ and defrag.c.
 */
#pragma once

#include "util/atomic.h"

#define ARENA_LIMIT 4095u /* visible indices are below this; index 4095 may mean all arenas */
/* At most so many are automatic: the arena of oversized requests, which follows, has its slot. */
#define ARENA_LIMIT_AUTO (ARENA_LIMIT - 1)
/*
 * Sampled small objects lie in hidden arenas: those of all automatic arenas in the hidden arena of
 * arena 0, those of an explicit arena in its own.
 */
#define ARENA_HIDDEN_BASE 4096u
#define ARENA_HIDDEN(ind) (ARENA_HIDDEN_BASE + (ind))
#define ARENA_TABLE_SIZE (2 * ARENA_HIDDEN_BASE)

struct arena_s;

extern HIDDEN atomic_p_t arena_table[ARENA_TABLE_SIZE];

/* Returns NULL if there is no such arena (yet). ind < ARENA_TABLE_SIZE. */
static inline struct arena_s *
arena_table_get(unsigned ind) {
	return atomic_load_p(&arena_table[ind], MO_ACQUIRE);
}

static inline bool
arena_ind_is_hidden(unsigned ind) {
	return ind >= ARENA_HIDDEN_BASE;
}

/* The index of the visible arena to which an index, maybe of a hidden arena, belongs. */
static inline unsigned
arena_ind_visible(unsigned ind) {
	return ind % ARENA_HIDDEN_BASE;
}

static inline void
arena_table_set(unsigned ind, struct arena_s *a) {
	atomic_store_p(&arena_table[ind], a, MO_RELEASE);
}
