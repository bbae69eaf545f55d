/* The closing and opening of the gate; see gate.h for the idea. */
#include "os/gate.h"

#include <sched.h>
#include <time.h>

#include "os/witness.h"

atomic_p_t gate_forker;

/* Values of tls_s.gate. */
enum { GATE_OUTSIDE = 0, GATE_INSIDE = 1, GATE_REGISTERED = 2 };

/* So many pauses a fork waits that may itself keep the others from leaving: two seconds at least. */
#define GATE_PATIENCE 10000u

/* Threads that are on no list are inside for their first or last call: seldom many at once. */
#define GATE_NSLOTS 64u

static struct {
	mutex_t mtx;             /* the list; taken inside the gate or by the forking thread */
	gate_link_t *threads;
	atomic_p_t slots[GATE_NSLOTS]; /* words of the threads inside that are on no list */
	unsigned nesting;        /* forks inside a fork's handlers, or a signal's */
	struct tls_s nobody;     /* stands for threads that a forked child does not have */
} gate = {.mtx = MUTEX_INITIALIZER("gate", WITNESS_RANK_OMIT)};

cassert((GATE_INSIDE & GATE_REGISTERED) == 0 && GATE_OUTSIDE == 0);

/* Both neighbours of a link know it; under gate.mtx. */
static void
gate_link_check(const gate_link_t *link) {
	mutex_assert_owner(&gate.mtx);
	assert(link->prev == NULL ? gate.threads == link : link->prev->next == link);
	assert(link->next == NULL || link->next->prev == link);
	assert(link->next != link && link->prev != link);
	assert(link->tls != NULL && (link->tls->gate & GATE_REGISTERED) != 0);
}

/* Locks held for a moment only belong inside; those of dumps and passes are held for long, outside. */
static void
gate_assert_no_short_lock(void) {
	assert(witness_depth_from(WITNESS_RANK_PROF_SITES) == 0);
}

static void
gate_pause(unsigned round) {
	int saved = errno;
	if (round < 16) {
		sched_yield();
	} else {
		struct timespec ts = {0, 200 * 1000};
		nanosleep(&ts, NULL);
	}
	errno = saved;
}

static atomic_p_t *
gate_slot(const struct tls_s *t, unsigned k) {
	return &gate.slots[(((uintptr_t)t >> 12) + k) % GATE_NSLOTS];
}

/* Waits where there are as many such threads as slots.  Rare, and out of the way of the others. */
static NOINLINE void
gate_slot_take(struct tls_s *t) {
	for (unsigned k = 0;; k++) {
		void *seen = NULL;
		if (atomic_load_p(gate_slot(t, k), MO_RELAXED) == NULL
		    && atomic_cas_strong_p(gate_slot(t, k), &seen, t, MO_SEQ_CST, MO_RELAXED)) {
			return;
		}
		if (k % GATE_NSLOTS == GATE_NSLOTS - 1) {
			gate_pause(k / GATE_NSLOTS);
		}
	}
}

/*
 * All of its slots: a handler that interrupts a thread on its way out takes one of its own.  By
 * exchange, since the handler may leave this very slot, and another thread take it.
 */
static NOINLINE void
gate_slot_leave(const struct tls_s *t) {
	for (unsigned k = 0; k < GATE_NSLOTS; k++) {
		void *seen = (void *)(uintptr_t)t;
		if (atomic_load_p(gate_slot(t, k), MO_RELAXED) == t) {
			atomic_cas_strong_p(gate_slot(t, k), &seen, NULL, MO_RELEASE, MO_RELAXED);
		}
	}
}

static void
gate_mark(struct tls_s *t) {
	assert(t == tls_get());
	if ((t->gate & GATE_REGISTERED) == 0) {
		gate_slot_take(t);
	} else if (mutex_is_single_threaded()) {
		__atomic_store_n(&t->gate, GATE_REGISTERED | GATE_INSIDE, __ATOMIC_RELAXED);
	} else {
		__atomic_exchange_n(&t->gate, GATE_REGISTERED | GATE_INSIDE, __ATOMIC_SEQ_CST);
	}
}

static void
gate_unmark(struct tls_s *t) {
	assert(t == tls_get());
	if ((t->gate & GATE_REGISTERED) == 0) {
		assert(t->gate == GATE_OUTSIDE);
		gate_slot_leave(t);
	} else {
		__atomic_store_n(&t->gate, GATE_REGISTERED, __ATOMIC_RELEASE);
	}
}

bool
gate_enter_first(struct tls_s *t) {
	assert(t->gate_depth == 1);
	gate_mark(t);
	const void *forker = atomic_load_p(&gate_forker, MO_SEQ_CST);
	if (unlikely(forker != NULL) && forker != t) {
		gate_unmark(t);
		t->gate_depth = 0;
		return false;
	}
	return true;
}

void
gate_exit_last(struct tls_s *t) {
	assert(t->gate_depth == 0);
	gate_assert_no_short_lock();
	gate_unmark(t);
}

void
gate_enter(struct tls_s *t) {
	for (unsigned round = 0; !gate_try_enter(t); round++) {
		gate_pause(round);
	}
}

uint32_t
gate_leave_all(struct tls_s *t) {
	uint32_t depth = t->gate_depth;
	if (depth != 0) {
		t->gate_depth = 0;
		gate_exit_last(t);
	}
	return depth;
}

void
gate_reenter(struct tls_s *t, uint32_t depth) {
	assert(t->gate_depth == 0);
	if (depth != 0) {
		gate_enter(t);
		t->gate_depth = depth;
	}
}

void
gate_register(struct tls_s *t, gate_link_t *link) {
	assert(t->gate_depth > 0 && (t->gate & GATE_REGISTERED) == 0);
	mutex_lock(&gate.mtx);
	link->tls = t;
	link->prev = NULL;
	link->next = gate.threads;
	if (gate.threads != NULL) {
		gate.threads->prev = link;
	}
	gate.threads = link;
	/* From the slot to a mark of its own, without being outside in between. */
	__atomic_store_n(&t->gate, GATE_REGISTERED | GATE_INSIDE, __ATOMIC_SEQ_CST);
	if (config_debug) {
		gate_link_check(link);
	}
	mutex_unlock(&gate.mtx);
	gate_slot_leave(t);
}

static void
gate_unlink(gate_link_t *link) {
	if (config_debug) {
		gate_link_check(link);
	}
	if (link->prev != NULL) {
		link->prev->next = link->next;
	} else {
		gate.threads = link->next;
	}
	if (link->next != NULL) {
		link->next->prev = link->prev;
	}
}

void
gate_unregister(struct tls_s *t, gate_link_t *link) {
	assert(t->gate_depth > 0 && (t->gate & GATE_REGISTERED) != 0);
	assert(link->tls == t);
	gate_slot_take(t);
	mutex_lock(&gate.mtx);
	gate_unlink(link);
	__atomic_store_n(&t->gate, GATE_OUTSIDE, __ATOMIC_SEQ_CST);
	mutex_unlock(&gate.mtx);
}

void
gate_for_each(void (*fn)(struct tls_s *t, void *ctx), void *ctx) {
	assert(tls_get()->gate_depth > 0);
	mutex_lock(&gate.mtx);
	for (gate_link_t *l = gate.threads; l != NULL; l = l->next) {
		fn(l->tls, ctx);
	}
	mutex_unlock(&gate.mtx);
}

/* Somebody but the forking thread is inside. Under the list's lock nobody goes from a slot to the list or back. */
static bool
gate_is_busy(const struct tls_s *self) {
	for (gate_link_t *l = gate.threads; l != NULL; l = l->next) {
		if (l->tls != self &&
		    (__atomic_load_n(&l->tls->gate, __ATOMIC_SEQ_CST) & GATE_INSIDE) != 0) {
			return true;
		}
	}
	for (unsigned i = 0; i < GATE_NSLOTS; i++) {
		const void *t = atomic_load_p(&gate.slots[i], MO_SEQ_CST);
		if (t != NULL && t != self) {
			return true;
		}
	}
	return false;
}

/*
 * A handler has interrupted this thread inside: others there, or who forks, may wait for what it holds, and
 * then neither comes to an end.  Such a fork gives up waiting some time: its child may find locks that
 * nobody will release, but may call nothing that takes one, being a child of several threads.
 */
static bool
gate_is_patient(struct tls_s *self) {
	return !gate_is_entered(self) && !mutex_is_owner(&gate.mtx);
}

/* The gate is closed: until the forking thread is the only one inside. */
static void
gate_wait_alone(struct tls_s *self) {
	/* The interrupted thread is changing the list, which may be walked at any instant of that. */
	bool is_interrupted = mutex_is_owner(&gate.mtx);
	bool is_patient = gate_is_patient(self);
	for (unsigned round = 0; is_patient || round < GATE_PATIENCE; round++) {
		/* The list changes only under the lock, by threads that are inside. */
		bool is_locked = is_interrupted || mutex_trylock(&gate.mtx);
		bool is_busy = !is_locked || gate_is_busy(self);
		if (is_locked && !is_interrupted) {
			mutex_unlock(&gate.mtx);
		}
		if (!is_busy) {
			return;
		}
		gate_pause(round);
	}
}

/* By this thread; false: not to be had, another one's fork waits for this thread. */
static bool
gate_is_closed_by(struct tls_s *self) {
	bool is_patient = gate_is_patient(self);
	if (is_patient) {
		gate_unmark(self); /* on its way out when the handler came */
	}
	for (unsigned round = 0; is_patient || round < GATE_PATIENCE; round++) {
		void *open = NULL;
		if (atomic_cas_strong_p(&gate_forker, &open, self, MO_SEQ_CST, MO_SEQ_CST)) {
			assert(gate.nesting == 0);
			return true;
		}
		gate_pause(round);
	}
	return false;
}

/*
 * One fork at a time; closed and by whom is one word, so that there is no instant at which the gate is
 * closed by nobody.  A fork inside a fork waits too: its handler may have interrupted the waiting.
 */
void
gate_prefork(void) {
	struct tls_s *self = tls_get();
	if (atomic_load_p(&gate_forker, MO_RELAXED) == self) {
		gate.nesting++;
	} else if (!gate_is_closed_by(self)) {
		return;
	}
	gate_wait_alone(self);
	assert(atomic_load_p(&gate_forker, MO_RELAXED) == self);
}

void
gate_postfork_parent(void) {
	if (atomic_load_p(&gate_forker, MO_RELAXED) != tls_get()) {
		return; /* forked without the gate */
	}
	if (gate.nesting > 0) {
		gate.nesting--;
		return;
	}
	atomic_store_p(&gate_forker, NULL, MO_SEQ_CST);
}

/*
 * Only the forking thread is left; the others' links lie in memory that nobody will use again.  If a
 * handler forked while this thread was changing the list, that goes on here: the links stay in it, but
 * name nobody's words.
 */
void
gate_postfork_child(void) {
	struct tls_s *self = tls_get();
	gate_link_t *mine = NULL;
	bool is_changing = mutex_is_owner(&gate.mtx);
	/* The reason why nobody's locks need a repair here; but for a fork whose patience has ended. */
	assert(!gate_is_patient(self) || atomic_load_u32(&gate.mtx.word, MO_RELAXED) == 0);
	mutex_renew_in_child(&gate.mtx, "gate", WITNESS_RANK_OMIT);
	for (gate_link_t *l = gate.threads; l != NULL; l = l->next) {
		if (l->tls == self) {
			mine = l;
		} else {
			l->tls = &gate.nobody;
		}
	}
	if (!is_changing) {
		assert((mine != NULL) == ((self->gate & GATE_REGISTERED) != 0));
		gate.threads = mine;
		if (mine != NULL) {
			mine->next = NULL;
			mine->prev = NULL;
		}
	}
	/* Who was being refused at that instant had a slot for a moment. */
	for (unsigned i = 0; i < GATE_NSLOTS; i++) {
		if (atomic_load_p(&gate.slots[i], MO_RELAXED) != self) {
			atomic_store_p(&gate.slots[i], NULL, MO_RELAXED);
		}
	}
	if (atomic_load_p(&gate_forker, MO_RELAXED) != self) {
		gate.nesting = 0; /* of a fork that is the parent's */
		atomic_store_p(&gate_forker, self, MO_RELAXED);
	}
	gate_postfork_parent();
}
