/*
 * Sums of what the arenas keep, and the share of a sample in the waste of its slab (prof_frag.h).
 *
 * No state, so no invariant: all changes are in the caller's prof_frag_t and items, whose use the
 * mutex of prof_dump.c serializes. Counters of bins, and the descriptor of a slab, are read without
 * their lock, so they may be a moment old. Locks: only those of metadata and of the arenas' lists
 * of thread caches, each for a moment. Called by prof_dump.c, and by prof_age.c for each sample.
 * prof_frag_read() and prof_frag_take() must be called inside the fork gate (os/gate.h).
 * prof_frag_has_charges() and prof_frag_pinned() read only what was copied; they are called outside
 * the gate, when the profile is written.
 */
#include "prof/sites/prof_frag.h"

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "arena/slab.h"
#include "extent/pac_hpa.h"
#include "extent/piece.h"
#include "prof/sites/prof_sample.h"

/* Sums over arenas from which parts are computed. */
typedef struct {
	uint64_t active;       /* bytes of pages in use, with holes */
	uint64_t holes;        /* bytes given back inside slabs (arena/holes.h) */
	uint64_t large;        /* bytes of large objects, in thread caches too */
	uint64_t used;         /* bytes of small objects, in thread caches too, without samples */
	uint64_t sampled_used; /* bytes of small samples */
	uint64_t sampled_slabs; /* bytes of slabs of samples, less those of holes */
	uint64_t slabs;        /* bytes of other slabs, less those of holes */
	uint64_t most_free;    /* greatest number of bytes of free regions in one arena */
} sums_t;

/* from - what, or 0 if that would be negative. */
static uint64_t
minus_or_0(uint64_t from, uint64_t what) {
	return from > what ? from - what : 0;
}

/*
 * The counters of a bin, in bytes. Other threads change them meanwhile, but each is one word, so it
 * is the value of some moment. (curslabs is written by plain stores, so it is read as volatile.)
 * Holes are subtracted from the slabs and added to s->holes.
 */
static NO_SANITIZE_THREAD prof_frag_class_t
bin_read(bin_t *bin, const bin_info_t *info, sums_t *s) {
	uint64_t holes = (uint64_t)__atomic_load_n(&bin->nholes, MO_RELAXED) << LG_PAGE;
	s->holes += holes;
	return (prof_frag_class_t){
		.slabs = minus_or_0(*(const volatile uint64_t *)&bin->stats.curslabs * info->slab_size,
		    holes),
		.used = __atomic_load_n(&bin->stats.curregs, MO_RELAXED) * info->reg_size,
		.stock = (uint64_t)STOCK_SEEN(bin->stock.n) * info->reg_size,
	};
}

/* Adds the bins of an arena that is not hidden. */
static void
bins_add(prof_frag_t *to, sums_t *s, arena_t *a) {
	uint64_t free = 0;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		for (unsigned k = 0; k < bin_infos[i].n_shards; k++) {
			prof_frag_class_t c = bin_read(arena_bin(a, i, k), &bin_infos[i], s);
			to->classes[i].slabs += c.slabs;
			to->classes[i].used += c.used;
			to->classes[i].stock += c.stock;
			free += minus_or_0(c.slabs, c.used + c.stock);
			s->slabs += c.slabs;
			s->used += c.used;
			to->stock += c.stock;
		}
	}
	to->free += free;
	s->most_free = s->most_free > free ? s->most_free : free;
}

/* Adds the bins of a hidden arena, which has slabs of samples only: bin_infos_sampled. */
static void
sampled_add(sums_t *s, arena_t *a) {
	for (szind_t i = 0; i < SC_NBINS; i++) {
		for (unsigned k = 0; k < bin_infos[i].n_shards; k++) {
			prof_frag_class_t c = bin_read(arena_bin(a, i, k), &bin_infos_sampled[i], s);
			s->sampled_slabs += c.slabs;
			s->sampled_used += c.used;
		}
	}
}

/* Adds the pages, large objects, metadata and thread caches of an arena, hidden or not. */
static void
pages_add(prof_frag_t *to, sums_t *s, arena_t *a) {
	uint64_t dirty = pac_ndirty(&a->pac);
	uint64_t hot = atomic_load_zu(&a->pac.hot_npages, MO_RELAXED);
	hot = hot < dirty ? hot : dirty;
	uint64_t kept = pac_npages_kept(&a->pac);
	s->active += (uint64_t)pac_nactive(&a->pac) << LG_PAGE;
	s->large += atomic_load_zu(&a->large_allocated, MO_RELAXED);
	to->hot += hot << LG_PAGE;
	to->dirty += (dirty - hot) << LG_PAGE;
	to->kept += (kept < dirty - hot ? kept : dirty - hot) << LG_PAGE;
	to->hpa += (uint64_t)pac_hpa_nidle(&a->pac) << LG_PAGE;
	to->muzzy += (uint64_t)ecache_npages(&a->pac.muzzy) << LG_PAGE;
	to->retained += (uint64_t)ecache_npages(&a->pac.retained) << LG_PAGE;
	to->metadata += arena_metadata_resident(a);
	to->cached += arena_cached_bytes(a);
}

void
prof_frag_read(prof_frag_t *to) {
	sums_t s = {0};
	memset(to, 0, sizeof(*to));
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		arena_t *a = arenas_get(i), *hidden = arenas_sampled_get(i);
		if (a != NULL) {
			to->arenas++;
			bins_add(to, &s, a);
			pages_add(to, &s, a);
		}
		if (hidden != NULL) {
			sampled_add(&s, hidden);
			pages_add(to, &s, hidden);
		}
	}
	uint64_t allocated = s.used + s.sampled_used + s.large;
	to->cached = to->cached < allocated ? to->cached : allocated;
	to->live = allocated - to->cached;
	to->samples = minus_or_0(s.sampled_slabs, s.sampled_used);
	to->slack = minus_or_0(s.active, s.holes + s.slabs + s.sampled_slabs + s.large);
	to->spread = to->free - s.most_free;
	thp_stats_t thp;
	thp_stats_read(&thp);
	to->huge = (uint64_t)thp.pieces * PIECE_SIZE;
	to->active = s.active;
	to->populated = thp.populated;
#define ADD(name, says) to->resident += to->name;
	PROF_FRAG_PARTS(ADD)
#undef ADD
}

/*
 * What a charge of so many bytes, by a sample of this weight (objects), adds to the variance of the
 * sum (prof_frag.h).
 */
static double
charge_variance(double bytes, double weight) {
	return bytes * bytes * (1 - 1 / weight);
}

/*
 * The waste, in bytes, of a slab with `used` regions in use, the sample's among them. Holes, which
 * are pages that were given back, are no waste. If the sample were in the slab, it would lie in one
 * of the pages at random, and that page would be no hole. With probability nholes / npages the page
 * is a hole now; so the slab would have nholes - nholes / npages holes on average.
 */
static uint64_t
slab_waste(const bin_info_t *info, uint32_t used, unsigned nholes) {
	size_t npages = info->slab_size >> LG_PAGE;
	uint64_t given_back = ((uint64_t)nholes << LG_PAGE) * (npages - 1) / npages;
	return minus_or_0(info->slab_size, used * info->reg_size + given_back);
}

void
prof_frag_take(prof_frag_t *frag, prof_item_t *item, uint64_t slab, uint64_t weight) {
	if (slab == 0 || weight <= PROF_WEIGHT_ONE) {
		return;
	}
	szind_t szind = slab_name_class(slab);
	const bin_info_t *info = &bin_infos[szind];
	unsigned nholes;
	uint32_t used = slab_nused(slab, &nholes) + 1;
	uint64_t waste = slab_waste(info, used, nholes);
	double others = (double)(weight - PROF_WEIGHT_ONE) / (double)PROF_WEIGHT_ONE;
	float bytes = (float)(others * (double)waste / (double)used);
	if (likely(used > 1)) {
		item->pinned += bytes;
		item->pinned_variance += (float)charge_variance((double)bytes,
		    (double)weight / PROF_WEIGHT_ONE);
		frag->classes[szind].charged += (double)bytes;
		return;
	}
	/*
	 * The slab is gone. All such samples of a site count to the class of the first of them; in
	 * nearly all sites they have the same class anyway.
	 */
	if (!(item->gone > 0)) {
		item->gone_class = (uint16_t)szind;
	}
	item->gone += bytes;
	frag->classes[item->gone_class].gone += (double)bytes;
}

bool
prof_frag_has_charges(const prof_frag_t *frag) {
	double sum = 0;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		sum += frag->classes[i].charged + frag->classes[i].gone;
	}
	return sum > 0;
}

/*
 * The variance, in bytes squared, of the charges of those samples of a site whose slabs are gone.
 * bytes: the sum of these charges, at most item->gone. All these samples are taken to have the same
 * charge and the same weight: the mean weight of the site's samples (c16 is in 1 / PROF_WEIGHT_ONE
 * of an object, which is 1/65536).
 */
static double
gone_variance(const prof_item_t *item, double bytes) {
	const bin_info_t *info = &bin_infos[item->gone_class];
	double n = (double)(item->cur.objs != 0 ? item->cur.objs : 1);
	double weight = (double)item->cur.c16 / PROF_WEIGHT_ONE / n;
	double most = (weight - 1) * (double)(info->slab_size - info->reg_size);
	if (bytes <= 0 || weight <= 1) {
		return 0;
	}
	return charge_variance(most * bytes / (double)item->gone, weight) * (double)item->gone / most;
}

/*
 * The integer part of the square root, by Newton's method from above. Most sites have a variance of
 * 0, to whose root it would take 1000 rounds.
 */
static uint64_t
sqrt_floor(double v) {
	if (!(v >= 1)) {
		return 0;
	}
	double r = v;
	for (double next = (r + v / r) / 2; next < r; next = (r + v / r) / 2) {
		r = next;
	}
	return (uint64_t)r;
}

uint64_t
prof_frag_pinned(const prof_frag_t *frag, const prof_item_t *item, uint64_t *error) {
	const prof_frag_class_t *c = &frag->classes[item->gone_class];
	double left = (double)minus_or_0(c->slabs, c->used + c->stock) - c->charged;
	double part = left <= 0 || !(item->gone > 0) ? 0 : left >= c->gone ? 1 : left / c->gone;
	double gone = (double)item->gone * part;
	*error = sqrt_floor((double)item->pinned_variance + gone_variance(item, gone));
	return (uint64_t)((double)item->pinned + gone);
}
