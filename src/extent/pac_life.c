/*
 * The beginning and the end of a page cache; pac_life.h has the contract.
 * Invariant: between pac_close() and pac_open() the calling thread is in a pass of both decays, so
 * no other thread purges. The mutexes of the decays are held for short steps only; pac_hooks_set()
 * takes all mutexes under which a thread may rely on whether there are hooks of the user. Called by
 * arena.c, arena_life.c and arenas.c.
 */
#include "extent/pac_life.h"

#include "extent/pac_hot.h"
#include "extent/pac_hpa.h"
#include "os/witness.h"

COLD void
pac_init(pac_t *pac, base_t *base, unsigned arena_ind, ssize_t dirty_ms, ssize_t muzzy_ms,
    uint64_t now) {
	extent_src_init(&pac->src, base, arena_ind);
	ecache_init(&pac->dirty, pac->classes[0], extent_state_dirty, "extents_dirty",
	    WITNESS_RANK_EXTENT_DIRTY);
	ecache_init(&pac->muzzy, pac->classes[1], extent_state_muzzy, "extents_muzzy",
	    WITNESS_RANK_EXTENT_MUZZY);
	ecache_init(&pac->retained, pac->classes[2], extent_state_retained, "extents_retained",
	    WITNESS_RANK_EXTENT_RETAINED);
	decay_init(&pac->decay_dirty.decay, "decay_dirty", WITNESS_RANK_DECAY, dirty_ms, now);
	decay_init(&pac->decay_muzzy.decay, "decay_muzzy", WITNESS_RANK_DECAY_MUZZY, muzzy_ms, now);
	pac_hot_init(pac);
	pac_set_wake_default(pac);
	atomic_store_zu(&pac->rise_above, pac_rise_step, MO_RELAXED);
	pac->decay_dirty.cache = &pac->dirty;
	pac->decay_muzzy.cache = &pac->muzzy;
}

void
pac_close(pac_t *pac) {
	int err = pac_pass_begin(&pac->decay_dirty, true);
	err = err == 0 ? pac_pass_begin(&pac->decay_muzzy, true) : err;
	assert(err == 0);
	(void)err;
}

void
pac_open(pac_t *pac) {
	pac_pass_end(&pac->decay_dirty);
	pac_pass_end(&pac->decay_muzzy);
	pac_pass_ended(pac);
}

void
pac_destroy(pac_t *pac) {
	ecache_t *mapped[] = {&pac->dirty, &pac->muzzy};
	edata_t *e;
	assert(pac_nactive(pac) == 0 && atomic_load_zu(&pac->nguard, MO_RELAXED) == 0);
	pac_hot_flush(pac);
	if (pac->hpa != NULL) {
		hpa_purge(pac->hpa, true);
	}
	piece_flush(&pac->src, &pac->piece, &pac->dirty);
	for (unsigned i = 0; i < ARRAY_LEN(mapped); i++) {
		while ((e = ecache_evict(mapped[i], 0, true)) != NULL) {
			/* If this unmaps e, it needs no destroy. */
			pac_retain(pac, e, NULL);
		}
	}
	while ((e = ecache_evict(&pac->retained, 0, true)) != NULL) {
		extent_destroy(&pac->src, e);
	}
	assert(atomic_load_zu(&pac->mapped, MO_RELAXED) == 0 && pac_ndirty(pac) == 0);
	edata_cache_purge(&pac->src.edata_cache);
}

ehooks_table_t *
pac_hooks_set(pac_t *pac, ehooks_table_t *table) {
	mutex_t *const locks[] = {&pac->decay_dirty.decay.mtx, &pac->decay_muzzy.decay.mtx,
	    pac_hpa_grow_mutex(pac), &pac->src.grow_mtx};
	unsigned n = ARRAY_LEN(locks);
	for (unsigned i = 0; i < n; i++) {
		if (locks[i] != NULL) {
			mutex_lock(locks[i]);
		}
	}
	piece_flush_locked(&pac->src, &pac->piece, &pac->dirty);
	ehooks_table_t *old = ehooks_set(&pac->src.ehooks, table);
	while (n-- > 0) {
		if (locks[n] != NULL) {
			mutex_unlock(locks[n]);
		}
	}
	return old;
}

static void
pac_decay_renew(pac_decay_t *d, ssize_t ms, uint64_t now) {
	mutex_lock(&d->decay.mtx);
	decay_set_locked(&d->decay, ms, now);
#define DECAY_STATS_ZERO(name, type, help) atomic_store_u64(&d->name, 0, MO_RELAXED);
	DECAY_STATS_FIELDS(DECAY_STATS_ZERO)
#undef DECAY_STATS_ZERO
	mutex_unlock(&d->decay.mtx);
}

void
pac_renew(pac_t *pac, ssize_t dirty_ms, ssize_t muzzy_ms, uint64_t now) {
	pac_decay_renew(&pac->decay_dirty, dirty_ms, now);
	pac_decay_renew(&pac->decay_muzzy, muzzy_ms, now);
	/* The thread that served it may have ended meanwhile; if not, it is woken for the new arena. */
	atomic_store_b(&pac->is_served, false, MO_RELAXED);
	pac_set_wake_default(pac);
	atomic_store_zu(&pac->bound, 0, MO_RELAXED);
	atomic_store_zu(&pac->npeak, 0, MO_RELAXED);
	atomic_store_zu(&pac->trade_left, 0, MO_RELAXED);
	extent_src_renew(&pac->src);
	if (pac->hpa != NULL) {
		hpa_stats_zero(pac->hpa);
	}
}
