/* arena/slab.h: every class' slab against a plain array of "taken"; misuse is seen. */
#include "core.h"

#include "arena/slab.h"
#include "meta/freepool.h"
#include "meta/region.h"

/* Addresses that nobody else has. */
#define FAR ((char *)(uintptr_t)0x123440000000)

static ALIGNED(EDATA_ALIGN) edata_t slab;
static bool is_taken[65536];

static unsigned
start(szind_t szind, bool is_sampled) {
	memset(&slab, 0, sizeof(slab));
	edata_init(&slab, FAR, slab_info_of(szind, is_sampled)->slab_size, true, false);
	memset(is_taken, 0, sizeof(is_taken));
	return emap_reserve(FAR, slab.size) != 0 || slab_init(&slab, szind, 3, is_sampled) != 0;
}

/* Whether the first region is not taken yet although it is free: with canaries it is the last. */
static bool
keeps_first(unsigned nfree) {
	return config_hardening && nfree > 1 && !is_taken[0];
}

static unsigned
lowest_free(unsigned n, unsigned nfree) {
	unsigned i = keeps_first(nfree);
	while (i < n && is_taken[i]) {
		i++;
	}
	return i;
}

/* The region at p alone goes back. */
static bool
has_put(void *p) {
	const bin_info_t *info = &bin_infos[slab.szind];
	return slab_try_put(&slab, info->reg_size, info->magic, (size_t)((char *)p - FAR));
}

/* Number of the region at p. */
static size_t
region_of(const bin_info_t *info, const void *p) {
	return (size_t)((const char *)p - FAR) / info->reg_size;
}

/* The pages into which no taken region reaches. */
static uint32_t
pages_without_taken(const bin_info_t *info) {
	size_t npages = info->slab_size >> LG_PAGE;
	uint32_t pages = npages == 1 || npages > SLAB_PAGES_MAX ? 0 : ((uint32_t)1 << npages) - 1;
	for (size_t r = 0; r < info->nregs; r++) {
		size_t first = r * info->reg_size >> LG_PAGE;
		size_t last = ((r + 1) * info->reg_size - 1) >> LG_PAGE;
		for (size_t i = first; is_taken[r] && pages != 0 && i <= last; i++) {
			pages &= ~((uint32_t)1 << i);
		}
	}
	return pages;
}

/* Takes pages that hold nothing: no other region, and all of them come back. */
static unsigned
exercise_pages(const bin_info_t *info, uint64_t *seed) {
	uint32_t pages = pages_without_taken(info), some = pages & (uint32_t)test_random(seed);
	unsigned bad = slab_empty_pages(&slab, info) != pages, nfree = slab.nfree;
	slab_take_pages(&slab, info, some);
	bad += some != 0 && (slab_empty_pages(&slab, info) & some) != 0;
	for (size_t r = 0; r < info->nregs; r++) {
		size_t first = r * info->reg_size >> LG_PAGE;
		size_t last = ((r + 1) * info->reg_size - 1) >> LG_PAGE;
		bool is_in = false;
		for (size_t i = first; some != 0 && i <= last; i++) {
			is_in = is_in || (some >> i & 1) != 0;
		}
		bad += fb_get(slab.bits, info->nregs, r) == (is_taken[r] || is_in);
	}
	slab_put_pages(&slab, info, some);
	return bad + (slab.nfree != nfree) + (slab_empty_pages(&slab, info) != pages);
}

/* Random batches out, random regions back. */
static unsigned
exercise(szind_t szind, uint64_t *seed) {
	const bin_info_t *info = &bin_infos[szind];
	unsigned bad = start(szind, false), ntaken = 0;
	void *out[64];
	for (unsigned i = 0; i < 600; i++) {
		unsigned n = 1 + (unsigned)draw_below(seed, 64), nfree = info->nregs - ntaken;
		unsigned low = lowest_free(info->nregs, nfree), most = nfree - keeps_first(nfree);
		unsigned got = slab_take(&slab, info, out, n);
		bad += got != min_zu(n, most);
		bad += got > 0 && region_of(info, out[0]) != low;
		for (unsigned j = 0; j < got; j++) {
			size_t r = region_of(info, out[j]);
			bad += wrong_if(r >= info->nregs) || wrong_if(is_taken[r])
			    || wrong_if((char *)out[j] != FAR + r * info->reg_size);
			bad += j > 0 && out[j] <= out[j - 1];
			is_taken[r] = true;
		}
		ntaken += got;
		for (unsigned j = 0; j < 80; j++) {
			size_t r = draw_below(seed, info->nregs);
			bool is_valid = has_put(FAR + r * info->reg_size);
			bad += is_valid != is_taken[r];
			ntaken -= is_valid;
			is_taken[r] = false;
		}
		bad += slab.nfree != info->nregs - ntaken;
		bad += i % 8 == 0 ? exercise_pages(info, seed) : 0;
	}
	for (unsigned r = 0; r < info->nregs; r++) {
		bad += has_put(FAR + r * info->reg_size) != is_taken[r];
	}
	bad += slab.nfree != info->nregs;
	slab_fini(&slab);
	bad += slab.size > PAGE
	    && (wrong_if(slab.is_slab) || wrong_if(emap_edata(edata_end(&slab) - 1) == &slab));
	emap_clear_boundary(&slab);
	return bad;
}

static void
test_all_classes(void) {
	uint64_t seed = 8;
	size_t in_use = meta_in_use();
	for (szind_t i = 0; i < SC_NBINS; i++) {
		unsigned bad = exercise(i, &seed);
		is_uint(bad, 0, "class %u: %u regions of %zu", i, bin_infos[i].nregs,
		    bin_infos[i].reg_size);
	}
	is_uint(meta_in_use(), in_use, "large bitmaps are given back");
}

/* No address but the start of a taken region can be put back. */
static void
test_misuse(void) {
	unsigned bad = 0;
	void *out[8];
	szind_t szind = sc_index_compute(96);
	const bin_info_t *info = &bin_infos[szind];
	start(szind, false);
	slab_take(&slab, info, out, 8);
	size_t first = region_of(info, out[0]);
	for (size_t off = 0; off < slab.size; off++) {
		if (off % info->reg_size != 0 || off / info->reg_size - first >= 8) {
			bad += has_put(FAR + off);
		}
	}
	is_uint(bad, 0, "addresses inside regions and free regions are refused");
	is_uint(slab.nfree, info->nregs - 8, "and change nothing");
	ok(has_put(out[3]), "a taken one is put back");
	ok(!has_put(out[3]), "once");
	for (unsigned i = 0; i < 8; i++) {
		has_put(out[i]);
	}
	slab_fini(&slab);
	emap_clear_boundary(&slab);
}

/* Every region has its record, and no other address has one. */
static unsigned
records(szind_t szind) {
	static void *out[SAMPLED_REGS_MAX];
	const bin_info_t *info = slab_info_of(szind, true);
	unsigned bad = start(szind, true), n = slab_take(&slab, info, out, SAMPLED_REGS_MAX);
	n += slab_take(&slab, info, &out[n], SAMPLED_REGS_MAX - n);
	bad += wrong_if(n != info->nregs) || wrong_if(slab.nfree != 0);
	for (size_t off = 0; off < slab.size; off += 8) {
		sample_rec_t *rec = slab_rec(&slab, FAR + off);
		size_t r = off / info->reg_size;
		bad += off % info->reg_size == 0 && r < info->nregs
		    ? wrong_if(rec != &slab.recs[r]) || wrong_if(!is_filled(rec, 0, sizeof(*rec)))
		    : wrong_if(rec != NULL);
	}
	for (unsigned i = 0; i < n; i++) {
		has_put(out[i]);
	}
	bad += slab.nfree != n;
	bad += (emap_elem(FAR + PAGE) & ELEM_SAMPLED) == 0 && slab.size > PAGE;
	slab_fini(&slab);
	emap_clear_boundary(&slab);
	return bad;
}

static void
test_sampled(void) {
	bin_info_boot_sampled();
	unsigned bad = 0;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		bad += records(i);
	}
	is_uint(bad, 0, "slabs of samples: a record for each region, empty at first, and for nothing "
	    "else");
	size_t in_use = meta_in_use() + region_in_use();
	for (szind_t i = 0; i < SC_NBINS; i++) {
		records(i);
	}
	is_uint(meta_in_use() + region_in_use(), in_use, "their memory is used again");
}

static void
body(void) {
	core_map(FAR, (size_t)64 << 20);
	test_all_classes();
	test_misuse();
	test_sampled();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
