/*
 * Entering, leaving, closing and opening the gate, and the list of threads whose marks a fork
 * reads; gate.h explains the idea. A fork that finds threads inside polls their marks, first
 * spinning, then sleeping (os_pause). Invariant: a thread that is inside is marked: by
 * GATE_INSIDE in tls_s.gate if it is on the list, else in gate.n_unlisted; its gate_depth is not 0
 * from before the mark until after it. The gate is closed exactly while gate_forker is not NULL,
 * and only the thread that it names opens it. A thread that has entered the closed gate has set
 * gate.is_passed after its mark and before all that it does inside. gate.mtx protects the list; it
 * is taken inside the gate or by the thread that has closed the gate. All other state is atomic or
 * belongs to that thread.
 */
#include "os/gate.h"

#include "os/thread.h"
#include "os/witness.h"

atomic_p_t gate_forker;

/*
 * tls_s.gate: two bits, and above them the number of calls that the thread has left for a while
 * (gate_leave_all). One word, so that one load sees all of it. Only the thread writes it.
 */
enum { GATE_INSIDE = 1, GATE_REGISTERED = 2, GATE_LEFT_ONE = 4 };

static struct {
	mutex_t mtx;             /* protects the list */
	gate_link_t *threads;    /* the list: registered threads, newest first */
	gate_link_t *absent;     /* in a child: threads of its ancestors, a chain by `next` */
	atomic_u32_t n_unlisted; /* threads inside that are not on the list */
	atomic_u32_t n_closed;   /* how often the gate was closed */
	atomic_b_t is_passed;    /* a thread may have entered since the closing one saw nobody inside */
	unsigned nesting; /* nested forks: in a fork's handlers or in a signal handler during one */
	bool is_single;   /* the thread that has closed the gate is the only one of the process */
} gate = {.mtx = MUTEX_INITIALIZER("gate", WITNESS_RANK_OMIT)};

/*
 * Values of gate_forker: NULL, or the address of the TLS words of the thread that has closed the
 * gate, with these bits; or that of a lost child.
 */
enum { FORKER_ALONE = 1, FORKER_STOPS = 2 };
#define FORKER(t, bits) ((void *)((uintptr_t)(t) | (bits)))
#define FORKER_BITS(forker) ((uintptr_t)(forker) & (FORKER_ALONE | FORKER_STOPS))
#define FORKER_LOST ((void *)&gate)
cassert(_Alignof(struct tls_s) > (FORKER_ALONE | FORKER_STOPS));

/*
 * How long one and the same fork is waited for, in rounds of os_pause() of 0.2 to 0.4 ms: 5 s.
 * Longer than the kernel copies a process of 250 GB (about 10 ms for each GB).
 */
#define PATIENCE_ROUNDS (OS_PAUSE_SLEEPS + 12500)

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

/*
 * Marks the thread as inside. The mark must be ordered before the load of gate_forker, unless the
 * process has a single thread.
 */
static void
gate_mark(struct tls_s *t) {
	assert(t == tls_get() && t->gate_depth != 0);
	if (unlikely((t->gate & GATE_REGISTERED) == 0)) {
		atomic_fetch_add_u32(&gate.n_unlisted, 1, MO_SEQ_CST);
	} else if (mutex_is_single_threaded()) {
		__atomic_store_n(&t->gate, t->gate | GATE_INSIDE, __ATOMIC_RELAXED);
	} else {
		__atomic_exchange_n(&t->gate, t->gate | GATE_INSIDE, __ATOMIC_SEQ_CST);
	}
}

/* Removes the mark, and then the last level: a handler in between finds the thread inside. */
static void
gate_unmark(struct tls_s *t) {
	assert(t == tls_get() && t->gate_depth != 0);
	if (unlikely((t->gate & GATE_REGISTERED) == 0)) {
		assert((t->gate & GATE_INSIDE) == 0);
		atomic_fetch_sub_u32(&gate.n_unlisted, 1, MO_RELEASE);
	} else {
		__atomic_store_n(&t->gate, t->gate & ~(uint32_t)GATE_INSIDE, __ATOMIC_RELEASE);
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->gate_depth = 0;
}

/* Whether this thread has closed the gate. */
static bool
gate_is_mine(const struct tls_s *t) {
	uintptr_t forker = (uintptr_t)atomic_load_p(&gate_forker, MO_SEQ_CST);
	return forker - FORKER_BITS(forker) == (uintptr_t)t;
}

/*
 * Whether a thread that is marked may go on inside: the gate is open, or a fork is alone and may
 * wait for what this thread holds, or this is a lost child.
 */
static bool
gate_is_passable(void) {
	const void *forker = atomic_load_p(&gate_forker, MO_SEQ_CST);
	return forker == NULL || forker == FORKER_LOST || FORKER_BITS(forker) == FORKER_ALONE;
}

/* One wait for the thread that has closed the gate; anew when another fork has followed. */
typedef struct {
	uint32_t n_closed;
	unsigned round;
} gate_wait_t;

/* Pauses. Returns false if the wait has lasted too long, or need not be: the child is lost. */
static bool
gate_try_wait(gate_wait_t *wait) {
	uint32_t n_closed = atomic_load_u32(&gate.n_closed, MO_RELAXED);
	if (n_closed != wait->n_closed) {
		*wait = (gate_wait_t){n_closed, 0};
	}
	if (gate_is_lost() || atomic_load_b(&gate.is_passed, MO_RELAXED)
	    || wait->round >= PATIENCE_ROUNDS) {
		return false;
	}
	os_pause(wait->round++);
	return true;
}

bool
gate_is_lost(void) {
	return unlikely(atomic_load_p(&gate_forker, MO_RELAXED) == FORKER_LOST);
}

bool
gate_enter_first(struct tls_s *t) {
	assert(t->gate_depth == 1);
	gate_mark(t);
	if (unlikely(gate_is_closed()) && !gate_is_mine(t)) {
		gate_unmark(t);
		return false;
	}
	return true;
}

void
gate_exit_last(struct tls_s *t) {
	gate_assert_no_short_lock();
	gate_unmark(t);
}

/*
 * Enters though a fork has closed the gate and is alone. The mark comes first: if another fork
 * closes the gate meanwhile, it sees the mark and waits, or it cleared is_passed before.
 */
static bool
gate_try_pass(struct tls_s *t) {
	t->gate_depth++;
	gate_mark(t);
	if (!gate_is_passable()) {
		gate_unmark(t);
		return false;
	}
	atomic_store_b(&gate.is_passed, true, MO_SEQ_CST);
	return true;
}

void
gate_enter(struct tls_s *t) {
	gate_wait_t wait = {0, 0};
	while (!gate_try_enter(t)) {
		if (!gate_try_wait(&wait)) {
			if (gate_try_pass(t)) {
				return;
			}
			os_pause(OS_PAUSE_SLEEPS);
		}
	}
}

uint32_t
gate_leave_all(struct tls_s *t) {
	uint32_t depth = t->gate_depth;
	if (depth != 0) {
		__atomic_store_n(&t->gate, t->gate + GATE_LEFT_ONE, __ATOMIC_RELAXED);
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
		assert(t->gate >= GATE_LEFT_ONE);
		__atomic_store_n(&t->gate, t->gate - GATE_LEFT_ONE, __ATOMIC_RELEASE);
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
	/* Before the thread is counted no more, so that it is never seen outside in between. */
	__atomic_store_n(&t->gate, t->gate | GATE_REGISTERED | GATE_INSIDE, __ATOMIC_SEQ_CST);
	if (config_debug) {
		gate_link_check(link);
	}
	mutex_unlock(&gate.mtx);
	atomic_fetch_sub_u32(&gate.n_unlisted, 1, MO_RELEASE);
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
	atomic_fetch_add_u32(&gate.n_unlisted, 1, MO_SEQ_CST);
	mutex_lock(&gate.mtx);
	gate_unlink(link);
	__atomic_store_n(&t->gate, t->gate & ~(uint32_t)(GATE_REGISTERED | GATE_INSIDE),
	    __ATOMIC_SEQ_CST);
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

bool
gate_is_inside(const struct tls_s *t) {
	return (__atomic_load_n(&t->gate, __ATOMIC_SEQ_CST) & GATE_INSIDE) != 0;
}

bool
gate_is_amid(const struct tls_s *t) {
	return (__atomic_load_n(&t->gate, __ATOMIC_SEQ_CST) & ~(uint32_t)GATE_REGISTERED) != 0;
}

bool
gate_has_absent(void) {
	return unlikely(__atomic_load_n(&gate.absent, __ATOMIC_RELAXED) != NULL);
}

gate_link_t *
gate_take_absent(void) {
	assert(tls_get()->gate_depth > 0);
	mutex_lock(&gate.mtx);
	gate_link_t *link = gate.absent;
	if (link != NULL) {
		__atomic_store_n(&gate.absent, link->next, __ATOMIC_RELAXED);
	}
	mutex_unlock(&gate.mtx);
	return link;
}

/*
 * Looks whether another thread is inside, and if not, enters that in gate_forker. The caller has
 * closed the gate. Returns false also if this thread cannot tell: while another thread changes the
 * list, or if this is a handler that interrupted its own thread with the list's lock, or inside
 * while it was counted. is_passed is cleared before the marks are read: whoever is not seen there
 * sets it later; not if a handler's fork in this thread is alone already. Not inlined: with the
 * undefined behaviour sanitizer gcc 12 otherwise takes the address of the TLS words for null.
 */
static NOINLINE bool
gate_try_see_alone(const struct tls_s *self) {
	gate.is_single = mutex_is_single_threaded();
	if (gate.is_single) {
		atomic_store_b(&gate.is_passed, false, MO_RELAXED);
	} else {
		if (!mutex_trylock(&gate.mtx)) {
			return false;
		}
		if ((FORKER_BITS(atomic_load_p(&gate_forker, MO_RELAXED)) & FORKER_ALONE) == 0) {
			atomic_store_b(&gate.is_passed, false, MO_SEQ_CST);
		}
		bool is_other_inside = atomic_load_u32(&gate.n_unlisted, MO_SEQ_CST) != 0;
		for (const gate_link_t *l = gate.threads; l != NULL; l = l->next) {
			is_other_inside |= l->tls != self && gate_is_inside(l->tls);
		}
		mutex_unlock(&gate.mtx);
		if (is_other_inside) {
			return false;
		}
	}
	const void *forker = atomic_load_p(&gate_forker, MO_RELAXED);
	atomic_store_p(&gate_forker, FORKER(forker, FORKER_ALONE), MO_SEQ_CST);
	return true;
}

/* Closes the gate for this thread if it is open. bits: 0 or FORKER_STOPS. */
static bool
gate_try_close(const struct tls_s *self, uintptr_t bits) {
	void *open = NULL;
	bool is_closed = atomic_cas_strong_p(&gate_forker, &open, FORKER(self, bits), MO_SEQ_CST,
	    MO_SEQ_CST);
	if (is_closed) {
		atomic_fetch_add_u32(&gate.n_closed, 1, MO_RELAXED);
	}
	return is_closed;
}

/*
 * Only one fork at a time proceeds. One word says that the gate is closed, by which thread, and
 * whether that thread is alone, so a handler that interrupts this code never finds the three in
 * disagreement. A fork nested inside a fork of the same thread waits too: its handler may have
 * interrupted the outer wait.
 */
static void
gate_close(struct tls_s *self, uintptr_t bits) {
	bool may_wait = !gate_is_entered(self) && !mutex_is_owner(&gate.mtx);
	if (gate_is_mine(self)) {
		gate.nesting++;
	} else {
		for (unsigned round = 0; !gate_try_close(self, bits); round++) {
			if (!may_wait || gate_is_lost()
			    || (bits == FORKER_STOPS && round >= PATIENCE_ROUNDS)) {
				return;
			}
			os_pause(round);
		}
	}
	/* If a handler forks meanwhile, the gate of its child is lost, and the loop ends there. */
	for (unsigned round = 0; atomic_load_p(&gate_forker, MO_RELAXED) == FORKER(self, bits)
	    && !gate_try_see_alone(self) && may_wait; round++) {
		os_pause(round);
	}
}

void
gate_prefork(void) {
	gate_close(tls_get(), 0);
}

bool
gate_opens_next(void) {
	return gate_is_mine(tls_get()) && gate.nesting == 0;
}

void
gate_postfork_parent(void) {
	if (gate_opens_next()) {
		atomic_store_p(&gate_forker, NULL, MO_SEQ_CST);
	} else if (gate_is_mine(tls_get())) {
		gate.nesting--;
	} /* else this fork went ahead without closing the gate */
}

bool
gate_try_stop(void) {
	struct tls_s *self = tls_get();
	assert(!gate_is_entered(self));
	gate_close(self, FORKER_STOPS);
	bool is_alone = atomic_load_p(&gate_forker, MO_RELAXED)
	    == FORKER(self, FORKER_STOPS | FORKER_ALONE);
	if (!is_alone) {
		gate_let_go();
	}
	return is_alone;
}

void
gate_let_go(void) {
	gate_postfork_parent();
}

/*
 * Moves all threads but this one, which do not exist in the child, from the list to the absent
 * ones. Hardly writes to their links, because each page that is written to is copied.
 */
static void
gate_part_from_others(const struct tls_s *self) {
	gate_link_t *mine = gate.threads, **end = &gate.absent;
	assert(atomic_load_u32(&gate.mtx.word, MO_RELAXED) == 0);
	while (mine != NULL && mine->tls != self) {
		mine = mine->next;
	}
	assert((mine != NULL) == ((self->gate & GATE_REGISTERED) != 0));
	mutex_lock(&gate.mtx);
	if (mine != NULL) {
		gate_unlink(mine);
		mine->next = NULL;
		mine->prev = NULL;
	}
	while (*end != NULL) {
		end = &(*end)->next;
	}
	*end = gate.threads;
	gate.threads = mine;
	mutex_unlock(&gate.mtx);
}

/*
 * Whether the child has all locks free and data that nobody was changing. A thread that entered the
 * closed gate may have changed what was copied before (region_prefork), even if it has left. The
 * copy of the process has all that a thread wrote before a write that it has, so it has is_passed
 * if it has anything that was done inside. If a handler interrupted
 * this thread inside, it may be the one that changes the list or is counted; if it is the only
 * thread of the process, that goes on in the child.
 */
static bool
gate_child_is_whole(const struct tls_s *self) {
	return atomic_load_p(&gate_forker, MO_RELAXED) == FORKER(self, FORKER_ALONE)
	    && !atomic_load_b(&gate.is_passed, MO_RELAXED)
	    && (!gate_is_entered(self) || gate.is_single
	    || (atomic_load_u32(&gate.mtx.word, MO_RELAXED) == 0
	    && atomic_load_u32(&gate.n_unlisted, MO_RELAXED) == 0));
}

void
gate_postfork_child(void) {
	struct tls_s *self = tls_get();
	if (!gate_child_is_whole(self)) {
		atomic_store_p(&gate_forker, FORKER_LOST, MO_RELAXED);
		mutex_disown();
		/* The handler may have interrupted a change of the cache, so it is not used. */
		__atomic_store_n(&self->cache, (void *)(uintptr_t)tls_boot_cache, __ATOMIC_SEQ_CST);
		return;
	}
	if (!gate_is_entered(self)) {
		/* A thread that was refused at the instant of the fork was counted for a moment. */
		atomic_store_u32(&gate.n_unlisted, 0, MO_RELAXED);
	}
	if (!gate_is_entered(self) || !gate.is_single) {
		gate_part_from_others(self);
	}
	gate_postfork_parent();
}
