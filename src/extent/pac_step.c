/*
 * Steps that the parts of the page cache share; pac_step.h has the contract. Invariant: an extent
 * that is retained or unmapped here belongs to the calling thread alone. Functions named _locked
 * need the mutex of the decay that is their argument, the others no lock but for pac_pass_unlock(),
 * which releases that mutex. Called by pac*.c; pac_wake() by arena.c too, and the inline functions
 * of the header by large.c.
 */
#include "extent/pac_step.h"

#include "extent/purge_batch.h"
#include "os/thread.h"

void (*pac_wake_hook)(unsigned arena_ind);

/* Bytes of excess address space up to which nothing is tried, as the last try unmapped nothing. */
static atomic_zu_t pac_stuck;

void
pac_mapped_count(pac_t *pac, size_t bytes) {
	atomic_fetch_add_zu(&pac->mapped, bytes, MO_RELAXED);
	atomic_fetch_add_zu(&room_mapped, bytes, MO_RELAXED);
}

void
pac_mapped_sub(pac_t *pac, size_t bytes) {
	assert(atomic_load_zu(&pac->mapped, MO_RELAXED) >= bytes);
	atomic_fetch_sub_zu(&pac->mapped, bytes, MO_RELAXED);
	atomic_fetch_sub_zu(&room_mapped, bytes, MO_RELAXED);
}

void
pac_wake(pac_t *pac) {
	if (pac_wake_hook != NULL) {
		pac_wake_hook(pac->src.ehooks.arena_ind);
	}
}

edata_t *
pac_committed(pac_t *pac, edata_t *e) {
	if (e != NULL && extent_commit(&pac->src, e) != 0) {
		ecache_put(&pac->src, &pac->retained, e);
		return NULL;
	}
	return e;
}

/* ------------------------------------------------------------------ giving back */

/*
 * pac_retain() for an arena with hooks of the user: calls them until one accepts, that with the
 * greatest effect first: dalloc, decommit, purge_forced, purge_lazy (of an extent that is not
 * committed only dalloc). Unless dalloc accepted, the extent becomes retained.
 */
static void
pac_retain_own(pac_t *pac, edata_t *e) {
	ehooks_t *h = &pac->src.ehooks;
	if (extent_unmap(&pac->src, e) == 0) {
		return;
	}
	if (e->is_committed && ehooks_custom_decommit(h, e->addr, e->size) == 0) {
		e->is_committed = false;
		e->is_zeroed = true;
	} else if (e->is_committed && ehooks_custom_purge_forced(h, e->addr, e->size) == 0) {
		e->is_zeroed = true;
	} else if (e->is_committed) {
		ehooks_custom_purge_lazy(h, e->addr, e->size);
	}
	ecache_put(&pac->src, &pac->retained, e);
}

bool
pac_try_decommit(edata_t *e) {
	if (!pages_can_decommit() || pages_decommit(e->addr, e->size) != 0) {
		return false;
	}
	e->is_committed = false;
	e->is_zeroed = true;
	return true;
}

/*
 * Maps all of e anew, so that the kernel joins its mapping with those beside it (pac_move.h); e
 * then is not is_moved and reads as zero. If that fails, e stays as it is.
 */
static void
pac_map_anew(pac_t *pac, edata_t *e) {
	if (pages_map_anew(e->addr, e->size) != 0) {
		return;
	}
	pages_set_thp_state(e->addr, e->size);
	if (pac->src.grown != NULL) {
		pac->src.grown(e->addr, e->size);
	}
	extent_set_moved(e, false);
	e->is_zeroed = true;
}

void
pac_retain(pac_t *pac, edata_t *e, purge_batch_t *batch) {
	edata_check(e);
	pac_mapped_sub(pac, e->size);
	piece_break(e->addr, e->size);
	if (ehooks_are_custom(&pac->src.ehooks)) {
		pac_retain_own(pac, e);
		return;
	}
	if (!opt_retain && pac->src.grow_alignment <= PAGE && extent_unmap(&pac->src, e) == 0) {
		return;
	}
	if (unlikely(e->is_moved)) {
		pac_map_anew(pac, e);
	}
	if (pac_try_decommit(e)) {
		ecache_put(&pac->src, &pac->retained, e);
		return;
	}
	if (!e->is_zeroed && batch != NULL && purge_batch_try_add(batch, e)) {
		return;
	}
	if (!e->is_zeroed && ehooks_purge_forced(&pac->src.ehooks, e->addr, e->size) == 0) {
		e->is_zeroed = true;
	}
	ecache_put(&pac->src, &pac->retained, e);
}

/* ------------------------------------------------------------------ passes */

int
pac_pass_lock(pac_decay_t *d, bool may_wait) {
	if (may_wait) {
		mutex_lock(&d->decay.mtx);
	} else if (!mutex_trylock(&d->decay.mtx)) {
		return EBUSY;
	}
	for (unsigned round = 0; d->passer != NULL; round++) {
		bool is_own = d->passer == tls_get();
		mutex_unlock(&d->decay.mtx);
		if (!may_wait || is_own) {
			return EBUSY;
		}
		os_pause(round);
		mutex_lock(&d->decay.mtx);
	}
	d->passer = tls_get();
	return 0;
}

void
pac_pass_unlock(pac_decay_t *d) {
	mutex_assert_owner(&d->decay.mtx);
	assert(d->passer == tls_get());
	d->passer = NULL;
	mutex_unlock(&d->decay.mtx);
}

int
pac_pass_begin(pac_decay_t *d, bool may_wait) {
	int err = pac_pass_lock(d, may_wait);
	if (err == 0) {
		mutex_unlock(&d->decay.mtx);
	}
	return err;
}

void
pac_pass_end(pac_decay_t *d) {
	mutex_lock(&d->decay.mtx);
	pac_pass_unlock(d);
}

/* ------------------------------------------------------------------ address space */

size_t (*pac_shed_hook)(size_t want, bool *was_busy);

/*
 * Has excess address space unmapped, and an eighth of the bound more, so that this does not happen
 * at each release. Goes on until there is no excess or nothing could be unmapped, because another
 * thread may have left some meanwhile and have skipped the arena whose pass this thread was in. The
 * fences order its release before its look at that pass, and the end of the pass before the next
 * look here. If nothing could be unmapped, it is tried again when as much more is unused; but at
 * the next release, if an arena was skipped because a thread was in a pass of it.
 */
void
pac_shed_slow(void) {
	size_t excess = room_space_excess(0), step = room_space.max / 8, gone = 1;
	while (gone != 0 && excess > atomic_load_zu(&pac_stuck, MO_RELAXED) && pac_shed_hook != NULL) {
		bool was_busy = false;
		atomic_fence(MO_SEQ_CST);
		gone = pac_shed_hook(excess + step, &was_busy);
		atomic_fence(MO_SEQ_CST);
		excess = room_space_excess(0);
		bool is_stuck = gone == 0 && !was_busy && excess != 0;
		atomic_store_zu(&pac_stuck, is_stuck ? excess + step : 0, MO_RELAXED);
	}
}
