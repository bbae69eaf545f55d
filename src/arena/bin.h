/*
 * A bin: the slabs of one class (or of one shard of it) in one arena.
 *
 * slabcur serves requests until it is full; then the lowest slab that has a free region takes its
 * place.  A slab with all regions free is given back; slabcur, which a pair of malloc and free would make
 * anew each time, only when asked (bin_drop_current_locked): at once where unused pages go at once, else when
 * it lay unused between two trims.  Full slabs are on no list.  What thread caches have too many of goes into the stock first, and comes out of it first;
 * it is free to all statistics, and taken to its slab.
 * Everything here, and nfree and the bitmap of its slabs, is under the bin's lock, which is
 * never held while pages are fetched or returned.
 */
#ifndef ARENA_BIN_H
#define ARENA_BIN_H

#include "arena/arena_stats.h"
#include "arena/safety.h"
#include "arena/slab.h"
#include "arena/stock.h"

/* How long the current slab has had no region in use. */
typedef enum {
	bin_idle_not,    /* regions were taken from it since, or nobody has looked */
	bin_idle_found,  /* since the last trim */
	bin_idle_long    /* longer */
} bin_idle_t;

typedef struct bin_s {
	mutex_t mtx;
	edata_t *slabcur;
	ph_t nonfull;
	stock_t stock;
	uint8_t idle; /* bin_idle_t of slabcur; written under the lock, read without */
	bin_stats_t stats;
} ALIGNED(CACHELINE) bin_t;

void bin_init(bin_t *bin);

/* Up to n regions from what the bin has; 0: it needs a new slab. */
unsigned bin_take_locked(bin_t *bin, const bin_info_t *info, void **out, unsigned n);
/* A fresh slab becomes the current one; false: it is not needed any more, and stays the caller's. */
bool bin_try_add_slab_locked(bin_t *bin, edata_t *slab);

ALWAYS_INLINE void
bin_set_idle(bin_t *bin, bin_idle_t idle) {
	__atomic_store_n(&bin->idle, (uint8_t)idle, MO_RELAXED);
}

/* Sequentially consistent, as the arena's has_spare: who finds a slab empty writes here and looks there, who trims the reverse. */
ALWAYS_INLINE bin_idle_t
bin_idle(const bin_t *bin) {
	return (bin_idle_t)__atomic_load_n(&bin->idle, MO_SEQ_CST);
}

ALWAYS_INLINE void
bin_found_idle(bin_t *bin) {
	if (bin_idle(bin) == bin_idle_not) {
		__atomic_store_n(&bin->idle, (uint8_t)bin_idle_found, MO_SEQ_CST);
	}
}

/* Whether the current slab has no region in use. */
ALWAYS_INLINE bool
bin_has_empty_current_locked(const bin_t *bin, const bin_info_t *info) {
	return bin->slabcur != NULL && bin->slabcur->nfree == info->nregs;
}

/* The current slab, which has no region in use, leaves and is linked to *empty, as in bin_put_locked. */
void bin_drop_current_locked(bin_t *bin, const bin_info_t *info, edata_t **empty);

/* The slab of a region on its way back; a pointer that is in none ends the process. */
static inline edata_t *
bin_slab_of(const void *ptr) {
	uint64_t elem = emap_elem(ptr);
	if (unlikely((elem & ELEM_SLAB) == 0)) {
		safety_fail("double free or pointer to no block");
	}
	return elem_edata(elem);
}

/* The same, for what a cache has held as a region of the class: a sized free takes the program's word for that. */
static inline edata_t *
bin_slab_of_class(const void *ptr, szind_t szind) {
	edata_t *slab = bin_slab_of(ptr);
	if (unlikely(slab->szind != szind)) {
		safety_fail("size of a sized free is not that of the block");
	}
	return slab;
}

/* Whoever sums up what is live reads it without the lock. */
ALWAYS_INLINE void
bin_set_curregs(bin_t *bin, size_t n) {
	__atomic_store_n(&bin->stats.curregs, n, MO_RELAXED);
}

ALWAYS_INLINE void
bin_count_back(bin_t *bin, unsigned n) {
	assert(bin->stats.curregs >= n);
	bin->stats.ndalloc += n;
	bin_set_curregs(bin, bin->stats.curregs - n);
}

/*
 * Regions come back.  bin is that of ptrs[0]; the first of the n that belongs to another one (of their
 * class) ends the row; returns how many came back.  Slabs with no region in use any more
 * leave the bin, but for the current one, and are linked to *empty by heap.next: the caller gives them back once the lock is
 * dropped.  A pointer that is no taken region ends the process with a message.
 */
unsigned bin_put_locked(bin_t *bin, const bin_info_t *info, void **ptrs, unsigned n, edata_t **empty);

/* The n that have come into the stock last are taken regions, or the process ends. */
void bin_check_latest(const bin_t *bin, unsigned n);
/*
 * Regions that a cache has too many of come back, as many as there is room for in the stock; home: of
 * the bin's slabs.  Those of other homes, and those that there was no room for, are moved to the front of ptrs;
 * returns how many.
 */
ALWAYS_INLINE unsigned
bin_stow_locked(bin_t *bin, stock_home_t home, void **ptrs, unsigned n) {
	mutex_assert_owner(&bin->mtx);
	unsigned nkept = stock_put(&bin->stock, home, ptrs, n);
	if (config_debug || config_opt_safety_checks) {
		bin_check_latest(bin, n - nkept);
	}
	bin_count_back(bin, n - nkept);
	return nkept;
}
/* The same for regions of this bin, which nobody looks at; returns how many went in. */
ALWAYS_INLINE unsigned
bin_stow_row_locked(bin_t *bin, void *const *ptrs, unsigned n) {
	mutex_assert_owner(&bin->mtx);
	unsigned nput = stock_put_own(&bin->stock, ptrs, n);
	if (config_debug || config_opt_safety_checks) {
		bin_check_latest(bin, nput);
	}
	bin_count_back(bin, nput);
	return nput;
}
/* The n regions that have been in the stock longest go to their slabs; misuse and *empty: see bin_put_locked. */
void bin_unstock_locked(bin_t *bin, const bin_info_t *info, unsigned n, edata_t **empty);

/* All its objects are gone, and its slabs are the caller's. */
void bin_forget(bin_t *bin);
void bin_stats_zero_locked(bin_t *bin);
void bin_stats_merge(bin_t *bin, bin_stats_t *out, mutex_prof_data_t *mutex_out);

#endif
