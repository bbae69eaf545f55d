/*
 * The shape of each small class: the size of its slabs and how they are divided.
 * Invariant: bin_infos is computed from the page size and the options at boot; bin_infos_sampled,
 * the shapes for sampled objects, before the first hidden arena is made (the library makes one for
 * the samples of arena 0 and the other automatic arenas, and one for those of an explicit arena).
 * Both are read-only afterwards, so reading needs no lock. Read by most of arena/, thread caches,
 * statistics (mallctl too) and the profiler.
 */
#pragma once

#include "meta/sc.h"

/* Maximum number of bins that one class may be divided into. */
#define BIN_SHARDS_MAX 64u
/* Upper bound of the number of small classes, for any page size. */
#define BIN_MAX SC_SMALL_MAXCLASS_LIMIT_NBINS

typedef struct bin_info_s {
	size_t reg_size;      /* bytes of a region: the class size */
	size_t slab_size;     /* bytes */
	uint32_t nregs;       /* regions of a slab */
	uint32_t n_shards;    /* bins of the class in an arena */
	uint32_t stock_max;   /* maximum number of regions in the stock of a bin; 0 for samples */
	/*
	 * magic: 2^32 / reg_size, rounded up, so that (offset * magic) >> 32 is the index of the
	 * region at an offset in the slab, which is below 2^32. It is exact: magic = (2^32 + r) /
	 * reg_size with 0 <= r < reg_size; so offset = i * reg_size gives i * 2^32 + i * r, and
	 * i * r <= offset < 2^32.
	 */
	uint32_t magic;
} bin_info_t;

/* Limits of the stock of a bin (stock.h): bytes, and objects. The smaller number counts. */
#define STOCK_BYTES ((size_t)1 << 20)
#define STOCK_OBJECTS_MAX 1024u

extern HIDDEN bin_info_t bin_infos[BIN_MAX];
/*
 * Shapes of slabs of sampled objects. Such a slab is as small as possible without wasting more than
 * one eighth of it, because the few samples of a class seldom fill one; but it is never larger than
 * a slab of other objects, even if that wastes more. It has at most SAMPLED_REGS_MAX regions,
 * because each region has a record.
 */
#define SAMPLED_REGS_MAX 1024u
extern HIDDEN bin_info_t bin_infos_sampled[BIN_MAX];

/*
 * For the option parser, before bin_info_boot(). Both return 0, or EINVAL if from is above to; a
 * range without a small class changes nothing. bin_info_set_shards(): all classes that serve
 * requests of from..to bytes get n bins per arena; EINVAL also if n is not in 1..BIN_SHARDS_MAX.
 * bin_info_set_slab_pages(): only the classes whose own size is in from..to bytes get slabs of
 * npages pages (clipped to what is possible).
 */
int bin_info_set_shards(size_t from, size_t to, size_t n);
int bin_info_set_slab_pages(size_t from, size_t to, size_t npages);
/* Undoes all calls of bin_info_set_slab_pages(). */
void bin_info_default_slab_pages(void);

/* Fills bin_infos; called after the options were read, again if boot failed and is tried again. */
void bin_info_boot(void);

/*
 * Fills bin_infos_sampled, unless it is done; called under the lock of arenas.c before a hidden
 * arena is made. A process without hidden arenas does not touch the memory of the table.
 */
void bin_info_boot_sampled(void);
