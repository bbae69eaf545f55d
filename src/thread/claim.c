/*
 * Claims of the caches of idle threads (claim.h).
 *
 * Invariant: RECALL_CLAIM is set in a thread's recall word from the announcement until the thread
 * handles it inside the gate, after claim_settle(); while it is set the thread's fast path is
 * closed. Only the one claimant sets it. No lock is held while objects are returned.
 */
#include "thread/claim.h"

#include "os/thread.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/tcache_budget.h"
#include "thread/thread_event.h"

/* States of a claim by heartbeats; BUSY: a thread announces or takes. */
enum { CLAIMS_NONE, CLAIMS_ANNOUNCED, CLAIMS_BUSY };

static struct {
	atomic_u32_t state;
	atomic_u64_t next_ns; /* earliest time of the next step by a heartbeat */
} claims;

/* A walk over the threads. */
typedef struct {
	uint64_t now;
	unsigned n_announced;
	tsd_t *tsd; /* the one whose cache is being taken */
} claim_walk_t;

static void
claim_announce(struct tls_s *t, void *ctx) {
	claim_walk_t *walk = ctx;
	tsd_t *tsd = t->tsd;
	uint32_t none = CLAIM_NONE;
	if (t != tls_get() && tsd != NULL && thread_event_is_idle(t, walk->now)
	    && atomic_cas_strong_u32(&tsd->claim, &none, CLAIM_ANNOUNCED, MO_SEQ_CST, MO_RELAXED)) {
		recall_one(t, RECALL_CLAIM);
		walk->n_announced++;
	}
}

/* Whether the owner is away and has been since the announcement; the state is CLAIM_TAKING. */
static bool
claim_holds(const struct tls_s *t) {
	return !gate_is_inside(t)
	    && (__atomic_load_n(&t->recall, __ATOMIC_SEQ_CST) & RECALL_CLAIM) != 0;
}

static void
claim_pick(struct tls_s *t, void *ctx) {
	claim_walk_t *walk = ctx;
	tsd_t *tsd = t->tsd;
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

/* Takes over one cache that was announced and whose owner is still away; false: there is none. */
static bool
claim_try_one(size_t *bytes) {
	claim_walk_t walk = {0, 0, NULL};
	gate_for_each(claim_pick, &walk);
	if (walk.tsd == NULL) {
		return false;
	}
	*bytes += walk.tsd->tcache == NULL ? 0 : tcache_take_over(walk.tsd->tcache);
	atomic_store_u32(&walk.tsd->claim, CLAIM_TAKEN, MO_SEQ_CST);
	return true;
}

/* Becomes the claimant; *state: what it was before. */
static bool
claims_try_enter(uint32_t *state) {
	*state = atomic_load_u32(&claims.state, MO_RELAXED);
	return *state != CLAIMS_BUSY
	    && atomic_cas_strong_u32(&claims.state, state, CLAIMS_BUSY, MO_ACQUIRE, MO_RELAXED);
}

size_t
claim_idle_caches(void) {
	claim_walk_t walk = {nstime_monotonic_ns(), 0, NULL};
	size_t bytes = 0;
	uint32_t state;
	assert(gate_is_entered(tls_get()));
	if (!claims_try_enter(&state)) {
		return 0;
	}
	gate_for_each(claim_announce, &walk);
	for (unsigned i = 0; walk.n_announced > 0 && i < CLAIM_PAUSES; i++) {
		os_pause(OS_PAUSE_SLEEPS);
	}
	while (claim_try_one(&bytes)) {
	}
	atomic_store_u32(&claims.state, CLAIMS_NONE, MO_RELEASE);
	return bytes;
}

void
claim_heartbeat(tsd_t *tsd, uint64_t event_bytes UNUSED) {
	claim_walk_t walk = {tsd->beat_ns, 0, NULL};
	size_t bytes = 0;
	uint32_t state;
	if (likely(tcache_budget_sum() <= CLAIM_ABOVE)
	    || walk.now < atomic_load_u64(&claims.next_ns, MO_RELAXED) || !claims_try_enter(&state)) {
		return;
	}
	bool goes_on = false;
	if (state == CLAIMS_ANNOUNCED) {
		while ((goes_on = claim_try_one(&bytes)) && bytes < CLAIM_STEP) {
		}
	} else {
		gate_for_each(claim_announce, &walk);
	}
	atomic_store_u64(&claims.next_ns, goes_on ? walk.now : walk.now + CLAIM_EVERY_NS, MO_RELAXED);
	state = goes_on || walk.n_announced > 0 ? CLAIMS_ANNOUNCED : CLAIMS_NONE;
	atomic_store_u32(&claims.state, state, MO_RELEASE);
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
