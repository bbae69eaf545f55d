/*
 * The gate: why a fork never copies a lock that somebody else holds.
 *
 * Every lock of the allocator is taken between gate_enter() and gate_exit(), and nothing in between
 * waits for long.  fork's prepare handler closes the gate and waits until no other thread is inside;
 * then no lock is held by anyone but the forking thread itself, so the child needs no repair.
 * Threads that come to the closed gate do not wait for a lock (their own locks, such as stdio's, may
 * be what fork is waiting for next): gate_enter() tells them, and they serve themselves elsewhere
 * (thread/shelter.h) or wait with gate_wait().
 *
 * A thread marks itself in its own TLS word, which the forking thread reads: the store of the mark
 * and the load of `gate_forker` are ordered against the store of `gate_forker` and the load of the
 * marks (all sequentially consistent), so one of the two always sees the other.  A thread that is
 * not registered leaves its address in a slot instead.  test/models/gate.pml is this in a model.
 *
 * A signal handler may fork at any instruction of all this.  What belongs to the interrupted thread is
 * therefore told apart by whose it is, never by counting: a count and what it counts change one after
 * the other, and in between a handler would take itself for somebody else and wait for ever.
 */
#ifndef OS_GATE_H
#define OS_GATE_H

#include "os/mutex.h"
#include "os/tls.h"
#include "util/atomic.h"

/* The words of the thread that forks; NULL: the gate is open. */
extern HIDDEN atomic_p_t gate_forker;

ALWAYS_INLINE bool
gate_is_closed(void) {
	return atomic_load_p(&gate_forker, MO_SEQ_CST) != NULL;
}

/* Slow parts of the functions below. */
bool gate_enter_first(struct tls_s *t);
void gate_exit_last(struct tls_s *t);

/*
 * true: inside; to be undone by gate_exit(). false: a fork is under way in another thread; nothing
 * to undo.  Nests; an inner call always succeeds.
 */
ALWAYS_INLINE bool
gate_is_entered(const struct tls_s *t) {
	return t->gate_depth != 0;
}

ALWAYS_INLINE bool
gate_try_enter(struct tls_s *t) {
	if (t->gate_depth++ != 0) {
		return true;
	}
	return gate_enter_first(t);
}

ALWAYS_INLINE void
gate_exit(struct tls_s *t) {
	assert(t->gate_depth > 0);
	if (--t->gate_depth == 0) {
		gate_exit_last(t);
	}
}

/* Enters, sleeping while a fork is under way: for callers that hold nothing a fork could want. */
void gate_enter(struct tls_s *t);

/* Leaves all levels and comes back, around something that may take long. */
uint32_t gate_leave_all(struct tls_s *t);
void gate_reenter(struct tls_s *t, uint32_t depth);

/* A thread's words become visible to forking threads; they must stay valid until unregistered. */
struct gate_link_s;
void gate_register(struct tls_s *t, struct gate_link_s *link);
void gate_unregister(struct tls_s *t, struct gate_link_s *link);

typedef struct gate_link_s {
	struct gate_link_s *next;
	struct gate_link_s *prev;
	struct tls_s *tls;
} gate_link_t;

/* Calls fn for each registered thread, under the list's lock. */
void gate_for_each(void (*fn)(struct tls_s *t, void *ctx), void *ctx);

/* fork's three handlers. */
void gate_prefork(void);
void gate_postfork_parent(void);
/* self: the link of the only thread left, NULL if it is not registered. */
void gate_postfork_child(void);

#endif
