/*
 * Claims of the caches of idle threads (claim.h).
 *
 * Invariant: RECALL_CLAIM is set in a thread's recall word from the announcement until the thread
 * handles it inside the gate, after claim_settle(); while it is set the thread's fast path is
 * closed. Only the one claimant sets it. No lock is held while objects are returned. Called by
 * imalloc.c, when the system has refused memory, by tsd.c, at heartbeats, and by a background
 * thread.
 */
#include "thread/claim.h"

#include "os/nstime.h"
#include "os/thread.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/tcache_budget.h"
#include "thread/thread_event.h"

static struct {
	atomic_b_t is_busy;   /* there is a claimant */
	bool has_announced;   /* perhaps a claim stands that is not picked yet; the claimant's */
	atomic_u64_t due_ns;  /* earliest time of the next step; the claimant stores it */
	atomic_u64_t vain_ns; /* until then no refused request claims, as the last one got nothing */
} claims;

/* What claim_pick() gets and tells. */
typedef struct {
	bool wants_all; /* also caches without grants */
	tsd_t *tsd; /* the one whose cache is being taken; NULL: none is picked */
} claim_walk_t;

/*
 * Announces a claim of the thread's cache, if the thread is another one, idle, and not claimed.
 * now: points at the time, monotonic ns.
 */
static void
claim_announce(struct tls_s *t, void *now) {
	tsd_t *tsd = __atomic_load_n(&t->tsd, __ATOMIC_ACQUIRE);
	uint32_t none = CLAIM_NONE;
	if (t != tls_get() && tsd != NULL && thread_event_is_idle(t, *(uint64_t *)now)
	    && atomic_cas_strong_u32(&tsd->claim, &none, CLAIM_ANNOUNCED, MO_SEQ_CST, MO_RELAXED)) {
		recall_one(t, RECALL_CLAIM);
		claims.has_announced = true;
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

/*
 * Puts the first thread whose announced claim still holds, and whose cache is wanted, into
 * walk->tsd, in state CLAIM_TAKING. Withdraws the other claims on the way.
 */
static void
claim_pick(struct tls_s *t, void *ctx) {
	claim_walk_t *walk = ctx;
	tsd_t *tsd = __atomic_load_n(&t->tsd, __ATOMIC_ACQUIRE);
	uint32_t announced = CLAIM_ANNOUNCED;
	if (walk->tsd != NULL || tsd == NULL
	    || !atomic_cas_strong_u32(&tsd->claim, &announced, CLAIM_TAKING, MO_SEQ_CST, MO_RELAXED)) {
		return;
	}
	/* While the claim holds, the owner waits (claim_settle), so its cache may be read. */
	if (claim_holds(t)
	    && (walk->wants_all || (tsd->tcache != NULL && tcache_has_part(tsd->tcache)))) {
		walk->tsd = tsd;
	} else {
		atomic_store_u32(&tsd->claim, CLAIM_NONE, MO_RELEASE);
	}
}

/*
 * Takes the cache of one thread whose claim was announced, and adds its bytes to *bytes. False:
 * there is none. The caller is the claimant.
 */
static bool
claim_try_take(bool wants_all, size_t *bytes) {
	claim_walk_t walk = {wants_all, NULL};
	gate_for_each(claim_pick, &walk);
	claims.has_announced = walk.tsd != NULL;
	if (walk.tsd == NULL) {
		return false;
	}
	/* No decay meanwhile, which may call the user's hooks: the owner may wait for this. */
	tls_get()->inside++;
	*bytes += walk.tsd->tcache == NULL ? 0 : tcache_take_over(walk.tsd->tcache);
	tls_get()->inside--;
	atomic_store_u32(&walk.tsd->claim, CLAIM_TAKEN, MO_SEQ_CST);
	return true;
}

size_t
claim_idle_caches(void) {
	uint64_t now = nstime_monotonic_ns();
	size_t bytes = 0;
	unsigned nwaits = 0;
	assert(gate_is_entered(tls_get()));
	while (atomic_exchange_b(&claims.is_busy, true, MO_ACQUIRE)) {
		if (nwaits++ == CLAIM_ROUNDS_MAX) {
			return 1;
		}
		os_pause(OS_PAUSE_SLEEPS);
	}
	gate_for_each(claim_announce, &now);
	for (unsigned i = 0; claims.has_announced && i < CLAIM_PAUSES; i++) {
		os_pause(OS_PAUSE_SLEEPS);
	}
	while (claims.has_announced && claim_try_take(true, &bytes)) {
	}
	atomic_store_b(&claims.is_busy, false, MO_RELEASE);
	return bytes + (nwaits > 0); /* what the other claimant returned is not known here */
}

size_t
claim_for_refused(void) {
	uint64_t now = nstime_monotonic_coarse_ns(); /* 0: the system refuses the clock */
	if (now != 0 && now < atomic_load_u64(&claims.vain_ns, MO_RELAXED)) {
		return 0;
	}
	size_t bytes = claim_idle_caches();
	if (bytes == 0) {
		atomic_store_u64(&claims.vain_ns, now + CLAIM_VAIN_NS, MO_RELAXED);
	}
	return bytes;
}

/* claim_step() at a time when one is due. */
static NOINLINE size_t
claim_step_due(uint64_t now) {
	size_t bytes = 0;
	uint64_t wait = CLAIM_ROUND_NS;
	assert(gate_is_entered(tls_get()));
	if (atomic_exchange_b(&claims.is_busy, true, MO_ACQUIRE)) {
		return 0;
	}
	if (claims.has_announced) {
		wait = claim_try_take(false, &bytes) ? 0 : CLAIM_ROUND_NS;
	} else if (tcache_budget_sum() != 0) {
		gate_for_each(claim_announce, &now);
		/* `now` may be long ago: a heartbeat has read the clock before it did other work. */
		uint64_t begun = nstime_monotonic_coarse_ns();
		now = begun > now ? begun : now;
		wait = claims.has_announced ? CLAIM_WAIT_NS : CLAIM_ROUND_NS;
	}
	atomic_store_u64(&claims.due_ns, now + wait, MO_RELAXED);
	atomic_store_b(&claims.is_busy, false, MO_RELEASE);
	return bytes;
}

size_t
claim_step(uint64_t now) {
	return likely(now < atomic_load_u64(&claims.due_ns, MO_RELAXED)) ? 0 : claim_step_due(now);
}

uint64_t
claim_serve(uint64_t now) {
	claim_step(now);
	uint64_t due = atomic_load_u64(&claims.due_ns, MO_RELAXED);
	return tcache_budget_sum() == 0 ? UINT64_MAX : due > now ? due - now : 0;
}

void
claim_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	claim_step(tsd->beat_ns);
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
