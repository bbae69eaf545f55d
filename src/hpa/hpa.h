/*
 * Huge page allocation: a shard of an arena takes runs of pages from slabs of 2 MiB.
 * A request takes from the fullest slab that has room (hpa/hset.h), so that others become empty. A
 * tick gives back empty slabs after the decay time, purges others only while there are too many
 * dirty pages, and makes slabs huge that are full for long enough; the rules are hpa/hrule.h.
 * Invariant: a slab is empty, in the set, full, or out: in the hands of one thread that makes a
 * system call for it; then nothing is taken from it, but pages may come back.
 *
 * Locks: grow_mtx while a slab is fetched, so that threads which miss together fetch one; mtx for
 * everything else. grow_mtx is taken first. Neither is held during the calls that purge or make
 * huge, and mtx not while memory is fetched. One thread ticks at a time, as the caller provides.
 * Called by pac_hpa.
 */
#ifndef HPA_HPA_H
#define HPA_HPA_H

#include "hpa/hrule.h"
#include "hpa/hsec.h"
#include "hpa/hset.h"
#include "meta/base.h"
#include "os/mutex.h"
#include "util/atomic.h"
#include "util/bits.h"

/* Where a shard has its slabs from. */
typedef struct hpa_source_s {
	/* 2 MiB of aligned memory that reads as zero, or NULL; *home is the name for its return. */
	char *(*get)(void *ctx, void **home);
	/* Takes it back. is_marked: it has a mark for or against huge pages. */
	void (*put)(void *ctx, void *home, bool is_marked);
} hpa_source_t;

/* What a shard has now: X(name, type, text for the manual). */
#define HPA_SHARD_FIELDS(X) \
	X(npageslabs, size_t, "slabs of 2 MiB") \
	X(nactive, size_t, "pages in use in them") \
	X(ndirty, size_t, "pages in them that are not in use and may hold old contents")

/* Counters of a shard since its start: X(name, type, text for the manual). */
#define HPA_COUNTER_FIELDS(X) \
	X(npurge_passes, uint64_t, "times that slabs were purged because dirty pages were too many") \
	X(npurges, uint64_t, "slabs that were purged, in part or as a whole") \
	X(nhugifies, uint64_t, "slabs that the system was asked to make huge") \
	X(nhugify_failures, uint64_t, "slabs for which it refused that") \
	X(ndehugifies, uint64_t, "huge slabs that are not any more, because a part was purged")

/* Sums over slabs of one kind. */
#define HPA_SLABS_FIELDS(X) \
	X(npageslabs_nonhuge, size_t, "slabs that are not huge") \
	X(npageslabs_huge, size_t, "huge slabs") \
	X(nactive_nonhuge, size_t, "pages in use in slabs that are not huge") \
	X(nactive_huge, size_t, "pages in use in huge slabs") \
	X(ndirty_nonhuge, size_t, "dirty pages in slabs that are not huge") \
	X(ndirty_huge, size_t, "dirty pages in huge slabs")

/*
 * What calls of hpa_alloc_some() brought, by the number of runs that they asked for:
 * X(name, text for the manual).
 */
#define HPA_ALLOC_FIELDS(X) \
	X(min_extents, "fewest extents that a request of this kind asked for") \
	X(max_extents, "most extents that it asked for") \
	X(extents, "extents that such requests got") \
	X(ps, "slabs that they took them from") \
	X(pages_per_ps, "pages that they took from one slab, in the mean") \
	X(extents_per_ps, "extents that they took from one slab, in the mean") \
	X(total_elapsed_ns_per_ps, "nanoseconds that this took for one slab, in the mean")
#define HPA_ALLOC_KINDS 9u

/* Kinds of slabs that are neither full nor empty, by the page class of their longest free run. */
#define HPA_NONFULL_KINDS 64u

#define HPA_STATS_FIELD(name, type, says) type name;
typedef struct hpa_slabs_stats_s {
	HPA_SLABS_FIELDS(HPA_STATS_FIELD)
} hpa_slabs_stats_t;
typedef struct hpa_alloc_stats_s {
#define HPA_ALLOC_FIELD(name, says) uint64_t name;
	HPA_ALLOC_FIELDS(HPA_ALLOC_FIELD)
#undef HPA_ALLOC_FIELD
	uint64_t pages, elapsed_ns; /* sums, of which the means are made */
} hpa_alloc_stats_t;
typedef struct hpa_stats_s {
	HPA_SHARD_FIELDS(HPA_STATS_FIELD)
	HPA_COUNTER_FIELDS(HPA_STATS_FIELD)
	hsec_stats_t sec;
	hpa_alloc_stats_t alloc[HPA_ALLOC_KINDS];
	hpa_slabs_stats_t slabs;
	hpa_slabs_stats_t full_slabs;
	hpa_slabs_stats_t empty_slabs;
	hpa_slabs_stats_t nonfull_slabs[HPA_NONFULL_KINDS];
} hpa_stats_t;
#undef HPA_STATS_FIELD

typedef struct hpa_s {
	mutex_t grow_mtx;
	mutex_t mtx;
	const hpa_source_t *source;
	void *ctx;
	base_t *base;
	hset_t set;
	ql_t all;   /* all slabs */
	ql_t empty; /* those without pages in use, the one that became so last at the end */
	ql_t dirty; /* those that may be purged in part, since when, the oldest first */
	ql_t ripe;  /* those that may become huge, likewise */
	ql_t spare; /* descriptors */
	hpa_alloc_stats_t alloc[HPA_ALLOC_KINDS];
	hsec_t sec; /* pac_hpa puts it before the slabs */
	/* Written under mtx, read without it. */
	atomic_zu_t nslabs;
	atomic_zu_t nempty;  /* slabs without pages in use */
	atomic_zu_t nactive; /* pages in use */
	atomic_zu_t ndirty;  /* pages touched and not in use */
	atomic_zu_t nidle;   /* pages not in use that may be in memory: more than dirty if huge */
	bool is_passing;     /* a pass is under way: there are too many dirty pages */
	size_t npassed;      /* slabs purged in it */
	uint64_t last_pass;  /* when it began; 0: there was none */
	atomic_u64_t huge_after; /* no slab is made huge before this time */
	atomic_b_t is_behind;    /* the last tick did all that a tick may do, so more may be due */
#define HPA_COUNTER(name, type, says) atomic_u64_t name;
	HPA_COUNTER_FIELDS(HPA_COUNTER)
#undef HPA_COUNTER
} hpa_t;

/* A shard without slabs; NULL: no memory. Descriptors come from the base. */
hpa_t *hpa_new(base_t *base, const hpa_source_t *source, void *ctx);

/*
 * Takes a run of size bytes, whole pages and at most a slab, for each extent of the list, and sets
 * its addr and is_zeroed (the run is known to read as zero). Returns how many have one, from the
 * first on: a slab is fetched for the first only. 0: there is no memory.
 */
unsigned hpa_alloc_some(hpa_t *h, size_t size, ql_t *extents);
/* Takes the run that begins at addr, in the slab of the byte before it, if it is free. */
bool hpa_try_alloc_at(hpa_t *h, char *addr, size_t size, bool *is_zeroed);
/* Takes pages back that were taken, in any pieces. */
void hpa_dalloc(hpa_t *h, char *addr, size_t size);

/*
 * Does what is due, a bounded part of it. decay_ms: of empty slabs. may_collapse: this thread may
 * copy pages to make a slab huge at once.
 */
void hpa_tick(hpa_t *h, uint64_t now, ssize_t decay_ms, bool may_collapse);
/* Gives back all empty slabs, and with is_all all dirty pages too. */
void hpa_purge(hpa_t *h, bool is_all);

/* What the system does about huge pages; asked once. */
hpa_sys_t hpa_sys(void);
void hpa_stats_read(hpa_t *h, hpa_stats_t *out);
/* The kind of a call that asks for n runs: 1, 2, up to 4, up to 8, and so on. */
static inline unsigned
hpa_alloc_kind(unsigned n) {
	unsigned kind = n <= 1 ? 0 : lg_floor_zu(n - 1) + 1;
	return kind < HPA_ALLOC_KINDS ? kind : HPA_ALLOC_KINDS - 1;
}
/* Adds sums, and makes the means anew. */
void hpa_alloc_stats_add(hpa_alloc_stats_t *to, const hpa_alloc_stats_t *from, unsigned kind);

#endif
