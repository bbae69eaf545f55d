/*
 * The sum of all grants, and who may have more of the budget (tcache_budget.h has the rules).
 * Invariant: grants.bytes is the sum of tcache_t.granted (bytes) of all caches, except caches that
 * another thread took over (claim.h); grants.n_caches is the number of caches in this sum that have
 * grants; n_waiting that of caches without grants that wait for a first one. No lock: they are
 * atomic words, which differ from this only while one is being changed. Called by tcache.c and
 * claim.c, which hold no lock.
 */
#include "thread/tcache_budget.h"

#include "extent/pac_serve.h"
#include "os/room.h"
#include "util/bits.h"

static struct {
	atomic_zu_t bytes;     /* of all grants */
	atomic_zu_t n_caches;  /* caches that have grants */
	atomic_zu_t n_waiting; /* caches that wait for a first one */
} grants;

size_t
tcache_budget_sum(void) {
	return atomic_load_zu(&grants.bytes, MO_RELAXED);
}

size_t
tcache_budget(void) {
	size_t mapped = atomic_load_zu(&room_mapped, MO_RELAXED);
	size_t share = max_zu(TCACHE_BUDGET_MIN, mapped / TCACHE_BUDGET_SHARE);
	return min_zu(share, room_now() / TCACHE_BUDGET_ROOM);
}

/*
 * The part of a cache that has grants of `have` bytes. If have is 0, n_caches does not include the
 * cache, which does not wait while it asks; so it is added here.
 */
static size_t
part_of(size_t budget, size_t have) {
	size_t n = atomic_load_zu(&grants.n_caches, MO_RELAXED)
	    + atomic_load_zu(&grants.n_waiting, MO_RELAXED) + (have == 0);
	return n > 1 ? budget / n : budget;
}

/* What one cache may be granted at most, however few there are. */
static size_t
most_of(size_t budget) {
	return max_zu(TCACHE_BUDGET_MIN, budget / TCACHE_BUDGET_EACH);
}

/* a minus b, at least 0. */
static size_t
less(size_t a, size_t b) {
	return a > b ? a - b : 0;
}

/*
 * A cache grows within its part while the sum is below the budget, and beyond its part while the
 * sum is below half of the budget.
 */
size_t
tcache_budget_more(size_t have) {
	size_t budget = tcache_budget(), sum = tcache_budget_sum();
	size_t in_part = min_zu(less(budget, sum), less(part_of(budget, have), have));
	return min_zu(max_zu(in_part, less(budget / 2, sum)), less(most_of(budget), have));
}

/*
 * A cache keeps up to a quarter more than its part while none waits, and than the most of one, so
 * that slots do not come and go.
 */
bool
tcache_budget_is_exceeded(size_t have) {
	size_t budget = tcache_budget(), part = part_of(budget, have), most = most_of(budget);
	size_t spare = atomic_load_zu(&grants.n_waiting, MO_RELAXED) == 0 ? part / 4 : 0;
	return (have > part + spare && tcache_budget_sum() > budget - part) || have > most + most / 4;
}

bool
tcache_budget_try_wait(size_t least) {
	if (part_of(tcache_budget(), 0) < least) {
		return false;
	}
	atomic_fetch_add_zu(&grants.n_waiting, 1, MO_RELAXED);
	return true;
}

void
tcache_budget_end_wait(void) {
	atomic_fetch_sub_zu(&grants.n_waiting, 1, MO_RELAXED);
}

void
tcache_budget_change(size_t before, size_t after) {
	size_t sum = atomic_fetch_add_zu(&grants.bytes, after - before, MO_RELAXED);
	if (unlikely(sum == 0 && after != 0) && pac_wake_hook != NULL) {
		/*
		 * The thread of arena 0 looks for idle threads (claim_serve). While no cache has grants, it
		 * does not wake for that by itself.
		 */
		pac_wake_hook(0);
	}
	if ((before == 0) != (after == 0)) {
		atomic_fetch_add_zu(&grants.n_caches, (size_t)(after != 0) - (before != 0), MO_RELAXED);
	}
}
