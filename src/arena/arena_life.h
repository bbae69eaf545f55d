/*
 * Reset of an arena (frees all objects), destruction (a reset that also returns all pages to the
 * system), and renewal (makes a destroyed arena ready for the next use of its index).
 *
 * All but arena_mutexes_zero() only for explicit arenas (arenas.create) and hidden ones (of the
 * samples of another arena). The user promises that no thread uses the arena meanwhile and that no
 * thread cache holds its objects; the library's own activity (statistics, decay) may go on.
 * Invariant: the arena's struct and descriptors stay mapped, so a thread that still reads them
 * finds an empty arena (a page of descriptors that was given back reads as zero), and the next
 * arena of this index uses the same struct and descriptors. arenas.c calls arena_end(), without a
 * lock, one thread at a time for an arena (its flag is_ending), and arena_renew(), under the lock
 * "arenas"; inspect.c calls arena_mutexes_zero(). All inside the gate (os/gate.h: fork waits
 * meanwhile).
 */
#pragma once

#include "arena/arena.h"

/*
 * Called for each sampled object before it is freed; usize in bytes. Small samples lie in the
 * hidden arena, large ones in the arena itself, so arenas.c ends both, one call for each.
 */
typedef void arena_sample_fn_t(void *ptr, sample_rec_t *rec, size_t usize);

/*
 * Frees all objects: a reset. Their pages become unused (with a decay time of 0 they go back at
 * once). is_destroy: also returns all pages and the address space to the system, or to the arena's
 * hooks. on_sample is not NULL. Not to be called in an extent hook of the arena (pac_close() waits
 * for passes, which call hooks).
 */
void arena_end(arena_t *a, arena_sample_fn_t *on_sample, bool is_destroy);
/*
 * Makes a destroyed arena like a new one, but for its oversize_threshold, which the caller sets (of
 * an explicit arena). arenas.c has taken it from the table after its destruction, and puts it there
 * again afterwards. Decay times are in ms, -1: never; hooks NULL: pages of the system.
 */
void arena_renew(arena_t *a, ssize_t dirty_ms, ssize_t muzzy_ms, ehooks_table_t *hooks);
/*
 * Zeroes the contention counters of the locks of an arena of any kind, for arena_renew() and for
 * statistics; takes each of them. is_ending need not be set.
 */
void arena_mutexes_zero(arena_t *a);
