/* The closing and opening of the gate; see gate.h for the idea. */
#include "os/gate.h"

#include <sched.h>
#include <time.h>

#include "os/witness.h"

atomic_u32_t gate_closed;

/* Values of tls_s.gate. */
enum { GATE_OUTSIDE = 0, GATE_INSIDE = 1, GATE_REGISTERED = 2 };

static struct {
	mutex_t mtx;                /* the list; taken inside the gate or by the forking thread */
	gate_link_t *threads;
	atomic_u32_t n_unregistered; /* threads inside that are on no list */
	atomic_p_t forker;          /* its tls, while closed; others compare it with their own, which it never is */
	unsigned nesting;           /* a fork inside a fork's handlers */
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
gate_mark(struct tls_s *t) {
	assert(t == tls_get());
	if ((t->gate & GATE_REGISTERED) == 0) {
		atomic_fetch_add_u32(&gate.n_unregistered, 1, MO_SEQ_CST);
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
		uint32_t before = atomic_fetch_sub_u32(&gate.n_unregistered, 1, MO_SEQ_CST);
		assert(before > 0 && t->gate == GATE_OUTSIDE);
		(void)before;
	} else {
		__atomic_store_n(&t->gate, GATE_REGISTERED, __ATOMIC_RELEASE);
	}
}

bool
gate_enter_first(struct tls_s *t) {
	assert(t->gate_depth == 1);
	gate_mark(t);
	if (unlikely(atomic_load_u32(&gate_closed, MO_SEQ_CST) != 0) && atomic_load_p(&gate.forker, MO_RELAXED) != t) {
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
	/* From the shared count to a mark of its own, without being outside in between. */
	__atomic_store_n(&t->gate, GATE_REGISTERED | GATE_INSIDE, __ATOMIC_SEQ_CST);
	if (config_debug) {
		gate_link_check(link);
	}
	mutex_unlock(&gate.mtx);
	uint32_t before = atomic_fetch_sub_u32(&gate.n_unregistered, 1, MO_SEQ_CST);
	assert(before > 0);
	(void)before;
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
	atomic_fetch_add_u32(&gate.n_unregistered, 1, MO_SEQ_CST);
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

/* Somebody but the forking thread is inside. */
static bool
gate_is_busy(struct tls_s *self) {
	/* A thread on its way into or out of the list counts as unregistered, so look there last. */
	for (gate_link_t *l = gate.threads; l != NULL; l = l->next) {
		if (l->tls != self &&
		    (__atomic_load_n(&l->tls->gate, __ATOMIC_SEQ_CST) & GATE_INSIDE) != 0) {
			return true;
		}
	}
	bool self_counted = (self->gate & GATE_REGISTERED) == 0 && self->gate_depth > 0;
	return atomic_load_u32(&gate.n_unregistered, MO_SEQ_CST) > (self_counted ? 1u : 0u);
}

void
gate_prefork(void) {
	struct tls_s *self = tls_get();
	if (atomic_load_p(&gate.forker, MO_RELAXED) == self) {
		gate.nesting++;
		return;
	}
	uint32_t expected = 0;
	for (unsigned round = 0;; round++) {
		expected = 0;
		if (atomic_cas_strong_u32(&gate_closed, &expected, 1, MO_SEQ_CST, MO_SEQ_CST)) {
			break; /* one fork at a time */
		}
		gate_pause(round);
	}
	atomic_store_p(&gate.forker, self, MO_RELAXED);
	bool is_interrupted = mutex_is_owner(&gate.mtx);
	for (unsigned round = 0;; round++) {
		/* The list changes only under the lock, by threads that are inside. */
		bool is_locked = is_interrupted || mutex_trylock(&gate.mtx);
		bool is_busy = !is_locked || gate_is_busy(self);
		if (is_locked && !is_interrupted) {
			mutex_unlock(&gate.mtx);
		}
		if (!is_busy) {
			assert(atomic_load_p(&gate.forker, MO_RELAXED) == self && gate.nesting == 0);
			assert(atomic_load_u32(&gate_closed, MO_RELAXED) == 1);
			return;
		}
		gate_pause(round);
	}
}

void
gate_postfork_parent(void) {
	assert(atomic_load_p(&gate.forker, MO_RELAXED) == tls_get());
	assert(atomic_load_u32(&gate_closed, MO_RELAXED) == 1);
	if (gate.nesting > 0) {
		gate.nesting--;
		return;
	}
	atomic_store_p(&gate.forker, NULL, MO_RELAXED);
	atomic_store_u32(&gate_closed, 0, MO_SEQ_CST);
}

/* Only the forking thread is left; the others' links lie in memory that nobody will use again. */
void
gate_postfork_child(void) {
	struct tls_s *self = tls_get();
	gate_link_t *mine = NULL;
	/* The reason why nobody's locks need a repair here. */
	assert(mutex_is_owner(&gate.mtx) || atomic_load_u32(&gate.mtx.word, MO_RELAXED) == 0);
	for (gate_link_t *l = gate.threads; l != NULL; l = l->next) {
		if (l->tls == self) {
			mine = l;
		}
	}
	gate.threads = mine;
	if (mine != NULL) {
		mine->next = NULL;
		mine->prev = NULL;
	}
	assert((mine != NULL) == ((self->gate & GATE_REGISTERED) != 0));
	bool self_counted = (self->gate & GATE_REGISTERED) == 0 && self->gate_depth > 0;
	atomic_store_u32(&gate.n_unregistered, self_counted ? 1 : 0, MO_SEQ_CST);
	gate_postfork_parent();
}
