/*
 * Slabs: creating and deleting them, and taking regions out of the bitmap; slab.h has the contract.
 * Invariant: nfree is the number of set bits, and a set bit is a free region (but arena_life.c sets
 * nfree alone, just before slab_fini()). While a slab is in a bin, the caller holds the bin's lock.
 * Before and afterwards it belongs to the calling thread. slab_nused() and slab_is_taken() may be
 * called at any time and take no lock. Called by arena.c, arena_life.c, bin.c and holes.c;
 * slab_nused() by prof/sites/prof_frag.c, slab_is_taken() by icheck.c.
 */
#include "arena/slab.h"

#include "meta/freepool.h"
#include "meta/recs.h"
#include "util/fb.h"

static size_t
slab_bits_bytes(uint32_t nregs) {
	return FB_NWORDS(nregs) * sizeof(fb_word_t);
}

static bool
slab_has_outside_bits(uint32_t nregs) {
	return nregs > EDATA_INLINE_BITS_WORDS * FB_WORD_BITS;
}

static void
slab_bits_fill(edata_t *e, uint32_t nregs) {
	size_t full = nregs / FB_WORD_BITS;
	memset(e->bits, 0xff, full * sizeof(fb_word_t));
	if (nregs % FB_WORD_BITS != 0) {
		e->bits[full] = ((fb_word_t)1 << (nregs % FB_WORD_BITS)) - 1;
	}
	e->nfree = nregs;
}

int
slab_init(edata_t *e, szind_t szind, unsigned shard, bool is_sampled) {
	const bin_info_t *info = slab_info_of(szind, is_sampled);
	assert(e->size == info->slab_size && e->state == extent_state_active);
	e->bits = e->u.inline_bits;
	if (slab_has_outside_bits(info->nregs)) {
		e->bits = meta_alloc(slab_bits_bytes(info->nregs));
	}
	e->recs = is_sampled ? recs_alloc(info->nregs) : NULL;
	if (e->bits == NULL || (is_sampled && e->recs == NULL)) {
		if (slab_has_outside_bits(info->nregs)) {
			meta_free(e->bits, slab_bits_bytes(info->nregs));
		}
		recs_free(e->recs, info->nregs);
		e->bits = NULL;
		e->recs = NULL;
		return ENOMEM;
	}
	slab_bits_fill(e, info->nregs);
	for (uint32_t i = 0; config_hardening && i < info->nregs; i++) {
		canary_begin(e->addr + i * info->reg_size, info->reg_size);
	}
	e->szind = (uint8_t)szind;
	e->bin_shard = (uint8_t)shard;
	e->is_slab = true;
	e->is_sampled = is_sampled;
	e->is_listed = false;
	assert(e->holes == 0 && e->seen_empty == 0 && ql_is_empty(&e->link));
	emap_set_slab(e);
	return 0;
}

void
slab_fini(edata_t *e) {
	if (e->is_slab) {
		const bin_info_t *info = slab_info(e);
		assert(e->nfree == info->nregs && !e->is_listed);
		emap_clear_slab_interior(e);
		if (slab_has_outside_bits(info->nregs)) {
			meta_free(e->bits, slab_bits_bytes(info->nregs));
		}
		recs_free(e->recs, info->nregs);
	}
	e->holes = 0;
	e->seen_empty = 0;
	e->bits = NULL;
	e->recs = NULL;
	e->is_slab = false;
	e->is_sampled = false;
}

/* Number of consecutive ones in a word from bit `from` up. */
static unsigned
bits_run(fb_word_t bits, unsigned from) {
	fb_word_t rest = ~(bits >> from);
	return rest == 0 ? FB_WORD_BITS : ctz64(rest);
}

/* Moves up to n regions of one word of the bitmap to out, run by run. Returns the number. */
static unsigned
slab_take_word(fb_word_t *word, char *base, size_t reg, void **out, unsigned n) {
	fb_word_t bits = *word;
	unsigned got = 0;
	if (n == 1 && bits != 0) {
		*out = base + ctz64(bits) * reg;
		*word = bits & (bits - 1);
		return 1;
	}
	while (bits != 0 && got < n) {
		unsigned from = ctz64(bits);
		unsigned run = (unsigned)min_zu(bits_run(bits, from), n - got);
		char *p = base + from * reg;
		bits &= ~((~(fb_word_t)0 >> (FB_WORD_BITS - run)) << from);
		for (void **end = out + run; out < end; p += reg) {
			*out++ = p;
		}
		got += run;
	}
	*word = bits;
	return got;
}

/*
 * Whether the first region is left out of this call. With canaries it is taken last. A write in
 * front of an object changes the canary of the region before it, and is noticed there. Before the
 * first region there is no region, so such a write is not noticed. So each call leaves the first
 * region, unless it is the only free one.
 */
static bool
slab_keeps_first(const edata_t *e) {
	return config_hardening && e->nfree > 1 && (e->bits[0] & 1) != 0;
}

unsigned
slab_take(edata_t *e, const bin_info_t *info, void **out, unsigned n) {
	unsigned got = 0;
	bool keeps_first = slab_keeps_first(e);
	n = (unsigned)min_zu(n, e->nfree - keeps_first);
	e->bits[0] &= ~(fb_word_t)keeps_first;
	char *base = e->addr;
	for (fb_word_t *word = e->bits; got < n; word++) {
		assert((size_t)(word - e->bits) < FB_NWORDS(info->nregs));
		got += slab_take_word(word, base, info->reg_size, out + got, n - got);
		base += FB_WORD_BITS * info->reg_size;
	}
	assert(got == n && e->nfree >= got);
	e->bits[0] |= keeps_first;
	e->nfree -= got;
	return got;
}

NO_SANITIZE_THREAD bool
slab_is_taken(const edata_t *e, const void *ptr) {
	assert(e->is_slab && (const char *)ptr >= e->addr);
	const bin_info_t *info = slab_info(e);
	size_t off = (size_t)((const char *)ptr - e->addr), r = off / info->reg_size;
	fb_word_t word = r < info->nregs
	    ? __atomic_load_n(&e->bits[r / FB_WORD_BITS], MO_RELAXED) : ~(fb_word_t)0;
	return off % info->reg_size == 0 && (word >> (r % FB_WORD_BITS) & 1) == 0;
}

/* ------------------------------------------------------------------ whole pages */

/* The bits [first, end) of one word; end is not included. */
static fb_word_t
bits_between(size_t first, size_t end) {
	assert(first < end && end <= FB_WORD_BITS);
	return (~(fb_word_t)0 >> (FB_WORD_BITS - (end - first))) << first;
}

/* The regions that reach into a page: [*first, *end). If none does, *first and *end are equal. */
static void
slab_page_regions(const bin_info_t *info, unsigned page, size_t *first, size_t *end) {
	size_t last = (((size_t)page + 1) * PAGE - 1) / info->reg_size;
	*first = min_zu((size_t)page * PAGE / info->reg_size, info->nregs);
	*end = min_zu(last + 1, info->nregs);
}

static bool
slab_are_free(const edata_t *e, size_t first, size_t end) {
	for (size_t at = first, to; at < end; at = to) {
		size_t word = at / FB_WORD_BITS;
		to = min_zu((word + 1) * FB_WORD_BITS, end);
		fb_word_t mask = bits_between(at % FB_WORD_BITS, to - word * FB_WORD_BITS);
		if ((e->bits[word] & mask) != mask) {
			return false;
		}
	}
	return true;
}

uint32_t
slab_empty_pages(const edata_t *e, const bin_info_t *info) {
	unsigned npages = (unsigned)(info->slab_size >> LG_PAGE);
	uint32_t pages = 0;
	if (npages == 1 || npages > SLAB_PAGES_MAX || e->nfree == 0) {
		return 0;
	}
	for (unsigned i = 0; i < npages; i++) {
		size_t first, end;
		slab_page_regions(info, i, &first, &end);
		pages |= (uint32_t)slab_are_free(e, first, end) << i;
	}
	return pages;
}

/*
 * Makes all regions that reach into these pages free, or taken. nfree changes only for regions that
 * were not in that state before.
 */
static void
slab_set_pages(edata_t *e, const bin_info_t *info, uint32_t pages, bool is_free) {
	for (unsigned i = 0; pages >> i != 0; i++) {
		size_t first, end;
		slab_page_regions(info, i, &first, &end);
		for (size_t r = first; (pages >> i & 1) != 0 && r < end; r++) {
			fb_word_t bit = (fb_word_t)1 << (r % FB_WORD_BITS), *word = &e->bits[r / FB_WORD_BITS];
			if (((*word & bit) != 0) != is_free) {
				*word ^= bit;
				e->nfree += is_free ? 1 : (uint32_t)-1;
			}
		}
	}
}

void
slab_take_pages(edata_t *e, const bin_info_t *info, uint32_t pages) {
	assert((pages & ~slab_empty_pages(e, info)) == 0);
	slab_set_pages(e, info, pages, false);
}

void
slab_put_pages(edata_t *e, const bin_info_t *info, uint32_t pages) {
	slab_set_pages(e, info, pages, true);
	assert((pages & ~slab_empty_pages(e, info)) == 0 && e->nfree <= info->nregs);
}

/*
 * Another thread may make the slab an extent of another kind while it is read. So nfree is read
 * first, and the name is compared afterwards. A slab whose nfree is not below nregs counts as gone:
 * it has no region in use, or it is no slab of this class any more. `holes` is read last and no
 * check follows, so it may be that of a later slab.
 */
NO_SANITIZE_THREAD uint32_t
slab_nused(uint64_t name, unsigned *nholes) {
	*nholes = 0;
	const char *at = (const char *)(uintptr_t)(name
	    >> (SLAB_NAME_CLASS_BITS + SLAB_NAME_SERIAL_BITS) << EMAP_LG_GRANULE);
	uint64_t elem = emap_elem(at);
	szind_t szind = slab_name_class(name);
	if ((elem & (ELEM_SLAB | ELEM_SAMPLED)) != ELEM_SLAB || szind >= SC_NBINS) {
		return 0;
	}
	const edata_t *e = elem_edata(elem);
	uint32_t nregs = bin_infos[szind].nregs, nfree = *(const volatile uint32_t *)&e->nfree;
	if (slab_name(e, at) != name || nfree >= nregs) {
		return 0;
	}
	*nholes = popcount_zu(*(const volatile uint16_t *)&e->holes);
	return nregs - nfree;
}
