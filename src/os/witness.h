/*
 * Lock ranks: the proof that no two threads can wait for each other.
 *
 * In debug builds each mutex carries a witness, and each thread a list of what it holds.  Taking
 * a mutex asserts that its rank is above every rank already held.  Two mutexes of one rank may
 * be held together only if the rank was given with WITNESS_ADDR_ORDER and they are taken in the
 * order of their addresses, or by the fork handlers, which take everything in one fixed order.
 * The ranks are numbered by floor, outermost first; rank 0 (an all-zero mutex) is not checked.
 */
#ifndef OS_WITNESS_H
#define OS_WITNESS_H

#include "util/compiler.h"

typedef enum {
	WITNESS_RANK_OMIT = 0,
	WITNESS_RANK_INIT,
	WITNESS_RANK_PROF_DUMP, /* held while the program's own functions are called */
	WITNESS_RANK_BACKGROUND_THREAD_GLOBAL,
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
	WITNESS_RANK_PAC_GROW,
	WITNESS_RANK_EXTENT_DIRTY,
	WITNESS_RANK_EXTENT_MUZZY,
	WITNESS_RANK_EXTENT_RETAINED,
	WITNESS_RANK_EDATA_CACHE,
	WITNESS_RANK_FREEPOOL,
	WITNESS_RANK_BASE,
	WITNESS_RANK_LARGE_LIST,
	WITNESS_RANK_LEAF,
	WITNESS_RANK_END
} witness_rank_t;

/* Added to a rank: several mutexes of it may be held, in the order of their addresses. */
#define WITNESS_ADDR_ORDER 0x100u

typedef struct witness_s witness_t;
struct witness_s {
	const char *name;
	uint32_t rank;
	/* Held by a thread: the next one in its list, newest first. */
	witness_t *held_next;
};

void witness_init(witness_t *w, const char *name, unsigned rank);
/* To be called when w's mutex was taken by trylock (no order is checked) or lock. */
void witness_add(witness_t *w);
void witness_check_order(const witness_t *w, bool in_fork);
void witness_remove(witness_t *w);
/* Number of ranked mutexes that this thread holds, of rank `from` or above. */
unsigned witness_depth_from(unsigned from);

/* No ranked mutex is held: the place may call user code, unwind, open files. */
void witness_assert_lockless(void);

#endif
