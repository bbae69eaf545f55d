/*
 * Where the bytes of the heap are (prof_frag_read()): the counters of all bins of all arenas and
 * their hidden ones, and of pages, are set to other values at random; what is read is what a model
 * makes of them. They are as they were before anything is allocated again.
 */
#include "ctl.h"

#include "arena/arena.h"
#include "arena/arenas.h"
#include "arena/inspect.h"
#include "extent/ahead.h"
#include "extent/pac_hpa.h"
#include "extent/piece.h"
#include "os/gate.h"
#include "prof/sites/prof_frag.h"

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
	ok(is_split && is_kept && is_sampled, "with unused pages of which some are hot or kept");
	return done_testing();
}
