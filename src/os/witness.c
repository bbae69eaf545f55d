/*
 * The list of held mutexes of each thread, and the check of their order.
 * witness.h explains the ranks. Only debug builds call these functions; in others only calls of
 * witness_assert_lockless() are left, which does nothing there. A mutex that was taken by trylock
 * is in the list without a check, so it may stand there in the wrong order. No lock: a list belongs
 * to its thread. In a forked child the forking thread keeps its list (mutex_renew_in_child()).
 */
#include "os/witness.h"

#include "os/malloc_io.h"
#include "os/tls.h"

/* Outer modules (prof, ctl) call inner ones (arena, extent, base) while they hold a lock. */
cassert(WITNESS_RANK_OMIT == 0 && WITNESS_RANK_LEAF == WITNESS_RANK_END - 1);
cassert(WITNESS_RANK_PROF_DUMP < WITNESS_RANK_CTL && WITNESS_RANK_CTL < WITNESS_RANK_ARENAS);
cassert(WITNESS_RANK_PROF_DUMP < WITNESS_RANK_PROF_TDATAS);
cassert(WITNESS_RANK_PROF_TDATAS < WITNESS_RANK_PROF_SITES);
cassert(WITNESS_RANK_PROF_SITES < WITNESS_RANK_PROF_MISC);
cassert(WITNESS_RANK_PROF_MISC < WITNESS_RANK_BIN && WITNESS_RANK_BIN < WITNESS_RANK_EXTENT_DIRTY);
cassert(WITNESS_RANK_EXTENT_DIRTY < WITNESS_RANK_EXTENT_MUZZY);
cassert(WITNESS_RANK_EXTENT_MUZZY < WITNESS_RANK_EXTENT_RETAINED);
cassert(WITNESS_RANK_EXTENT_RETAINED < WITNESS_RANK_BASE && WITNESS_RANK_BASE < WITNESS_RANK_LEAF);

static TLS_MODEL __thread witness_t *witness_held;

void
witness_init(witness_t *w, const char *name, unsigned rank) {
	assert(rank < WITNESS_RANK_END);
	assert(name != NULL || rank == WITNESS_RANK_OMIT);
	w->name = name;
	w->rank = rank;
	w->held_next = NULL;
}

COLD static void
report_order(const witness_t *w) {
	malloc_printf("<jemalloc>: Lock order violated: %s (%u) taken while holding:", w->name,
	    w->rank);
	for (const witness_t *h = witness_held; h != NULL; h = h->held_next) {
		malloc_printf(" %s (%u)", h->name, h->rank);
	}
	malloc_write("\n");
	assert_not_reached();
}

UNUSED static bool
is_held(const witness_t *w) {
	const witness_t *h = witness_held;
	while (h != NULL && h != w) {
		h = h->held_next;
	}
	return h != NULL;
}

void
witness_check_order(const witness_t *w) {
	/* Else a lock whose initialisation is forgotten would have rank 0 and escape the check. */
	assert(w->name != NULL && w->rank < WITNESS_RANK_END);
	if (w->rank == WITNESS_RANK_OMIT) {
		return;
	}
	for (const witness_t *h = witness_held; h != NULL; h = h->held_next) {
		if (h->rank >= w->rank) {
			report_order(w);
		}
	}
}

void
witness_add(witness_t *w) {
	if (w->rank == WITNESS_RANK_OMIT) {
		return;
	}
	assert(w->held_next == NULL && !is_held(w));
	w->held_next = witness_held;
	witness_held = w;
}

void
witness_remove(witness_t *w) {
	if (w->rank == WITNESS_RANK_OMIT) {
		return;
	}
	witness_t **p = &witness_held;
	while (*p != w) {
		assert(*p != NULL);
		p = &(*p)->held_next;
	}
	*p = w->held_next;
	w->held_next = NULL;
}

unsigned
witness_depth_from(unsigned from) {
	assert(from < WITNESS_RANK_END);
	unsigned n = 0;
	for (const witness_t *h = witness_held; h != NULL; h = h->held_next) {
		n += h->rank >= from;
	}
	return n;
}

void
witness_assert_lockless(void) {
	assert(witness_held == NULL);
}
