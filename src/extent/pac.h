/*
 * The page cache of an arena: dirty -> muzzy -> retained -> the system, and back.
 *
 * A request is looked for in this order: dirty, muzzy, retained, new address space.  Freed pages
 * become dirty; decay moves them on (decay.h), driven by pac_tick() from whoever has the time.
 * The extent of each page class that was freed last (of small ones, slabs', the last few) stays "hot"
 * for a moment: taken and left by an atomic exchange, without a lock, whole and not coalesced; the next
 * tick makes it plain dirty.  To all statistics it is dirty.
 * A decay's lock is taken before any cache's and held during a pass of purging, so that one thread
 * purges at a time; it is only ever tried on the ticking path.  Around hooks of the program it is let go,
 * and `passer` keeps others out.
 * A large request for which new pages are fetched drives out as many dirty ones, where those in use and the
 * dirty ones would be more than were in use at most.  A bounded cache (pac_bound) limits what may lie dirty at
 * each allocation and release; it keeps the one extent hot that was freed last, of whatever class, if that
 * is within the limit, and any other allocation or release makes it dirty first.
 */
#ifndef EXTENT_PAC_H
#define EXTENT_PAC_H

#include "extent/decay.h"
#include "extent/extent.h"
#include "meta/emap.h"

extern ssize_t opt_dirty_decay_ms;
extern ssize_t opt_muzzy_decay_ms;
/* Recycled memory of at least this many bytes is zeroed by purging it. */
extern size_t opt_calloc_madvise_threshold;

/* The smallest page classes have so many hot slots more. */
#define PAC_HOT_SMALL 8u
#define PAC_HOT_MORE 15u

/* X(name, type, text for the manual). */
#define DECAY_STATS_FIELDS(X) \
	X(npurge, uint64_t, "sweeps that gave pages back") \
	X(nmadvise, uint64_t, "calls of the system that this took") \
	X(purged, uint64_t, "pages given back")

typedef struct pac_decay_s {
	decay_t decay;
	ecache_t *cache;
	struct tls_s *passer; /* who purges, or has closed the cache; under decay.mtx */
	atomic_u64_t npurge;
	atomic_u64_t nmadvise;
	atomic_u64_t purged; /* pages */
} pac_decay_t;

typedef struct pac_s {
	extent_src_t src;
	atomic_zu_t mapped;   /* bytes in use, dirty or muzzy */
	atomic_zu_t nactive;  /* pages in use */
	atomic_zu_t nguard;   /* guard pages of those: neither in use nor unused, nor mapped */
	atomic_zu_t npeak;    /* most pages in use so far, but for hot ones */
	atomic_zu_t bound;    /* 0: not bounded; else bytes that may be unused at least, see pac_bound */
	/*
	 * A thread of its own ticks it; it sleeps until more pages than wake_above are unused.  Without one
	 * that is SIZE_MAX; 0 where unused pages go at once.
	 */
	atomic_b_t is_served;
	atomic_zu_t wake_above;
	pac_decay_t decay_dirty;
	pac_decay_t decay_muzzy;
	ecache_t dirty;
	ecache_t muzzy;
	ecache_t retained;
	atomic_p_t hot[SC_NPSIZES_MAX];
	atomic_p_t hot_more[PAC_HOT_SMALL][PAC_HOT_MORE];
	eset_class_t classes[3][SC_NPSIZES_MAX]; /* of dirty, muzzy, retained */
} pac_t;

/* Pages unused and not yet purged, hot ones included: those by a walk over the slots. */
size_t pac_ndirty(const pac_t *pac);

/*
 * npages more are unused: wakes the thread that serves the cache if it has to know, or gives them back
 * at once if the decay time is 0.  No lock is held, not even the gate need be.
 */
void pac_tell_slow(pac_t *pac, size_t npages);

ALWAYS_INLINE void
pac_tell(pac_t *pac, size_t npages) {
	if (unlikely(atomic_load_zu(&pac->wake_above, MO_SEQ_CST) != SIZE_MAX)) {
		pac_tell_slow(pac, npages);
	}
}

/* The slot of a bounded cache. */
static inline unsigned
pac_hot_bounded(void) {
	return SC_NPSIZES - 1;
}

/* Whether npages of what is in use may become unused beside what is dirty, in a bounded cache. */
bool pac_hot_has_room(const pac_t *pac, size_t npages);

/* A hot extent that was taken by mistake finds an empty slot; the sizes of what lies there are looked at. */
void pac_hot_misfit(pac_t *pac, edata_t *e);

/*
 * The hot extent of page class pind if there is one of this size: active and the caller's, in the page
 * map as a large object of no cacheable class; NULL: none.  No lock and no gate: a fork in between
 * costs the child this extent and nothing else.
 */
ALWAYS_INLINE edata_t *
pac_hot_pop(pac_t *pac, unsigned pind, size_t size) {
	const edata_t *seen = atomic_load_p(&pac->hot[pind], MO_RELAXED);
	/* Descriptors stay readable; whether it is still this one is seen below. */
	if (seen == NULL || __atomic_load_n(&seen->size, __ATOMIC_RELAXED) != size) {
		return NULL;
	}
	edata_t *e = atomic_exchange_p(&pac->hot[pind], NULL, MO_ACQUIRE);
	if (unlikely(e == NULL)) {
		return NULL;
	}
	assert(e->state == extent_state_hot && !e->is_slab && !e->is_sampled && e->recs == NULL);
	if (unlikely(e->size != size)) {
		pac_hot_misfit(pac, e);
		return NULL;
	}
	e->state = extent_state_active;
	emap_set_first_state(e);
	atomic_fetch_add_zu(&pac->nactive, size >> LG_PAGE, MO_RELAXED);
	return e;
}

ALWAYS_INLINE bool
pac_hot_is_vacant(const pac_t *pac, unsigned pind) {
	return atomic_load_p(&pac->hot[pind], MO_RELAXED) == NULL;
}

/*
 * Leaves an active extent that is no slab and no sample in a slot that was seen vacant: the caller tells of its pages
 * (pac_tell) then.  false: nothing changed.  Afterwards it is anybody's, so all that it says is used before.
 */
ALWAYS_INLINE bool
pac_hot_has_pushed(pac_t *pac, unsigned pind, edata_t *e) {
	assert(e->state == extent_state_active && !e->is_slab && !e->is_sampled && e->recs == NULL);
	void *seen = NULL;
	atomic_fetch_sub_zu(&pac->nactive, e->size >> LG_PAGE, MO_RELAXED);
	e->is_zeroed = false;
	e->state = extent_state_hot;
	emap_set_first_state(e);
	if (unlikely(!atomic_cas_strong_p(&pac->hot[pind], &seen, e, MO_SEQ_CST, MO_RELAXED))) {
		e->state = extent_state_active;
		emap_set_first_state(e);
		atomic_fetch_add_zu(&pac->nactive, e->size >> LG_PAGE, MO_RELAXED);
		return false;
	}
	return true;
}

/* Called outside all locks when the pages mapped by all arenas reach a new maximum; NULL: nobody cares. */
extern void (*pac_new_maximum_hook)(void);

/* Called with any lock held when the thread that serves an arena has to look; NULL: there are none. */
extern void (*pac_wake_hook)(unsigned arena_ind);

void pac_init(pac_t *pac, base_t *base, unsigned arena_ind, ssize_t dirty_ms, ssize_t muzzy_ms,
    uint64_t now);

/* Extents of a bounded cache begin at multiples of this, so that what is used again is used alike. */
#define PAC_GRAIN ((size_t)64 << 10)

/*
 * From now on dirty pages do not only go with time.  As many stay as were in use at most, less those in
 * use: memory does not get beyond its peak by what is kept.  And no more than half of what is in
 * use, or bytes if that is more: it is there for the next request, and a program that has freed nearly
 * everything need not come back for the rest to go.  Decay times 0 and -1 mean what they always do.  bytes
 * 0: unbounded again.
 */
void pac_bound(pac_t *pac, size_t bytes);

static inline bool
pac_is_bounded(const pac_t *pac) {
	return atomic_load_zu(&pac->bound, MO_RELAXED) != 0;
}

/* size: whole pages. zero: the pages must read as zero. NULL: no memory. */
edata_t *pac_alloc(pac_t *pac, size_t size, size_t alignment, bool zero);
/* The same with guard pages (extent/guard.h) if they can be had; not with hooks of the program's. */
edata_t *pac_alloc_guarded(pac_t *pac, size_t size, size_t alignment, bool zero);
void pac_dalloc(pac_t *pac, edata_t *e);
/* In place, not of a guarded one; 0 or ENOMEM (nothing changed). zero: as above, for the new part. */
int pac_expand(pac_t *pac, edata_t *e, size_t size, bool zero);
int pac_shrink(pac_t *pac, edata_t *e, size_t size);

/* Purges what is due at now; returns at once when nothing is or when another thread does it. */
void pac_tick(pac_t *pac, uint64_t now);
/* The same, waiting for other threads; all: purge everything that is unused. */
void pac_purge(pac_t *pac, uint64_t now, bool all);
/*
 * The system has no more memory: all that is unused goes, address space too.  Bytes that went, 0 with hooks of the
 * program's.
 */
size_t pac_relieve(pac_t *pac, uint64_t now);

/*
 * For the thread that serves this cache, after a tick: nanoseconds until the next is worth while
 * (UINT64_MAX: not before something changes).  From here on pac_wake_hook is called when much more
 * becomes unused, or anything at all where nothing was; until pac_unserve.
 */
uint64_t pac_serve(pac_t *pac, uint64_t now);
void pac_unserve(pac_t *pac);

/*
 * Nobody purges until pac_open, and nobody does now: all active extents are the owner's, none is in the
 * hands of a pass.  EBUSY: this very thread is in a pass (in a hook of it).
 */
int pac_close(pac_t *pac);
void pac_open(pac_t *pac);
/* The end of an arena, closed and with no active extent: all pages go, none stays retained. */
void pac_destroy(pac_t *pac);
/* After it, for another life. */
void pac_renew(pac_t *pac, ssize_t dirty_ms, ssize_t muzzy_ms, uint64_t now);

int pac_decay_ms_set(pac_t *pac, pac_decay_t *d, ssize_t ms, uint64_t now);

#endif
