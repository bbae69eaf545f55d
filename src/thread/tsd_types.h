/*
 * The fields of a thread's data; tsd.h has the functions that create, find and end it. Only the
 * thread itself uses its tsd, without a lock, except that: threads that are registered or end
 * change the links in `gate` of others, under the lock of the gate's list; another thread may
 * change `claim`, and take objects of the cache while `claim` says so (thread/claim.h); statistics
 * read how much is in the cache; another thread ends the tsd of one that does not exist
 * (tsd_try_end_absent). Used by thread/, malloc and free, mallctl and the profiler.
 */
#pragma once

#include "arena/arena.h"
#include "os/gate.h"
#include "os/tls.h"

struct tcache_s;
typedef struct quarantine_s quarantine_t;

/* Values of tls_s.state. */
enum {
	tsd_state_fresh = 0,
	tsd_state_making,   /* in tsd_make(): served without a tsd */
	tsd_state_nominal,
	tsd_state_gone,     /* ended: served without a tsd, as none is created again */
	tsd_state_in_hook   /* in an extent hook of the user: served without a tsd */
};

#define USER_EVENTS_MAX 4 /* user's thread events in a process (thread/user_event.h) */
/* Counts of allocated and freed bytes at which its next calls are due; 0: not set yet. */
typedef struct user_mark_s {
	uint64_t alloc;
	uint64_t dalloc;
} user_mark_t;

typedef struct tsd_s tsd_t;
struct tsd_s {
	struct tls_s *tls;            /* the thread's TLS words */
	struct tcache_s *tcache;      /* NULL: switched off, or not made yet */
	atomic_u32_t claim;           /* CLAIM_*: another thread takes objects of the cache */
	bool is_cached;               /* has a cache, or gets one after a few operations */
	uint8_t n_uncached;           /* slow operations without a cache; 0 after a try to make one */
	arena_t *arena;               /* the one to which the thread is bound */
	/*
	 * the lowest number of bytes that this arena had mapped since the thread last looked for
	 * another one
	 */
	size_t arena_mapped;
	/* the program has read or written thread.arena: the thread does not go to a vacant arena */
	bool is_arena_known;
	uint32_t n_cache_ends;        /* caches that the thread has deleted, explicit ones included */
	/* the explicit caches that requests and frees under way name: no extent hook may empty them */
	const struct tcache_note_s *named;
	bool is_slow;                 /* the fast path stays closed for this thread */
	uint8_t shard_seed;           /* chooses the bin of a class with several shards */
	unsigned gc_last;             /* bin that upkeep of the cache examined last */
	uint64_t gc_ns;               /* beat_ns when upkeep last ran */
	size_t tcache_max;            /* largest size in bytes that this thread caches */
	uint64_t prng;                /* state of the random numbers for distances to samples */
	/*
	 * bytes popped from the cache, up to the last fold of each bin; a resize to the same usable
	 * size counts so too
	 */
	uint64_t popped;
	uint64_t filled;              /* bytes moved from arenas to the cache; samples count so too */
	uint64_t flushed;             /* bytes that flushes moved from the cache to arenas */
	uint64_t direct_alloc;        /* bytes allocated past the thread's own cache, or resized to */
	uint64_t direct_dalloc;       /* bytes freed past it, also without a tsd, or resized from */
	/*
	 * Exact counts of allocated and freed bytes. The program has their addresses (thread.allocatedp
	 * and thread.deallocatedp). Valid once is_counted.
	 */
	bool is_counted;
	uint64_t counted_alloc;
	uint64_t counted_dalloc;
	/* mean bytes between samples, 0: none; distances are drawn and samples are weighed by it */
	uint64_t sample_interval;
	uint64_t sample_gap;          /* bytes until a sample is due, of requests not from the cache */
	uint32_t n_direct;            /* requests that thread_event_try_pass() may still pass */
	bool is_strict;               /* thread_event_is_strict() at the last RECALL_SETTINGS */
	uint64_t event_bytes;         /* bytes allocated since the last heartbeat, as counted so far */
	/* bytes between two heartbeats; a countdown that runs keeps the number with which it started */
	uint64_t beat_bytes;
	uint64_t beat_ns;             /* monotonic time of the last heartbeat; 0: none yet */
	/*
	 * bytes of small objects that left full stacks since the later of beat_ns and the last
	 * thread_event_freed_much()
	 */
	uint64_t small_freed;
	/* beat_ns when the thread last counted a beat for the profiler's clients outside */
	uint64_t beat_told_ns;
	/* the thread measures its peak: large objects are fetched one by one, see peak.h */
	bool has_peak_reset;
	uint64_t peak_base;           /* net use at the last reset of thread.peak, bytes */
	uint64_t peak_max;            /* greatest net use above peak_base so far, bytes */
	/* tsd_held() when peak_note() last updated peak_max (next when it is clearly more); 0: never */
	uint64_t peak_bound;
	void *prof;                   /* the profiler's record, a prof_tdata_t; NULL: none yet */
	quarantine_t *quarantine;     /* NULL: none yet */
	user_mark_t user_marks[USER_EVENTS_MAX];
	gate_link_t gate;             /* its place in the gate's list of threads */
};

/*
 * tsd_returned(): bytes that the thread returned to arenas. tsd_held(): bytes that it took from
 * arenas, cached or not, minus these; below 0 (wrapped) if it frees objects of other threads.
 */
ALWAYS_INLINE uint64_t
tsd_returned(const tsd_t *tsd) {
	return tsd->flushed + tsd->direct_dalloc;
}

ALWAYS_INLINE uint64_t
tsd_held(const tsd_t *tsd) {
	return tsd->filled + tsd->direct_alloc - tsd_returned(tsd);
}

/*
 * Asserts what a function with a tsd is promised: it is the calling thread's own, and the thread is
 * inside the gate.
 */
ALWAYS_INLINE void
tsd_assert_own(const tsd_t *tsd) {
	assert(tsd->tls == tls_get());
	assert(gate_is_entered(tsd->tls));
	(void)tsd;
}
