/*
 * A cache of free objects: one bin per class, with the cold half of each bin beside it.
 *
 * The automatic cache of a thread is reached by the fast path through the TLS word; caches made by
 * hand (tcache.create) only by the slow one.  Slot s serves class s-1; slot 0 is never used.
 * Stacks of pointers start small and grow with use up to the bin's limit, which is what the options
 * say; a thread that makes a few small allocations pays for a few small stacks.  A bin of an automatic
 * cache that is full, empty and full again may be granted more slots than its limit, out of a budget in
 * bytes that all threads share; upkeep takes the grant back when the objects lie unused.
 * Only the owner uses a cache; its place in the arena's list is under the arena's tcache_list lock,
 * and readers of statistics look at the cursors without one.
 */
#ifndef THREAD_TCACHE_H
#define THREAD_TCACHE_H

#include "arena/cache_bin.h"
#include "thread/tcache_limits.h"
#include "thread/tsd_types.h"

/* The cold half of a bin. */
typedef struct tcache_cold_s {
	void **slots;         /* room for nslots pointers; NULL while nslots is 0 */
	uint64_t to_sample;   /* objects until the next sample when the window ends */
	uint32_t window;      /* what countdown was set to */
	uint32_t nrequests;   /* served and not yet reported to the arena */
	uint16_t nslots;
	uint16_t max;         /* limit of nslots by the options; a granted bin has more */
	uint16_t marked_at;   /* of a granted bin: when the mark was set, in steps of 2^26 ns, about 67 ms */
	bool has_missed : 1;  /* was empty since upkeep last looked */
	bool is_marked : 1;   /* `empty` stands above the bottom */
	bool has_stowed : 1;  /* was full since it was last empty, or upkeep last looked */
	bool is_swinging : 1; /* was full, then empty, since upkeep last found objects that nothing had used */
	uint8_t to_look;      /* hardening: requests for which the bin may be closed for a look yet */
} tcache_cold_t;

/* A freed region of a sampled slab; see tcache_spare.c. */
typedef struct {
	void *ptr;
	sample_rec_t *rec;
	unsigned slot;        /* 0: none */
} tcache_spare_t;

#define TCACHE_NSPARES 4
/* In the record of a spare, where a sample has the size that was asked for. */
#define TCACHE_REC_IS_SPARE UINT64_MAX

typedef struct tcache_s {
	ql_t link;            /* in the arena's list */
	arena_t *arena;
	bool is_auto;
	uint64_t interval;    /* of sampling, when the gaps were drawn; by hand only: see tcache.c */
	size_t granted;       /* bytes of objects for which stacks have slots beyond their limits */
	unsigned nslots;      /* bins, slot 0 included */
	tcache_cold_t *cold;  /* nslots of them */
	cache_bin_t *bins;    /* nslots of them, 64-byte aligned */
	tcache_spare_t spares[TCACHE_NSPARES];
} tcache_t;

/*
 * While sampling is on, each request of a class of at least this size comes to the slow path;
 * SIZE_MAX: none.  Whoever changes it calls recall_all(RECALL_SETTINGS) afterwards.
 */
extern atomic_zu_t tcache_watched_min;

/* NULL: no memory. max: largest size to cache. */
tcache_t *tcache_new(tsd_t *tsd, arena_t *arena, size_t max, bool is_auto);
/* Returns all objects to their arenas and the cache's memory. */
void tcache_delete(tsd_t *tsd, tcache_t *tc);
void tcache_flush(tsd_t *tsd, tcache_t *tc);
/* What the thread's cache and a's bins hold goes to its slabs; whether pages of a became unused by that. */
bool tcache_try_gather(tsd_t *tsd, arena_t *a);
/* Moves the cache to another arena's list. */
void tcache_rebind(tcache_t *tc, arena_t *arena);

/*
 * Counts one request of class slot-1 (unless the fast path has: countdown 0) and runs what is due;
 * true: this request is to be a sample.  Then tcache_take() or, for a sample that is served
 * elsewhere, tcache_took_sample().
 */
bool tcache_count_to_sample(tsd_t *tsd, tcache_t *tc, unsigned slot);
/* The same for a request that is a sample anyway: the distance to the next one stays. */
void tcache_count_apart(tsd_t *tsd, tcache_t *tc, unsigned slot);
/*
 * An object, from the bin, or by filling it from an arena: the cache's own, or the one that the request
 * names; what lies in the bin may be of another.  NULL: no memory (the request is uncounted).
 */
void *tcache_take(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot);
void tcache_took_sample(tsd_t *tsd, tcache_t *tc, unsigned slot);
/* A counted request was not served. */
void tcache_uncount(tsd_t *tsd, tcache_t *tc, unsigned slot);
/* The same for a request that only the fast path has counted, if it has; usize 0: too large. */
void tcache_uncount_fast(tcache_t *tc, size_t usize);
/* Puts an object of class slot-1 in. false: the bin holds nothing; the caller frees it. */
bool tcache_try_put(tsd_t *tsd, tcache_t *tc, unsigned slot, void *ptr);

/* Sampled objects of a thread's own cache.  A region and its record, which is all zero; NULL: none here. */
void *tcache_spare_take(tcache_t *tc, unsigned slot, sample_rec_t **rec);
/* A region of e and its record, no sample any more and no spare. false: the caller frees it. */
bool tcache_spare_try_put(tcache_t *tc, const edata_t *e, void *ptr, sample_rec_t *rec);
void tcache_spare_flush(tcache_t *tc);

/*
 * The look, in builds with --enable-opt-safety-checks: at the end of each countdown, which is every 64 KiB or so of a
 * small class, and at first, the bin of a thread's own cache is closed: pops and pushes take the slow path, until an object of it is
 * freed.  That one goes through the quarantine, its bytes zeroed and looked at when it leaves.  After TCACHE_LOOK_TRIES
 * requests without a free pops go on by the fast path.  So a share of all objects is looked at, for next to nothing.
 * true: the bin of slot was closed, and is open now; the next object freed is to be looked at.
 */
#define TCACHE_LOOK_TRIES 16u
bool tcache_try_look(tcache_t *tc, unsigned slot);
/* The same question, and nothing changes. */
bool tcache_is_closed(const tcache_t *tc, unsigned slot);

/* Whether ptr lies in the stack of a slot. Only the owner asks. */
bool tcache_has(const tcache_t *tc, unsigned slot, const void *ptr);

/* One step of upkeep: gives back what a bin has not used since its last turn. */
void tcache_gc_step(tsd_t *tsd, tcache_t *tc);
/* The same for the thread's own cache; among the hooks of the heartbeat. */
void tcache_heartbeat(tsd_t *tsd, uint64_t bytes);
/* The fast path has come to the end of a countdown and the slow path has not worked it off yet. */
bool tcache_is_due(const tcache_t *tc);
/* Draws new distances to the next samples, after the rate changed. */
void tcache_retune(tsd_t *tsd, tcache_t *tc);
/* The thread's next heartbeats are at most so many bytes apart; countdowns that are further from their end are cut short. */
void tcache_hasten(tsd_t *tsd, uint64_t beat_bytes);
/*
 * Memory was freed past the caches, so much that it is time again: looks whether decay is due, and cuts countdowns short
 * when the thread has come down by much.  In the gate, no lock held.
 */
void tcache_note_freed(tsd_t *tsd);
ALWAYS_INLINE bool
tcache_is_freed_due(const tsd_t *tsd) {
	return tsd_returned(tsd) >= tsd->ticked_at;
}
/* In a forked child: grants of threads that are not there are given up. tsd: of this thread, or NULL. */
void tcache_postfork_child(tsd_t *tsd);
/* Brings the byte counters of the tsd up to date. */
void tcache_fold(tsd_t *tsd, tcache_t *tc);
/* Bytes in the cache now. */
size_t tcache_cached_bytes(const tcache_t *tc);

#endif
