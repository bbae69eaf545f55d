/*
 * A bin: the slabs of one small class in one arena. With the option bin_shards a class has several
 * bins (shards) there, and each slab belongs to one of them.
 *
 * Requests are served from the stock, where the surplus of thread caches goes first; if it is
 * empty, from slabcur until all its regions are taken. Then the slab at the lowest address that has
 * a free region replaces slabcur, one without holes (holes.h) if there is any. Full slabs are on no
 * list. A region in the stock is free in the statistics of the bin, but taken in the bitmap (and
 * nfree) of its slab.
 *
 * A slab with all regions free leaves the bin and is deleted. Not so slabcur, because a pair of
 * malloc and free would create it anew each time: callers drop it (bin_drop_current_locked) at once
 * if the arena keeps no unused memory (arena_may_keep), or else in arena_trim(), if it was empty at
 * the trim before and nothing was taken from it since, or if all is to go. bin_put_pages_locked()
 * drops one that is empty in any case.
 *
 * Everything here, and nfree and the bitmap of its slabs, is written under the bin's lock, which is
 * never held while pages are fetched or returned. slabcur, ring, idle, nholes, stats.curregs,
 * stats.curslabs, and n and room of the stock are read without it too. It is held in functions
 * named _locked, in bin_check_latest(), and in the small writers bin_set_idle(), bin_note_idle(),
 * bin_ring_set(), bin_set_curregs() and bin_count_back(); bin_forget() and bin_stats_merge() take
 * it; bin_init(), bin_idle() and bin_slab_of*() need none.
 * Callers: arena.c mainly, arena_life.c, holes.c, inspect.c, defrag.c. Fields are also read by
 * tcache.c, ctl_experimental.c and the profiler (prof_frag.c, prof_figures.c).
 */
#pragma once

#include "arena/arena_stats.h"
#include "arena/safety.h"
#include "arena/slab.h"
#include "arena/stock.h"

/* How long the current slab has had no region in use. */
typedef enum {
	bin_idle_not,    /* not empty, or not noticed yet */
	bin_idle_found,  /* empty since some time after the last trim */
	bin_idle_long    /* empty since before the last trim */
} bin_idle_t;

/* Numbers of passes over a bin's slabs (holes.h): edata_t.look has 6 bits. */
#define BIN_LOOKS 64u

typedef struct bin_s {
	mutex_t mtx;      /* held to write the other fields and the bitmaps of the slabs */
	edata_t *slabcur; /* the slab that serves requests, or NULL */
	ph_t nonfull;     /* other slabs with some regions free, and without holes, by address */
	ph_t holed;       /* those with holes, by address */
	/*
	 * All slabs in the two heaps, in a ring; points to the one that the pass of holes.h looks at
	 * next. NULL: the ring is empty. It always is if slabs of the class have one page, and in
	 * builds with canaries. Written under the lock, compared with NULL without.
	 */
	ql_t *ring;
	stock_t stock;
	uint8_t idle; /* bin_idle_t of slabcur; written under the lock, read without */
	/*
	 * Number of the latest pass, below BIN_LOOKS. That pass skips a slab whose `look` is the
	 * same: it has seen the slab, or the slab has joined the ring since the pass began.
	 */
	uint8_t look;
	uint32_t nholes; /* pages given back in all slabs; written under the lock, read without */
	bin_stats_t stats;
} ALIGNED(CACHELINE) bin_t;

/* Names the lock for the lock-order check; otherwise zeroed memory is a valid bin. */
void bin_init(bin_t *bin);

/* Takes up to n regions from what the bin has. Returns the number; 0: the bin needs a new slab. */
unsigned bin_take_locked(bin_t *bin, const bin_info_t *info, void **out, unsigned n);
/*
 * Makes a new slab the current one. Returns false if the current one has free regions by now,
 * because another thread was faster; then the bin does not take the new slab, and the caller keeps
 * it.
 */
bool bin_try_add_slab_locked(bin_t *bin, edata_t *slab);

ALWAYS_INLINE void
bin_set_idle(bin_t *bin, bin_idle_t idle) {
	__atomic_store_n(&bin->idle, (uint8_t)idle, MO_RELAXED);
}

/*
 * Sequentially consistent, like the arena's has_spare: a thread that finds a slab empty writes
 * `idle` and then reads has_spare, a trim clears has_spare and then reads `idle`. So the thread
 * sets has_spare again, or the trim finds the slab.
 */
ALWAYS_INLINE bin_idle_t
bin_idle(const bin_t *bin) {
	return (bin_idle_t)__atomic_load_n(&bin->idle, MO_SEQ_CST);
}

/* Notes that the current slab is empty. */
ALWAYS_INLINE void
bin_note_idle(bin_t *bin) {
	if (bin_idle(bin) == bin_idle_not) {
		__atomic_store_n(&bin->idle, (uint8_t)bin_idle_found, MO_SEQ_CST);
	}
}

/* Whether the current slab has no region in use. */
ALWAYS_INLINE bool
bin_has_empty_current_locked(const bin_t *bin, const bin_info_t *info) {
	return bin->slabcur != NULL && bin->slabcur->nfree == info->nregs;
}

/* Removes the current slab, which must be empty, and adds it to *empty as bin_put_locked() does. */
void bin_drop_current_locked(bin_t *bin, const bin_info_t *info, edata_t **empty);

ALWAYS_INLINE void
bin_ring_set(bin_t *bin, ql_t *first) {
	__atomic_store_n(&bin->ring, first, MO_RELAXED);
}

/* The slab that follows when the current one is full; NULL: the bin has none. */
ALWAYS_INLINE edata_t *
bin_next_slab_locked(const bin_t *bin) {
	const ph_t *from = likely(!ph_is_empty(&bin->nonfull)) ? &bin->nonfull : &bin->holed;
	ph_link_t *l = ph_first(from, edata_cmp_addr);
	return l == NULL ? NULL : edata_of_heap(l);
}

/*
 * Marks all regions in some pages of a slab in the ring as taken, so that no request gets them
 * while the caller gives the pages back. `pages`: a bit for each page of the slab, which has at
 * most SLAB_PAGES_MAX; all their regions must be free.
 */
void bin_take_pages_locked(bin_t *bin, const bin_info_t *info, edata_t *slab, uint32_t pages);
/*
 * Puts these regions back; are_holes: the pages were given back to the system. If this slab is
 * empty then, it leaves the bin and is added to *empty as bin_put_locked() does; so does the
 * current slab if it is empty.
 */
void bin_put_pages_locked(bin_t *bin, const bin_info_t *info, edata_t *slab, uint32_t pages,
    bool are_holes, edata_t **empty);

/* Misuse: a pointer that is in no slab. Ends the process even if safety_abort_hook returns. */
void bin_fail_no_slab(void) NORETURN COLD;

/* The slab of a region that is freed. */
static inline edata_t *
bin_slab_of(const void *ptr) {
	uint64_t elem = emap_elem(ptr);
	if (unlikely((elem & ELEM_SLAB) == 0)) {
		bin_fail_no_slab();
	}
	return elem_edata(elem);
}

/*
 * bin_slab_of() for a region that must be of this class: the fast path of a sized free relies on
 * the user's size, so a wrong one is detected here (safety_fail()).
 */
static inline edata_t *
bin_slab_of_class(const void *ptr, szind_t szind) {
	edata_t *slab = bin_slab_of(ptr);
	if (unlikely(slab->szind != szind)) {
		safety_fail("size of a sized free is not that of the block");
	}
	return slab;
}

/* An atomic store, because totals are read without the lock. */
ALWAYS_INLINE void
bin_set_curregs(bin_t *bin, size_t n) {
	__atomic_store_n(&bin->stats.curregs, n, MO_RELAXED);
}

/* Counts n regions that came back, to their slabs or into the stock. */
ALWAYS_INLINE void
bin_count_back(bin_t *bin, unsigned n) {
	assert(bin->stats.curregs >= n);
	bin->stats.ndalloc += n;
	bin_set_curregs(bin, bin->stats.curregs - n);
}

/*
 * Returns the regions at the front of ptrs to their slabs, up to the first that belongs to another
 * bin; ptrs[0] belongs to this one. Returns their number. Slabs that become empty leave the bin,
 * except the current one, and are linked to *empty by heap.next; the caller deletes them after it
 * has released the lock. A pointer that is no taken region ends the process with a message.
 */
unsigned bin_put_locked(bin_t *bin, const bin_info_t *info, void **ptrs, unsigned n,
    edata_t **empty);

/* Ends the process unless the n latest regions of the stock are taken in their slabs. */
void bin_check_latest(const bin_t *bin, unsigned n);
/*
 * Puts surplus regions of caches into the stock while its array has room (arena.c makes it longer
 * before). Returns the number.
 */
ALWAYS_INLINE unsigned
bin_put_stock_locked(bin_t *bin, void *const *ptrs, unsigned n) {
	mutex_assert_owner(&bin->mtx);
	unsigned nput = stock_put(&bin->stock, ptrs, n);
	if (config_debug || config_opt_safety_checks) {
		bin_check_latest(bin, nput);
	}
	bin_count_back(bin, nput);
	return nput;
}
/*
 * Returns the n oldest regions of the stock to their slabs. They are not counted: they count as
 * free since they came into the stock. Slabs that become empty are added to *empty, and a region
 * that is not taken ends the process, as in bin_put_locked().
 */
void bin_unstock_locked(bin_t *bin, const bin_info_t *info, unsigned n, edata_t **empty);

/*
 * Empties the bin without touching its slabs, which the caller (reset, destroy) deletes; takes the
 * lock.
 */
void bin_forget(bin_t *bin);
/* Zeroes the counters of an empty bin, whose arena is used again. */
void bin_stats_zero_locked(bin_t *bin);
/* Adds the bin's counters to *out and those of its lock to *mutex_out; takes the lock. */
void bin_stats_merge(bin_t *bin, bin_stats_t *out, mutex_prof_data_t *mutex_out);
