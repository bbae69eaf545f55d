/*
 * Takes over what the caches of idle threads hold: of all of them when the system has refused
 * memory; and otherwise, one by one at heartbeats of other threads and in a background thread, of
 * those that have grants (tcache_budget.h), so that a thread that sleeps for ever does not keep its
 * part of the budget.
 *
 * A thread is idle if it had no heartbeat for a second, or none yet (thread_event_is_idle). The
 * fast path has no mark that others could see, so a thread may be stopped at any instruction of it,
 * with the cache and the top of one stack already loaded. So a cache is claimed in steps, and its
 * top objects stay:
 *
 * 1. Announced: the owner's cache word (tls_s.cache) points at the boot block (os/tls.h), whose
 *    bins serve nothing, and its recall bit is set. So an operation that begins from now on takes
 *    the slow path.
 * 2. After CLAIM_PAUSES or CLAIM_WAIT_NS all operations that began before are over, or the owner is
 *    stopped within one, at most one because each loads the cache word anew; the stores of the
 *    others are visible. That one pops the top object of a stack or pushes a new one (realloc:
 *    pops from one stack and pushes onto another).
 * 3. Taking: if the owner is outside the gate and the announcement still stands, the objects below
 *    the top of each stack are returned to their arenas. Nothing is written that a pop or push
 *    reads or writes: the number of taken objects is noted beside the stack.
 * 4. Taken: at its next slow call the owner removes these objects from its stacks.
 *
 * The owner may be back at any time. Inside the gate it looks before it touches its cache: short
 * paths of imalloc.c look whether a recall is pending, and leave then; all others look at the state
 * (claim_settle). That withdraws an announcement, waits while objects are taken, and completes what
 * was taken. The owner marks itself inside before it looks; the claimant sets "taking" before it
 * looks at the mark, both in sequentially consistent order, so at least one sees the other.
 *
 * Locks: one claimant at a time. A heartbeat does not wait for another one, but claims nothing; a
 * refused request waits for a bounded time. The list of threads is locked (gate_for_each) while
 * caches are announced and picked, not while objects are returned: a thread whose cache is being
 * taken cannot end meanwhile, because claim_settle() waits.
 * Called by imalloc.c (claim_for_refused), at heartbeats (claim_heartbeat), by a background thread
 * (claim_serve) and by tsd.c (claim_settle) inside the gate, no lock held; icheck.c asks
 * claim_is_taking().
 */
#pragma once

#include "thread/tsd_types.h"

/* Sleeps between the announcement and the taking, 200 us each; a few thousand cycles would do. */
#define CLAIM_PAUSES 8u
/* Sleeps for which a refused request waits at most while another thread is the claimant. */
#define CLAIM_ROUNDS_MAX 64u
/*
 * Where each request is refused its claim would be one wait after the other, with all threads in
 * turn. So after one that got nothing there is none for this long.
 */
#define CLAIM_VAIN_NS ((uint64_t)100 * 1000 * 1000)
/*
 * Claims at heartbeats come in rounds. A round begins by announcing the claims, at the earliest
 * CLAIM_ROUND_NS after the end of the last one. From CLAIM_WAIT_NS later on each heartbeat takes
 * one cache, until none is left.
 */
#define CLAIM_ROUND_NS ((uint64_t)1000 * 1000 * 1000)
#define CLAIM_WAIT_NS ((uint64_t)20 * 1000 * 1000)

/* Values of tsd_t.claim. */
enum { CLAIM_NONE = 0, CLAIM_ANNOUNCED, CLAIM_TAKING, CLAIM_TAKEN };

/*
 * Returns to the arenas what the caches of idle threads hold below the top of each stack, after a
 * wait of CLAIM_PAUSES if there are such threads. Waits for another claimant, for at most
 * CLAIM_ROUNDS_MAX. The result is the number of bytes, and not 0 after a wait: the other claimant
 * has perhaps returned some. 0: to try again is useless.
 */
size_t claim_idle_caches(void);
/* The same for a refused request; 0 also if one in the last CLAIM_VAIN_NS got nothing. */
size_t claim_for_refused(void);
/*
 * A hook of the heartbeat: a step of a round, if one is due. Takes at most one cache, so that no
 * heartbeat becomes long. bytes: not used.
 */
void claim_heartbeat(tsd_t *tsd, uint64_t bytes);
/* The same at the time now (monotonic ns). Returns the bytes that were taken. */
size_t claim_step(uint64_t now);
/*
 * A hook of the background threads (background_thread_hook), which do the steps when no thread of
 * the program has heartbeats: a step if one is due. Returns ns until the next; UINT64_MAX while
 * there are no grants.
 */
uint64_t claim_serve(uint64_t now);

/*
 * Whether objects of the thread's cache are being taken, or were and still stand in its stacks.
 * Answers the thread itself, also outside the gate.
 */
static inline bool
claim_is_taking(const tsd_t *tsd) {
	return atomic_load_u32(&tsd->claim, MO_ACQUIRE) >= CLAIM_TAKING;
}

/* claim_settle() where there is a claim. */
void claim_settle_slow(tsd_t *tsd);

/*
 * Ends a claim of a cache, before the cache is used. tsd: the calling thread's own, or in a forked
 * child that of a thread which does not exist there.
 */
ALWAYS_INLINE void
claim_settle(tsd_t *tsd) {
	if (unlikely(atomic_load_u32(&tsd->claim, MO_SEQ_CST) != CLAIM_NONE)) {
		claim_settle_slow(tsd);
	}
}
