/*
 * The shape of each small class: how large its slabs are and how they divide.
 * Computed once at boot from the page size and the options, read-only after.
 */
#ifndef ARENA_BIN_INFO_H
#define ARENA_BIN_INFO_H

#include "meta/sc.h"
#include "util/div.h"

#define BIN_SHARDS_MAX 64u
#define BIN_MAX SC_SMALL_MAXCLASS_LIMIT_NBINS

typedef struct bin_info_s {
	size_t reg_size;
	size_t slab_size;
	uint32_t nregs;
	uint32_t n_shards;
	uint32_t stock_max;   /* objects that a bin keeps as caches have returned them, see stock.h */
	div_info_t div;       /* by reg_size; offsets in a slab are below 2^32 */
} bin_info_t;

#define STOCK_BYTES ((size_t)1 << 20)
#define STOCK_OBJECTS_MAX 1024u

extern HIDDEN bin_info_t bin_infos[BIN_MAX];
/*
 * Slabs of samples: as small as they can be without wasting more than an eighth, because the few
 * samples of a class seldom fill one, and with no more regions than SAMPLED_REGS_MAX, because each
 * has a record.  Never larger than the plain ones.
 */
#define SAMPLED_REGS_MAX 1024u
extern HIDDEN bin_info_t bin_infos_sampled[BIN_MAX];

/*
 * For option parsing, before bin_info_boot(): the classes of request sizes from..to get n shards; those that are
 * themselves in from..to get slabs of npages pages (clipped to what can be built).  EINVAL: not a range or not a number
 * of shards.
 */
int bin_info_set_shards(size_t from, size_t to, size_t n);
int bin_info_set_slab_pages(size_t from, size_t to, size_t npages);

void bin_info_boot(void);

#endif
