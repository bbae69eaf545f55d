/*
 * Reset of an arena (frees all objects), destruction (a reset that also returns all pages to the
 * system), and renewal (makes a destroyed arena ready for the next use of its index).
 *
 * Only for explicit arenas (arenas.create) and hidden ones (of the samples of others). The user
 * promises that no thread uses the arena meanwhile and that no thread cache holds its objects; the
 * library's own activity (statistics, decay) may go on. Invariant: the memory of the arena's struct
 * and descriptors stays, so a thread that still reads it finds an empty arena, and the next arena
 * of this index uses it again. arenas.c calls these functions, one thread at a time for an arena
 * (its flag is_ending), inside the gate (os/gate.h: fork waits meanwhile). arena_renew() is called
 * under the lock "arenas", arena_reset() and arena_destroy() without a lock.
 */
#ifndef ARENA_ARENA_LIFE_H
#define ARENA_ARENA_LIFE_H

#include "arena/arena.h"

/* Called for each sampled object before it is freed; usize in bytes. */
typedef void arena_sample_fn_t(void *ptr, sample_rec_t *rec, size_t usize);

/* Frees all objects; their pages become unused. As for pac_close(), not in a hook. */
void arena_reset(arena_t *a, arena_sample_fn_t *on_sample);
/* As arena_reset(), and returns all pages and the address space to the system. */
void arena_destroy(arena_t *a, arena_sample_fn_t *on_sample);
/*
 * Makes a destroyed arena, which is not in the table, like a new one, except that its
 * oversize_threshold stays (arenas.c sets it). Decay times are in ms; hooks NULL: pages of the
 * system.
 */
void arena_renew(arena_t *a, ssize_t dirty_ms, ssize_t muzzy_ms, ehooks_table_t *hooks);
/*
 * Zeroes the contention counters of the locks of an arena of any kind; takes each of them. Also
 * called by inspect.c for statistics.
 */
void arena_mutexes_zero(arena_t *a);

#endif
