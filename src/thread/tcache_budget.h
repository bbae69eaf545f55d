/*
 * The budget of grants: bytes by which the bins of all thread caches together may exceed their
 * limits (grants, tcache.h).
 *
 * The budget is half (1 / TCACHE_BUDGET_SHARE) of the bytes that the arenas have from the
 * system, at least TCACHE_BUDGET_MIN, but never more than an eighth (1 / TCACHE_BUDGET_ROOM) of
 * the room below limits of memory (os/room.h). The part of a cache is the budget divided by the
 * number of caches that have grants or wait for a first one. A cache waits from the request that
 * got no grant until its next heartbeat. No cache grows beyond an eighth (1 / TCACHE_BUDGET_EACH)
 * of the budget, or TCACHE_BUDGET_MIN if that is more, because memory that one cache holds serves
 * neither another thread nor the same thread's next phase.
 *
 * Invariant: the sum of all grants grows only up to the budget; a cache grows beyond its part only
 * while the sum is below half of the budget. The budget becomes smaller when the arenas return
 * memory, or when the process comes near a limit of memory; the parts also when a cache asks for
 * its first grant. If less than one part is left then, a cache that has more than 1.25 parts (more
 * than its part, while a cache waits) gives some back at its upkeep, even if it uses them; so does
 * one that has more than 1.25 times what it could grow to now (tcache_budget_is_exceeded). The
 * cache of an idle thread has no upkeep; other threads take it over at their heartbeats (claim.h),
 * which ends its grants.
 *
 * No lock: the sum and the number of caches are atomic words, written when the grants of a cache
 * change, which is seldom. Threads that ask at once may exceed the budget by a request each.
 * Called by tcache.c and claim.c.
 */
#pragma once

#include "util/compiler.h"

/* Bytes, and three divisors: see above. */
#define TCACHE_BUDGET_MIN ((size_t)48 << 20)
#define TCACHE_BUDGET_SHARE 2u
#define TCACHE_BUDGET_EACH 8u
#define TCACHE_BUDGET_ROOM 8u

/*
 * Counts that a cache without grants waits for a first one, of at least this many bytes, until
 * tcache_budget_end_wait(). Returns false, and it does not wait, if its part would be less.
 */
bool tcache_budget_try_wait(size_t least);
void tcache_budget_end_wait(void);
/* The sum of all grants, without those of caches that another thread took over (claim.h). */
size_t tcache_budget_sum(void);
/* The budget at present, in bytes; 0 if a limit of memory is near. */
size_t tcache_budget(void);
/*
 * Bytes that a cache with grants of `have` bytes (0: it would be one cache more, and does not wait)
 * may be granted in addition; 0: none. Reserves nothing: the caller reports by
 * tcache_budget_change().
 */
size_t tcache_budget_more(size_t have);
/*
 * Whether a cache with grants of `have` bytes must give some back: less than one part of the budget
 * is left, and it has more than 1.25 parts or, while a cache waits, more than one; or it has more
 * than 1.25 times the most that one cache may have.
 */
bool tcache_budget_is_exceeded(size_t have);
/*
 * Counts that all grants of one cache together changed from `before` to `after` bytes. If no cache
 * had grants before, wakes the first background thread, which looks for idle threads from then on
 * (claim_serve).
 */
void tcache_budget_change(size_t before, size_t after);
