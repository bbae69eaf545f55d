/*
 * Moving the pages of an extent; pac_move.h has the contract.
 * It takes two steps, so that the old place is always mapped. First the pages move to a place that
 * the system chooses, while the old place stays mapped; if this fails, it has no effect. Then they
 * move over the new extent, which is one mapping afterwards, so that it can move again. If the
 * system refuses the second step, the pages move back, and nothing is moved any more in the
 * process. The new extent may be unmapped then, and another thread may map something there at any
 * time. So it is mapped again only if the place is still free; otherwise the address space is given
 * up. An extent that has grown in place may be several mappings; then most of the first one moves,
 * and the rest, less than half of the extent, is copied.
 * Invariant: both extents belong to the caller throughout, so no lock is needed but those that the
 * page cache takes itself. Called by large.c.
 */
#include "extent/pac_move.h"

#include "extent/pac.h"
#include "extent/pac_hot.h"
#include "extent/piece.h"

static atomic_b_t move_is_over; /* the second step failed once */

void
pac_move_again(void) {
	atomic_store_b(&move_is_over, false, MO_RELAXED);
}

/* Whether e may move to size bytes; not if as many bytes are dirty, which a copy would reuse. */
static bool
pac_may_move(pac_t *pac, const edata_t *e, size_t size) {
	return e->nguards == 0 && !e->is_hpa && e->is_committed && !ehooks_are_custom(&pac->src.ehooks)
	    && !atomic_load_b(&move_is_over, MO_RELAXED) && extent_nmoved() < PAC_MOVED_MAX
	    && pac_ndirty(pac) < size >> LG_PAGE;
}

/*
 * Maps an extent of pac_alloc_new() again that may be unmapped, because a move over it failed, and
 * makes it retained; if its place is not free any more, forgets it. Ends all moves. size: without
 * the room.
 */
static void
pac_give_up(pac_t *pac, edata_t *e, size_t size) {
	atomic_store_b(&move_is_over, true, MO_RELAXED);
	pac_active_uncount(pac, size >> LG_PAGE);
	pac_mapped_count(pac, e->size - size); /* as the room is subtracted with the rest */
	if (pages_map(e->addr, e->size, PAGE, NULL) != NULL) {
		emap_set_boundary(e);
		pac_retain(pac, e, NULL);
	} else {
		pac_mapped_sub(pac, e->size);
		extent_forget(&pac->src, e);
	}
}

/* Brings n bytes of pages back to where they were; by a copy if the system refuses to move them. */
static void
pac_move_back(char *between, size_t n, char *from) {
	if (pages_move_over(between, n, from, n) != 0) {
		memcpy(from, between, n);
		pages_unmap_in_time(between, n);
	}
}

/* Makes the old place, which is mapped and whose first n bytes read as zero, retained. */
static void
pac_leave_place(pac_t *pac, edata_t *e, size_t n) {
	e->is_zeroed = n == e->size && !e->is_moved;
	pac_active_uncount(pac, e->size >> LG_PAGE);
	pac_retain(pac, e, NULL);
}

edata_t *
pac_try_move(pac_t *pac, edata_t *e, size_t size, size_t alignment) {
	assert(size > e->size && e->state == extent_state_active && !e->is_slab && e->recs == NULL);
	size_t n = e->size;
	char *between = pac_may_move(pac, e, size) ? pages_move_out(e->addr, &n) : NULL;
	if (between == NULL) {
		return NULL;
	}
	piece_break(e->addr, n);
	/*
	 * The room, a quarter of the size, lets blocks grow in place by small steps, each of which
	 * would otherwise move the whole block. A block that grows by larger steps takes few of them,
	 * and room would cost it more memory than the moves are worth. The room is in the mapping of
	 * the moved pages, so that a block which has grown into it is one mapping and can move again.
	 */
	size_t room = size - e->size < size / 16 ? align_up(size / 4, max_zu(PAC_GRAIN, PAGE)) : 0;
	edata_t *to = pac_alloc_new(pac, size, room, alignment);
	if (to == NULL) {
		pac_move_back(between, n, e->addr);
		return NULL;
	}
	emap_clear_boundary(to);
	if (pages_move_over(between, n, to->addr, to->size) != 0) {
		pac_move_back(between, n, e->addr);
		pac_give_up(pac, to, size);
		return NULL;
	}
	memcpy(to->addr + n, e->addr + n, e->size - n);
	to->is_zeroed = true; /* what follows the contents of e */
	extent_set_moved(to, true);
	pac_leave_room(pac, to, size);
	emap_set_boundary(to);
	pac_leave_place(pac, e, n);
	return to;
}
