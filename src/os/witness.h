/*
 * Lock ranks: debug builds check that no threads can wait for each other in a circle.
 * Each mutex carries a witness, and each thread has a list of the witnesses it holds. mutex_lock()
 * asserts that the mutex's rank is above every rank already held; mutex_trylock(), which does not
 * wait, checks nothing, but adds to the list, against which later locks are checked. The ranks
 * stand in the order in which locks are taken, outermost first. A mutex of rank 0 is not checked,
 * but it must be named like all others.
 * os/mutex adds, checks and removes, in debug builds only; in others the lists are empty. Others
 * assert by witness_depth_from() and witness_assert_lockless() that no lock, or none from a rank
 * on, is held: when the gate is left, before functions of the user are called (except those that
 * run under WITNESS_RANK_PROF_DUMP and _PROF_RECENT), before stacks are unwound, before arenas are
 * searched for memory to return. doc/INDEX.md lists the locks.
 */
#pragma once

#include "util/compiler.h"

typedef enum {
	WITNESS_RANK_OMIT = 0, /* not checked and not in the list */
	WITNESS_RANK_INIT, /* of no mutex; witness_depth_from() of it counts all that are checked */
	WITNESS_RANK_PROF_DUMP, /* held while the user's dump hook runs */
	WITNESS_RANK_PROF_RECENT, /* held while the user's write callback runs */
	WITNESS_RANK_BACKGROUND_THREAD_GLOBAL,
	WITNESS_RANK_PROF_START,
	WITNESS_RANK_CTL,
	WITNESS_RANK_TCACHES,
	WITNESS_RANK_ARENAS,
	WITNESS_RANK_BACKGROUND_THREAD,
	WITNESS_RANK_PROF_LOG,
	WITNESS_RANK_PROF_TDATAS,
	WITNESS_RANK_PROF_SITES,
	WITNESS_RANK_PROF_MISC,
	WITNESS_RANK_TCACHE_LIST,
	WITNESS_RANK_DECAY,
	WITNESS_RANK_DECAY_MUZZY,
	WITNESS_RANK_BIN,
	WITNESS_RANK_HPA_GROW,
	WITNESS_RANK_HPA,
	WITNESS_RANK_PAC_GROW,
	WITNESS_RANK_EXTENT_HOT,
	WITNESS_RANK_EXTENT_DIRTY,
	WITNESS_RANK_EXTENT_MUZZY,
	WITNESS_RANK_EXTENT_RETAINED,
	WITNESS_RANK_EDATA_CACHE,
	WITNESS_RANK_FREEPOOL,
	WITNESS_RANK_BASE,
	WITNESS_RANK_LEAF, /* while one of these is held, no other ranked mutex is taken by lock */
	WITNESS_RANK_END /* of no mutex: above all ranks */
} witness_rank_t;

typedef struct witness_s witness_t;
struct witness_s {
	const char *name; /* static text, for messages */
	uint32_t rank;
	/* the lock that the thread which holds this one took before it, and holds; NULL: none */
	witness_t *held_next;
};

/* name must stay valid; rank is a WITNESS_RANK_*. */
void witness_init(witness_t *w, const char *name, unsigned rank);
/*
 * Enters w in the calling thread's list, after its mutex was taken by lock or by trylock (which
 * checks no order).
 */
void witness_add(witness_t *w);
/* Ends the process with a message if the thread may not take w now. */
void witness_check_order(const witness_t *w);
/* Removes w from the calling thread's list. */
void witness_remove(witness_t *w);
/* Number of ranked mutexes of rank `from` or above that this thread holds. */
unsigned witness_depth_from(unsigned from);

/*
 * Asserts that no ranked mutex is held, so that user code may be called, stacks unwound, files
 * opened.
 */
void witness_assert_lockless(void);
