/*
 * Entering, leaving, closing and opening the gate, and the list of threads whose marks a fork
 * reads; gate.h explains the idea. A fork that finds threads inside polls their marks, first
 * spinning, then sleeping (os_pause). Invariant: a thread that is inside is marked: by
 * GATE_INSIDE in tls_s.gate if it is on the list, else in gate.n_unlisted; its gate_depth is not 0
 * from before the mark is set until after it is removed (a signal handler that enters between these
 * two steps is inside without a mark). The gate is closed exactly while gate_forker is not NULL.
 * Only the thread that closed it opens it; that of a lost child (gate_is_lost() in gate.h) is never
 * opened. gate.mtx protects the lists; it is taken inside the gate or by the thread that has closed
 * the gate. All other state is atomic, or, as gate.nesting, used only by the thread that has closed
 * the gate.
 *
 * gate.is_passed tells a fork that a thread may have entered the closed gate (a late one sets it
 * even if gate_try_pass() then refuses it). A thread that enters does three things in this order:
 * it marks itself; it sets the flag, or sees that it is set; it works inside.
 * The closing thread clears the flag and then looks at the marks. If it finds nobody, a thread that
 * enters later leaves the flag set, because the flag is not cleared again before the fork.
 */
#include "os/gate.h"

#include "os/sys.h"
#include "os/thread.h"
#include "os/witness.h"

atomic_p_t gate_forker;

const uint64_t *gate_own;

static struct {
	mutex_t mtx;             /* protects the two lists */
	gate_link_t *threads;    /* the list: registered threads, newest first */
	/* threads that ended untold, and in a child those of its ancestors; a chain by `next` */
	gate_link_t *absent;
	atomic_u32_t n_unlisted; /* threads inside that are not on the list */
	atomic_b_t is_passed; /* a thread may have entered the closed gate; true in a lost child */
	/* Further forks of the thread that closed it, in handlers of fork or of signals; else 0. */
	unsigned nesting;
	void (*copy)(void); /* these two: of gate_watch() */
	void (*leave)(void);
} gate = {.mtx = MUTEX_INITIALIZER("gate", WITNESS_RANK_OMIT)};

/*
 * Values of gate_forker besides NULL: the address of the TLS words of the thread that forks, plus 1
 * (FORKER_CLOSING) while it has not yet seen that nobody is inside, and while the child changes the
 * list; FORKER_STOPS from gate_try_stop() to gate_let_go(); FORKER_LOST in a lost child.
 */
#define FORKER_CLOSING(t) ((void *)((uintptr_t)(t) | 1))
#define FORKER_STOPS ((void *)&gate.threads)
#define FORKER_LOST ((void *)&gate)
cassert(_Alignof(struct tls_s) > 1);

/*
 * How long a closed gate is waited for, in rounds of os_pause(). 12500 sleeps of 0.2 to 0.4 ms are
 * 2.5 to 5 s: as long as the kernel takes to copy a process of 250 GB, at about 10 ms for each GB.
 */
#define TIMEOUT_ROUNDS (OS_PAUSE_SLEEPS + 12500)

/* gate_mark_listed() and gate_unmark_listed() for any thread, registered or not. */
static void
gate_mark(struct tls_s *t) {
	assert(t == tls_get() && t->gate_depth != 0);
	if (unlikely((t->gate & GATE_REGISTERED) == 0)) {
		atomic_fetch_add_u32(&gate.n_unlisted, 1, MO_SEQ_CST);
	} else {
		gate_mark_listed(t);
	}
}

static void
gate_unmark(struct tls_s *t) {
	assert(t == tls_get() && t->gate_depth != 0);
	if (likely((t->gate & GATE_REGISTERED) != 0)) {
		gate_unmark_listed(t);
		return;
	}
	assert((t->gate & GATE_INSIDE) == 0);
	atomic_fetch_sub_u32(&gate.n_unlisted, 1, MO_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->gate_depth = 0;
}

bool
gate_is_mine(const struct tls_s *t) {
	const void *forker = atomic_load_p(&gate_forker, MO_SEQ_CST);
	return forker == t || forker == FORKER_CLOSING(t);
}

/*
 * Whether this thread forks, and no other one has been inside since it saw nobody. Only then may
 * it enter without a wait: this may be the child already, before its handler has run, and a lock
 * that another thread had would be taken there for ever.
 */
static bool
gate_is_mine_alone(const struct tls_s *t) {
	return atomic_load_p(&gate_forker, MO_SEQ_CST) == t
	    && !atomic_load_b(&gate.is_passed, MO_SEQ_CST);
}

/* Whether this process is a child that shares with its parent what gate_watch() is about. */
static bool
gate_is_sharing(void) {
	const uint64_t *own = __atomic_load_n(&gate_own, __ATOMIC_ACQUIRE);
	return unlikely(own != NULL) && __atomic_load_n(own, __ATOMIC_RELAXED) == 0;
}

/*
 * Whether this process is a silent child that is not lost yet. The child of this thread's own fork
 * is none, though it shares until its handler has run. A fork that is not alone yet has no child of
 * its own; so this is one of a signal handler that interrupted the fork while it waited.
 */
static bool
gate_is_silent_child(void) {
	return gate_is_sharing() && atomic_load_p(&gate_forker, MO_SEQ_CST) != tls_get();
}

bool
gate_is_lost(void) {
	return unlikely(atomic_load_p(&gate_forker, MO_RELAXED) == FORKER_LOST)
	    || gate_is_silent_child();
}

/* Keeps the gate closed for ever; locks may be of threads that do not exist here. */
static void
gate_lose(void) {
	atomic_store_b(&gate.is_passed, true, MO_RELAXED);
	atomic_store_p(&gate_forker, FORKER_LOST, MO_RELAXED);
	mutex_disown();
}

/*
 * In a child that shares something with its parent: makes it leave that, and loses a silent child.
 * The child of fork() comes here if a handler of another library enters before ours has run; its
 * copy was made by the parent, before the fork. Signals are blocked, because a handler that came
 * here meanwhile would find the tables half moved.
 */
static COLD void
gate_try_leave_parent(void) {
	sigset_t old;
	if (!gate_is_sharing()) {
		return;
	}
	os_thread_block_all_signals(&old);
	if (gate_is_silent_child()) {
		gate_lose();
		gate.copy();
	}
	gate_unwatch();
	gate.leave();
	os_thread_restore_signals(&old);
}

/*
 * In the thread that forks, whose handlers may run after ours, before the fork: what they have
 * changed inside is in the copy for the child too.
 */
static COLD void
gate_renew_copy(const struct tls_s *t) {
	if (__atomic_load_n(&gate_own, __ATOMIC_ACQUIRE) != NULL && gate_is_mine(t)) {
		gate.copy();
	}
}

void
gate_watch(const uint64_t *own, void (*copy)(void), void (*leave)(void)) {
	assert(*own != 0);
	gate.copy = copy;
	gate.leave = leave;
	__atomic_store_n(&gate_own, own, __ATOMIC_RELEASE);
}

void
gate_unwatch(void) {
	__atomic_store_n(&gate_own, NULL, __ATOMIC_RELEASE);
}

bool
gate_enter_first(struct tls_s *t) {
	assert(t->gate_depth == 1);
	if (unlikely(gate_is_watched())) {
		gate_try_leave_parent();
	}
	gate_mark(t);
	if (unlikely(gate_is_closed()) && !gate_is_mine_alone(t)) {
		gate_unmark(t);
		return false;
	}
	return true;
}

void
gate_exit_last(struct tls_s *t) {
	/* Some locks of lower (outer) ranks may be held outside the gate, so these are not checked. */
	assert(witness_depth_from(WITNESS_RANK_PROF_SITES) == 0);
	if (unlikely(gate_is_watched())) {
		gate_renew_copy(t);
	}
	gate_unmark(t);
}

/*
 * Enters though a fork has closed the gate, if this thread has waited long enough (is_late) or
 * another thread has entered the closed gate, or the fork is this thread's. If the fork has not yet
 * seen that nobody is inside, it sees the mark and waits; if it has, its child is lost. Never
 * enters while gate_try_stop() has the gate closed.
 */
static bool
gate_try_pass(struct tls_s *t, bool is_late) {
	t->gate_depth++;
	gate_mark(t);
	if (is_late) {
		atomic_store_b(&gate.is_passed, true, MO_SEQ_CST);
	}
	if ((atomic_load_b(&gate.is_passed, MO_SEQ_CST)
	    && atomic_load_p(&gate_forker, MO_SEQ_CST) != FORKER_STOPS) || gate_is_mine(t)) {
		return true;
	}
	gate_unmark(t);
	return false;
}

void
gate_enter(struct tls_s *t) {
	for (unsigned round = 0; !gate_try_enter(t) && !gate_try_pass(t, round >= TIMEOUT_ROUNDS);
	    round++) {
		os_pause(round);
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

uint32_t
gate_step_out(void) {
	struct tls_s *t = tls_get();
	t->inside++;
	return gate_leave_all(t);
}

void
gate_step_in(uint32_t depth) {
	struct tls_s *t = tls_get();
	gate_reenter(t, depth);
	assert(t->inside > 0);
	t->inside--;
}

void
gate_lock(mutex_t *m) {
	gate_enter(tls_get());
	mutex_lock(m);
}

void
gate_unlock(mutex_t *m) {
	mutex_unlock(m);
	gate_exit(tls_get());
}

/*
 * Makes `link` the first of the list; `next` was the first until now, or is NULL if the list was
 * empty. The caller holds gate.mtx.
 */
static void
gate_link(gate_link_t *link, gate_link_t *next) {
	mutex_assert_owner(&gate.mtx);
	link->next = next;
	link->from = &gate.threads;
	gate.threads = link;
	if (next != NULL) {
		next->from = &link->next;
	}
}

static void
gate_unlink(gate_link_t *link) {
	mutex_assert_owner(&gate.mtx);
	assert(*link->from == link && (link->next == NULL || link->next->from == &link->next));
	*link->from = link->next;
	if (link->next != NULL) {
		link->next->from = link->from;
	}
}

/*
 * Whether the words of the link's thread are gone, unmapped or in use for something else: it has
 * ended. As long as nobody has used them again they are those of a thread that is idle outside.
 * The answer is of now: who ends so while a walk looks at it may unmap what the walk reads.
 */
static bool
gate_has_ended(const gate_link_t *l) {
	const uint32_t *id = &l->tls->lock_id;
	return (l->tls != tls_get() && sys_is_unmapped(id))
	    || __atomic_load_n(id, __ATOMIC_RELAXED) != l->lock_id;
}

/*
 * The first link from l on whose thread has not ended; every walk of the list takes it. The links
 * from l to it are moved to the absent ones: their threads have ended without gate_unregister(),
 * since they were registered after the last call of their keys' destructors, or belong to the C
 * library of another namespace of the loader, which has other keys.
 */
static gate_link_t *
gate_living(gate_link_t *l) {
	mutex_assert_owner(&gate.mtx);
	while (l != NULL && unlikely(gate_has_ended(l))) {
		gate_link_t *next = l->next;
		gate_unlink(l);
		l->tls = NULL;
		l->next = gate.absent;
		__atomic_store_n(&gate.absent, l, __ATOMIC_RELAXED);
		l = next;
	}
	return l;
}

void
gate_register(struct tls_s *t, gate_link_t *link) {
	assert(t->gate_depth > 0 && (t->gate & GATE_REGISTERED) == 0);
	mutex_lock(&gate.mtx);
	link->tls = t;
	link->lock_id = mutex_self();
	gate_link(link, gate_living(gate.threads)); /* which lets none pile up */
	/* Marked before it is removed from n_unlisted, so that it is never seen outside in between. */
	__atomic_store_n(&t->gate, t->gate | GATE_REGISTERED | GATE_INSIDE, __ATOMIC_SEQ_CST);
	mutex_unlock(&gate.mtx);
	atomic_fetch_sub_u32(&gate.n_unlisted, 1, MO_RELEASE);
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
	for (gate_link_t *l = gate_living(gate.threads); l != NULL; l = gate_living(l->next)) {
		fn(l->tls, ctx);
	}
	mutex_unlock(&gate.mtx);
}

bool
gate_has_others(const struct tls_s *t) {
	assert(t == tls_get() && t->gate_depth > 0);
	mutex_lock(&gate.mtx);
	gate_link_t *l = gate_living(gate.threads);
	bool has = l != NULL && (l->tls != t || gate_living(l->next) != NULL);
	mutex_unlock(&gate.mtx);
	return has;
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
 * Does the work of gate_try_see_nobody(). The caller has blocked signals, because a handler that
 * forked here, or needed the list, would find the list's lock held by its own thread.
 */
static bool
gate_try_look(void) {
	if (gate_is_lost() || !mutex_trylock(&gate.mtx)) {
		return false;
	}
	atomic_store_b(&gate.is_passed, false, MO_SEQ_CST);
	bool is_any_inside = atomic_load_u32(&gate.n_unlisted, MO_SEQ_CST) != 0;
	for (gate_link_t *l = gate_living(gate.threads); l != NULL; l = gate_living(l->next)) {
		is_any_inside |= (__atomic_load_n(&l->tls->gate, __ATOMIC_SEQ_CST) & GATE_INSIDE) != 0;
	}
	mutex_unlock(&gate.mtx);
	return !is_any_inside;
}

/*
 * Whether nobody is inside. The caller has closed the gate and is outside. Returns false also while
 * another thread changes the list, and in a lost child.
 */
static bool
gate_try_see_nobody(void) {
	sigset_t old;
	os_thread_block_all_signals(&old);
	bool is_alone = gate_try_look();
	os_thread_restore_signals(&old);
	return is_alone;
}

/*
 * Waits until the gate is open, at most max_rounds of os_pause(), closes it with this value of
 * gate_forker, and waits without a limit until nobody is inside. False if the gate stayed closed
 * too long, or if this process is a lost child, which it may have become here, by a handler that
 * forked.
 */
static bool
gate_try_close(void *forker, unsigned max_rounds) {
	void *seen = NULL;
	for (unsigned round = 0; !atomic_cas_strong_p(&gate_forker, &seen, forker, MO_SEQ_CST,
	    MO_SEQ_CST); round++, seen = NULL) {
		if (gate_is_lost() || round >= max_rounds) {
			return false;
		}
		os_pause(round);
	}
	for (unsigned round = 0; !gate_is_lost() && !gate_try_see_nobody(); round++) {
		os_pause(round);
	}
	return !gate_is_lost();
}

void
gate_prefork(void) {
	struct tls_s *self = tls_get();
	void *closing = FORKER_CLOSING(self);
	if (unlikely(gate_is_watched())) {
		gate_try_leave_parent();
	}
	if (gate_is_mine(self)) {
		gate.nesting++;
	} else if (gate_is_entered(self)) {
		return;
	} else if (gate_try_close(closing, UINT_MAX)) {
		/* Fails if a handler has forked here and this is its child. */
		atomic_cas_strong_p(&gate_forker, &closing, self, MO_SEQ_CST, MO_SEQ_CST);
	} else {
		gate_try_leave_parent(); /* a handler may have made a silent child here, and this is it */
	}
}

bool
gate_opens_next(void) {
	return gate_is_mine(tls_get()) && gate.nesting == 0;
}

void
gate_postfork_parent(void) {
	struct tls_s *self = tls_get();
	void *seen = self;
	if (gate_opens_next()) {
		/* Fails if a handler has forked here and this is its child, which is lost. */
		atomic_cas_strong_p(&gate_forker, &seen, NULL, MO_SEQ_CST, MO_SEQ_CST);
	} else if (gate_is_mine(self)) {
		gate.nesting--;
	} /* else this fork went ahead without closing the gate */
}

/* Signals are blocked (gate.h): a handler that forked would wait for its own thread for ever. */
bool
gate_try_stop(void) {
	assert(!gate_is_entered(tls_get()));
	return gate_try_close(FORKER_STOPS, TIMEOUT_ROUNDS);
}

void
gate_let_go(void) {
	assert(atomic_load_p(&gate_forker, MO_RELAXED) == FORKER_STOPS);
	atomic_store_p(&gate_forker, NULL, MO_SEQ_CST);
}

/*
 * Moves the links of all threads but this one, which do not exist in the child, from the list to
 * the absent ones. Writes to few of these links, because the kernel copies each page that is
 * written to.
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
	}
	while (*end != NULL) {
		if ((*end)->tls == NULL) {
			(*end)->tls = (struct tls_s *)(uintptr_t)self; /* ended in the parent, not here */
		}
		end = &(*end)->next;
	}
	*end = gate.threads;
	gate.threads = NULL;
	if (mine != NULL) {
		gate_link(mine, NULL);
	}
	mutex_unlock(&gate.mtx);
}

/*
 * In the child: whether all locks are free and nobody was changing what they protect. A thread that
 * entered the closed gate, even if it has left, may have changed shared memory that
 * region_prefork() (meta/region.h) had copied for the child before. It set is_passed before it
 * wrote anything inside, so a child that has any of these writes has is_passed too.
 */
static bool
gate_child_is_whole(const struct tls_s *self) {
	return gate_is_mine_alone(self) && !gate_is_entered(self);
}

void
gate_postfork_child(void) {
	struct tls_s *self = tls_get();
	if (gate_child_is_whole(self)) {
		/* So a handler that forks while the list changes makes a child that is lost. */
		atomic_store_p(&gate_forker, FORKER_CLOSING(self), MO_RELAXED);
		/* A thread that was refused at the instant of the fork counted itself for a moment. */
		atomic_store_u32(&gate.n_unlisted, 0, MO_RELAXED);
		gate_part_from_others(self);
		atomic_store_p(&gate_forker, self, MO_RELAXED);
		gate_postfork_parent(); /* opens, or counts nesting down, as in the parent */
		return;
	}
	gate_lose();
	/* A signal handler may have forked in the midst of a change of the cache: it is not used. */
	__atomic_store_n(&self->cache, (void *)(uintptr_t)tls_boot_cache, __ATOMIC_SEQ_CST);
}
