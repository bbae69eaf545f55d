/*
 * Claims of the caches of idle threads (claim.h).
 *
 * Invariant: RECALL_CLAIM is set in a thread's recall word from the announcement until the thread
 * handles it inside the gate, after claim_settle(); while it is set the thread's fast path is
 * closed. Only the one claimant sets it. No lock is held while objects are returned. Called by
 * imalloc.c, when the system has refused memory, and by tsd.c.
 */
#include "thread/claim.h"

#include "os/nstime.h"
#include "os/thread.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/thread_event.h"

static struct {
	atomic_b_t is_busy; /* there is a claimant */
} claims;

/* What claim_announce() and claim_pick() get and tell; now: monotonic ns. */
typedef struct {
	uint64_t now;
	unsigned n_announced; /* threads whose claim claim_announce() has announced */
	tsd_t *tsd; /* the one whose cache is being taken; NULL: none is picked */
} claim_walk_t;

/* Announces a claim of the thread's cache, if the thread is another one, idle, and not claimed. */
static void
claim_announce(struct tls_s *t, void *ctx) {
	claim_walk_t *walk = ctx;
	tsd_t *tsd = __atomic_load_n(&t->tsd, __ATOMIC_ACQUIRE);
	uint32_t none = CLAIM_NONE;
	if (t != tls_get() && tsd != NULL && thread_event_is_idle(t, walk->now)
	    && atomic_cas_strong_u32(&tsd->claim, &none, CLAIM_ANNOUNCED, MO_SEQ_CST, MO_RELAXED)) {
		recall_one(t, RECALL_CLAIM);
		walk->n_announced++;
	}
}

/*
 * Whether the owner is outside the gate and has not handled the announcement; the state is
 * CLAIM_TAKING.
 */
static bool
claim_holds(const struct tls_s *t) {
	return !gate_is_amid(t)
	    && (__atomic_load_n(&t->recall, __ATOMIC_SEQ_CST) & RECALL_CLAIM) != 0;
}

/* Puts the first thread whose announced claim still holds into walk->tsd, in state CLAIM_TAKING. */
static void
claim_pick(struct tls_s *t, void *ctx) {
	claim_walk_t *walk = ctx;
	tsd_t *tsd = __atomic_load_n(&t->tsd, __ATOMIC_ACQUIRE);
	uint32_t announced = CLAIM_ANNOUNCED;
	if (walk->tsd != NULL || tsd == NULL
	    || !atomic_cas_strong_u32(&tsd->claim, &announced, CLAIM_TAKING, MO_SEQ_CST, MO_RELAXED)) {
		return;
	}
	if (claim_holds(t)) {
		walk->tsd = tsd;
	} else {
		atomic_store_u32(&tsd->claim, CLAIM_NONE, MO_RELEASE);
	}
}

size_t
claim_idle_caches(void) {
	claim_walk_t walk = {nstime_monotonic_ns(), 0, NULL};
	size_t bytes = 0;
	assert(gate_is_entered(tls_get()));
	if (atomic_exchange_b(&claims.is_busy, true, MO_ACQUIRE)) {
		return 0;
	}
	gate_for_each(claim_announce, &walk);
	for (unsigned i = 0; walk.n_announced > 0 && i < CLAIM_PAUSES; i++) {
		os_pause(OS_PAUSE_SLEEPS);
	}
	for (unsigned i = 0; i < walk.n_announced; i++) {
		walk.tsd = NULL;
		gate_for_each(claim_pick, &walk);
		if (walk.tsd == NULL) {
			break;
		}
		bytes += walk.tsd->tcache == NULL ? 0 : tcache_take_over(walk.tsd->tcache);
		atomic_store_u32(&walk.tsd->claim, CLAIM_TAKEN, MO_SEQ_CST);
	}
	atomic_store_b(&claims.is_busy, false, MO_RELEASE);
	return bytes;
}

void
claim_settle_slow(tsd_t *tsd) {
	uint32_t state = atomic_load_u32(&tsd->claim, MO_ACQUIRE);
	for (unsigned round = 0; state == CLAIM_TAKING
	    || (state == CLAIM_ANNOUNCED && !atomic_cas_strong_u32(&tsd->claim, &state, CLAIM_NONE,
	    MO_SEQ_CST, MO_ACQUIRE)); round++) {
		os_pause(round);
		state = atomic_load_u32(&tsd->claim, MO_ACQUIRE);
	}
	if (state == CLAIM_TAKEN) {
		if (tsd->tcache != NULL) {
			tcache_settle_taken(tsd, tsd->tcache);
		}
		atomic_store_u32(&tsd->claim, CLAIM_NONE, MO_RELAXED);
	}
}
