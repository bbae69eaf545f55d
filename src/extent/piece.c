/*
 * Makes huge pieces, takes memory from their low end, and breaks them when memory is purged.
 * piece.h explains why, and has the invariant. The state of the process is atomics. A piece's rest
 * is changed under grow_mtx; the pointer to it may be read without. grow_mtx is held during the
 * first touch of a piece too: other threads of the arena that need fresh memory wait and then share
 * this piece, instead of making one each. Functions named _locked need it. Called by pac*.c,
 * holes.c, shut.c, ctl_snapshot.c and jemalloc_init.c.
 */
#include "extent/piece.h"

size_t opt_thp_min = ZU(32) << 20;

/*
 * Whether the process can have huge pieces, and if not, why. Before piece_boot() the state is 0,
 * which has no text: nobody asks then, because mallctl fails until boot is over that step.
 */
enum {
	PIECE_ON = 1,
	PIECE_NO_OPTION,
	PIECE_NO_RETAIN,
	PIECE_NO_SIZE,
	PIECE_NO_SYSTEM,
	PIECE_NO_PROCESS,
	PIECE_REFUSED,
	PIECE_NSTATES
};

static const char *const piece_states[PIECE_NSTATES] = {
	[PIECE_ON] = "on",
	[PIECE_NO_OPTION] = "off: thp is not default",
	[PIECE_NO_RETAIN] = "off: retain is false",
	/* or pages are longer than BASE_AHEAD_MAX */
	[PIECE_NO_SIZE] = "off: huge pages are not of 2 MiB",
	/* thp_mode_default stands for the system's word "madvise" */
	[PIECE_NO_SYSTEM] = "off: the system's setting is not madvise",
	[PIECE_NO_PROCESS] = "off: disabled for the process",
	[PIECE_REFUSED] = "off: the system refused",
};

static struct {
	atomic_u8_t state; /* PIECE_* */
	piece_guard_t guard;
} piece;

/* ------------------------------------------------------------------ whether */

bool
piece_guard_note(piece_guard_t *g, uint64_t took, uint64_t small, uint64_t now) {
	if (took <= PIECE_SLOW_NS || took / PIECE_SLOW_RATIO <= small) {
		atomic_store_u32(&g->nslow, 0, MO_RELAXED);
		return false;
	}
	if (atomic_fetch_add_u32(&g->nslow, 1, MO_RELAXED) + 1 < PIECE_SLOW_MAX) {
		return false;
	}
	piece_guard_pause(g, now);
	return true;
}

static uint8_t
piece_find_state(void) {
	if (opt_thp != thp_mode_default) {
		return PIECE_NO_OPTION;
	}
	if (!opt_retain) {
		return PIECE_NO_RETAIN;
	}
	if (HUGEPAGE != PIECE_SIZE || PAGE > BASE_AHEAD_MAX || pages_huge_size() != PIECE_SIZE) {
		return PIECE_NO_SIZE;
	}
	if (pages_system_thp_mode() != thp_mode_default) {
		return PIECE_NO_SYSTEM;
	}
	return pages_has_thp() ? PIECE_ON : PIECE_NO_PROCESS;
}

void
piece_boot(void) {
	atomic_store_u8(&piece.state, piece_find_state(), MO_RELAXED);
}

const char *
piece_state(void) {
	uint8_t state = atomic_load_u8(&piece.state, MO_RELAXED);
	bool is_paused = !piece_guard_is_open(&piece.guard, nstime_monotonic_coarse_ns());
	return state == PIECE_ON && is_paused ? "paused: slow or refused" : piece_states[state];
}

static void
piece_pause(void) {
	piece_guard_pause(&piece.guard, nstime_monotonic_coarse_ns());
	atomic_fetch_add_zu(&thp_counts.npauses, 1, MO_RELAXED);
}

/* Whether a retained extent that is shorter than a piece fits the request of size bytes. */
static bool
piece_is_needless(ecache_t *retained, size_t size) {
	if (ecache_npages(retained) < size >> LG_PAGE) {
		return false;
	}
	mutex_lock(&retained->mtx);
	const edata_t *e = eset_fit(&retained->eset, size, PAGE, 64);
	bool is_needless = e != NULL && e->size < PIECE_SIZE;
	mutex_unlock(&retained->mtx);
	return is_needless;
}

/* ------------------------------------------------------------------ making and taking */

/*
 * Touches a new piece, by populating its first BASE_AHEAD_MAX bytes or else by a write: the system
 * then maps a huge page, or only those pages if it has no huge page free.
 */
static void
piece_touch(piece_t *p, char *addr) {
	uint64_t start = nstime_monotonic_ns();
	size_t done = ahead_populate_more(addr, BASE_AHEAD_MAX);
	if (done == 0) {
		*(volatile char *)addr = 0;
	}
	uint64_t now = nstime_monotonic_ns(), took = nstime_ns_between(start, now);
	p->ready = addr + done;
	bool is_slow = took > PIECE_SLOW_NS;
	atomic_fetch_add_zu(&thp_counts.nslow, is_slow ? 1 : 0, MO_RELAXED);
	if (piece_guard_note(&piece.guard, took, ahead_small_ns(PIECE_SIZE), now)) {
		atomic_fetch_add_zu(&thp_counts.npauses, 1, MO_RELAXED);
	}
}

/* An aligned extent for a piece, committed; NULL: there is none. 64: see eset_fit(). */
static edata_t *
piece_find_locked(extent_src_t *src, ecache_t *retained) {
	edata_t *e = ecache_take(src, retained, PIECE_SIZE, PIECE_SIZE, 64);
	if (e == NULL) {
		e = extent_grow_locked(src, retained, PIECE_SIZE, PIECE_SIZE);
	}
	if (e != NULL && (extent_commit(src, e) != 0)) {
		ecache_put(src, retained, e);
		return NULL;
	}
	return e;
}

/* Makes a piece, an active extent. NULL: no memory or refused; then a pause, or no more pieces. */
static edata_t *
piece_make_locked(extent_src_t *src, piece_t *p, ecache_t *retained) {
	edata_t *e = piece_find_locked(src, retained);
	if (e == NULL) {
		piece_pause();
		return NULL;
	}
	int err = pages_advise(e->addr, PIECE_SIZE, PAGES_HUGE);
	if (err != 0) {
		ecache_put(src, retained, e);
		if (err == ENOMEM || err == EAGAIN) {
			piece_pause();
		} else {
			atomic_store_u8(&piece.state, PIECE_REFUSED, MO_RELAXED);
		}
		return NULL;
	}
	emap_set_huge(e->addr, true);
	atomic_fetch_add_zu(&thp_counts.pieces, 1, MO_RELAXED);
	atomic_fetch_add_zu(&thp_counts.npieces, 1, MO_RELAXED);
	/* Purging skips extents that are known to be zero, but these pages are in memory. */
	e->is_zeroed = false;
	piece_touch(p, e->addr);
	return e;
}

/*
 * Makes e, which may be NULL, the piece's rest. Its state becomes hot, as that of each unused
 * extent that is in no cache and in no thread's hands; pac_ndirty() counts it as dirty.
 */
static void
piece_put_locked(piece_t *p, edata_t *e) {
	if (e != NULL) {
		e->state = extent_state_hot;
		emap_set_boundary(e);
	}
	atomic_store_p(&p->rest, e, MO_RELAXED);
}

/* Takes the rest; active, and owned by the caller. NULL: there is none. */
static edata_t *
piece_get_locked(piece_t *p) {
	edata_t *e = atomic_load_p(&p->rest, MO_RELAXED);
	if (e != NULL) {
		e->state = extent_state_active;
		emap_set_boundary(e);
		atomic_store_p(&p->rest, NULL, MO_RELAXED);
	}
	return e;
}

/*
 * Cuts size bytes off the low end of the rest, which has so many; NULL: no memory for a descriptor.
 * If they are not all populated yet, the next BASE_AHEAD_MAX bytes of the piece are populated, even
 * if these do not reach the end of what was cut off; nothing is, if pages before it are not either.
 */
static edata_t *
piece_cut_locked(extent_src_t *src, piece_t *p, size_t size) {
	edata_t *e = piece_get_locked(p), *tail = NULL;
	if (e->size > size) {
		tail = extent_split(src, e, size);
		if (tail == NULL) {
			piece_put_locked(p, e);
			return NULL;
		}
	}
	piece_put_locked(p, tail);
	char *end = tail == NULL ? edata_end(e) : edata_end(tail);
	if (edata_end(e) > p->ready && p->ready >= e->addr) {
		p->ready += ahead_populate_more(p->ready, min_zu(BASE_AHEAD_MAX, (size_t)(end - p->ready)));
	}
	return e;
}

edata_t *
piece_take(extent_src_t *src, piece_t *p, ecache_t *dirty, ecache_t *retained, size_t use,
    size_t size, size_t *added) {
	edata_t *e = NULL, *old = NULL;
	*added = 0;
	bool may_make = use >= opt_thp_min && size <= (size_t)AHEAD_REQUEST_PAGES << LG_PAGE
	    && atomic_load_u8(&piece.state, MO_RELAXED) == PIECE_ON
	    && piece_guard_is_open(&piece.guard, nstime_monotonic_coarse_ns())
	    && !piece_is_needless(retained, size);
	if (!may_make && atomic_load_p(&p->rest, MO_RELAXED) == NULL) {
		return NULL;
	}
	mutex_lock(&src->grow_mtx);
	if (piece_npages(p) >= size >> LG_PAGE) {
		e = piece_cut_locked(src, p, size);
	} else if (may_make && !ehooks_are_custom(&src->ehooks) && ahead_try_room()) {
		edata_t *fresh = piece_make_locked(src, p, retained);
		if (fresh != NULL) {
			*added = PIECE_SIZE;
			old = piece_get_locked(p);
			piece_put_locked(p, fresh);
			e = piece_cut_locked(src, p, size);
		}
	}
	mutex_unlock(&src->grow_mtx);
	if (old != NULL) {
		ecache_put(src, dirty, old);
	}
	return e;
}

edata_t *
piece_take_rest(extent_src_t *src, piece_t *p) {
	if (atomic_load_p(&p->rest, MO_RELAXED) == NULL) {
		return NULL;
	}
	mutex_lock(&src->grow_mtx);
	edata_t *e = piece_get_locked(p);
	mutex_unlock(&src->grow_mtx);
	return e;
}

void
piece_flush_locked(extent_src_t *src, piece_t *p, ecache_t *dirty) {
	edata_t *e = piece_get_locked(p);
	if (e != NULL) {
		ecache_put(src, dirty, e);
	}
}

void
piece_flush(extent_src_t *src, piece_t *p, ecache_t *dirty) {
	if (atomic_load_p(&p->rest, MO_RELAXED) != NULL) {
		mutex_lock(&src->grow_mtx);
		piece_flush_locked(src, p, dirty);
		mutex_unlock(&src->grow_mtx);
	}
}

size_t
piece_kept(size_t use) {
	return use >= opt_thp_min && atomic_load_zu(&thp_counts.pieces, MO_RELAXED) > 0
	    ? use >> PIECE_LG_KEPT : 0;
}

bool
piece_try_idle(piece_t *p, uint64_t now, uint64_t ns) {
	size_t size = piece_npages(p);
	if (size != p->idle_size) {
		p->idle_size = size;
		p->idle_since = now;
	}
	return size > 0 && nstime_ns_between(p->idle_since, now) >= ns;
}

/* ------------------------------------------------------------------ the end */

void
piece_break(const char *addr, size_t size) {
	if (atomic_load_zu(&thp_counts.pieces, MO_RELAXED) == 0) {
		return;
	}
	uintptr_t from = (uintptr_t)addr, to = from + size, first = 0;
	for (uintptr_t at = from & ~(uintptr_t)(PIECE_SIZE - 1); at < to; at += PIECE_SIZE) {
		bool was_huge = emap_is_huge((const void *)at) && emap_set_huge((const void *)at, false);
		if (was_huge) {
			bool is_whole = at >= from && at + PIECE_SIZE <= to;
			atomic_fetch_sub_zu(&thp_counts.pieces, 1, MO_RELAXED);
			atomic_fetch_add_zu(&thp_counts.nbroken, is_whole ? 0 : 1, MO_RELAXED);
			first = first == 0 ? at : first;
		}
		/* Adjacent pieces lose the mark by one call. */
		if (first != 0 && (!was_huge || at + PIECE_SIZE >= to)) {
			pages_advise((void *)first, (was_huge ? at + PIECE_SIZE : at) - first, PAGES_NO_HUGE);
			first = 0;
		}
	}
}
