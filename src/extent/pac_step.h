/*
 * Steps that the parts of the page cache share: they count pages and bytes, give the pages of an
 * extent back to the system, wake the background thread, and begin and end passes. A pass is a time
 * in which one thread purges the cache of a decay, dirty or muzzy, or does other work during which
 * no thread may purge it. Invariant: one thread at a time is in a pass of a decay, and only it
 * purges. Locks: see pac.h; an extent that is an argument belongs to the caller alone. Called by
 * pac*.c; large.c calls only pac_active_count() and pac_active_uncount(), arena.c only pac_wake().
 * arenas.c sets pac_shed_hook, background_thread.c pac_wake_hook.
 */
#pragma once

#include "extent/pac_types.h"

/*
 * Called when more address space is without use than the bound of os/room.h allows. Unmaps extents
 * of any arenas until `want` bytes are unmapped, or slightly more, or until no more can be. Returns
 * the number of bytes that it unmapped. The caller is inside the gate (os/gate.h: fork waits
 * meanwhile) and holds no lock. The caller may be in a pass whose mutex it has released; so the
 * hook does not wait for passes of dirty pages. It skips arenas that are in one, and sets *was_busy
 * to true if it skipped any (else it leaves *was_busy as it is). NULL before arenas_boot().
 */
extern size_t (*pac_shed_hook)(size_t want, bool *was_busy);
/*
 * Called when the background thread of an arena has work. The caller may hold any lock. NULL before
 * background_thread_boot().
 */
extern void (*pac_wake_hook)(unsigned arena_ind);

/* Wakes the background thread of the cache, if there is one. May be called with any lock held. */
void pac_wake(pac_t *pac);

/* Counts pages that are in use from now on. Returns the number of pages in use afterwards. */
static inline size_t
pac_active_count(pac_t *pac, size_t npages) {
	if (room_space_is_limited()) {
		atomic_fetch_add_zu(&room_space.used, npages << LG_PAGE, MO_RELAXED);
	}
	return pac_nactive_add(pac, npages);
}

/*
 * The part of pac_active_uncount() that is not inline: calls pac_shed_hook if more address space is
 * without use than the bound allows. The caller is inside the gate and holds no lock.
 */
void pac_shed_slow(void);

/*
 * Counts pages that are no longer in use. Where address space is limited, this may unmap extents of
 * any arena (pac_shed_hook), so the caller is inside the gate and holds no lock.
 */
static inline void
pac_active_uncount(pac_t *pac, size_t npages) {
	pac_nactive_sub(pac, npages);
	if (room_space_is_limited()) {
		atomic_fetch_sub_zu(&room_space.used, npages << LG_PAGE, MO_RELAXED);
		pac_shed_slow();
	}
}

/*
 * Count bytes that are mapped from now on, or no longer, also in room_mapped (of all arenas). The
 * callers may hold locks. So pac_mapped_count() does not call the hook for a new maximum of mapped
 * bytes (prof_gdump); the next call of pac_mapped_add() in pac.c does, whose caller holds no lock.
 */
void pac_mapped_count(pac_t *pac, size_t bytes);
void pac_mapped_sub(pac_t *pac, size_t bytes);
/*
 * Returns the pages of e to the system, and subtracts its bytes from `mapped` in every case. e, an
 * active extent, becomes retained, or is unmapped and exists no more (option retain off, or a hook
 * of the user agrees). If the system refuses, e becomes retained, and its pages stay in memory. The
 * caller owns e before the call and not after it. If the arena has hooks of the user, the caller
 * holds no lock; otherwise it may hold the mutex of the decay, or grow_mtx of the huge slabs.
 * batch: takes e, if it can, and purges it later together with others by one system call
 * (purge_batch.h); NULL: e is purged at once.
 */
struct purge_batch_s;
void pac_retain(pac_t *pac, edata_t *e, struct purge_batch_s *batch);
/*
 * Returns e (which may be NULL) with access to its pages. If that fails, e becomes retained and the
 * result is NULL.
 */
edata_t *pac_committed(pac_t *pac, edata_t *e);

/*
 * pac_pass_lock() locks d's mutex and begins a pass; the mutex is held during the pass, except
 * while a hook of the user runs. Returns 0; or EBUSY, with the mutex unlocked, if this thread is in
 * a pass of d already, and without may_wait also if another thread is, or holds the mutex. With
 * may_wait the call waits until no other thread is: it releases the mutex, pauses, locks the mutex
 * and looks again. pac_pass_unlock() ends the pass and unlocks the mutex. A caller that unlocks the
 * mutex amid the pass ends it by pac_pass_end() instead.
 */
int pac_pass_lock(pac_decay_t *d, bool may_wait);
void pac_pass_unlock(pac_decay_t *d);
/* The same, but the mutex is not held during the pass, nor before or after these two calls. */
int pac_pass_begin(pac_decay_t *d, bool may_wait);
void pac_pass_end(pac_decay_t *d);

/*
 * Takes away the access to the pages of e, and their memory (decommit), on a system that counts
 * every writable page against a limit (it does not overcommit), so that retained pages do not
 * count. This maps the range anew. The advice for huge pages, which the arena of oversized requests
 * may have given for the old mapping, is lost. True: e is no longer is_committed, and is_zeroed.
 * False: decommit is not in use, or failed; then e is unchanged.
 */
bool pac_try_decommit(edata_t *e);
