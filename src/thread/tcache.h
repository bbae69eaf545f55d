/*
 * A cache of free objects: one bin per class, with the cold half of each bin beside it.
 *
 * The fast path reaches a thread's automatic cache through the TLS word. Explicit caches
 * (tcache.create) are reached only by the slow path. Slot s serves class s-1; slot 0 is never used.
 * Stacks of pointers start small and grow with use up to the bin's limit, which the options set, so
 * a thread that makes a few small allocations pays for a few small stacks. A bin of an automatic
 * cache that is full, empty and full again may be granted more slots than its limit, from a budget
 * in bytes that all threads share. Upkeep withdraws the grant when the objects lie unused.
 *
 * Only the owner uses a cache, without a lock. Its link in the arena's list is under the arena's
 * tcache_list_mtx; readers of statistics read the cursors without a lock.
 */
#ifndef THREAD_TCACHE_H
#define THREAD_TCACHE_H

#include "arena/cache_bin.h"
#include "thread/tcache_limits.h"
#include "thread/tsd_types.h"

/* The cold half of a bin: what the fast path does not need. */
typedef struct tcache_cold_s {
	void **slots;         /* room for nslots pointers; NULL while nslots is 0 */
	uint64_t to_sample;   /* requests from this countdown's end to the next sample; max: none */
	uint32_t window;      /* start value of the bin's countdown */
	uint32_t nrequests;   /* requests served and not yet reported to the arena */
	uint16_t nslots;      /* slots of the stack */
	uint16_t max;         /* limit of nslots by the options; a granted bin exceeds it */
	uint16_t marked_at;   /* time of the mark of a granted bin, in steps of 2^26 ns (67 ms) */
	bool has_missed : 1;  /* the bin was empty since the last upkeep */
	bool is_marked : 1;   /* `empty` is above the bottom, to find objects that nothing uses */
	bool has_stowed : 1;  /* the bin was full since it was last empty, or since the last upkeep */
	bool is_swinging : 1; /* the bin was full, then empty, since upkeep last found idle objects */
	bool is_fixed : 1;    /* a call has set `max`: nothing is granted */
	uint8_t to_look;      /* hardening: requests for which the bin may still be closed for a look */
} tcache_cold_t;

/* A freed region of a sampled slab, kept for the next sample; see tcache_spare.c. */
typedef struct {
	void *ptr;
	sample_rec_t *rec;
	unsigned slot;        /* 0: this place is empty */
} tcache_spare_t;

#define TCACHE_NSPARES 4
/* Marks the record of a spare; it stands in req_size, where a sample has the requested size. */
#define TCACHE_REC_IS_SPARE UINT64_MAX

typedef struct tcache_s {
	ql_t link;            /* in arena->tcaches */
	arena_t *arena;
	bool is_auto;         /* a thread's own cache; false: explicit (tcache.create) */
	uint64_t interval;    /* explicit caches: sample interval when the distances were drawn */
	size_t granted;       /* bytes of objects in the slots beyond the bins' limits */
	size_t granted_large; /* those of them for objects above TCACHE_LARGE_SOME */
	unsigned nslots;      /* number of bins, slot 0 included */
	unsigned gc_large;    /* bin of large objects that upkeep examined last */
	tcache_cold_t *cold;  /* nslots of them */
	cache_bin_t *bins;    /* nslots of them, 64-byte aligned */
	tcache_spare_t spares[TCACHE_NSPARES];
} tcache_t;

/*
 * While sampling is on, each request of a class of at least this size takes the slow path;
 * SIZE_MAX: none. After a change call recall_all(RECALL_SETTINGS).
 */
extern atomic_zu_t tcache_watched_min;

/* Makes a cache for sizes up to max. Returns NULL if there is no memory. */
tcache_t *tcache_new(tsd_t *tsd, arena_t *arena, size_t max, bool is_auto);
/* Returns all objects to their arenas and the cache's memory. */
void tcache_delete(tsd_t *tsd, tcache_t *tc);
/* Empties the cache, its quarantine and spares included, and reports its requests to the arena. */
void tcache_flush(tsd_t *tsd, tcache_t *tc);
/*
 * Flushes the thread's cache and the bins of the arena to their slabs. Returns whether pages of the
 * arena became unused by that.
 */
bool tcache_try_gather(tsd_t *tsd, arena_t *a);
/* Moves the cache to another arena's list. */
void tcache_rebind(tcache_t *tc, arena_t *arena);

/*
 * Counts one request of class slot-1 (unless the fast path did: countdown 0) and runs what is due.
 * Returns true if this request is to be a sample. The caller then calls tcache_take(), or
 * tcache_took_sample() for a sample that is served elsewhere.
 */
bool tcache_count_to_sample(tsd_t *tsd, tcache_t *tc, unsigned slot);
/* The same for a request that is a sample anyway: the distance to the next sample stays. */
void tcache_count_apart(tsd_t *tsd, tcache_t *tc, unsigned slot);
/*
 * Takes an object from the bin, which is filled from an arena if it is empty: the cache's own or
 * the one that the request names. Objects in the bin may belong to another arena. Returns NULL if
 * there is no memory; the request is uncounted then.
 */
void *tcache_take(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot);
void tcache_took_sample(tsd_t *tsd, tcache_t *tc, unsigned slot);
/* Takes back the count of a request that was not served. */
void tcache_uncount(tsd_t *tsd, tcache_t *tc, unsigned slot);
/* Counts a request again that is tried once more. */
void tcache_recount(tsd_t *tsd, tcache_t *tc, unsigned slot);
/*
 * As tcache_uncount(), for a request that at most the fast path counted; usize 0: too large for a
 * class.
 */
void tcache_uncount_fast(tcache_t *tc, size_t usize);
/* Puts an object of class slot-1 in. Returns false if the bin has no slots; the caller frees it. */
bool tcache_try_put(tsd_t *tsd, tcache_t *tc, unsigned slot, void *ptr);
/*
 * Flushes cached objects above TCACHE_LARGE_SOME, together `want` bytes or more, so that a large
 * request takes their pages instead of new ones. Called where no hot extent fits the request.
 */
void tcache_make_way(tsd_t *tsd, tcache_t *tc, size_t want);

/* Takes a spare region and its record, which is cleared. Returns NULL if there is none. */
void *tcache_spare_take(tcache_t *tc, unsigned slot, sample_rec_t **rec);
/*
 * Keeps a region of e as a spare; it must be neither a sample nor a spare any more. Returns false
 * if there is no place for it; the caller frees it.
 */
bool tcache_spare_try_put(tcache_t *tc, const edata_t *e, void *ptr, sample_rec_t *rec);
void tcache_spare_flush(tcache_t *tc);

/*
 * The look, in builds with --enable-opt-safety-checks. At first and at the end of each countdown
 * (about every 64 KiB of a small class) the bin of a thread's own cache is closed: pops and pushes
 * take the slow path until an object of the class is freed. That object goes through the
 * quarantine, where its bytes are zeroed, and checked when it leaves. After TCACHE_LOOK_TRIES
 * requests without a free, pops take the fast path again. So a part of all objects is checked at
 * little cost.
 * tcache_try_look() opens the bin. Returns true if it was closed; the next object freed is to be
 * looked at.
 */
#define TCACHE_LOOK_TRIES 16u
bool tcache_try_look(tcache_t *tc, unsigned slot);
/* Whether the bin is closed. */
bool tcache_is_closed(const tcache_t *tc, unsigned slot);

/* Whether ptr lies in the stack of a slot. Only the owner may call it. */
bool tcache_has(const tcache_t *tc, unsigned slot, const void *ptr);

/* One step of upkeep: flushes part of what one bin has not used since its last turn. */
void tcache_gc_step(tsd_t *tsd, tcache_t *tc);
/* The same for the thread's own cache; one of the hooks of the heartbeat. */
void tcache_heartbeat(tsd_t *tsd, uint64_t bytes);
/* Whether the fast path ended a countdown that the slow path has not handled yet. */
bool tcache_is_due(const tcache_t *tc);
/* Draws new distances to the next samples, after the rate changed. */
void tcache_retune(tsd_t *tsd, tcache_t *tc);
/* Sets the thread's next heartbeats at most beat_bytes apart and cuts longer countdowns short. */
void tcache_hasten(tsd_t *tsd, uint64_t beat_bytes);
/*
 * Called when tcache_is_freed_due(): the thread has so much less than before that the clock is
 * read. Runs decay if it is due, and cuts countdowns short if the thread released much memory. The
 * caller is inside the gate and holds no lock.
 */
void tcache_note_freed(tsd_t *tsd);
/* Whether the thread has come down far enough since the last look for tcache_note_freed(). */
ALWAYS_INLINE bool
tcache_is_freed_due(const tsd_t *tsd) {
	return unlikely((int64_t)(tsd_held(tsd) - tsd->look_below) < 0);
}
/*
 * Resets the budget of grants in a forked child, where other threads do not exist. tsd: of this
 * thread, or NULL.
 */
void tcache_postfork_child(tsd_t *tsd);
/* Brings the byte counters of the tsd up to date. */
void tcache_fold(tsd_t *tsd, tcache_t *tc);
/* Bytes in the cache now; other threads may call it and get an approximate value. */
size_t tcache_cached_bytes(const tcache_t *tc);

#endif
