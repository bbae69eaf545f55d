/*
 * Small extent caches before the huge slabs of a shard, as the options hpa_sec_* say.
 * A thread uses one of them, so that most of its requests take no lock that others want: extents
 * that it gives back wait there for its next requests, and a request that finds none brings some
 * more at once. A cache with more than its bytes gives up half of them, of each length those that
 * wait longest. Invariant: an extent in a cache has the state hot and is in use for its slab; bytes
 * of a cache are the sum of its lists. Each cache has a lock, under which nothing else is called.
 * Called by pac_hpa.
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
/* Most caches of a shard; a greater value of hpa_sec_nshards means this many. */
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

typedef struct hsec_cache_s {
	mutex_t mtx;
	hsec_stats_t stats;
	/* Extents of 1, 2, ... pages; the one that was put in last at the head. */
	ql_t lists[HSEC_LENGTHS];
} hsec_cache_t;

typedef struct hsec_s {
	unsigned n;
	hsec_cache_t *caches;
	atomic_zu_t bytes; /* in all of them; written under the cache's lock, so never below 0 */
	/* What hsec_try_idle() saw last, and since when. One thread at a time. */
	size_t seen;
	uint64_t idle_since;
} hsec_t;

/* Makes the caches that the options ask for, perhaps none. 0 or ENOMEM. */
int hsec_init(hsec_t *s, base_t *base);

static inline bool
hsec_serves(const hsec_t *s, size_t size) {
	return s->n != 0 && size <= opt_hpa_sec_max_alloc;
}

/* Bytes that a cache keeps when it holds too many. */
static inline size_t
hsec_kept(size_t max_bytes) {
	return max_bytes / 2;
}

/* An extent of this size, which the caller owns, still marked as hot; NULL: a miss. */
edata_t *hsec_take(hsec_t *s, size_t size);
/*
 * Put an extent, marked as hot, or those of a list, into the cache of this thread; is_fill: they
 * come from slabs. What has to go back to slabs is added to the list out, and is the caller's.
 */
void hsec_put(hsec_t *s, edata_t *e, ql_t *out);
void hsec_fill(hsec_t *s, ql_t *from, ql_t *out);
/* Moves all extents to the list out. */
void hsec_drain(hsec_t *s, ql_t *out);
/* Whether there are extents, and none was put in or taken for so many nanoseconds. */
bool hsec_try_idle(hsec_t *s, uint64_t now, uint64_t ns);

void hsec_stats_read(hsec_t *s, hsec_stats_t *out);

#endif
