/*
 * The ring of shut extents; shut.h has the contract.
 * Invariant: an extent in the ring has state shut, and `bytes` is the sum of the sizes of those in
 * the ring and of those that are about to enter it. No lock: an extent enters and leaves its place
 * by an exchange, and belongs to the thread that took it out. Called by imalloc.c.
 */
#include "arena/shut.h"

#include "arena/arenas.h"
#include "arena/large.h"

static LARGE_BSS struct {
	atomic_p_t ring[SHUT_MAX]; /* an edata_t; NULL: the place is empty */
	atomic_u32_t n;            /* extents that were put into it; place n % SHUT_MAX is next */
	atomic_zu_t bytes;         /* of address space */
} shut;

cassert((SHUT_MAX & (SHUT_MAX - 1)) == 0); /* so that n may wrap */

/*
 * Puts e, which may be NULL, into a place of the ring, makes the extent that was there accessible
 * and frees it. If the system refuses that, it stays shut for ever and its address space is lost.
 */
static void
shut_replace(unsigned place, edata_t *e) {
	edata_t *old = atomic_exchange_p(&shut.ring[place % SHUT_MAX], e, MO_ACQ_REL);
	if (old == NULL) {
		return;
	}
	assert(old->state == extent_state_shut);
	atomic_fetch_sub_zu(&shut.bytes, old->size, MO_RELAXED);
	if (pages_protect(old->addr, old->size, PAGES_OPEN) == 0) {
		old->state = extent_state_active;
		/* Hot extents keep their element of the page map, so it must say active again. */
		emap_set_boundary(old);
		arena_large_dalloc(old);
	}
}

/* Opens the oldest extents, those put in before the `first`-th, until the bytes are allowed. */
static void
shut_trim(unsigned first) {
	for (unsigned i = first; i - first < SHUT_MAX
	    && atomic_load_zu(&shut.bytes, MO_RELAXED) > SHUT_BYTES; i++) {
		shut_replace(i, NULL);
	}
}

void
shut_flush(void) {
	for (unsigned i = 0; i < SHUT_MAX; i++) {
		shut_replace(i, NULL);
	}
}

/* Discards the memory and removes access. An errno value: access is unchanged. */
static int
shut_pages(edata_t *e) {
	piece_break(e->addr, e->size);
	int err = pages_purge_forced(e->addr, e->size);
	return err != 0 ? err : pages_protect(e->addr, e->size, PAGES_CLOSED);
}

bool
shut_try_keep(edata_t *e) {
	assert(e->state == extent_state_active && !e->is_slab && e->recs == NULL);
	const arena_t *a = arena_table_get(e->arena_ind);
	if (e->arena_ind >= arenas_narenas_auto() || ehooks_are_custom(&a->pac.src.ehooks)
	    || e->nguards != 0 || e->size > SHUT_BYTES / 2) {
		return false;
	}
	atomic_fetch_add_zu(&shut.bytes, e->size, MO_RELAXED);
	shut_trim(atomic_load_u32(&shut.n, MO_RELAXED));
	if (shut_pages(e) != 0) {
		atomic_fetch_sub_zu(&shut.bytes, e->size, MO_RELAXED);
		return false;
	}
	e->state = extent_state_shut;
	emap_set_boundary(e);
	unsigned place = atomic_fetch_add_u32(&shut.n, 1, MO_RELAXED);
	shut_replace(place, e);
	/* Again, because what other threads had counted but not put in yet could not be opened. */
	shut_trim(place + 1);
	return true;
}
