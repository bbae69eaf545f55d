/*
 * Entering, leaving, closing and opening the gate, and the list of threads whose marks a fork
 * reads; gate.h explains the idea. A fork that finds threads inside polls their marks, first
 * yielding, then sleeping (gate_pause). Invariant: a thread is inside exactly while it is marked:
 * by GATE_INSIDE in tls_s.gate if it is on the list, else by a slot; the gate is closed exactly
 * while gate_forker is not NULL, and only that thread opens it. gate.mtx protects the list; it is
 * taken inside the gate or by the thread that forks. All other state is atomic or belongs to the
 * thread that has closed the gate. mutex.c reports here which word a thread sleeps for.
 */
#include "os/gate.h"

#include <sched.h>
#include <time.h>

#include "os/witness.h"

atomic_p_t gate_forker;

/*
 * Values of tls_s.gate. GATE_REGISTERED and GATE_INSIDE are bits, kept in one word so that one
 * store changes both.
 */
enum { GATE_OUTSIDE = 0, GATE_INSIDE = 1, GATE_REGISTERED = 2 };

/*
 * Pauses after which a fork that may itself keep the others from leaving gives up: at least two
 * seconds.
 */
#define GATE_PATIENCE 10000u
/* Consecutive polls that must find every thread inside blocked before a fork takes it as final. */
#define GATE_STUCK 24u
/*
 * Times that a fork lets a fork in a signal handler go first; then it is overdue, takes the gate
 * before handlers do, and closes it for good. Signals that come faster than their handlers can fork
 * would keep it waiting for ever otherwise.
 */
#define GATE_YIELDS 4u
/*
 * Number of pauses for which a fork in a signal handler leaves the open gate to a fork that is
 * overdue: at most about 10 milliseconds. Bounded because a thread may leave a handler by longjmp()
 * and then never withdraw its announcement.
 */
#define GATE_COURTESY 64u

/*
 * Threads that are not on the list (in their first or last call) that can be inside at the same
 * time. A thread for which there is no slot waits.
 */
#define GATE_NSLOTS 64u

static struct {
	mutex_t mtx; /* protects the list */
	gate_link_t *threads; /* the list: registered threads, newest first */
	atomic_p_t slots[GATE_NSLOTS]; /* TLS words of threads inside that are not on the list */
	/* what the thread in the slot of the same index sleeps for; written by that thread */
	atomic_p_t waits_for[GATE_NSLOTS];
	unsigned nesting; /* nested forks: in a fork's handlers or in a signal handler during one */
	bool is_alone;    /* the forking thread is the only one inside; belongs to that thread */
	/* TLS words of a thread in a signal handler inside that waits to close the gate */
	atomic_p_t wants;
	/* TLS words of a thread outside that has let GATE_YIELDS forks in handlers go first */
	atomic_p_t overdue;
	atomic_u32_t n_closed_inside; /* times that a fork in a handler has closed the gate; wraps */
	/* in a forked child, replaces the words of threads that do not exist there */
	struct tls_s absent;
} gate = {.mtx = MUTEX_INITIALIZER("gate", WITNESS_RANK_OMIT)};

cassert((GATE_INSIDE & GATE_REGISTERED) == 0 && GATE_OUTSIDE == 0);

/* Asserts that a link and its neighbours point to each other. The caller holds gate.mtx. */
static void
gate_link_check(const gate_link_t *link) {
	mutex_assert_owner(&gate.mtx);
	assert(link->prev == NULL ? gate.threads == link : link->prev->next == link);
	assert(link->next == NULL || link->next->prev == link);
	assert(link->next != link && link->prev != link);
	assert(link->tls != NULL && (link->tls->gate & GATE_REGISTERED) != 0);
}

/*
 * Locks of rank PROF_SITES and above are held for a short time, and only inside the gate. Those
 * below are held during dumps and passes, outside the gate.
 */
static void
gate_assert_no_short_lock(void) {
	assert(witness_depth_from(WITNESS_RANK_PROF_SITES) == 0);
}

/* Lets other threads run: yields at first, then sleeps 200 microseconds each time. */
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

/* The k-th slot to try for a thread; starts at a place that depends on the address of its words. */
static atomic_p_t *
gate_slot(const struct tls_s *t, unsigned k) {
	return &gate.slots[(((uintptr_t)t >> 12) + k) % GATE_NSLOTS];
}

/*
 * Takes a slot for a thread that is not on the list. Waits if all slots are in use, which is rare,
 * and does so without touching what other threads need.
 */
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
 * Frees all slots of the thread: a signal handler that interrupts it here may take and leave slots
 * of its own. By compare-and-swap, because the handler may have left this very slot and another
 * thread may have taken it since.
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

const void *
gate_note_wait(const void *word) {
	struct tls_s *t = tls_get();
	const void *outer = t->waits_for;
	__atomic_store_n(&t->waits_for, word, __ATOMIC_RELEASE);
	for (unsigned k = 0; (t->gate & GATE_REGISTERED) == 0 && k < GATE_NSLOTS; k++) {
		if (atomic_load_p(&gate.slots[k], MO_RELAXED) == t) {
			atomic_store_p(&gate.waits_for[k], (void *)(uintptr_t)word, MO_RELEASE);
		}
	}
	return outer;
}

/*
 * Marks the thread as inside. The mark must be ordered before the load of gate_forker, unless the
 * process has a single thread.
 */
static void
gate_mark(struct tls_s *t) {
	assert(t == tls_get());
	if (unlikely((t->gate & GATE_REGISTERED) == 0)) {
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
	/*
	 * Marks the thread as inside before its slot is freed, so that it is never seen outside in
	 * between.
	 */
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

/* The result of a poll of the other threads; a greater value outweighs a smaller one. */
typedef enum {
	gate_found_none,
	gate_found_stuck, /* every thread inside waits for a lock or for the gate */
	gate_found_busy   /* some thread inside is running */
} gate_found_t;

/*
 * Whether a thread inside that sleeps for this word cannot continue by itself. Locks lie in memory
 * that is never unmapped, so the word may be read. A lock that is free is about to be taken by a
 * sleeper.
 */
static bool
gate_is_stuck(const void *word) {
	return word == &gate_forker || (word != NULL && atomic_load_u32(word, MO_RELAXED) != 0);
}

/*
 * Polls the threads that are not on the list. Such a thread may end at any time, so only its slot
 * is read, not its TLS words.
 */
static gate_found_t
gate_look_at_slots(const struct tls_s *self) {
	gate_found_t found = gate_found_none;
	for (unsigned i = 0; i < GATE_NSLOTS; i++) {
		const void *t = atomic_load_p(&gate.slots[i], MO_SEQ_CST);
		if (t == NULL || t == self) {
			continue;
		}
		if (!gate_is_stuck(atomic_load_p(&gate.waits_for[i], MO_ACQUIRE))) {
			return gate_found_busy;
		}
		found = gate_found_stuck;
	}
	return found;
}

/*
 * Polls all threads. The caller holds the list's lock, so no thread moves between a slot and the
 * list meanwhile.
 */
static gate_found_t
gate_look(const struct tls_s *self) {
	gate_found_t found = gate_found_none;
	for (gate_link_t *l = gate.threads; l != NULL; l = l->next) {
		if (l->tls == self
		    || (__atomic_load_n(&l->tls->gate, __ATOMIC_SEQ_CST) & GATE_INSIDE) == 0) {
			continue;
		}
		if (!gate_is_stuck(__atomic_load_n(&l->tls->waits_for, __ATOMIC_ACQUIRE))) {
			return gate_found_busy;
		}
		found = gate_found_stuck;
	}
	gate_found_t others = gate_look_at_slots(self);
	return others > found ? others : found;
}

/*
 * Whether this fork may wait without a limit. It may not if a signal handler has interrupted this
 * thread inside the gate: the other threads inside, or another thread that forks, may then wait for
 * a lock that this thread holds, and neither would ever finish. Such a fork gives up when no thread
 * inside can continue, or after GATE_PATIENCE. Its child may then find locks that are never
 * released; but a child of a multi-threaded process may not call functions that take locks anyway
 * (POSIX).
 */
static bool
gate_is_patient(struct tls_s *self) {
	return !gate_is_entered(self) && !mutex_is_owner(&gate.mtx);
}

/*
 * Whether another thread waits, in a signal handler inside the gate, to fork. It cannot leave the
 * gate before it has forked.
 */
static bool
gate_is_wanted(const struct tls_s *self) {
	const void *t = atomic_load_p(&gate.wants, MO_SEQ_CST);
	return t != NULL && t != self;
}

/*
 * Whether a fork in a signal handler leaves the open gate to another thread: to one that is
 * overdue.
 */
static bool
gate_is_reserved(const struct tls_s *self) {
	const void *t = atomic_load_p(&gate.overdue, MO_SEQ_CST);
	return t != NULL && t != self;
}

/* gate_look() with the list's lock, as far as that is to be had; never waits for it. */
static gate_found_t
gate_look_locked(const struct tls_s *self) {
	/*
	 * If this thread was interrupted while it changed the list, it holds the lock already; the
	 * list may be walked at any instant of such a change.
	 */
	bool is_interrupted = mutex_is_owner(&gate.mtx);
	/* Another thread holds the lock: it is inside, and changes the list. */
	if (!is_interrupted && !mutex_trylock(&gate.mtx)) {
		return gate_is_wanted(self) ? gate_found_stuck : gate_found_busy;
	}
	gate_found_t found = gate_look(self);
	if (!is_interrupted) {
		mutex_unlock(&gate.mtx);
	}
	return found;
}

/*
 * With the gate closed, polls until the forking thread is the only one inside, and sets
 * gate.is_alone; or until it gives up (see gate_is_patient), with gate.is_alone false. Returns true
 * in both cases. Returns false, only if may_yield, if a fork in a signal handler has to go first.
 */
static bool
gate_try_wait_alone(struct tls_s *self, bool may_yield) {
	bool is_patient = gate_is_patient(self), is_last = !is_patient || gate.nesting > 0;
	unsigned n_stuck = 0;
	gate.is_alone = false;
	for (unsigned round = 0; is_patient || round < GATE_PATIENCE; round++) {
		gate_found_t found = gate_look_locked(self);
		if (found == gate_found_none) {
			gate.is_alone = true;
			return true;
		}
		bool is_wanted = gate_is_wanted(self);
		if (is_wanted && may_yield && !is_last) {
			return false;
		}
		n_stuck = found == gate_found_stuck ? n_stuck + 1 : 0;
		if (n_stuck > GATE_STUCK && (is_wanted || is_last)) {
			return true;
		}
		gate_pause(round);
	}
	return true;
}

/* Closes the gate if it is open. */
static bool
gate_try_take(struct tls_s *self) {
	void *open = NULL;
	return atomic_cas_strong_p(&gate_forker, &open, self, MO_SEQ_CST, MO_SEQ_CST);
}

/*
 * Closes the gate for a fork in a signal handler that interrupted its thread inside, and announces
 * the wait in gate.wants. Returns false if GATE_PATIENCE ended first.
 */
static bool
gate_try_close_inside(struct tls_s *self) {
	const void *outer = gate_note_wait(&gate_forker);
	void *mine = self;
	bool is_closed = false;
	for (unsigned round = 0; round < GATE_PATIENCE && !is_closed; round++) {
		void *none = NULL;
		atomic_cas_strong_p(&gate.wants, &none, self, MO_SEQ_CST, MO_RELAXED);
		if (round >= GATE_COURTESY || !gate_is_reserved(self)) {
			is_closed = gate_try_take(self);
		}
		if (!is_closed) {
			gate_pause(round);
		}
	}
	atomic_cas_strong_p(&gate.wants, &mine, NULL, MO_SEQ_CST, MO_RELAXED);
	if (is_closed) {
		atomic_fetch_add_u32(&gate.n_closed_inside, 1, MO_RELAXED);
	}
	gate_note_wait(outer);
	return is_closed;
}

/* Clears announcements that a thread may not have withdrawn: it left a handler by longjmp(). */
static void
gate_forget_announced(void) {
	atomic_store_p(&gate.wants, NULL, MO_SEQ_CST);
	atomic_store_p(&gate.overdue, NULL, MO_SEQ_CST);
}

/*
 * Closes the gate for a fork from outside, which no thread inside waits for. Lets forks in signal
 * handlers go first, until GATE_YIELDS of them have closed the gate since this fork began, when the
 * counter was `since`. Returns whether this fork is overdue.
 */
static bool
gate_close_outside(struct tls_s *self, uint32_t since) {
	bool is_overdue = false;
	void *mine = self;
	gate_unmark(self); /* the handler may have interrupted this thread on its way out */
	for (unsigned round = 0;; round++) {
		if (round % GATE_PATIENCE == GATE_PATIENCE - 1) {
			gate_forget_announced();
		}
		if (atomic_load_u32(&gate.n_closed_inside, MO_RELAXED) - since >= GATE_YIELDS) {
			void *none = NULL;
			is_overdue = true;
			atomic_cas_strong_p(&gate.overdue, &none, self, MO_SEQ_CST, MO_RELAXED);
		}
		if ((is_overdue || !gate_is_wanted(self)) && gate_try_take(self)) {
			break;
		}
		gate_pause(round);
	}
	atomic_cas_strong_p(&gate.overdue, &mine, NULL, MO_SEQ_CST, MO_RELAXED);
	return is_overdue;
}

/*
 * Only one fork at a time proceeds. One word says both that the gate is closed and by which thread,
 * so there is no instant at which it is closed without an owner. A fork nested inside a fork of the
 * same thread waits too: its handler may have interrupted the outer wait.
 */
void
gate_prefork(void) {
	struct tls_s *self = tls_get();
	if (atomic_load_p(&gate_forker, MO_RELAXED) == self) {
		gate.nesting++;
		gate_try_wait_alone(self, false);
		return;
	}
	if (!gate_is_patient(self)) {
		if (gate_try_close_inside(self)) {
			gate_try_wait_alone(self, false);
		}
		return;
	}
	uint32_t since = atomic_load_u32(&gate.n_closed_inside, MO_RELAXED);
	for (unsigned n = 0;; n++) {
		bool is_overdue = gate_close_outside(self, since) || n >= GATE_YIELDS;
		assert(gate.nesting == 0);
		if (gate_try_wait_alone(self, !is_overdue)) {
			return;
		}
		atomic_store_p(&gate_forker, NULL, MO_SEQ_CST);
	}
}

void
gate_postfork_parent(void) {
	if (atomic_load_p(&gate_forker, MO_RELAXED) != tls_get()) {
		return; /* this fork went ahead without closing the gate */
	}
	if (gate.nesting > 0) {
		gate.nesting--;
		return;
	}
	atomic_store_p(&gate_forker, NULL, MO_SEQ_CST);
}

/*
 * Only the forking thread exists in the child; the links of the others lie in memory that is not
 * used again. If a signal handler forked while this thread was changing the list, that change
 * continues in the child: then the links stay in the list, but refer to gate.absent.
 */
void
gate_postfork_child(void) {
	struct tls_s *self = tls_get();
	gate_link_t *mine = NULL;
	bool is_changing = mutex_is_owner(&gate.mtx);
	/*
	 * If this thread closed the gate, no lock was held by another thread. Not so for a fork
	 * that gave up waiting.
	 */
	bool has_closed = atomic_load_p(&gate_forker, MO_RELAXED) == self;
	assert(!has_closed || !gate.is_alone || is_changing
	    || atomic_load_u32(&gate.mtx.word, MO_RELAXED) == 0);
	mutex_renew_in_child(&gate.mtx, "gate", WITNESS_RANK_OMIT);
	for (gate_link_t *l = gate.threads; l != NULL; l = l->next) {
		if (l->tls == self) {
			mine = l;
		} else {
			l->tls = &gate.absent;
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
	/* A thread that was refused entry at the instant of the fork had a slot for a moment. */
	for (unsigned i = 0; i < GATE_NSLOTS; i++) {
		if (atomic_load_p(&gate.slots[i], MO_RELAXED) != self) {
			atomic_store_p(&gate.slots[i], NULL, MO_RELAXED);
			atomic_store_p(&gate.waits_for[i], NULL, MO_RELAXED);
		}
	}
	if (gate_is_wanted(self)) {
		atomic_store_p(&gate.wants, NULL, MO_RELAXED);
	}
	atomic_store_p(&gate.overdue, NULL, MO_RELAXED);
	if (!has_closed) {
		gate.nesting = 0; /* it counted forks of another thread of the parent */
		atomic_store_p(&gate_forker, self, MO_RELAXED);
	}
	gate_postfork_parent();
}
