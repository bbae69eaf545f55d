/*
 * A cache of free objects: one bin per class, with the cold half of each bin beside it.
 *
 * The fast path reaches a thread's automatic cache through the TLS word. Explicit caches
 * (tcache.create) are reached only by the slow path. "Slot" has two meanings. The parameter `slot`
 * is the index of a bin: slot s serves class s-1, slot 0 is never used, and nslots of a tcache_t is
 * the number of bins. The slots of one bin (`slots` and nslots of a tcache_cold_t) are places for
 * pointers. Each bin counts its pops down to the next sample or heartbeat (its countdown,
 * thread_event.h). An empty bin is filled from an arena with about half its slots; a full one moves
 * about half, the oldest, to the transfer cache of the arena's bin (stock.h), or to the arena if
 * its objects are large. Stacks of pointers start small and double with use up to the bin's limit,
 * which the options set. A grant is a number of slots beyond the limit, from a budget in bytes that
 * all threads share (tcache_budget.h). A bin of an automatic cache that is full, empty and full
 * again may get one. A bin whose limit is 0 may also get one for a batch: for the objects that are
 * fetched from, or returned to, the arena under one hold of its lock. Upkeep, at heartbeats, goes
 * through the bins one by one. If nothing in the older half of a stack (towards its bottom) was
 * used since the bin's last turn, it flushes three quarters of this half, and takes grants back.
 *
 * The look is a check of a few freed objects, in hardened builds (--enable-opt-safety-checks): once
 * in each countdown (about every 64 KiB of a small class) the next pop that takes the slow path
 * puts the object which was freed last, if the bin of a thread's own cache has one, into the
 * quarantine, which zeroes its bytes and checks them when it leaves.
 *
 * Only the owner uses a cache, without a lock: the thread, or for an explicit one the thread that
 * names it, where the program sees to it that no two do at the same time. There are two exceptions:
 * another thread may take what the cache of an idle thread holds, in a way for which the owner
 * needs no lock (claim.h); and a forked child deletes caches of threads that do not exist there.
 * The link in the arena's list is under the arena's tcache_list_mtx; statistics walk that list
 * under it, and read `head`, `slots` and nslots of bins while their owners change them. Called
 * inside the gate (os/gate.h), by imalloc.c, tsd.c, tcache_set.c, claim.c, peak.c and mallctl, and
 * at heartbeats; tcache_has() by icheck.c outside of it.
 */
#pragma once

#include "arena/cache_bin.h"
#include "thread/tcache_limits.h"
#include "thread/tcache_spare.h"
#include "thread/tsd_types.h"

/* The cold half of a bin: what the fast path does not need. */
typedef struct tcache_cold_s {
	void **slots;         /* room for nslots pointers; NULL while nslots is 0 */
	/* requests from the countdown's end to the next sample (0: that end); UINT64_MAX: never */
	uint64_t to_sample;
	/* the countdown at its start or last fold; minus its value now: pops not yet folded */
	uint32_t window;
	uint32_t nrequests;   /* requests up to the last fold that are not yet reported to an arena */
	uint16_t nslots;      /* slots of the stack */
	uint16_t max;         /* limit of nslots by options or calls; a granted bin exceeds it */
	union {
		uint16_t marked_at; /* time of a granted bin's mark, in steps of 2^26 ns (67 ms) */
		uint16_t n_taken;   /* while tcache_t.taken is not 0: objects that another thread took */
	};
	bool was_empty : 1;   /* a request found the bin empty (a fill) since its last upkeep */
	bool is_marked : 1;   /* cache_bin_t.empty is a mark, to find objects that nothing uses */
	/* a free found the bin full, without a grant, since its last fill or (with slots) upkeep */
	bool was_full : 1;
	/* the bin was full and later empty, and upkeep has found no unused objects since then */
	bool is_swinging : 1;
	bool is_fixed : 1;    /* a call or the thread's maximum has set `max`: nothing is granted */
	bool must_look : 1;   /* hardened builds, a small class: a look is due */
} tcache_cold_t;

typedef struct tcache_s {
	ql_t link;            /* in arena->tcaches */
	arena_t *arena;
	bool is_auto;         /* a thread's own cache; false: explicit (tcache.create) */
	bool is_flushed;      /* explicit caches: tcaches_flush() is under way */
	bool is_refused;      /* no grants; the request for one failed, with no heartbeat since */
	bool is_waiting;      /* is_refused, and counted by tcache_budget_try_wait() */
	uint64_t interval;    /* explicit caches: sample interval (bytes) of the present distances */
	size_t granted;       /* slots beyond the bins' limits, in bytes of objects, filled or not */
	atomic_zu_t taken;    /* bytes of objects in the stacks that another thread took (claim.h) */
	unsigned nslots;      /* number of bins, slot 0 included */
	unsigned gc_large;    /* number of the bit in granted_map whose bin had its upkeep last */
	uint64_t granted_map; /* bit i: bin tcache_first_large() + i has grants */
	tcache_cold_t *cold;  /* nslots of them */
	cache_bin_t *bins;    /* nslots of them, 64-byte aligned */
	tcache_spares_t spares;
} tcache_t;

/* A note that a request or free names this explicit cache (tsd_t.named); lies on the stack. */
typedef struct tcache_note_s {
	const tcache_t *tc;
	const struct tcache_note_s *outer; /* that of the call amid which this one was made, or NULL */
} tcache_note_t;

/*
 * While sampling is on, each request of a class of at least this many bytes takes the slow path;
 * SIZE_MAX: none does. prof_trigger.c sets it, and then calls recall_all(RECALL_SETTINGS).
 */
extern atomic_zu_t tcache_slow_min;

/*
 * Makes an empty cache for sizes up to max bytes, in the arena's list. NULL: there is no memory.
 * The fast path indexes bins by class without a bound, up to the process's largest cached class
 * (tcache_max_default). So a cache always has bins for those; the ones above max have the limit 0.
 */
tcache_t *tcache_new(tsd_t *tsd, arena_t *arena, size_t max, bool is_auto);
/*
 * Flushes a cache, removes it from its arena's list and frees its memory. A hook of the user may
 * call it while the thread has a request under way, which finds that by tsd_t.n_cache_ends. tsd:
 * may be NULL for an explicit cache, also in tcache_flush(): an extent hook has none.
 */
void tcache_delete(tsd_t *tsd, tcache_t *tc);
/*
 * Empties the cache, its spares and kept records included, and if it is a thread's own also that
 * thread's quarantine; reports its requests to the arena. Slots and grants stay.
 */
void tcache_flush(tsd_t *tsd, tcache_t *tc);
/*
 * Flushes the thread's cache and trims the arena (arena_trim), after the system refused memory.
 * Returns whether pages of the arena became unused.
 */
bool tcache_try_gather(tsd_t *tsd, arena_t *a);
/*
 * Takes back all granted slots of the cache (without memory for the smaller stack they stay), and
 * flushes the objects beyond the bins' limits; slots may be granted anew at once. Called by its own
 * thread when an arena's decay time became 0 (RECALL_GRANTS), or another thread has taken objects.
 */
void tcache_return_grants(tsd_t *tsd, tcache_t *tc);
/*
 * For claim.c, in another thread than the owner, which may be within a pop or a push: gives the
 * objects below the top of each stack back to the arenas, from the oldest one up to the first of an
 * arena with hooks of the user, since none may be called here. The result is their bytes. The owner
 * then calls tcache_settle_taken(), which removes their pointers.
 */
size_t tcache_take_over(tcache_t *tc);
void tcache_settle_taken(tsd_t *tsd, tcache_t *tc);
/* Whether the cache has a part of the budget: it has grants, or waits for one. */
bool tcache_has_part(const tcache_t *tc);
/* Moves the cache to the list of another arena; NULL: only takes it out of its list. */
void tcache_rebind(tcache_t *tc, arena_t *arena);

/*
 * Counts one request of class slot-1. If the countdown is 0, the fast path has counted the request
 * already. At the end of a countdown starts the next one, and runs the heartbeat if due; its hooks
 * may delete caches (tsd_t.n_cache_ends). True: this request is to be a sample. The caller then
 * calls tcache_take(), or tcache_took_sample() for a sample that is served elsewhere.
 */
bool tcache_count_to_sample(tsd_t *tsd, tcache_t *tc, unsigned slot);
/* As above for a request that is a sample for another reason: the distance to the next stays. */
void tcache_count_apart(tsd_t *tsd, tcache_t *tc, unsigned slot);
/*
 * Takes an object from the bin, which is filled from the arena `from` if it is empty. Objects in
 * the bin may belong to other arenas. Returns NULL if there is no memory; the request is then
 * uncounted.
 */
void *tcache_take(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot);
/*
 * For a counted request that became a sample and was not served by the bin: adds its bytes to those
 * of the thread. For an explicit cache nothing is added here.
 */
static inline void
tcache_took_sample(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	assert(slot > 0 && slot < tc->nslots);
	if (tc->is_auto) {
		tsd->filled += tc->bins[slot].size; /* counted as if it had passed through the bin */
	}
}
/*
 * The name (slab_name()) of the slab of the small object that the cache's bin would hand out next.
 * If tc is NULL or that bin is empty, that of the current slab of the arena's bin. 0: there is
 * none.
 */
uint64_t tcache_next_slab(const tsd_t *tsd, const tcache_t *tc, arena_t *from, unsigned slot);
/* Takes a counted request that was not served back out of the counters. */
void tcache_uncount(tsd_t *tsd, tcache_t *tc, unsigned slot);
/* Adds an uncounted request again, before it is tried once more. */
void tcache_recount(tsd_t *tsd, tcache_t *tc, unsigned slot);
/*
 * For a request of usize bytes (0: too large) that is served without tcache_count_to_sample(). If
 * the fast path has counted it as the last one of a countdown, that is undone: the countdown
 * becomes 1, so that the next request ends it and does what is due then.
 */
void tcache_uncount_fast(tcache_t *tc, size_t usize);
/*
 * Puts a freed object of class slot-1 into its bin; makes room if it is full. obj: the object, or
 * the descriptor (edata_t) of a large one, which the caller has claimed (arena_large_try_claim).
 * Returns false if the bin has no slots and none is granted; the caller frees the object then.
 */
bool tcache_try_put(tsd_t *tsd, tcache_t *tc, unsigned slot, void *obj);
/*
 * Flushes cached objects of more than `above` bytes, which is at least TCACHE_GRANT_ABOVE, the
 * largest classes first, until `want` bytes are flushed or none is left, so that a large request
 * takes their pages instead of new ones. Nothing is flushed while granted_map is 0: by default
 * the limit of the bins above TCACHE_GRANT_ABOVE is 0, so without grants they are empty; and where
 * options have set limits, no bin has grants. Bins whose limit a call has set are never flushed.
 * Called before an arena makes an object above TCACHE_FLUSH_ABOVE in another than a hot extent, and
 * by peak_reset().
 */
void tcache_make_way(tsd_t *tsd, tcache_t *tc, size_t above, size_t want);

/* Whether the bin holds the small object ptr; walks the stack. Only the owner may call it. */
bool tcache_has(const tcache_t *tc, unsigned slot, const void *ptr);

/*
 * One step of upkeep (see above) of the next bin; before it returns to the first bin, frees the
 * spares and the kept records.
 */
void tcache_gc_step(tsd_t *tsd, tcache_t *tc);
/*
 * A hook of the heartbeat: a step of upkeep of the thread's cache, or as many as give each bin a
 * turn about once a second; and upkeep of one large bin with grants. bytes: not used.
 */
void tcache_heartbeat(tsd_t *tsd, uint64_t bytes);
/* Whether the fast path ended a countdown that the slow path has not handled yet. */
bool tcache_is_due(const tcache_t *tc);
/* Draws new distances to the next samples for all bins, after the rate changed. */
void tcache_retune(tsd_t *tsd, tcache_t *tc);
/*
 * Makes the distance between the thread's heartbeats the shortest one (THREAD_EVENT_BYTES_MIN
 * bytes), and shortens running countdowns to it.
 */
void tcache_shorten_interval(tsd_t *tsd);
/* Adds the pops that the running countdowns have counted so far to the byte counters of the tsd. */
void tcache_fold(tsd_t *tsd, tcache_t *tc);
/* Bytes in the cache now; other threads may call it and get an approximate value. */
size_t tcache_cached_bytes(const tcache_t *tc);
/*
 * Adds to by_class[i] the requests of class i that are not yet reported to an arena. Other threads
 * may call it; then the numbers are approximate while the cache's thread serves.
 */
void tcache_add_requests(const tcache_t *tc, uint64_t by_class[SC_NSIZES]);
