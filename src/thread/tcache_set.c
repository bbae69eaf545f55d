/*
 * Changes of thread caches while the process runs, and the table of explicit caches. Invariant: an
 * id is in use, or in free_ids, or not below n_used (never used yet). set.mtx, a leaf, guards the
 * table; tcaches_get() reads one element without it. A thread changes only its own cache, and an
 * explicit one that no other thread uses meanwhile. Called by the mallctl nodes thread.tcache.* and
 * tcache.* (ctl_thread.c), and by requests and frees with MALLOCX_TCACHE() (imalloc.c).
 */
#include "thread/tcache_set.h"

#include "os/witness.h"

/* Maximum number of explicit caches; two ids fewer than 4096 because MALLOCX_TCACHE adds two. */
#define TCACHES_MAX 4094u

static LARGE_BSS struct {
	mutex_t mtx;
	unsigned n_free;      /* elements of free_ids in use */
	unsigned n_used;      /* number of ids that were ever in use; the next new id */
	tcache_t *caches[TCACHES_MAX];   /* by id; NULL: not in use */
	uint16_t free_ids[TCACHES_MAX];  /* stack of ids of destroyed caches */
} set = {.mtx = MUTEX_INITIALIZER("tcaches", WITNESS_RANK_TCACHES)};

/* ------------------------------------------------------------------ while running */

/*
 * Replaces the thread's cache, if any, by an empty one for sizes up to max (bytes), and flushes the
 * old one; bins that both serve keep their limits. EAGAIN: no memory, nothing changed.
 */
static int
tcache_rebuild(tsd_t *tsd, size_t max) {
	assert(tsd->tls == tls_get());
	assert(max <= TCACHE_MAX_LIMIT);
	tcache_t *old = tsd->tcache;
	tcache_t *tc = tcache_new(tsd, tsd->arena, max, true);
	if (tc == NULL) {
		return EAGAIN;
	}
	size_t both = min_zu(max, tsd->tcache_max);
	for (unsigned s = 1; old != NULL && s < tc->nslots && tc->bins[s].size <= both; s++) {
		tc->cold[s].max = old->cold[s].max;
		tc->cold[s].is_fixed = old->cold[s].is_fixed;
	}
	/* First, because a signal handler may allocate while the old one is deleted. */
	tsd->tcache = tc;
	tsd->is_cached = true;
	tsd_fast_path_update(tsd);
	if (old != NULL) {
		tcache_delete(tsd, old);
	}
	return 0;
}

int
tcache_max_set(tsd_t *tsd, size_t max) {
	max = sz_i2s(sz_s2i(min_zu(max, TCACHE_MAX_LIMIT)));
	int err = tsd->tcache == NULL ? 0 : tcache_rebuild(tsd, max);
	tsd->tcache_max = err == 0 ? max : tsd->tcache_max;
	return err;
}

int
tcache_enabled_set(tsd_t *tsd, bool enabled) {
	assert(tsd->tls == tls_get());
	tcache_t *old = tsd->tcache;
	if (enabled && old != NULL) {
		return 0;
	}
	if (!enabled) {
		tsd->is_cached = false; /* also if there was no memory for a cache yet */
		tsd->tcache = NULL;
		tsd_fast_path_update(tsd);
		if (old != NULL) {
			tcache_fold(tsd, old);
			tcache_delete(tsd, old);
		}
		return 0;
	}
	return tcache_rebuild(tsd, tsd->tcache_max);
}

int
tcache_ncached_max_set(tsd_t *tsd, size_t from, size_t to, size_t n) {
	szind_t first, last;
	if (tsd->tcache == NULL) {
		return ENOENT;
	}
	if (!tcache_range_classes(from, to, &first, &last)) {
		return 0;
	}
	/* A new cache, because stacks may exceed the new limit; they grow again from empty. */
	int err = tcache_rebuild(tsd, tsd->tcache_max);
	for (szind_t i = first; err == 0 && i <= last && i + 1 < tsd->tcache->nslots; i++) {
		if (sz_i2s(i) <= tsd->tcache_max) {
			tsd->tcache->cold[i + 1].max = (uint16_t)min_zu(n, TCACHE_NCACHED_LIMIT);
			tsd->tcache->cold[i + 1].is_fixed = true;
		}
	}
	return err;
}

int
tcache_ncached_max_get(tsd_t *tsd, size_t size, size_t *n) {
	if (size > TCACHE_MAX_LIMIT) {
		return EINVAL;
	}
	unsigned slot = sz_s2i(size) + 1;
	tcache_t *tc = tsd->tcache;
	*n = tc == NULL || slot >= tc->nslots ? 0 : tc->cold[slot].max;
	return 0;
}

/* ------------------------------------------------------------------ explicit caches */

/* Takes a free id. False: all are in use. */
static bool
tcaches_try_id_locked(unsigned *id) {
	mutex_assert_owner(&set.mtx);
	assert(set.n_free <= set.n_used && set.n_used <= TCACHES_MAX);
	if (set.n_free > 0) {
		*id = set.free_ids[--set.n_free];
		return true;
	}
	if (set.n_used == TCACHES_MAX) {
		return false;
	}
	*id = set.n_used++;
	return true;
}

int
tcaches_create(tsd_t *tsd, unsigned *id) {
	tcache_t *tc = tsd == NULL ? NULL : tcache_new(tsd, tsd->arena, tcache_max_default, false);
	if (tc == NULL) {
		return EFAULT;
	}
	mutex_lock(&set.mtx);
	bool has_id = tcaches_try_id_locked(id);
	if (has_id) {
		assert(set.caches[*id] == NULL);
		__atomic_store_n(&set.caches[*id], tc, __ATOMIC_RELEASE);
	}
	mutex_unlock(&set.mtx);
	if (!has_id) {
		tcache_delete(tsd, tc);
		return EFAULT;
	}
	return 0;
}

tcache_t *
tcaches_get(unsigned id) {
	return id >= TCACHES_MAX ? NULL : __atomic_load_n(&set.caches[id], __ATOMIC_ACQUIRE);
}

/*
 * Whether this is an extent hook of the program (it has no tsd) that was called while its thread is
 * in the middle of this cache: a flush, or a request or free that names it. Several may be under
 * way: a hook of a heartbeat or of the profiler may make one, with another cache, amid the first.
 */
static bool
tcaches_is_in_use(const tsd_t *tsd, const tcache_t *tc) {
	const tsd_t *outer = tls_get()->tsd;
	if (tsd != NULL || outer == NULL) {
		return false;
	}
	const tcache_note_t *note = outer->named;
	while (note != NULL && note->tc != tc) {
		note = note->outer;
	}
	return note != NULL || tc->is_flushed;
}

int
tcaches_flush(tsd_t *tsd, unsigned id) {
	tcache_t *tc = tcaches_get(id);
	if (tc == NULL || tcaches_is_in_use(tsd, tc)) {
		return tc == NULL ? EFAULT : EAGAIN;
	}
	tc->is_flushed = true;
	tcache_flush(tsd, tc);
	tc->is_flushed = false;
	return 0;
}

int
tcaches_destroy(tsd_t *tsd, unsigned id) {
	mutex_lock(&set.mtx);
	tcache_t *tc = tcaches_get(id);
	bool is_in_use = tc != NULL && tcaches_is_in_use(tsd, tc);
	if (tc != NULL && !is_in_use) {
		__atomic_store_n(&set.caches[id], NULL, __ATOMIC_RELEASE);
		set.free_ids[set.n_free++] = (uint16_t)id;
	}
	mutex_unlock(&set.mtx);
	if (tc == NULL || is_in_use) {
		return tc == NULL ? EFAULT : EAGAIN;
	}
	tcache_delete(tsd, tc);
	return 0;
}
