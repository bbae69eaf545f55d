/*
 * The page cache of an arena: allocation (pac_alloc_as), release (pac_dalloc) and resizing in
 * place. What becomes of unused pages is in pac_purge.c and pac_relieve.c. pac.h explains the
 * caches, the order in which they are tried and their locks. Invariant: `mapped` counts the bytes
 * of the extents that are in use, hot, dirty or muzzy, and those of whole huge slabs and pieces.
 * nactive counts the pages in use. Neither counts guard pages. Both are relaxed atomics that are
 * exact whenever no operation is under way. Called by arena.c, arena_life.c, large.c and
 * pac_move.c, inside the gate (os/gate.h) without a lock; pac_mapped_all() by vacant.h.
 */
#include "extent/pac.h"

#include "extent/ahead.h"
#include "extent/guard.h"
#include "extent/join.h"
#include "extent/pac_hpa.h"
#include "os/nstime.h"
#include "os/room.h"

size_t opt_calloc_madvise_threshold = (size_t)8 << 20;
void (*pac_new_maximum_hook)(void);

/* Greatest value of room_mapped that pac_mapped_add() has seen. */
static atomic_zu_t pac_mapped_max;

/*
 * Counts bytes that are mapped from now on. If the sum of all arenas is a new maximum, pac_yield()
 * purges some pages of the cache for oversized requests (pac_yields, pac_purge.h), and
 * pac_new_maximum_hook is called; so the caller holds no lock.
 */
static void
pac_mapped_add(pac_t *pac, size_t bytes) {
	atomic_fetch_add_zu(&pac->mapped, bytes, MO_RELAXED);
	size_t now = atomic_fetch_add_zu(&room_mapped, bytes, MO_RELAXED) + bytes;
	size_t max = atomic_load_zu(&pac_mapped_max, MO_RELAXED);
	while (now > max) {
		if (atomic_cas_weak_zu(&pac_mapped_max, &max, now, MO_RELAXED, MO_RELAXED)) {
			void (*hook)(void) = __atomic_load_n(&pac_new_maximum_hook, MO_ACQUIRE);
			pac_yield(pac);
			if (hook != NULL) {
				hook();
			}
			return;
		}
	}
}

size_t
pac_mapped_all(void) {
	return atomic_load_zu(&room_mapped, MO_RELAXED);
}

/* Zeroes an extent that may contain old data: large ones by purging, small ones by memset(). */
static void
pac_zero(pac_t *pac, edata_t *e) {
	if (e->is_zeroed) {
		return;
	}
	bool is_purged = e->size >= opt_calloc_madvise_threshold
	    && !ehooks_are_custom(&pac->src.ehooks);
	if (is_purged) {
		piece_break(e->addr, e->size);
		is_purged = ehooks_purge_forced(&pac->src.ehooks, e->addr, e->size) == 0;
	}
	if (!is_purged) {
		memset(e->addr, 0, e->size);
	}
}

/* ------------------------------------------------------------------ allocation */

/* Takes a dirty extent, or else a muzzy one; lg_max_fit as of ecache_take(). */
static edata_t *
pac_take_cached(pac_t *pac, size_t size, size_t alignment, unsigned lg_max_fit) {
	edata_t *e = ecache_take(&pac->src, &pac->dirty, size, alignment, lg_max_fit);
	return e != NULL ? e : ecache_take(&pac->src, &pac->muzzy, size, alignment, lg_max_fit);
}

/*
 * For a dense request: takes from a huge piece (extent/piece.h), or puts a run of populated pages
 * into the dirty cache and takes from there (extent/ahead.h). NULL: ahead_run() is 0 (the arena is
 * too small, or the request too long), the decay time is 0, the arena is bounded or has hooks of
 * the user, another thread has taken the pages, or for a reason that those headers name.
 */
static edata_t *
pac_take_ahead(pac_t *pac, size_t size) {
	size_t use = pac_nactive(pac) << LG_PAGE, run = ahead_run(use, size), added;
	if (run == 0 || decay_ms(&pac->decay_dirty.decay) == 0 || pac_is_bounded(pac)
	    || ehooks_are_custom(&pac->src.ehooks)) {
		return NULL;
	}
	edata_t *e = piece_take(&pac->src, &pac->piece, &pac->dirty, &pac->retained, use, size, &added);
	if (e == NULL) {
		added += ahead_fill(&pac->src, &pac->dirty, &pac->retained, size, run);
	}
	if (added == 0) {
		return e;
	}
	pac_mapped_add(pac, added);
	return e != NULL ? e : ecache_take(&pac->src, &pac->dirty, size, PAGE, 64);
}

/*
 * Takes retained or newly mapped address space and commits it; a dense request first tries
 * pac_take_ahead(), whose pages are already there.
 */
static edata_t *
pac_take_new(pac_t *pac, size_t size, size_t alignment, bool is_dense) {
	edata_t *e = is_dense ? pac_take_ahead(pac, size) : NULL;
	if (e != NULL) {
		return e;
	}
	e = pac_committed(pac, ecache_take(&pac->src, &pac->retained, size, alignment, 64));
	if (e == NULL) {
		e = pac_committed(pac, extent_grow(&pac->src, &pac->retained, size, alignment));
	}
	if (e != NULL) {
		pac_mapped_add(pac, size);
	}
	return e;
}

/* Takes dirty pages together with dirty, muzzy or retained ones beside them (join.h). */
static edata_t *
pac_take_joined(pac_t *pac, size_t size, size_t alignment) {
	ecache_t *const caches[JOIN_NCACHES] = {&pac->dirty, &pac->muzzy, &pac->retained};
	size_t added;
	edata_t *e = join_take(&pac->src, caches, size, alignment, &added);
	if (added > 0) {
		pac_mapped_add(pac, added);
	}
	return e;
}

/*
 * Counts pages that are in use now. The limit of unused pages is enforced if the arena is bounded
 * or with are_new: no cached extent fitted a request of JOIN_MIN bytes or more, or pac_alloc_new()
 * has taken the pages.
 */
static void
pac_active_add(pac_t *pac, size_t npages, bool are_new) {
	size_t now = pac_active_count(pac, npages);
	size_t peak = atomic_load_zu(&pac->npeak, MO_RELAXED);
	while (now > peak && !atomic_cas_weak_zu(&pac->npeak, &peak, now, MO_RELAXED, MO_RELAXED)) {}
	if (are_new || pac_is_bounded(pac)) {
		pac_trim(pac);
	}
}

/*
 * Whether the dirty pages exceed the sum of 1 MiB and an eighth of the pages in use. Then a request
 * below 1 MiB splits an extent of any size rather than get new pages; otherwise long extents are
 * kept for long requests (opt_lg_extent_max_active_fit).
 */
static bool
pac_has_plenty(const pac_t *pac) {
	size_t active = pac_nactive(pac);
	return ecache_npages(&pac->dirty) > active / 8 + (JOIN_MIN >> LG_PAGE);
}

/*
 * Takes an extent if no dirty or muzzy one fits well. Tries in this order: to split a large extent,
 * if the request is small and pac_has_plenty(); to join pieces; new pages; to split any extent.
 */
static edata_t *
pac_take_more(pac_t *pac, size_t size, size_t alignment, bool is_dense) {
	bool is_split = size < JOIN_MIN && pac_has_plenty(pac);
	edata_t *e = is_split ? pac_take_cached(pac, size, alignment, 64) : NULL;
	if (e == NULL) {
		e = pac_take_joined(pac, size, alignment);
	}
	if (e == NULL) {
		e = pac_take_new(pac, size, alignment, is_dense);
	}
	if (e == NULL) {
		/* There is no more memory; splitting something large is better than failing. */
		pac_hot_flush(pac);
		piece_flush(&pac->src, &pac->piece, &pac->dirty);
		e = pac_take_cached(pac, size, alignment, 64);
	}
	return e;
}

/*
 * Takes a dirty or muzzy extent that fits well. If there is none, makes a longer hot extent dirty
 * and takes a part of it. If that fails, makes all hot extents dirty, which joins them with their
 * neighbours, and tries once more. The caller asks the system only after that.
 */
static edata_t *
pac_take_fit(pac_t *pac, size_t size, size_t alignment) {
	unsigned lg_max_fit = (unsigned)opt_lg_extent_max_active_fit;
	edata_t *e = pac_take_cached(pac, size, alignment, lg_max_fit);
	if (e == NULL && atomic_load_zu(&pac->hot_npages, MO_RELAXED) >= size >> LG_PAGE) {
		if (pac_hot_try_cool(pac, size)) {
			e = pac_take_cached(pac, size, alignment, lg_max_fit);
		}
		if (e == NULL) {
			pac_hot_flush(pac);
			e = pac_take_cached(pac, size, alignment, lg_max_fit);
		}
	}
	return e;
}

/* pac_hpa_take(); a slab that is fetched for it may bring a new maximum. */
static edata_t *
pac_take_huge(pac_t *pac, size_t size, bool is_dense) {
	size_t mapped = atomic_load_zu(&pac->mapped, MO_RELAXED);
	edata_t *e = pac_hpa_take(pac, size, is_dense);
	if (unlikely(atomic_load_zu(&pac->mapped, MO_RELAXED) > mapped)) {
		pac_mapped_add(pac, 0);
	}
	return e;
}

edata_t *
pac_alloc_as(pac_t *pac, size_t size, size_t alignment, bool zero, bool is_dense) {
	assert(size > 0 && (size & PAGE_MASK) == 0);
	edata_t *e = NULL;
	bool is_new = false;
	if (pac_hpa_serves(pac, size, alignment)) {
		e = pac_take_huge(pac, size, is_dense);
	} else {
		pac_hot_take(pac, size, size, max_zu(alignment, PAGE), &e, 1);
	}
	if (e == NULL) {
		e = pac_take_fit(pac, size, alignment);
		is_new = e == NULL;
		e = is_new ? pac_take_more(pac, size, alignment, is_dense) : e;
		/* The rest of a longer extent may be in a cache again, or a huge piece have a rest. */
		pac_recheck_wake(pac);
	}
	if (e == NULL) {
		return NULL;
	}
	assert(e->size == size && e->state == extent_state_active);
	pac_active_add(pac, size >> LG_PAGE, is_new && size >= JOIN_MIN);
	if (is_new && size < JOIN_MIN) {
		pac_trade(pac);
	}
	if (zero) {
		pac_zero(pac, e);
	}
	return e;
}

edata_t *
pac_alloc_new(pac_t *pac, size_t size, size_t room, size_t alignment) {
	assert(size > 0 && ((size | room) & PAGE_MASK) == 0);
	edata_t *e = pac_take_new(pac, size + room, alignment, false);
	if (e == NULL && room != 0) {
		e = pac_take_new(pac, size, alignment, false);
	}
	if (e != NULL) {
		assert(e->size >= size && e->state == extent_state_active);
		pac_mapped_sub(pac, e->size - size);
		pac_active_add(pac, size >> LG_PAGE, true);
	}
	return e;
}

void
pac_leave_room(pac_t *pac, edata_t *e, size_t size) {
	size_t room = e->size - size;
	edata_t *tail = room == 0 ? NULL : extent_split(&pac->src, e, size);
	if (tail != NULL) {
		ecache_put(&pac->src, &pac->retained, tail);
	} else if (room != 0) {
		pac_mapped_add(pac, room);
		pac_active_count(pac, room >> LG_PAGE);
	}
}

/*
 * Allocates an extent of which the caller shuts some pages. The extent must not lie in a huge slab:
 * a slab with a guard in it cannot be one huge page, and a guard that cannot be opened again would
 * be missing in it for ever. So if the arena has huge slabs, hot extents are not taken either,
 * because they may lie in one.
 */
static edata_t *
pac_alloc_to_guard(pac_t *pac, size_t size, size_t alignment) {
	if (likely(pac->hpa == NULL)) {
		return pac_alloc(pac, size, alignment, false);
	}
	edata_t *e = pac_take_cached(pac, size, alignment, (unsigned)opt_lg_extent_max_active_fit);
	bool is_new = e == NULL;
	e = is_new ? pac_take_new(pac, size, alignment, false) : e;
	if (e != NULL) {
		pac_active_add(pac, size >> LG_PAGE, is_new && size >= JOIN_MIN);
		pac_recheck_wake(pac); /* of a longer extent the rest is in its cache again */
	}
	return e;
}

edata_t *
pac_alloc_guarded(pac_t *pac, size_t size, size_t alignment, bool zero) {
	size_t more = guard_bytes(alignment);
	edata_t *e = NULL;
	if (size + more > size && !ehooks_are_custom(&pac->src.ehooks) && guard_is_allowed()) {
		e = pac_alloc_to_guard(pac, size + more, alignment);
	}
	if (e == NULL) {
		return pac_alloc(pac, size, alignment, zero);
	}
	guard_on(e, more);
	pac_nactive_sub(pac, more >> LG_PAGE);
	atomic_fetch_add_zu(&pac->nguard, more >> LG_PAGE, MO_RELAXED);
	pac_mapped_sub(pac, more);
	if (zero) {
		pac_zero(pac, e);
	}
	return e;
}

/*
 * Makes a guarded extent a plain one. Its guards were not counted as active (in use); from now on
 * they are, except those that cannot be opened and are unmapped. The caller later counts all pages
 * of the extent as unused. The hook for a new maximum is not called here but by the next mapping
 * (pac_mapped_add).
 */
static void
pac_unguard(pac_t *pac, edata_t *e) {
	size_t npages = e->nguards;
	pac_nactive_add(pac, npages);
	atomic_fetch_sub_zu(&pac->nguard, npages, MO_RELAXED);
	size_t opened = guard_off(e), lost = (npages << LG_PAGE) - opened;
	pac_mapped_count(pac, opened);
	if (unlikely(lost != 0)) {
		atomic_fetch_sub_zu(&room_space.mapped, lost, MO_RELAXED);
		pac_active_uncount(pac, lost >> LG_PAGE);
	}
}

/* ------------------------------------------------------------------ free, resize */

/* Makes e hot; false: there is no room. */
static bool
pac_try_keep(pac_t *pac, edata_t *e) {
	return unlikely(e->is_hpa) ? pac_hpa_try_keep(pac, e) : pac_hot_try_keep(pac, e);
}

void
pac_dalloc(pac_t *pac, edata_t *e) {
	edata_check(e);
	assert(e->state == extent_state_active && e->arena_ind == pac->src.ehooks.arena_ind);
	assert(pac_nactive(pac) >= e->size >> LG_PAGE);
	bool goes_now = decay_ms(&pac->decay_dirty.decay) == 0;
	bool is_kept = !goes_now
	    && (!pac_is_bounded(pac) || pac_has_room(pac, e->size >> LG_PAGE));
	if (unlikely(e->nguards != 0)) {
		pac_unguard(pac, e);
	}
	e->is_zeroed = false;
	assert(!e->is_slab && e->recs == NULL);
	size_t npages = e->size >> LG_PAGE;
	if (!is_kept || !pac_try_keep(pac, e)) {
		pac_put_unused(pac, e);
	}
	pac_active_uncount(pac, npages);
	if (goes_now) {
		pac_tick(pac, nstime_monotonic_coarse_ns());
	} else {
		if (!is_kept) {
			pac_trim(pac);
		}
		pac_note_release(pac);
	}
}

/*
 * Takes the unused pages directly behind e, active and ready to be merged with e; NULL if they are
 * not available.
 */
static edata_t *
pac_take_behind(pac_t *pac, const edata_t *e, size_t size) {
	char *addr = edata_end(e);
	if (pac_hot_is_at(pac, addr)) {
		pac_hot_flush(pac); /* then what lies there joins its neighbours, and one extent may do */
	}
	if (e->is_hpa) {
		return pac_hpa_take_at(pac, addr, size);
	}
	edata_t *t = ecache_take_at(&pac->src, &pac->dirty, addr, size);
	if (t == NULL) {
		t = ecache_take_at(&pac->src, &pac->muzzy, addr, size);
	}
	if (t != NULL) {
		return t;
	}
	t = ecache_take_at(&pac->src, &pac->retained, addr, size);
	t = pac_committed(pac, t);
	if (t != NULL) {
		pac_mapped_add(pac, size);
	}
	return t;
}

int
pac_expand(pac_t *pac, edata_t *e, size_t size, bool zero) {
	assert(size > e->size && (size & PAGE_MASK) == 0 && e->nguards == 0);
	size_t more = size - e->size;
	if (!zero && !e->is_hpa && ecache_try_lend(&pac->src, &pac->dirty, e, more)) {
		pac_recheck_wake(pac);
		pac_active_add(pac, more >> LG_PAGE, false);
		return 0;
	}
	edata_t *t = pac_take_behind(pac, e, more);
	pac_recheck_wake(pac);
	if (t == NULL) {
		return ENOMEM;
	}
	pac_active_add(pac, t->size >> LG_PAGE, false);
	if (zero) {
		pac_zero(pac, t);
	}
	if (extent_merge(&pac->src, e, t) != 0) {
		pac_dalloc(pac, t);
		return ENOMEM;
	}
	assert(e->size == size);
	return 0;
}

int
pac_shrink(pac_t *pac, edata_t *e, size_t size) {
	assert(size < e->size && size > 0 && (size & PAGE_MASK) == 0 && e->nguards == 0);
	edata_t *t = extent_split(&pac->src, e, size);
	if (t == NULL) {
		return ENOMEM;
	}
	pac_dalloc(pac, t);
	return 0;
}
