/*
 * The end of what an arena holds: reset, destroy, and a second life.
 *
 * Only arenas made by hand have one.  The program promises that nobody uses the arena meanwhile and
 * that no thread cache holds its objects; what the library does by itself (statistics, decay) may go on.
 * The memory of the arena's struct and descriptors stays: who still looks at it finds an empty arena,
 * and the next arena of this index uses it again.
 */
#ifndef ARENA_ARENA_LIFE_H
#define ARENA_ARENA_LIFE_H

#include "arena/arena.h"

/* Called for each sample that goes, before it does. */
typedef void arena_sample_fn_t(void *ptr, sample_rec_t *rec, size_t usize);

/* All objects are freed, the pages unused; 0, or EBUSY: called by a hook in the midst of a purge. */
int arena_reset(arena_t *a, arena_sample_fn_t *on_sample);
/* The same, and all pages go. */
int arena_destroy(arena_t *a, arena_sample_fn_t *on_sample);
/* A destroyed arena as if it was new; hooks NULL: the system's pages. */
void arena_renew(arena_t *a, ssize_t dirty_ms, ssize_t muzzy_ms, ehooks_table_t *hooks);

#endif
