/*
 * The ring of shut extents; shut.h has the contract.
 * Invariant: an extent in the ring has state shut, and `bytes` is the sum of their sizes. shut.mtx
 * guards the ring only; pages are changed without it, by the thread that owns the extent. Called by
 * imalloc.c.
 */
#include "arena/shut.h"

#include "arena/arenas.h"
#include "arena/large.h"
#include "os/witness.h"

static LARGE_BSS struct {
	mutex_t mtx;
	unsigned first;          /* place of the oldest */
	unsigned n;              /* extents in the ring */
	size_t bytes;            /* of address space */
	edata_t *ring[SHUT_MAX];
} shut = {.mtx = MUTEX_INITIALIZER("shut", WITNESS_RANK_LEAF)};

cassert((SHUT_MAX & (SHUT_MAX - 1)) == 0);

/*
 * Takes the oldest extent out if one more of this many bytes would exceed a limit of the ring; else
 * NULL.
 */
static edata_t *
shut_take_excess(size_t bytes) {
	edata_t *e = NULL;
	mutex_lock(&shut.mtx);
	if (shut.n > 0 && (shut.n == SHUT_MAX || shut.bytes + bytes > SHUT_BYTES)) {
		e = shut.ring[shut.first];
		shut.first = (shut.first + 1) % SHUT_MAX;
		shut.n--;
		shut.bytes -= e->size;
	}
	mutex_unlock(&shut.mtx);
	return e;
}

static bool
shut_try_put(edata_t *e) {
	mutex_lock(&shut.mtx);
	bool has_room = shut.n < SHUT_MAX && shut.bytes + e->size <= SHUT_BYTES;
	if (has_room) {
		shut.ring[(shut.first + shut.n++) % SHUT_MAX] = e;
		shut.bytes += e->size;
	}
	mutex_unlock(&shut.mtx);
	return has_room;
}

/*
 * Makes an extent accessible and frees it. If the system refuses, it stays shut for ever and its
 * address space is lost.
 */
static void
shut_open(edata_t *e) {
	assert(e->state == extent_state_shut);
	if (pages_protect(e->addr, e->size, PAGES_OPEN) == 0) {
		e->state = extent_state_active;
		/* Hot extents keep their element of the page map, so it must say active again. */
		emap_set_boundary(e);
		arena_large_dalloc(e);
	}
}

/* Opens the oldest extents until one more of so many bytes has room, or the ring is empty. */
static void
shut_make_room(size_t bytes) {
	for (edata_t *e; (e = shut_take_excess(bytes)) != NULL;) {
		shut_open(e);
	}
}

void
shut_flush(void) {
	shut_make_room(SHUT_BYTES + 1);
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
	shut_make_room(e->size);
	if (shut_pages(e) != 0) {
		return false;
	}
	e->state = extent_state_shut;
	emap_set_boundary(e);
	if (!shut_try_put(e)) {
		shut_open(e);
	}
	return true;
}
