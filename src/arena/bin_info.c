/*
 * Computes the shape of the slabs of each class; bin_info.h has the contract. By default a slab is
 * the smallest whole number of pages that regions fill without a remainder: the least common
 * multiple of page and region size; with canaries the smallest multiple of it with at least
 * CANARY_REGS_MIN regions. An option (slab_sizes) may set another number of pages. Slabs for
 * samples are smaller if possible. Of such a slab up to an eighth may stay unused, and more if it
 * would have more than SAMPLED_REGS_MAX regions, or if the slabs that the option asks for waste
 * more. Invariant: the option parser writes `wish`, then bin_info_boot() fills bin_infos, again if
 * boot failed and is tried again; both in the thread that boots. The shapes for samples are filled
 * in later, once, under the lock of arenas.c. Nothing changes afterwards, so reading needs no lock.
 * Called by the option parser (conf_table.c), jemalloc_init.c and arenas.c.
 */
#include "arena/bin_info.h"

bin_info_t bin_infos[BIN_MAX];
LARGE_BSS bin_info_t bin_infos_sampled[BIN_MAX];

/* Values set by options, by class; 0: not set. */
static struct {
	uint8_t shards[BIN_MAX];
	uint32_t slab_pages[BIN_MAX];
	bool has_shards;
	bool has_slab_pages;
} wish;

static bool has_sampled; /* bin_infos_sampled is filled */

/*
 * Least number of regions of a slab with canaries, unless an option sets its pages. The first
 * region of a slab is the least guarded one, because no region lies in front of it; with more
 * regions fewer objects are in such a place.
 */
#define CANARY_REGS_MIN 4u

/* Maximum number of regions in a slab. */
static size_t
bin_max_regs(void) {
	return PAGE >> SC_LG_TINY;
}

static bool
bin_range_is_valid(size_t from, size_t to) {
	return from <= to;
}

/* Finds the small classes of the requests from..to. Returns false if there are none. */
static bool
bin_range_try_find(size_t from, size_t to, szind_t *first, szind_t *last) {
	size_t limit = sc_size_tab[BIN_MAX - 1];
	if (from > limit) {
		return false;
	}
	*first = sc_index_compute(max_zu(from, 1));
	*last = sc_index_compute(max_zu(min_zu(to, limit), 1));
	return *first < BIN_MAX;
}

int
bin_info_set_shards(size_t from, size_t to, size_t n) {
	szind_t first, last;
	if (!bin_range_is_valid(from, to) || n < 1 || n > BIN_SHARDS_MAX) {
		return EINVAL;
	}
	if (bin_range_try_find(from, to, &first, &last)) {
		wish.has_shards = true;
		memset(&wish.shards[first], (int)n, last - first + 1);
	}
	return 0;
}

int
bin_info_set_slab_pages(size_t from, size_t to, size_t npages) {
	if (!bin_range_is_valid(from, to)) {
		return EINVAL;
	}
	for (szind_t i = 0; i < BIN_MAX; i++) {
		if (sc_size_tab[i] >= from && sc_size_tab[i] <= to) {
			wish.has_slab_pages = true;
			wish.slab_pages[i] = (uint32_t)min_zu(max_zu(npages, 1), UINT32_MAX);
		}
	}
	return 0;
}

void
bin_info_default_slab_pages(void) {
	wish.has_slab_pages = false;
	memset(wish.slab_pages, 0, sizeof(wish.slab_pages));
}

static size_t
bin_slab_size(szind_t ind) {
	size_t reg = sc_size_tab[ind];
	size_t slab = PAGE, least = reg * (config_hardening ? CANARY_REGS_MIN : 1);
	while (slab % reg != 0 || slab < least) {
		slab += PAGE;
	}
	if (wish.has_slab_pages && wish.slab_pages[ind] != 0) {
		least = PAGE_CEILING(reg);
		size_t most = PAGE_CEILING(reg * bin_max_regs());
		slab = (size_t)wish.slab_pages[ind] << LG_PAGE;
		slab = min_zu(max_zu(slab, least), most);
	}
	return slab;
}

static void
bin_info_init_sampled(bin_info_t *info, const bin_info_t *plain) {
	size_t slab = PAGE_CEILING(plain->reg_size);
	while (slab < plain->slab_size && slab % plain->reg_size > slab / 8) {
		slab += PAGE;
	}
	*info = *plain;
	info->slab_size = slab;
	info->nregs
	    = (uint32_t)min_zu(slab / plain->reg_size, min_zu(SAMPLED_REGS_MAX, plain->nregs));
	info->stock_max = 0;
	assert(info->nregs > 0 && info->slab_size <= plain->slab_size);
}

void
bin_info_boot(void) {
	assert(SC_NBINS <= BIN_MAX);
	has_sampled = false;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		bin_info_t *info = &bin_infos[i];
		info->reg_size = sc_size_tab[i];
		info->slab_size = bin_slab_size(i);
		info->nregs = (uint32_t)min_zu(info->slab_size / info->reg_size, bin_max_regs());
		info->n_shards = wish.has_shards && wish.shards[i] != 0 ? wish.shards[i] : 1;
		info->stock_max = (uint32_t)min_zu(STOCK_BYTES / info->reg_size, STOCK_OBJECTS_MAX);
		info->magic = (uint32_t)(((UINT64_C(1) << 32) + info->reg_size - 1) / info->reg_size);
		assert(info->nregs > 0);
	}
}

void
bin_info_boot_sampled(void) {
	if (has_sampled) {
		return;
	}
	has_sampled = true;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		bin_info_init_sampled(&bin_infos_sampled[i], &bin_infos[i]);
	}
}
