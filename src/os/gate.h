/*
 * The gate: guarantees that fork() never copies a short-held lock that another thread holds. Where
 * that cannot be guaranteed, the child is "lost" (gate_is_lost()); there, later calls of malloc,
 * free and mallctl take no lock. Every lock that is held for a short time is taken between
 * gate_enter() (or gate_try_enter()) and gate_exit(). fork's prepare handler closes the gate and
 * waits until nobody is inside; so nobody holds such a lock, and the child needs no repair. The few
 * locks that may be held for long are held, or stay held, outside, and the child's handlers
 * (jemalloc_fork.c) make them new. Rules for code inside: it must not wait for long, and not for a
 * lock that is held outside, whose owner may be waiting for the gate. Callers, in all threads, are
 * the entry points of the allocator (imalloc.c, irealloc.c, defrag.c, tsd.c, ctl/, stats.c,
 * background_thread.c, the profiler), user_event.c and module_history.c, the fork handlers in
 * jemalloc_fork.c, and recall.c, claim.c and thread_event.c, which walk the list of threads;
 * meta/region.c calls gate_watch(). Others only ask for the state (jemalloc_init.c, icheck.c,
 * cxx.c, alloc_hook.h, shelter.c, sys_modules.c).
 */
#pragma once

#include "os/mutex.h"
#include "os/tls.h"
#include "util/atomic.h"

/*
 * A thread that finds the gate closed must not wait for a lock: it may hold a lock of its own, such
 * as stdio's, that fork waits for next. gate_try_enter() returns false, and the thread is served
 * without a lock: thread/shelter.h gives it memory, thread/deferred.h keeps the addresses that it
 * frees until later. So nothing inside waits for a thread that forks, all threads inside leave, and
 * an ordinary fork waits for them without a limit.
 *
 * How it works: a thread marks itself in its own TLS word and then loads gate_forker; the forking
 * thread stores gate_forker and then loads the marks. All four accesses are sequentially
 * consistent, so at least one thread sees the other. A thread that is not registered (in its first
 * or last call) is counted instead of marked. test/models/gate.pml is a model of this.
 *
 * Signal handlers: a handler may fork at any instruction of this code. If it interrupted its thread
 * inside, the others may wait for a lock of that thread, so this fork must not wait for them: it
 * leaves the gate as it is, and the child is lost (gate_is_lost()). So is the child of a handler
 * that interrupted a fork which was not alone yet. A thread is marked only while its gate_depth is
 * not 0, so a handler that finds depth 0 never waits for the mark of its own thread.
 *
 * gate_enter() waits, and its caller may hold a lock of the program that fork waits for: a malloc
 * that stdio calls under the lock of its list of streams may leave the gate for work of the
 * profiler and enter it again. So gate_enter() waits 2.5 to 5 s (TIMEOUT_ROUNDS in gate.c) and
 * then enters though the gate is closed. If the fork had found nobody inside before that, its child
 * is lost, and gate_enter() enters at once in each thread until the gate opens; otherwise the fork
 * waits for this thread too. gate_try_enter() returns false all the time.
 */

/* NULL while the gate is open. Otherwise it says who has closed it; gate.c lists the values. */
extern HIDDEN atomic_p_t gate_forker;

/* The word of gate_watch(); NULL: silent children are not looked for. */
extern HIDDEN const uint64_t *gate_own;
/* Whether gate_watch() is on. */
ALWAYS_INLINE bool
gate_is_watched(void) {
	return __atomic_load_n(&gate_own, __ATOMIC_RELAXED) != NULL;
}

/*
 * tls_s.gate: two bits, and above them how many gate_leave_all() of the thread have no
 * gate_reenter() yet (one each, whatever the depth that was left). One word, so that one load sees
 * all of it. Only the thread writes it.
 */
enum { GATE_INSIDE = 1, GATE_REGISTERED = 2, GATE_LEFT_ONE = 4 };

/* Whether the gate is closed, by any thread. */
ALWAYS_INLINE bool
gate_is_closed(void) {
	return atomic_load_p(&gate_forker, MO_SEQ_CST) != NULL;
}

/* Slow parts of the functions below: the outermost entry and the outermost exit. */
bool gate_enter_first(struct tls_s *t);
void gate_exit_last(struct tls_s *t);

/* Whether this thread is inside. */
ALWAYS_INLINE bool
gate_is_entered(const struct tls_s *t) {
	return t->gate_depth != 0;
}

/*
 * Enters the gate. Returns true if the thread is inside, to be undone by gate_exit(). Returns false
 * if another thread forks, while any thread has the gate closed by gate_try_stop(), and in a lost
 * child; then there is nothing to undo. The thread that forks may enter once it has seen nobody
 * inside, and until another one enters the closed gate; so nobody's lock hangs it in the child,
 * where a handler of fork() or of a signal may come before ours. Calls nest, and an inner call
 * always succeeds.
 */
ALWAYS_INLINE bool
gate_try_enter(struct tls_s *t) {
	if (t->gate_depth++ != 0) {
		return true;
	}
	return gate_enter_first(t);
}

/*
 * Leaves one level. At the outermost level the thread must hold none of the locks that are held for
 * a short time.
 */
ALWAYS_INLINE void
gate_exit(struct tls_s *t) {
	assert(t->gate_depth > 0);
	if (t->gate_depth == 1) {
		gate_exit_last(t);
	} else {
		t->gate_depth--;
	}
}

/*
 * Marks a registered thread as inside. The mark must be ordered before the load of gate_forker,
 * unless the process has a single thread.
 */
ALWAYS_INLINE void
gate_mark_listed(struct tls_s *t) {
	if (mutex_is_single_threaded()) {
		__atomic_store_n(&t->gate, t->gate | GATE_INSIDE, __ATOMIC_RELAXED);
	} else {
		__atomic_exchange_n(&t->gate, t->gate | GATE_INSIDE, __ATOMIC_SEQ_CST);
	}
}

/*
 * Removes the mark, then makes the depth 0. So a handler that forks in between finds the thread
 * inside, and its child is lost; in the other order it would wait for this mark for ever.
 */
ALWAYS_INLINE void
gate_unmark_listed(struct tls_s *t) {
	__atomic_store_n(&t->gate, t->gate & ~(uint32_t)GATE_INSIDE, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->gate_depth = 0;
}

/* Whether the thread needs more than its mark to enter or leave. */
ALWAYS_INLINE bool
gate_is_special(const struct tls_s *t) {
	return unlikely(gate_is_watched()) || unlikely((t->gate & GATE_REGISTERED) == 0);
}

/*
 * Inline forms of gate_try_enter() and gate_exit(), for paths that many calls take.
 * gate_try_enter_inline() is for a thread that is outside, gate_try_enter_any() for any.
 */
ALWAYS_INLINE bool
gate_try_enter_inline(struct tls_s *t) {
	assert(t == tls_get() && t->gate_depth == 0);
	t->gate_depth = 1;
	if (gate_is_special(t)) {
		return gate_enter_first(t);
	}
	gate_mark_listed(t);
	return likely(!gate_is_closed()) || gate_enter_first(t); /* which marks it again */
}

ALWAYS_INLINE bool
gate_try_enter_any(struct tls_s *t) {
	return unlikely(gate_is_entered(t)) ? gate_try_enter(t) : gate_try_enter_inline(t);
}

ALWAYS_INLINE void
gate_exit_inline(struct tls_s *t) {
	if (unlikely(t->gate_depth != 1) || gate_is_special(t)) {
		gate_exit(t);
		return;
	}
	assert(witness_depth_from(WITNESS_RANK_PROF_SITES) == 0);
	gate_unmark_listed(t);
}

/*
 * Enters the gate. Waits while other threads fork, 2.5 to 5 s at most, and then enters the closed
 * gate; while gate_try_stop() has it closed, waits without a limit, so the thread that closed it
 * must not call this. In a lost child, and in a fork of this thread, it enters at once. Calls nest
 * as those of gate_try_enter().
 */
void gate_enter(struct tls_s *t);

/*
 * Leave all levels, and enter the same number again: around work that takes long. gate_leave_all()
 * returns the depth for gate_reenter(), which waits as gate_enter() does. At 0 both do nothing.
 */
uint32_t gate_leave_all(struct tls_s *t);
void gate_reenter(struct tls_s *t, uint32_t depth);
/*
 * The same with tls_s.inside raised meanwhile: around a function of the user's, or long work of the
 * library's own, in which nothing that the thread allocates is sampled.
 */
uint32_t gate_step_out(void);
void gate_step_in(uint32_t depth);

/* Enters the gate and takes the lock; lets go of both. */
void gate_lock(mutex_t *m);
void gate_unlock(mutex_t *m);

/*
 * Puts a thread's words on the list that forking threads read. gate_unregister() takes them off;
 * the link must stay valid until then, or until gate_take_absent() returns it, the words as long as
 * the thread is there. Both are called inside the gate, and the thread stays inside.
 */
struct gate_link_s;
void gate_register(struct tls_s *t, struct gate_link_s *link);
void gate_unregister(struct tls_s *t, struct gate_link_s *link);

/* A thread on the list; lies in its tsd. */
typedef struct gate_link_s {
	struct gate_link_s *next;
	struct gate_link_s **from; /* the pointer that points to this link: the list's head or a next */
	struct tls_s *tls;
	uint32_t lock_id; /* the thread's: tls->lock_id is another one if the thread has ended */
} gate_link_t;

/*
 * Calls fn for each registered thread, the caller's too, while holding the list's lock. The caller
 * is inside the gate.
 */
void gate_for_each(void (*fn)(struct tls_s *t, void *ctx), void *ctx);
/* Whether a thread other than the calling one, t, is registered. The caller is inside the gate. */
bool gate_has_others(const struct tls_s *t);

/*
 * Whether a registered thread is inside, or left by gate_leave_all() and comes again; it may enter
 * or leave at any time. If the caller has made a sequentially consistent store before, false means
 * that the thread sees that store when it enters next.
 */
bool gate_is_amid(const struct tls_s *t);

/*
 * Whether this thread has closed the gate for a fork, not by gate_try_stop(). From the handler
 * before a fork to the one behind it, in the parent and in the child; t: the calling thread.
 */
bool gate_is_mine(const struct tls_s *t);

/*
 * Whether this process is the child of a fork by a thread inside (in a signal handler or an extent
 * hook), of one in a handler that interrupted another fork which was not alone yet, or of one whose
 * gate a thread entered after the fork had seen nobody; or a silent child (gate_watch()); or a
 * descendant. Locks may be of threads that do not exist here, and what they protect may be half
 * changed. Its gate stays closed for all threads: the shelter serves them, frees are deferred,
 * mallctl() fails with EAGAIN, and no profile is written. A call that the handler interrupted
 * continues, and takes such locks (mutex_disown()).
 */
bool gate_is_lost(void);

/*
 * A silent child is one of _Fork() or of clone() without CLONE_VM: no handler of fork() runs in it.
 * From gate_watch() to gate_unwatch() it is found, and lost, when it asks gate_is_lost() or when it
 * enters the gate or forks first; in the latter two cases copy() and leave() are called in it,
 * before anything that the gate protects is used. So is leave() alone in the child of fork() if the
 * handler of another library enters there before our own handler runs; and copy() in its parent
 * when the thread that forks leaves the closed gate. own: a word, not 0, in a page that reads as
 * zero in a child (PAGES_WIPE_IN_CHILD). copy() makes or renews a private copy of the shared
 * memory, leave() puts it in place of that. gate_watch() and gate_unwatch() are called by one
 * thread at a time, or by the child; the gate may be open. Memory is shared only while children are
 * looked for. Not found is a child of a signal handler that interrupted its thread inside, or in a
 * fork that was alone already: until it has left the gate, or opened it, it uses the shared memory.
 */
void gate_watch(const uint64_t *own, void (*copy)(void), void (*leave)(void));
void gate_unwatch(void);

/*
 * Whether there are links of absent threads: those of the ancestors of a forked child, which do not
 * exist here, and those that ended without gate_unregister(), which walks of the list find.
 * gate_take_absent() takes one of them, or returns NULL if there is none; it is called inside the
 * gate. Of the link's members only `tls` is valid: NULL for the latter.
 */
bool gate_has_absent(void);
gate_link_t *gate_take_absent(void);

/*
 * Closes the gate as a fork does and waits, without a limit, until nobody is inside, so that the
 * caller can change what threads inside use. The caller is outside, has blocked its signals, and
 * opens the gate by gate_let_go() (prof_box.c). False, with nothing done: in a lost child, or if
 * forks keep the gate closed for 2.5 to 5 s.
 */
bool gate_try_stop(void);
void gate_let_go(void);

/*
 * The handlers of fork(): before it, and after it in the parent and in the child, each in the
 * thread that forks. The last two open the gate, unless the child is lost, or the fork was made
 * inside the gate or during another fork of this thread. The child's makes the other threads absent
 * if the child is not lost.
 */
void gate_prefork(void);
void gate_postfork_parent(void);
void gate_postfork_child(void);
/* In the parent, before gate_postfork_parent(): whether that call will open the gate. */
bool gate_opens_next(void);
