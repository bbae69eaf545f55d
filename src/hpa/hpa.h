/*
 * Huge page allocation: a shard (one for each arena) hands out runs of pages from slabs of 2 MiB. A
 * request tries the fullest slab that has room (hpa/hset.h), so that others become empty; then the
 * slab that became empty last; then a new slab. Extents of two kinds lie in different slabs: dense
 * ones (for arena slabs of small objects, some of which stay) and others (buffers, which come and
 * go), so that more slabs become empty and stay huge. A shard of fewer than HRULE_GROWN slabs does
 * not separate them (hrule_may_mix()), nor does one for which there is no memory for a further
 * slab. A tick returns empty slabs to the page cache after the decay time. While there are too many
 * dirty pages, it returns them at once and purges partly used slabs too. It also asks the system to
 * make a slab huge (one huge page) when it has been nearly full for long enough; the rules are in
 * hpa/hrule.h. Invariant: a slab is empty, in the set of its kind, full, or out. A slab is out
 * while one thread makes a system call for it: no pages are taken from it then, but some may be
 * freed.
 *
 * Locks: grow_mtx is held while a slab is fetched (and, if it is to be huge from the start, made
 * huge), so that threads which miss together fetch one; mtx protects everything else. grow_mtx is
 * taken first. Neither is held during the calls that purge a slab which is out, or make it huge,
 * and mtx not while memory is fetched. The caller ensures that one thread at a time ticks or
 * purges. test/models/hpa.pml is a model of this. Called by pac_hpa.c, inside the gate (os/gate.h:
 * fork waits meanwhile); hpa_purge() also by pac_life.c and pac_relieve.c, hpa_dalloc() by
 * pac_types.h, hpa_stats_read() by arena/inspect.c, hpa_alloc_stats_add() by ctl_snapshot.c,
 * hpa_stats_zero() by pac_life.c, hpa_sys() by jemalloc_init.c. pac_life.c takes grow_mtx too, to
 * set hooks, and statistics take both.
 */
#pragma once

#include "hpa/hrule.h"
#include "hpa/hset.h"
#include "meta/base.h"
#include "os/mutex.h"
#include "util/atomic.h"
#include "util/bits.h"

/*
 * The functions by which a shard fetches and returns the memory of its slabs. get() is called with
 * grow_mtx, put() with no lock.
 */
typedef struct hpa_source_s {
	/*
	 * Returns 2 MiB of aligned memory that reads as zero, for which the page map has leaves
	 * (emap_reserve), or NULL; *home: handle for put().
	 */
	char *(*get)(void *ctx, void **home);
	/*
	 * Returns the memory; `home` is what get() has set. is_marked: the system may have been told
	 * since get() to use huge pages in it, or not to.
	 */
	void (*put)(void *ctx, void *home, bool is_marked);
} hpa_source_t;

/* Present state of a shard: X(name, type, text for the manual). */
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

/*
 * Counters of the small extent cache (extent/pac_hpa.h, which counts them); leaves of the arena as
 * hpa_NAME: X(name, type, text for the manual).
 */
#define HPA_SEC_FIELDS(X) \
	X(sec_hits, size_t, "requests that found an extent in the small extent cache") \
	X(sec_misses, size_t, "requests that found none there, and took extents from slabs") \
	X(sec_dalloc_noflush, size_t, "extents given back that were kept there") \
	X(sec_dalloc_flush, size_t, "extents given back that went to their slab, because it was full") \
	X(sec_overfills, size_t, "times that what a request brought made it too full")

/* Sums over some of the slabs: all, the full, the empty, or those of one of HPA_NONFULL_KINDS. */
#define HPA_SLABS_FIELDS(X) \
	X(npageslabs_nonhuge, size_t, "slabs that are not huge") \
	X(npageslabs_huge, size_t, "huge slabs") \
	X(nactive_nonhuge, size_t, "pages in use in slabs that are not huge") \
	X(nactive_huge, size_t, "pages in use in huge slabs") \
	X(ndirty_nonhuge, size_t, "dirty pages in slabs that are not huge") \
	X(ndirty_huge, size_t, "dirty pages in huge slabs")

/*
 * Results of hpa_alloc_some(), by the number of runs requested: X(name, text for the manual).
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
	uint64_t pages, elapsed_ns; /* sums from which the means are computed */
} hpa_alloc_stats_t;
typedef struct hpa_stats_s {
	HPA_SHARD_FIELDS(HPA_STATS_FIELD)
	HPA_COUNTER_FIELDS(HPA_STATS_FIELD)
	HPA_SEC_FIELDS(HPA_STATS_FIELD)
	size_t sec_bytes; /* in the small extent cache now; not of hpa_stats_read() */
	hpa_alloc_stats_t alloc[HPA_ALLOC_KINDS];
	hpa_slabs_stats_t slabs;
	hpa_slabs_stats_t full_slabs;
	hpa_slabs_stats_t empty_slabs;
	hpa_slabs_stats_t nonfull_slabs[HPA_NONFULL_KINDS];
} hpa_stats_t;
#undef HPA_STATS_FIELD

/* A shard; see above for what grow_mtx and mtx protect. */
typedef struct hpa_s {
	mutex_t grow_mtx;
	mutex_t mtx;
	const hpa_source_t *source;
	void *ctx;
	base_t *base;
	hset_t sets[2]; /* slabs that are partly in use, by is_dense */
	ql_t all;   /* all slabs */
	ql_t empty; /* slabs without pages in use, by the time they became so, the oldest first */
	ql_t dirty; /* those of which a part may be purged, by the time of entry, the oldest first */
	ql_t ripe;  /* slabs that may become huge, by the time of entry, the oldest first */
	ql_t spare; /* descriptors without a slab */
	hpa_alloc_stats_t alloc[HPA_ALLOC_KINDS];
	/* Down to nidle: written under mtx, read also without it. */
	atomic_zu_t nslabs;
	atomic_zu_t nempty;  /* slabs without pages in use */
	atomic_zu_t nactive; /* pages in use */
	atomic_zu_t ndirty;  /* pages touched and not in use */
	atomic_zu_t nidle;   /* pages not in use that may be in memory: dirty, or in a huge slab all */
	/* Under mtx. */
	bool is_passing;     /* slabs are being purged because there are too many dirty pages */
	size_t npassed;      /* slabs purged or returned since is_passing was set */
	uint64_t last_pass;  /* when the last pass took its first slab, monotonic ns; 0: never */
	/* Without a lock, as are the counters. */
	atomic_u64_t huge_after; /* no slab is made huge before this time, monotonic ns */
	atomic_b_t is_behind;    /* the last tick reached HPA_TICK_JOBS, so more may be due */
#define HPA_COUNTER(name, type, says) atomic_u64_t name;
	HPA_COUNTER_FIELDS(HPA_COUNTER)
	HPA_SEC_FIELDS(HPA_COUNTER)
#undef HPA_COUNTER
} hpa_t;

/*
 * Makes a shard without slabs; NULL: no memory. It and its descriptors lie in the base. ctx is
 * passed to the functions of the source.
 */
hpa_t *hpa_new(base_t *base, const hpa_source_t *source, void *ctx);

/*
 * Takes a run of size bytes (whole pages, at most a slab) for each extent of the list, and sets its
 * addr and is_zeroed (the run is known to read as zero); the list stays. is_dense: the kind of the
 * extents. Returns how many extents at the front of the list got a run; 0: there is no memory, or
 * other threads took all of a new slab, which is fetched only if no slab has room for the first
 * extent; without memory for it slabs of the other kind serve too.
 */
unsigned hpa_alloc_some(hpa_t *h, size_t size, bool is_dense, ql_t *extents);
/*
 * Takes the run at addr if it is free and in the slab of the byte before addr, which is not out.
 * The caller owns the extent that ends at addr, so that this is a slab of the shard.
 */
bool hpa_try_alloc_at(hpa_t *h, char *addr, size_t size, bool *is_zeroed);
/* Frees size bytes of pages, which lie in one slab and are in use; a run may be freed in parts. */
void hpa_dalloc(hpa_t *h, char *addr, size_t size);

/*
 * Returns, purges and makes huge the slabs for which that is due, at most HPA_TICK_JOBS. now:
 * monotonic ns; decay_ms: time after which an empty slab is returned, -1: never; may_collapse: this
 * thread may copy pages to make a slab huge at once.
 */
void hpa_tick(hpa_t *h, uint64_t now, ssize_t decay_ms, bool may_collapse);
/*
 * Returns all empty slabs to the source, and with is_all purges the dirty pages of the others too.
 * The result is the number of bytes of the slabs that were returned.
 */
size_t hpa_purge(hpa_t *h, bool is_all);

/* How the system uses huge pages; found out at the first call, which boot makes with hpa:true. */
hpa_sys_t hpa_sys(void);
/* Adds the shard's counters and its present state to *out. */
void hpa_stats_read(hpa_t *h, hpa_stats_t *out);
/* Zeroes the counters of a shard that has no slabs. */
void hpa_stats_zero(hpa_t *h);
/* The kind of a call that asks for n runs: 1, 2, up to 4, up to 8, and so on. */
static inline unsigned
hpa_alloc_kind(unsigned n) {
	unsigned kind = n <= 1 ? 0 : lg_floor_zu(n - 1) + 1;
	return kind < HPA_ALLOC_KINDS ? kind : HPA_ALLOC_KINDS - 1;
}
/* Adds the sums of calls of this kind (hpa_alloc_kind), and computes the means anew. */
void hpa_alloc_stats_add(hpa_alloc_stats_t *to, const hpa_alloc_stats_t *from, unsigned kind);
