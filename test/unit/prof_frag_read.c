/*
 * Where the bytes of the heap are (prof_frag_read()): the counters of all bins of all arenas and
 * their hidden ones, and of pages, are set to other values at random; what is read is what a model
 * makes of them. They are as they were before anything is allocated again. And what a sample is
 * charged, what a site pins by such charges, and with what error, for weights, slabs and classes of
 * all kinds.
 */
#include "ctl.h"

#include <math.h>

#include "arena/arena.h"
#include "arena/arenas.h"
#include "arena/inspect.h"
#include "arena/slab.h"
#include "extent/ahead.h"
#include "extent/pac_hpa.h"
#include "extent/piece.h"
#include "os/gate.h"
#include "prof/sites/prof_frag.h"
#include "prof/sites/prof_sample.h"

const char *malloc_conf = "abort_conf:false,prof:true,lg_prof_sample:8,narenas:2,junk:false,"
    "bin_shards:1-200:3,hpa:true";

enum { MOST_BINS = 3000, MOST_ARENAS = 8, MOST_WORDS = 10 * MOST_ARENAS };

static uint64_t state = 5;
static bool is_empty; /* all counters are set to 0, so that caches have more than there is */

static uint64_t
pick(uint64_t n) {
	return is_empty ? 0 : test_random(&state) % n;
}

/* ------------------------------------------------------------------ what is set and put back */

static struct {
	bin_t *bin;
	uint64_t slabs, regs;
	uint32_t stock, holes;
} kept_bins[MOST_BINS];
static struct {
	arena_t *arena;
	bool is_hidden;
} arenas[MOST_ARENAS];
static struct {
	atomic_zu_t *at;
	size_t value;
} kept_words[MOST_WORDS];
static unsigned nbins, narenas, nwords;

static void
word_set(atomic_zu_t *at, size_t value) {
	kept_words[nwords].at = at;
	kept_words[nwords++].value = atomic_load_zu(at, MO_RELAXED);
	atomic_store_zu(at, value, MO_RELAXED);
}

/* Counters of small numbers, so that one may be more or less than another. */
static void
arena_set(arena_t *a, bool is_hidden) {
	if (a == NULL) {
		return;
	}
	arenas[narenas].arena = a;
	arenas[narenas++].is_hidden = is_hidden;
	word_set(&a->large_allocated, pick(1 << 20));
	word_set(&a->pac.nactive, pick(200000));
	word_set(&a->pac.nactive_hidden, pick(2000));
	word_set(&a->pac.hot_npages, pick(500));
	word_set(&a->pac.dirty.eset.npages, pick(500));
	word_set(&a->pac.muzzy.eset.npages, pick(500));
	word_set(&a->pac.retained.eset.npages, pick(500));
	if (a->pac.hpa != NULL) {
		word_set(&a->pac.hpa->nidle, pick(500));
	}
	for (szind_t i = 0; i < SC_NBINS; i++) {
		for (unsigned k = 0; k < bin_infos[i].n_shards; k++) {
			bin_t *b = arena_bin(a, i, k);
			kept_bins[nbins].bin = b;
			kept_bins[nbins].slabs = b->stats.curslabs;
			kept_bins[nbins].regs = b->stats.curregs;
			kept_bins[nbins].stock = b->stock.n;
			kept_bins[nbins++].holes = b->nholes;
			b->stats.curslabs = pick(20);
			b->stats.curregs = pick(20 * (is_hidden ? bin_infos_sampled : bin_infos)[i].nregs);
			b->stock.n = (uint32_t)pick(4 * bin_infos[i].nregs);
			b->nholes = (uint32_t)pick(6);
		}
	}
}

static void
all_put_back(void) {
	for (unsigned i = 0; i < nbins; i++) {
		bin_t *b = kept_bins[i].bin;
		b->stats.curslabs = kept_bins[i].slabs;
		b->stats.curregs = kept_bins[i].regs;
		b->stock.n = kept_bins[i].stock;
		b->nholes = kept_bins[i].holes;
	}
	for (unsigned i = 0; i < nwords; i++) {
		atomic_store_zu(kept_words[i].at, kept_words[i].value, MO_RELAXED);
	}
	nbins = narenas = nwords = 0;
}

/* ------------------------------------------------------------------ the model */

static uint64_t
less(uint64_t from, uint64_t what) {
	return from < what ? 0 : from - what;
}

static prof_frag_t model;
static uint64_t most_free, small, hidden_slabs, hidden_used, used_pages;

static void
model_arena(arena_t *a, bool is_hidden) {
	uint64_t free = 0, dirty = pac_ndirty(&a->pac);
	for (szind_t i = 0; i < SC_NBINS; i++) {
		size_t slab_size = (is_hidden ? bin_infos_sampled : bin_infos)[i].slab_size;
		for (unsigned k = 0; k < bin_infos[i].n_shards; k++) {
			const bin_t *b = arena_bin(a, i, k);
			uint64_t holes = (uint64_t)b->nholes * PAGE;
			uint64_t slabs = less(b->stats.curslabs * slab_size, holes);
			uint64_t used = b->stats.curregs * bin_infos[i].reg_size;
			uint64_t stock = b->stock.n * bin_infos[i].reg_size;
			used_pages += slabs + holes;
			small += used;
			if (is_hidden) {
				hidden_slabs += slabs;
				hidden_used += used;
				continue;
			}
			model.classes[i].slabs += slabs;
			model.classes[i].used += used;
			model.classes[i].stock += stock;
			model.stock += stock;
			free += less(slabs, used + stock);
		}
	}
	uint64_t large = atomic_load_zu(&a->large_allocated, MO_RELAXED);
	uint64_t hot = min_zu(atomic_load_zu(&a->pac.hot_npages, MO_RELAXED), dirty);
	model.arenas += !is_hidden;
	model.free += free;
	most_free = free > most_free ? free : most_free;
	small += large;
	used_pages += large;
	model.active += pac_nactive(&a->pac) * PAGE;
	model.hot += hot * PAGE;
	model.dirty += (dirty - hot) * PAGE;
	model.kept += min_zu(pac_npages_kept(&a->pac), dirty - hot) * PAGE;
	model.hpa += pac_hpa_nidle(&a->pac) * PAGE;
	model.muzzy += ecache_npages(&a->pac.muzzy) * PAGE;
	model.retained += ecache_npages(&a->pac.retained) * PAGE;
	model.metadata += arena_metadata_resident(a);
	model.cached += arena_cached_bytes(a);
}

static void
model_read(void) {
	memset(&model, 0, sizeof(model));
	most_free = small = hidden_slabs = hidden_used = used_pages = 0;
	for (unsigned i = 0; i < narenas; i++) {
		model_arena(arenas[i].arena, arenas[i].is_hidden);
	}
	model.huge = atomic_load_zu(&thp_counts.pieces, MO_RELAXED) * PIECE_SIZE;
	model.populated = atomic_load_zu(&thp_counts.populated, MO_RELAXED);
	model.spread = model.free - most_free;
	model.cached = min_zu(model.cached, small);
	model.live = small - model.cached;
	model.samples = less(hidden_slabs, hidden_used);
	model.slack = less(model.active, used_pages);
	model.resident = model.live + model.cached + model.free + model.stock + model.samples
	    + model.slack + model.hot + model.dirty + model.hpa + model.metadata;
}

static unsigned
nwrong(const prof_frag_t *got) {
	unsigned bad = 0;
#define COMPARE(name, says) bad += wrong_if(got->name != model.name);
	PROF_FRAG_PARTS(COMPARE)
#undef COMPARE
	bad += wrong_if(got->resident != model.resident) || wrong_if(got->muzzy != model.muzzy)
	    || wrong_if(got->retained != model.retained) || wrong_if(got->kept != model.kept)
	    || wrong_if(got->spread != model.spread) || wrong_if(got->arenas != model.arenas)
	    || wrong_if(got->active != model.active) || wrong_if(got->huge != model.huge)
	    || wrong_if(got->populated != model.populated);
	for (szind_t i = 0; i < SC_NBINS; i++) {
		bad += wrong_if(got->classes[i].slabs != model.classes[i].slabs)
		    || wrong_if(got->classes[i].used != model.classes[i].used)
		    || wrong_if(got->classes[i].stock != model.classes[i].stock);
	}
	return bad;
}

/* ------------------------------------------------------------------ charges */

static bool
is_close(double got, double want) {
	return fabs(got - want) <= 1 + fabs(want) / 100000;
}

/* A sample of this weight, in objects, whose slab has so many regions in use and holes. */
static unsigned
nwrong_charge(uint64_t name, szind_t szind, double used, double holes, double weight) {
	static prof_frag_t f;
	const bin_info_t *info = &bin_infos[szind];
	double pages = (double)(info->slab_size / PAGE);
	double waste = (double)info->slab_size - (used + 1) * (double)info->reg_size
	    - holes * PAGE * (pages - 1) / pages;
	double charge = weight <= 1 || waste < 0 ? 0 : (weight - 1) * waste / (used + 1);
	double variance = weight <= 1 ? 0 : charge * charge * (1 - 1 / weight);
	prof_item_t item = {.pinned = 0, .gone_class = 3};
	memset(&f, 0, sizeof(f));
	prof_frag_take(&f, &item, name, (uint64_t)(weight * PROF_WEIGHT_ONE));
	bool is_gone = used <= 0;
	return wrong_if(!is_close((double)item.pinned, is_gone ? 0 : charge))
	    || wrong_if(!is_close((double)item.pinned_variance, is_gone ? 0 : variance))
	    || wrong_if(!is_close((double)item.gone, is_gone ? charge : 0))
	    || wrong_if(!is_close(f.classes[szind].charged, is_gone ? 0 : charge))
	    || wrong_if(!is_close(f.classes[szind].gone, is_gone ? charge : 0))
	    || wrong_if(item.gone_class != (is_gone && charge > 0 ? szind : 3))
	    || wrong_if(prof_frag_has_charges(&f) != (charge > 0));
}

static void
test_charges(void) {
	static const double weights[] = {0.5, 1, 1.5, 2, 17, 3000};
	static void *taken[4000];
	unsigned arena;
	size_t size = sizeof(arena);
	bool is_active = false;
	if (mallctl("arenas.create", &arena, &size, NULL, 0) != 0
	    || mallctl("thread.prof.active", NULL, NULL, &is_active, sizeof(is_active)) != 0) {
		bail_out("no arena");
	}
	struct tls_s *t = tls_get();
	unsigned bad = 0, nslabs = 0, nalone = 0;
	for (unsigned i = 0; i < ARRAY_LEN(taken); i++) {
		taken[i] = mallocx(1 + i % 2000, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
	}
	for (unsigned i = 0; i < ARRAY_LEN(taken) / 2; i++) { /* leaves some alone in their slabs */
		if (i % 37 != 0) {
			dallocx(taken[i], MALLOCX_TCACHE_NONE);
			taken[i] = NULL;
		}
	}
	gate_enter(t);
	for (unsigned i = 0; i < ARRAY_LEN(taken); i++) {
		const edata_t *e = taken[i] == NULL ? NULL : emap_edata(taken[i]);
		unsigned nholes;
		if (e == NULL || !e->is_slab || e->is_sampled) {
			continue;
		}
		uint64_t name = slab_name(e, taken[i]);
		uint32_t used = slab_nused(name, &nholes);
		nslabs++;
		nalone += used == 1;
		for (unsigned k = 0; k < ARRAY_LEN(weights); k++) {
			bad += nwrong_charge(name, e->szind, used, nholes, weights[k]);
			/* Where no slab is. */
			bad += nwrong_charge((uint64_t)e->szind << SLAB_NAME_SERIAL_BITS | 1, e->szind, 0, 0,
			    weights[k]);
		}
	}
	prof_frag_t *none = &model;
	prof_item_t item = {.pinned = 0};
	memset(none, 0, sizeof(*none));
	prof_frag_take(none, &item, 0, 100 * PROF_WEIGHT_ONE);
	bad += wrong_if(prof_frag_has_charges(none) || item.gone > 0 || item.pinned > 0);
	gate_exit(t);
	is_uint(bad, 0, "a sample is charged its share in the waste of its slab");
	ok(nslabs > 100 && nalone > 0, "of %u samples, %u alone in their slab", nslabs, nalone);
}

/* What a site pins whose charges are these, where its class has so much waste. */
static unsigned
nwrong_pinned(const prof_item_t *item, const prof_frag_class_t *c) {
	static prof_frag_t f;
	const bin_info_t *info = &bin_infos[item->gone_class];
	f.classes[item->gone_class] = *c;
	double left = c->slabs > c->used + c->stock ? (double)(c->slabs - c->used - c->stock) : 0;
	left = left > c->charged ? left - c->charged : 0;
	double part = !(item->gone > 0) || left <= 0 ? 0 : left < c->gone ? left / c->gone : 1;
	double n = (double)(item->cur.objs == 0 ? 1 : item->cur.objs);
	double weight = (double)item->cur.c16 / PROF_WEIGHT_ONE / n;
	/* So many samples are charged so much each. */
	double most = (weight - 1) * (double)(info->slab_size - info->reg_size), each = most * part;
	double variance = (double)item->pinned_variance
	    + (part > 0 && weight > 1 ? (double)item->gone / most * each * each * (1 - 1 / weight) : 0);
	uint64_t error = 1, got = prof_frag_pinned(&f, item, &error);
	if (most <= 0 && weight > 1) {
		return 0; /* a slab of one region has no waste to charge */
	}
	return wrong_if(!is_close((double)got, (double)item->pinned + (double)item->gone * part))
	    || wrong_if(!is_close((double)error, sqrt(variance)))
	    || wrong_if((double)error > sqrt(variance) + .001)
	    || wrong_if(!(item->gone > 0) && error != (uint64_t)sqrt(variance));
}

static void
test_pinned(void) {
	static const float variances[] = {0, 0.5F, 1, 2, 4, 8, 9, 1e6F, 1e12F, 1e18F};
	unsigned bad = 0;
	is_empty = false;
	for (unsigned i = 0; i < 20000; i++) {
		prof_item_t item = {.gone_class = (uint16_t)pick(SC_NBINS), .pinned = (float)pick(3000),
			.gone = pick(3) == 0 ? 0 : (float)pick(1 << 20),
			.pinned_variance = variances[pick(ARRAY_LEN(variances))]};
		item.cur.objs = pick(4);
		item.cur.c16 = pick(40) * PROF_WEIGHT_ONE / 2;
		prof_frag_class_t c = {.slabs = pick(1 << 22), .used = pick(1 << 20),
			.stock = pick(1 << 20), .charged = (double)pick(1 << 20),
			.gone = (double)item.gone + (double)pick(1 << 20)};
		bad += nwrong_pinned(&item, &c);
	}
	is_uint(bad, 0, "what a site pins is what its class has left");
}

int
main(void) {
	static void *objects[2000];
	static prof_frag_t got;
	unsigned bad = 0, nhidden = 0;
	bool is_split = false, is_kept = false, is_sampled = false;
	if (!config_prof) {
		plan_skip_all("no profiler in this build");
	}
	for (unsigned i = 0; i < 2000; i++) {
		objects[i] = mallocx(1 + i * 30, MALLOCX_ARENA(i % 2));
	}
	for (unsigned i = 0; i < 2000; i += 2 + i % 3) {
		dallocx(objects[i], 0);
	}
	struct tls_s *t = tls_get();
	opt_thp_min = 0; /* an arena of any size keeps pages of pieces */
	for (unsigned round = 0; round < 300; round++) {
		gate_enter(t);
		is_empty = round % 10 == 0;
		for (unsigned i = 0; i < arenas_narenas_total(); i++) {
			arena_set(arenas_get(i), false);
			arena_set(arenas_sampled_get(i), true);
		}
		word_set(&thp_counts.pieces, pick(4));
		word_set(&thp_counts.populated, pick(1 << 20));
		model_read();
		memset(&got, 0xa5, sizeof(got));
		prof_frag_read(&got);
		nhidden = narenas - (unsigned)model.arenas;
		is_split = is_split || (model.dirty > 0 && model.hot > 0);
		is_kept = is_kept || (model.kept > 0 && model.kept < model.dirty);
		is_sampled = is_sampled || model.samples > 0;
		all_put_back();
		gate_exit(t);
		bad += nwrong(&got);
	}
	is_uint(bad, 0, "all that is read is what the counters say");
	ok(model.arenas == 2 && nhidden > 0 && model.metadata > 0, "of %u arenas and %u hidden ones",
	    (unsigned)model.arenas, nhidden);
	test_charges();
	test_pinned();
	ok(is_split && is_kept && is_sampled, "with unused pages of which some are hot or kept");
	return done_testing();
}
