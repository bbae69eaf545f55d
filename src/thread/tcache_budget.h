/*
 * The budget of grants: bytes by which the bins of all thread caches together may exceed their
 * limits (grants, tcache.h).
 *
 * It follows from the process and the machine: a share of the bytes that the arenas have from the
 * system (TCACHE_BUDGET_SHARE), at least TCACHE_BUDGET_LEAST, but never more than a share of the
 * room below limits of memory (TCACHE_BUDGET_ROOM). The part of a cache is the budget divided by
 * the number of caches that have grants.
 *
 * Invariant: the sum of all grants grows only up to the budget; a cache grows beyond its part only
 * while the sum is at most half of the budget. A process that becomes smaller, or a cache that gets
 * its first grant, makes the budget or the parts smaller afterwards: then caches give back what is
 * beyond their parts at their upkeep, though they use it.
 *
 * No lock: the sum and the number of caches are atomic words, written when the slots of a bin
 * change, which is seldom. Threads that ask at once may exceed the budget by a request each.
 * Called by tcache.c.
 */
#ifndef THREAD_TCACHE_BUDGET_H
#define THREAD_TCACHE_BUDGET_H

#include "util/compiler.h"

#define TCACHE_BUDGET_LEAST ((size_t)48 << 20)
#define TCACHE_BUDGET_SHARE 4u
#define TCACHE_BUDGET_ROOM 8u

/* The sum of all grants, without those of caches that another thread took over (claim.h). */
size_t tcache_budget_sum(void);
/* The budget now. */
size_t tcache_budget(void);
/* Bytes that a cache with grants of `have` bytes may have beside them. */
size_t tcache_budget_more(size_t have);
/* Whether a cache with grants of `have` bytes must give some back: there is no room for a part. */
bool tcache_budget_is_exceeded(size_t have);
/* Counts a change of the grants of one cache. */
void tcache_budget_change(size_t before, size_t after);

#endif
