/*
 * Sums up the counters of an arena; inspect.h has the contract.
 * Invariant: each lock is held only while its own part is copied, so the parts belong to slightly
 * different times. Atomic counters are read without a lock. No two locks are held together.
 */
#include "arena/inspect.h"

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
		out->small.nmalloc += sum.nmalloc;
		out->small.ndalloc += sum.ndalloc;
		out->small.nrequests += sum.nrequests;
		out->small.nfills += sum.nfills;
		out->small.nflushes += sum.nflushes;
	}
}

static void
stats_merge_large(arena_t *a, arena_stats_t *out) {
	for (unsigned i = 0; i < SC_NSIZES - SC_NBINS; i++) {
		arena_large_count_t *c = &a->large[i];
		uint64_t nmalloc = atomic_load_u64(&c->nmalloc, MO_RELAXED);
		uint64_t ndalloc = atomic_load_u64(&c->ndalloc, MO_RELAXED);
		uint64_t nrequests = atomic_load_u64(&c->nrequests, MO_RELAXED);
		out->lextents[i].nmalloc += nmalloc;
		out->lextents[i].ndalloc += ndalloc;
		out->lextents[i].nrequests += nrequests;
		out->lextents[i].curlextents += nmalloc > ndalloc ? nmalloc - ndalloc : 0;
		out->large.nmalloc += nmalloc;
		out->large.ndalloc += ndalloc;
		out->large.nrequests += nrequests;
	}
	out->large.allocated += atomic_load_zu(&a->large_allocated, MO_RELAXED);
	out->large.nfills += atomic_load_u64(&a->large_nfills, MO_RELAXED);
	out->large.nflushes += atomic_load_u64(&a->large_nflushes, MO_RELAXED);
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
}

/*
 * The page map, the metadata pool and the profiler's tables (of which `region` bytes are meant) are
 * shared by all arenas; arena 0 counts them.
 */
static size_t
shared_bytes(const arena_t *a, size_t (*region)(void)) {
	return a->ind == 0 ? emap_bytes() + meta_mapped() + region() : 0;
}

size_t
arena_resident(arena_t *a) {
	base_stats_t base;
	base_stats_read(a->base, &base);
	size_t pages = atomic_load_zu(&a->pac.nactive, MO_RELAXED) + pac_ndirty(&a->pac)
	    + pac_hpa_nidle(&a->pac);
	return base.resident + (pages << LG_PAGE) + shared_bytes(a, region_resident);
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

static void
stats_merge_pages(arena_t *a, arena_stats_t *out) {
	base_stats_t base;
	base_stats_read(a->base, &base);
	out->pactive += atomic_load_zu(&a->pac.nactive, MO_RELAXED);
	out->pdirty += pac_ndirty(&a->pac);
	out->pmuzzy += ecache_npages(&a->pac.muzzy);
	out->mapped += arena_mapped(a);
	/* Guard pages are address space without memory too. */
	out->retained += (ecache_npages(&a->pac.retained)
	    + atomic_load_zu(&a->pac.nguard, MO_RELAXED)) << LG_PAGE;
	out->extent_avail += atomic_load_zu(&a->pac.src.edata_cache.count, MO_RELAXED);
	out->base += arena_metadata(a);
	out->metadata_edata += base.edata;
	out->metadata_thp += base.n_thp;
	out->resident += arena_resident(a);
	if (a->ind == 0) {
		out->metadata_rtree += emap_bytes();
	}
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
		for (unsigned i = 0; i < a->pac.hpa->sec.n; i++) {
			stats_merge_mutex(&a->pac.hpa->sec.caches[i].mtx, &out->mutexes[arena_mutex_hpa_sec]);
		}
	}
}

size_t (*inspect_tcache_bytes)(ql_t *tcache_link);

size_t
arena_cached_bytes(arena_t *a) {
	size_t bytes = 0;
	if (inspect_tcache_bytes == NULL) {
		return 0;
	}
	mutex_lock(&a->tcache_list_mtx);
	for (ql_t *l = ql_first(&a->tcaches); l != NULL; l = ql_next(&a->tcaches, l)) {
		bytes += inspect_tcache_bytes(l);
	}
	mutex_unlock(&a->tcache_list_mtx);
	return bytes;
}

static void
stats_merge_one(arena_t *a, arena_stats_t *out) {
	stats_merge_bins(a, out);
	stats_merge_large(a, out);
	stats_merge_extents(&a->pac, out);
	stats_merge_pages(a, out);
	stats_merge_mutexes(a, out);
	stats_merge_decay(&a->pac.decay_dirty, &out->dirty);
	stats_merge_decay(&a->pac.decay_muzzy, &out->muzzy);
}

void
arena_stats_merge(arena_t *a, arena_stats_t *out) {
	uint64_t up = nstime_ns_between(a->created_ns, nstime_monotonic_ns());
	out->uptime_ns = up > out->uptime_ns ? up : out->uptime_ns;
	out->nthreads += atomic_load_u32(&a->nthreads, MO_RELAXED);
	stats_merge_one(a, out);
	out->tcache_bytes += arena_cached_bytes(a);
	arena_t *sampled = arenas_sampled_get(a->ind);
	if (sampled != NULL) {
		/* Arena 0 reports the samples of all automatic arenas, an explicit arena its own. */
		stats_merge_one(sampled, out);
	}
}

static void
stats_reset_mutex(mutex_t *m) {
	if (m != NULL) {
		mutex_lock(m);
		mutex_prof_reset(m);
		mutex_unlock(m);
	}
}

void
arena_mutexes_reset(arena_t *a) {
#define ARENA_MUTEX_RESET(name, expr, says) stats_reset_mutex(expr);
	ARENA_MUTEXES(ARENA_MUTEX_RESET)
#undef ARENA_MUTEX_RESET
	for (unsigned i = 0; a->pac.hpa != NULL && i < a->pac.hpa->sec.n; i++) {
		stats_reset_mutex(&a->pac.hpa->sec.caches[i].mtx);
	}
	for (szind_t i = 0; i < SC_NBINS; i++) {
		for (unsigned s = 0; s < bin_infos[i].n_shards; s++) {
			bin_t *bin = arena_bin(a, i, s);
			stats_reset_mutex(&bin->mtx);
		}
	}
}
