/*
 * The fields of the page cache, and small functions that its parts (pac*.c) share. Included by
 * these and by arena_types.h; other code includes pac.h, which explains the page cache and its
 * locks, or the header of a part. arena/, the statistics and the profiler read fields directly.
 * Locks: that of each field is named beside it; atomic fields need none. Invariant: every unused
 * extent of the arena is in exactly one hot stack or cache, is the rest of the huge piece, belongs
 * to the huge slabs (hpa), or is in the hands of one thread.
 */
#pragma once

#include "extent/decay.h"
#include "extent/extent.h"
#include "extent/piece.h"
#include "hpa/hpa.h"
#include "meta/emap.h"
#include "os/room.h"

/*
 * Most extents in a stack of hot extents: room also for many blocks that one thread frees at once
 * and another one allocates.
 */
#define PAC_HOT_DEEP 1024u

/* The hot extents of one page class, the one that was freed last on top. */
typedef struct {
	edata_t *top; /* NULL: none */
	unsigned n;
	unsigned n_sec; /* those of them that are of huge slabs and were no objects (pac_hpa.h) */
} pac_hot_stack_t;

/* X(name, type, text of the manual). */
#define DECAY_STATS_FIELDS(X) \
	X(npurge, uint64_t, "sweeps that gave pages back") \
	X(nmadvise, uint64_t, "calls of the system that this took") \
	X(purged, uint64_t, "pages given back")

/* The decay of one cache, dirty or muzzy, with its counters. */
typedef struct pac_decay_s {
	decay_t decay;
	ecache_t *cache;
	/* TLS words of the thread that is in a pass (pac_step.h); NULL: none; under decay.mtx */
	struct tls_s *passer;
	/* counters: DECAY_STATS_FIELDS says what they count */
	atomic_u64_t npurge;
	atomic_u64_t nmadvise;
	atomic_u64_t purged;
} pac_decay_t;

typedef struct pac_s {
	extent_src_t src;
	atomic_zu_t mapped;  /* bytes in use, hot, dirty or muzzy, and whole huge slabs and pieces */
	/*
	 * Pages in use, with those of its hidden arena; users may read it (experimental.arenas.<i>
	 * .pactivep). pac_nactive() is without these.
	 */
	atomic_zu_t nactive;
	atomic_zu_t nactive_hidden; /* of nactive, the pages of the hidden arena */
	/* in a hidden arena, the cache whose nactive has its pages too; NULL in others; constant */
	struct pac_s *visible;
	/* guard pages around extents in use; not counted in nactive or mapped */
	atomic_zu_t nguard;
	atomic_zu_t npeak; /* greatest value of nactive seen by pac_active_add() so far */
	/* pages that pac_trade() may purge before the next epoch of dirty decay; updates may race */
	atomic_zu_t trade_left;
	atomic_zu_t bound; /* the bytes of pac_bound(); 0: not bounded */
	/*
	 * A background thread ticks this cache (pac_tick), so heartbeats of other threads
	 * (thread/thread_event.h) do not. Written by that thread (pac_serve.c), cleared when it ends,
	 * in a forked child, and when the arena is reused (pac_renew).
	 */
	atomic_b_t is_served;
	/*
	 * Number of dirty pages (pac_ndirty) above which a release, or a huge piece that is made, wakes
	 * the background thread, which sleeps. SIZE_MAX: none is to be woken, because there is none, it
	 * is awake, it sleeps so shortly that it need not be woken, or the decay time is -1. 0 also if
	 * the decay time is 0: then each release purges (pac_wake_or_purge).
	 */
	atomic_zu_t wake_above;
	/*
	 * bytes; a release after which more are unused (pac_unused) may call pac_rise_hook
	 * (pac_report_rise)
	 */
	atomic_zu_t rise_above;
	pac_decay_t decay_dirty;
	pac_decay_t decay_muzzy;
	ecache_t dirty;
	ecache_t muzzy;
	ecache_t retained;
	mutex_t hot_mtx; /* guards the stacks of hot extents */
	/* Hot extents by page class, under hot_mtx. */
	pac_hot_stack_t hot[SC_NPSIZES_MAX];
	/* Pages in these stacks; written under hot_mtx, read by anyone. */
	atomic_zu_t hot_npages;
	/* Serves small extents from huge slabs (pac_hpa.h); NULL: hpa is off, or a hidden arena. */
	hpa_t *hpa;
	/* The huge piece from which arena slabs are taken at present; piece.h names its locks. */
	piece_t piece;
	eset_class_t classes[3][SC_NPSIZES_MAX]; /* of dirty, muzzy, retained */
} pac_t;

/* Pages in use, of this arena alone: what is of its hidden arena is not counted. */
static inline size_t
pac_nactive(const pac_t *pac) {
	size_t hidden = atomic_load_zu(&pac->nactive_hidden, MO_ACQUIRE);
	size_t sum = atomic_load_zu(&pac->nactive, MO_RELAXED);
	return sum > hidden ? sum - hidden : 0;
}

/* Changes nactive, and those of the visible arena. Returns the new value. */
static inline size_t
pac_nactive_add(pac_t *pac, size_t npages) {
	pac_t *v = pac->visible;
	if (unlikely(v != NULL)) {
		atomic_fetch_add_zu(&v->nactive, npages, MO_RELAXED);
		atomic_fetch_add_zu(&v->nactive_hidden, npages, MO_RELEASE);
	}
	return atomic_fetch_add_zu(&pac->nactive, npages, MO_RELAXED) + npages;
}

static inline void
pac_nactive_sub(pac_t *pac, size_t npages) {
	pac_t *v = pac->visible;
	atomic_fetch_sub_zu(&pac->nactive, npages, MO_RELAXED);
	if (unlikely(v != NULL)) {
		atomic_fetch_sub_zu(&v->nactive_hidden, npages, MO_RELAXED);
		atomic_fetch_sub_zu(&v->nactive, npages, MO_RELAXED);
	}
}

/*
 * Bytes of pages that may be in memory without use: hot, dirty, muzzy, and those of huge slabs and
 * of the huge piece. The two counters are not read at one time, so a value may be wrong for a
 * moment.
 */
static inline size_t
pac_unused(const pac_t *pac) {
	size_t mapped = atomic_load_zu(&pac->mapped, MO_RELAXED);
	size_t used = pac_nactive(pac) << LG_PAGE;
	return mapped > used ? mapped - used : 0;
}

/*
 * Frees the pages of the active extent e to their huge slab; its descriptor becomes spare. The
 * caller holds no lock of hpa or of a cache.
 */
static inline void
pac_hpa_put(pac_t *pac, edata_t *e) {
	char *addr = e->addr;
	size_t size = e->size;
	assert(e->is_hpa && e->state == extent_state_active && e->recs == NULL);
	emap_clear_boundary(e);
	edata_cache_put(&pac->src.edata_cache, e);
	hpa_dalloc(pac->hpa, addr, size);
}

/* The locks of the cache's huge slabs, for statistics and pac_hooks_set(); NULL: it has none. */
static inline mutex_t *
pac_hpa_mutex(pac_t *pac) {
	return pac->hpa == NULL ? NULL : &pac->hpa->mtx;
}

static inline mutex_t *
pac_hpa_grow_mutex(pac_t *pac) {
	return pac->hpa == NULL ? NULL : &pac->hpa->grow_mtx;
}

/* That of the small extent cache (pac_hpa.h). */
static inline mutex_t *
pac_hpa_sec_mutex(pac_t *pac) {
	return pac->hpa == NULL || opt_hpa_sec_nshards == 0 ? NULL : &pac->hot_mtx;
}

/* Makes an active extent dirty, or frees it to its huge slab. */
static inline void
pac_put_unused(pac_t *pac, edata_t *e) {
	if (unlikely(e->is_hpa)) {
		pac_hpa_put(pac, e);
	} else {
		ecache_put(&pac->src, &pac->dirty, e);
	}
}

static inline bool
pac_is_bounded(const pac_t *pac) {
	return atomic_load_zu(&pac->bound, MO_RELAXED) != 0;
}
