/*
 * A slab: an extent divided into regions of one small class, with a bitmap of the free ones.
 *
 * The bitmap of at most 256 regions lies in the descriptor, a larger one in metadata memory. It and
 * nfree are protected by the lock of the slab's bin, which callers (bin.c, holes.c) hold; icheck.c
 * and ctl_experimental.c also read them without it: the bit of a region that is in use does not
 * change, and a number may be old. A slab that is not yet, or no longer, in a bin belongs to one
 * thread (arena.c, arena_life.c, holes.c). slab_name() (tcache.c), slab_nused() (prof_frag.c),
 * slab_rec() (samples) and slab_is_taken() of a region that is the caller's need no lock. Regions
 * are handed out from the lowest address up (with canaries the first one last), so that the rest of
 * a slab stays untouched as long as possible.
 */
#pragma once

#include "arena/bin_info.h"
#include "arena/canary.h"
#include "meta/edata.h"
#include "meta/emap.h"
#include "util/fb.h"

/*
 * The name of a slab is one number, for samples: the granule (address / 4096) of one of its
 * regions, its class, and the low 20 bits of its serial number in its bin. A later slab at the same
 * place mostly has another name: in the same bin the numbers repeat after 2^20 slabs, or if they
 * began anew (arena_renew()); in another bin its number may be the same by chance. A slab has one
 * name for each granule in which regions lie.
 */
#define SLAB_NAME_SERIAL_BITS 20u
#define SLAB_NAME_CLASS_BITS 8u
cassert(48 - EMAP_LG_GRANULE + SLAB_NAME_CLASS_BITS + SLAB_NAME_SERIAL_BITS <= 64);
cassert(BIN_MAX <= 1u << SLAB_NAME_CLASS_BITS);

/* The shape of the slabs of a class. */
static inline const bin_info_t *
slab_info_of(szind_t szind, bool is_sampled) {
	return &(unlikely(is_sampled) ? bin_infos_sampled : bin_infos)[szind];
}

static inline const bin_info_t *
slab_info(const edata_t *e) {
	return slab_info_of(e->szind, e->is_sampled);
}

/* Turns an active extent of the right size into a slab with all regions free; 0 or ENOMEM. */
int slab_init(edata_t *e, szind_t szind, unsigned shard, bool is_sampled);
/*
 * Turns a slab, which is in no bin any more, into a plain extent again; all its regions must be
 * free.
 */
void slab_fini(edata_t *e);

/*
 * Slabs of more pages have no holes (holes.h): none of their pages is given back before the slab
 * is.
 */
#define SLAB_PAGES_MAX 16u

/*
 * The pages of which nothing is in use, a bit for each page: all regions that reach into the page
 * are free. 0 for a slab of one page, of more than SLAB_PAGES_MAX, or without a free region.
 */
uint32_t slab_empty_pages(const edata_t *e, const bin_info_t *info);
/* Take all regions that reach into these pages (all must be free), and put them back. */
void slab_take_pages(edata_t *e, const bin_info_t *info, uint32_t pages);
void slab_put_pages(edata_t *e, const bin_info_t *info, uint32_t pages);

/*
 * Takes up to n regions into out, lowest address first (with canaries see above). Returns the
 * number.
 */
unsigned slab_take(edata_t *e, const bin_info_t *info, void **out, unsigned n);
/*
 * Marks the region at byte offset off of the slab as free; off is below nregs * reg_size; magic:
 * bin_info_t.magic. Returns false if it was free already (double free) or if no region begins
 * there.
 */
ALWAYS_INLINE bool
slab_try_put(edata_t *e, size_t reg_size, uint64_t magic, size_t off) {
	uint64_t r = (off * magic) >> 32;
	if (unlikely(r * reg_size != off)) {
		return false;
	}
	fb_word_t *word = &e->bits[r / FB_WORD_BITS];
	fb_word_t bits = *word;
	if (unlikely(((bits >> (r % FB_WORD_BITS)) & 1) != 0)) {
		return false;
	}
	*word = bits | (fb_word_t)1 << (r % FB_WORD_BITS);
	e->nfree++;
	return true;
}

/*
 * Whether a region of e begins at ptr, which is in e, and is taken. Right without the bin's lock
 * too if that region is the caller's: its bit does not change then, although others of its word do.
 */
bool slab_is_taken(const edata_t *e, const void *ptr);

/*
 * The name of the slab e, in which ptr is. Takes no lock: unless the caller has an object of the
 * slab, e may be gone or another's meanwhile, and the name is then that of no slab, or of another.
 */
NO_SANITIZE_THREAD static inline uint64_t
slab_name(const edata_t *e, const void *ptr) {
	uint64_t granule = (uintptr_t)ptr >> EMAP_LG_GRANULE;
	uint64_t serial = *(const volatile uint32_t *)&e->serial;
	return granule << (SLAB_NAME_CLASS_BITS + SLAB_NAME_SERIAL_BITS)
	    | (uint64_t)e->szind << SLAB_NAME_SERIAL_BITS
	    | (serial & ((1u << SLAB_NAME_SERIAL_BITS) - 1));
}

static inline szind_t
slab_name_class(uint64_t name) {
	return (szind_t)(name >> SLAB_NAME_SERIAL_BITS) & ((1u << SLAB_NAME_CLASS_BITS) - 1);
}

/*
 * The number of regions of the slab of this name that are taken (also by thread caches and the
 * stock of its bin), and of its pages that were given back (holes.h); 0 and 0: it is gone, or has
 * no region in use. Takes no lock.
 */
uint32_t slab_nused(uint64_t name, unsigned *nholes);

/*
 * The profiler's record of the region at ptr; NULL if no region of the sampled slab begins there.
 */
static inline sample_rec_t *
slab_rec(const edata_t *e, const void *ptr) {
	assert(e->is_slab && e->is_sampled && e->recs != NULL);
	const bin_info_t *info = &bin_infos_sampled[e->szind];
	size_t off = (size_t)((const char *)ptr - e->addr);
	size_t r = (size_t)(((uint64_t)off * info->magic) >> 32);
	return r < info->nregs && r * info->reg_size == off ? &e->recs[r] : NULL;
}
