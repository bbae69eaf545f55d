/*
 * Sums up the counters of an arena; inspect.h has the contract.
 * Invariant: each lock is held only while its own part is copied, so the parts belong to slightly
 * different times. Atomic counters are read without a lock. No two locks are held together. Called
 * by ctl_snapshot.c, prof_figures.c and prof_frag.c.
 */
#include "arena/inspect.h"

#include "arena/arena_life.h"
#include "arena/holes.h"
#include "arena/arenas.h"
#include "extent/pac_hpa.h"
#include "os/nstime.h"
#include "meta/freepool.h"
#include "meta/region.h"

static void
stats_merge_decay(const pac_decay_t *d, decay_stats_t *out) {
#define DECAY_STATS_ADD(name, type, says) out->name += atomic_load_u64(&d->name, MO_RELAXED);
	DECAY_STATS_FIELDS(DECAY_STATS_ADD)
#undef DECAY_STATS_ADD
}

static void
stats_merge_bins(arena_t *a, arena_stats_t *out) {
	for (szind_t i = 0; i < SC_NBINS; i++) {
		bin_stats_t sum = {0};
		for (unsigned s = 0; s < bin_infos[i].n_shards; s++) {
			bin_stats_merge(arena_bin(a, i, s), &sum, &out->bin_mutexes[i]);
		}
#define BIN_STATS_SUM(name, type, says) out->bins[i].name += sum.name;
		BIN_STATS_FIELDS(BIN_STATS_SUM)
#undef BIN_STATS_SUM
		out->small.allocated += sum.curregs * bin_infos[i].reg_size;
#define SMALL_STATS_SUM(name, type, says) out->small.name += sum.name;
		CLASS_OF_SIZE_FIELDS(SMALL_STATS_SUM)
		CLASS_OF_ALL_FIELDS(SMALL_STATS_SUM)
#undef SMALL_STATS_SUM
	}
}

static void
stats_merge_large(arena_t *a, arena_stats_t *out) {
	for (unsigned i = 0; i < SC_NSIZES - SC_NBINS; i++) {
		large_stats_t now = {0};
#define LARGE_READ(name, type, says) now.name = atomic_load_u64(&a->large[i].name, MO_RELAXED);
		LARGE_COUNT_FIELDS(LARGE_READ)
#undef LARGE_READ
		now.curlextents = now.nmalloc > now.ndalloc ? now.nmalloc - now.ndalloc : 0;
#define LARGE_ADD(name, type, says) out->lextents[i].name += now.name;
		LARGE_STATS_FIELDS(LARGE_ADD)
#undef LARGE_ADD
#define LARGE_SUM(name, type, says) out->large.name += now.name;
		CLASS_OF_SIZE_FIELDS(LARGE_SUM)
#undef LARGE_SUM
	}
	out->large.allocated += atomic_load_zu(&a->large_allocated, MO_RELAXED);
#define LARGE_ALL(name, type, says) \
	out->large.name += atomic_load_u64(&a->large_all.name, MO_RELAXED);
	CLASS_OF_ALL_FIELDS(LARGE_ALL)
#undef LARGE_ALL
}

/* Hot extents, and the rest of a huge piece (extent/piece.h), count as dirty. */
static void
stats_add_hot(void *ctx, unsigned pind, size_t size) {
	ecache_stats_t *x = &((arena_stats_t *)ctx)->extents[pind];
	x->ndirty++;
	x->dirty_bytes += size;
}

static void
stats_merge_extents(pac_t *pac, arena_stats_t *out) {
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		ecache_stats_t *x = &out->extents[i];
		x->ndirty += atomic_load_zu(&pac->dirty.eset.classes[i].nextents, MO_RELAXED);
		x->nmuzzy += atomic_load_zu(&pac->muzzy.eset.classes[i].nextents, MO_RELAXED);
		x->nretained += atomic_load_zu(&pac->retained.eset.classes[i].nextents, MO_RELAXED);
		x->dirty_bytes += atomic_load_zu(&pac->dirty.eset.classes[i].nbytes, MO_RELAXED);
		x->muzzy_bytes += atomic_load_zu(&pac->muzzy.eset.classes[i].nbytes, MO_RELAXED);
		x->retained_bytes += atomic_load_zu(&pac->retained.eset.classes[i].nbytes, MO_RELAXED);
	}
	pac_hot_each(pac, stats_add_hot, out);
}

/*
 * Bytes of the page map, the metadata pool and the profiler's tables. All arenas share these, so
 * only arena 0 counts them. `region` gives the bytes of the tables, mapped or resident.
 */
static size_t
shared_bytes(const arena_t *a, size_t (*region)(void)) {
	return a->ind == 0 ? emap_bytes() + meta_mapped() + region() : 0;
}

size_t
arena_metadata_resident(arena_t *a) {
	base_stats_t base;
	base_stats_read(a->base, &base);
	return base.resident + shared_bytes(a, region_resident);
}

size_t
arena_resident(arena_t *a) {
	size_t pages = pac_nactive(&a->pac) + pac_nidle(&a->pac);
	pages -= min_zu(holes_npages(a), pages);
	return arena_metadata_resident(a) + (pages << LG_PAGE);
}

size_t
arena_mapped(arena_t *a) {
	base_stats_t base;
	base_stats_read(a->base, &base);
	return atomic_load_zu(&a->pac.mapped, MO_RELAXED) + base.mapped
	    + shared_bytes(a, region_mapped);
}

size_t
arena_metadata(arena_t *a) {
	base_stats_t base;
	base_stats_read(a->base, &base);
	return base.allocated + shared_bytes(a, region_resident);
}

void (*inspect_tcache)(ql_t *tcache_link, inspect_caches_t *sum);

/* Adds up what the caches bound to the arena have. */
static void
sum_caches(arena_t *a, inspect_caches_t *sum) {
	if (inspect_tcache == NULL) {
		return;
	}
	mutex_lock(&a->tcache_list_mtx);
	for (ql_t *l = ql_first(&a->tcaches); l != NULL; l = ql_next(&a->tcaches, l)) {
		inspect_tcache(l, sum);
	}
	mutex_unlock(&a->tcache_list_mtx);
}

size_t
arena_cached_bytes(arena_t *a) {
	inspect_caches_t sum = {0, NULL};
	sum_caches(a, &sum);
	return sum.bytes;
}

/*
 * Where each field of ARENA_STATS_SUM_FIELDS comes from, for arena a: a field without such a value
 * does not compile. base: what its base says; cached: bytes in the caches bound to it.
 */
#define SUM_nthreads atomic_load_u32(&a->nthreads, MO_RELAXED)
#define SUM_pactive pac_nactive(&a->pac)
#define SUM_pdirty pac_ndirty(&a->pac)
#define SUM_pmuzzy ecache_npages(&a->pac.muzzy)
#define SUM_mapped arena_mapped(a)
/* Guard pages are address space without memory too. */
#define SUM_retained ((ecache_npages(&a->pac.retained) \
	+ atomic_load_zu(&a->pac.nguard, MO_RELAXED)) << LG_PAGE)
#define SUM_base arena_metadata(a)
#define SUM_internal 0
#define SUM_metadata_edata base.edata
#define SUM_metadata_rtree (a->ind == 0 ? emap_bytes() : 0)
#define SUM_metadata_thp base.n_thp
#define SUM_tcache_bytes cached
#define SUM_tcache_stashed_bytes atomic_load_zu(&a->stashed, MO_RELAXED)
#define SUM_resident arena_resident(a)
#define SUM_abandoned_vm 0
#define SUM_extent_avail atomic_load_zu(&a->pac.src.edata_cache.count, MO_RELAXED)

static void
stats_merge_sums(arena_t *a, arena_stats_t *out, size_t cached) {
	base_stats_t base;
	base_stats_read(a->base, &base);
#define SUM_ADD(name, type, says) out->name += (type)(SUM_##name);
	ARENA_STATS_SUM_FIELDS(SUM_ADD)
#undef SUM_ADD
}

static void
stats_merge_mutex(mutex_t *m, mutex_prof_data_t *out) {
	mutex_prof_data_t data;
	if (m != NULL) {
		mutex_lock(m);
		mutex_prof_read(&data, m);
		mutex_unlock(m);
		mutex_prof_merge(out, &data);
	}
}

static void
stats_merge_mutexes(arena_t *a, arena_stats_t *out) {
#define ARENA_MUTEX_MERGE(name, expr, says) \
	stats_merge_mutex(expr, &out->mutexes[arena_mutex_##name]);
	ARENA_MUTEXES(ARENA_MUTEX_MERGE)
#undef ARENA_MUTEX_MERGE
	if (a->pac.hpa != NULL) {
		hpa_stats_read(a->pac.hpa, &out->hpa);
		out->hpa.sec_bytes += pac_hpa_sec_bytes(&a->pac);
	}
}

/* Adds the requests that the caches bound to the arena have served; gives the bytes in them. */
static size_t
stats_merge_caches(arena_t *a, arena_stats_t *out) {
	uint64_t requests[SC_NSIZES] = {0};
	inspect_caches_t sum = {0, requests};
	sum_caches(a, &sum);
	for (szind_t i = 0; i < SC_NBINS; i++) {
		out->bins[i].nrequests += requests[i];
		out->small.nrequests += requests[i];
	}
	for (szind_t i = SC_NBINS; i < SC_NSIZES; i++) {
		out->lextents[i - SC_NBINS].nrequests += requests[i];
		out->large.nrequests += requests[i];
	}
	return sum.bytes;
}

static void
stats_merge_one(arena_t *a, arena_stats_t *out) {
	stats_merge_bins(a, out);
	stats_merge_large(a, out);
	stats_merge_extents(&a->pac, out);
	stats_merge_sums(a, out, stats_merge_caches(a, out));
	stats_merge_mutexes(a, out);
	stats_merge_decay(&a->pac.decay_dirty, &out->dirty);
	stats_merge_decay(&a->pac.decay_muzzy, &out->muzzy);
}

void
arena_stats_merge(arena_t *a, arena_stats_t *out) {
	uint64_t up = nstime_ns_between(a->created_ns, nstime_monotonic_ns());
	out->uptime_ns = up > out->uptime_ns ? up : out->uptime_ns;
	stats_merge_one(a, out);
	arena_t *sampled = arenas_sampled_get(a->ind);
	if (sampled != NULL) {
		/* Arena 0 reports the samples of all automatic arenas, an explicit arena its own. */
		stats_merge_one(sampled, out);
	}
}

void
arena_mutexes_reset(arena_t *a) {
	arena_t *sampled = arenas_sampled_get(a->ind);
	arena_mutexes_zero(a);
	if (sampled != NULL) {
		arena_mutexes_zero(sampled);
	}
}
