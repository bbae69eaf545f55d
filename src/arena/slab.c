/* Bitmap work of slabs. */
#include "arena/slab.h"

#include "meta/freepool.h"
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
	const bin_info_t *info = &bin_infos[szind];
	assert(e->size == info->slab_size && e->state == extent_state_active);
	e->bits = e->u.inline_bits;
	if (slab_has_outside_bits(info->nregs)) {
		e->bits = meta_alloc(slab_bits_bytes(info->nregs));
	}
	e->recs = is_sampled ? meta_alloc(info->nregs * sizeof(sample_rec_t)) : NULL;
	if (e->bits == NULL || (is_sampled && e->recs == NULL)) {
		if (slab_has_outside_bits(info->nregs)) {
			meta_free(e->bits, slab_bits_bytes(info->nregs));
		}
		meta_free(e->recs, info->nregs * sizeof(sample_rec_t));
		e->bits = NULL;
		e->recs = NULL;
		return ENOMEM;
	}
	slab_bits_fill(e, info->nregs);
	e->szind = (uint8_t)szind;
	e->bin_shard = (uint8_t)shard;
	e->is_slab = true;
	e->is_sampled = is_sampled;
	e->is_listed = false;
	emap_set_slab(e);
	return 0;
}

void
slab_fini(edata_t *e) {
	if (e->is_slab) {
		const bin_info_t *info = &bin_infos[e->szind];
		assert(e->nfree == info->nregs && !e->is_listed);
		emap_clear_slab_interior(e);
		if (slab_has_outside_bits(info->nregs)) {
			meta_free(e->bits, slab_bits_bytes(info->nregs));
		}
		meta_free(e->recs, info->nregs * sizeof(sample_rec_t));
	}
	e->bits = NULL;
	e->recs = NULL;
	e->is_slab = false;
	e->is_sampled = false;
}

unsigned
slab_take(edata_t *e, const bin_info_t *info, void **out, unsigned n) {
	unsigned got = 0;
	n = (unsigned)min_zu(n, e->nfree);
	char *base = e->addr;
	size_t reg = info->reg_size;
	for (size_t w = 0; got < n; w++) {
		assert(w < FB_NWORDS(info->nregs));
		fb_word_t bits = e->bits[w];
		while (bits != 0 && got < n) {
			out[got++] = base + ctz64(bits) * reg;
			bits &= bits - 1;
		}
		e->bits[w] = bits;
		base += FB_WORD_BITS * reg;
	}
	assert(got == n && e->nfree >= got);
	e->nfree -= got;
	return got;
}

bool
slab_put_is_valid(edata_t *e, const bin_info_t *info, const void *ptr) {
	size_t off = (size_t)((const char *)ptr - e->addr);
	size_t i = (size_t)(((uint64_t)off * info->div.magic) >> 32);
	if (unlikely(i >= info->nregs || i * info->reg_size != off)) {
		return false;
	}
	fb_word_t bit = (fb_word_t)1 << (i % FB_WORD_BITS);
	fb_word_t *word = &e->bits[i / FB_WORD_BITS];
	if (unlikely((*word & bit) != 0)) {
		return false;
	}
	*word |= bit;
	e->nfree++;
	assert(e->nfree <= info->nregs);
	return true;
}
