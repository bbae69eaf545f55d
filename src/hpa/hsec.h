/*
 * Small extent caches in front of the huge slabs of a shard (options hpa_sec_*): free extents by
 * kind (dense or not, hpa.h) and length, so that most requests need neither the shard's lock nor a
 * search. A thread always uses the same cache, chosen by its number, so a cache's lock is contended
 * little. A freed extent is put into the cache; a request that misses fetches
 * opt_hpa_sec_batch_fill_extra more from the slabs. When a cache exceeds opt_hpa_sec_max_bytes, it
 * is trimmed to half of that, the extent that was put in first from each list in turn. Invariant:
 * an extent in a cache has the state hot and counts as in use in its slab. Under a cache's lock no
 * other lock is taken. Called by pac_hpa.c, and by hpa.c (hsec_init, hsec_stats_*). The counters of
 * the locks are read by inspect.c and zeroed by arena_life.c.
 */
#ifndef HPA_HSEC_H
#define HPA_HSEC_H

#include "hpa/hpa_opt.h"
#include "meta/base.h"
#include "meta/edata.h"
#include "os/mutex.h"
#include "os/pages.h"

/* Lengths of extents in a cache, in pages: up to the largest value of hpa_sec_max_alloc. */
#define HSEC_LENGTHS \
	(HPA_SEC_ALLOC_MAX >> LG_PAGE_MIN == 0 ? 1 : HPA_SEC_ALLOC_MAX >> LG_PAGE_MIN)
/* Maximum number of caches of a shard; a greater value of hpa_sec_nshards means this many. */
#define HSEC_MAX 256u

/* Counters of small extent caches: X(name, text for the manual). */
#define HSEC_STATS_FIELDS(X) \
	X(hits, "requests that found an extent in a small extent cache") \
	X(misses, "requests that found none there, and took extents from slabs") \
	X(dalloc_noflush, "extents given back that were kept there") \
	X(dalloc_flush, "extents given back whose cache was full: half of it went back to slabs") \
	X(overfills, "times that what a request brought made a cache too full")

typedef struct hsec_stats_s {
	size_t bytes; /* in the caches now */
#define HSEC_STATS_FIELD(name, says) size_t name;
	HSEC_STATS_FIELDS(HSEC_STATS_FIELD)
#undef HSEC_STATS_FIELD
} hsec_stats_t;

/* One cache, all under its mtx. */
typedef struct hsec_cache_s {
	mutex_t mtx;
	hsec_stats_t stats;
	/* lists[d * HSEC_LENGTHS + i]: extents of i + 1 pages, dense if d, the last one put in first */
	ql_t lists[2 * HSEC_LENGTHS];
} hsec_cache_t;

/* The caches of a shard. */
typedef struct hsec_s {
	unsigned n; /* number of caches; 0: extents are not cached */
	hsec_cache_t *caches;
	atomic_zu_t bytes; /* in all of them; each change is made under that cache's lock */
	/* Of hsec_try_idle(): number of uses at its last call, and since when it is constant (ns). */
	size_t seen;
	uint64_t idle_since;
} hsec_t;

/* Makes the caches that the options ask for, perhaps none; *s is zeroed before. 0 or ENOMEM. */
int hsec_init(hsec_t *s, base_t *base);

/* Whether extents of this size (bytes) are cached. */
static inline bool
hsec_serves(const hsec_t *s, size_t size) {
	return s->n != 0 && size <= opt_hpa_sec_max_alloc;
}

/* Bytes to which a cache is trimmed when it exceeds max_bytes. */
static inline size_t
hsec_kept(size_t max_bytes) {
	return max_bytes / 2;
}

/*
 * Takes an extent of this size and kind (hpa.h) from the cache of this thread, still in the state
 * hot; the caller owns it. NULL: a miss. This and hsec_put() only if hsec_serves().
 */
edata_t *hsec_take(hsec_t *s, size_t size, bool is_dense);
/*
 * Puts the extents of a list into the cache of this thread: one that was freed, or those that were
 * fetched from slabs; they have the state hot. Extents that exceed the limit are added to the list
 * out: the caller owns them and frees them to their slabs.
 */
void hsec_put(hsec_t *s, ql_t *from, bool is_dense, bool are_freed, ql_t *out);
/* Moves all extents to the list out; those that are put in meanwhile may stay. */
void hsec_drain(hsec_t *s, ql_t *out);
/*
 * Whether there are extents, and for ns nanoseconds none was put in, taken or missed, as far as
 * these calls observe; now: monotonic ns. Updates seen and idle_since. One thread at a time.
 */
bool hsec_try_idle(hsec_t *s, uint64_t now, uint64_t ns);

/* Adds the counters of all caches to *out. */
void hsec_stats_read(hsec_t *s, hsec_stats_t *out);
/* Zeroes the counters of all caches, which are empty. */
void hsec_stats_zero(hsec_t *s);

#endif
