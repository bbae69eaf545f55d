/*
 * Steps that the parts of the page cache share: they count pages and bytes, give the pages of an
 * extent back to the system, and begin and end passes. Invariant: one thread at a time is in a pass
 * of a decay, and only it purges. Locks: see pac.h; an extent that is passed belongs to the caller
 * alone. Called by pac*.c and large.c.
 */
#ifndef EXTENT_PAC_STEP_H
#define EXTENT_PAC_STEP_H

#include "extent/pac_types.h"

/*
 * Called when more address space is without use than the bound of os/room.h allows: unmaps up to
 * about `want` bytes, of any arenas, and returns how many it did. The caller is inside the gate and
 * holds no lock; it may be in a pass, so the hook waits for none. NULL before arenas_boot().
 */
extern size_t (*pac_shed_hook)(size_t want);

/* Counts pages that are in use from now on. Returns the number of pages in use afterwards. */
static inline size_t
pac_active_count(pac_t *pac, size_t npages) {
	if (room_space_is_limited()) {
		atomic_fetch_add_zu(&room_space.used, npages << LG_PAGE, MO_RELAXED);
	}
	return atomic_fetch_add_zu(&pac->nactive, npages, MO_RELAXED) + npages;
}

void pac_shed_slow(void);

/*
 * Counts pages that are no longer in use. The caller is inside the gate and holds no lock, because
 * excess address space is unmapped then.
 */
static inline void
pac_active_uncount(pac_t *pac, size_t npages) {
	atomic_fetch_sub_zu(&pac->nactive, npages, MO_RELAXED);
	if (room_space_is_limited()) {
		atomic_fetch_sub_zu(&room_space.used, npages << LG_PAGE, MO_RELAXED);
		pac_shed_slow();
	}
}

/*
 * Count bytes that are mapped from now on, or no longer. A new maximum is detected by the next call
 * of pac_mapped_add() in pac.c, whose caller holds no lock.
 */
void pac_mapped_count(pac_t *pac, size_t bytes);
void pac_mapped_sub(pac_t *pac, size_t bytes);
/*
 * Returns the pages of e to the system; the address space becomes retained, or is unmapped too. If
 * the system refuses, e is retained with its pages. The caller owns e and loses it; with hooks of
 * the user it holds no lock. batch: collects extents for one system call; NULL: none.
 */
struct purge_batch_s;
void pac_retain(pac_t *pac, edata_t *e, struct purge_batch_s *batch);
/*
 * Returns e (which may be NULL) with access to its pages. If that fails, e becomes retained and the
 * result is NULL.
 */
edata_t *pac_committed(pac_t *pac, edata_t *e);

/*
 * A pass keeps other threads from purging; d's mutex is held at its begin (released while waiting)
 * and at its end. 0, or EBUSY: this thread is in one already, or without may_wait another thread.
 */
int pac_pass_begin_locked(pac_decay_t *d, bool may_wait);
void pac_pass_end_locked(pac_decay_t *d);
/*
 * Locks the mutex and begins a pass during which it is held, except while a hook of the user runs.
 * 0; or EBUSY, unlocked: as above, or without may_wait another thread holds the mutex.
 */
int pac_pass_lock(pac_decay_t *d, bool may_wait);
void pac_pass_unlock(pac_decay_t *d);
/* The same, but the mutex is not held during the pass; the caller does not hold it. */
int pac_pass_begin(pac_decay_t *d, bool may_wait);
void pac_pass_end(pac_decay_t *d);

/*
 * Decommits the pages where the system accounts for every writable page, so that retained pages do
 * not count. The new mapping has lost the advice for huge pages that the arena of oversized
 * requests may have given. False: decommit is not in use, or failed.
 */
bool pac_try_decommit(edata_t *e);

#endif
