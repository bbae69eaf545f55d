/*
 * Bins: taking regions from the stock and the slabs and returning them; bin.h has the contract. The
 * current slab (slabcur) and full slabs are on no list. A slab other than slabcur enters the heap
 * nonfull (by address) when a region returns, and leaves the bin when all have returned; an empty
 * slabcur stays until bin_drop_current_locked(). Slabs that leave are put into a list, which the
 * caller deletes. A slab of which pages were given back is in the heap `holed` instead; slabs of
 * both heaps that are longer than a page are in the ring (bin.h), except in builds with canaries. A
 * slab that becomes the current one has no holes any more: its regions will be used. Invariant:
 * bin_check(). Static functions, those named _locked and bin_check_latest() are called with the
 * bin's lock; no function fetches or returns pages. Called by arena.c, arena_life.c, holes.c and
 * statistics (inspect.c).
 */
#include "arena/bin.h"

#include <stdlib.h>

#include "os/witness.h"

/* Checks the counters against each other and the current slab. */
static void
bin_check(const bin_t *bin UNUSED, const bin_info_t *info UNUSED) {
	assert(bin->stats.curregs + bin->stock.n <= bin->stats.curslabs * info->nregs);
	assert(bin->stats.nonfull_slabs <= bin->stats.curslabs);
	assert(bin->stats.nmalloc - bin->stats.ndalloc == bin->stats.curregs);
	assert(bin->slabcur == NULL || (bin->slabcur->is_slab && !bin->slabcur->is_listed));
	assert((bin->stats.nonfull_slabs == 0)
	    == (ph_is_empty(&bin->nonfull) && ph_is_empty(&bin->holed)));
	assert(bin->slabcur == NULL || bin->slabcur->holes == 0);
}

void
bin_init(bin_t *bin) {
	mutex_init(&bin->mtx, "bin", WITNESS_RANK_BIN);
	ph_init(&bin->nonfull);
	ph_init(&bin->holed);
}

/*
 * Whether passes (holes.h) look at the slab: not if it has one page, nor in builds with canaries,
 * which keep bytes in free regions.
 */
static bool
bin_looks_at(const edata_t *slab) {
	return !config_hardening && slab->size > PAGE;
}

static ph_t *
bin_heap_of(bin_t *bin, const edata_t *slab) {
	return likely(slab->holes == 0) ? &bin->nonfull : &bin->holed;
}

/* Adds a slab to the ring. The pass under way, if any, skips it. */
static void
bin_ring_add(bin_t *bin, edata_t *slab) {
	assert(ql_is_empty(&slab->link));
	slab->look = bin->look % BIN_LOOKS;
	if (bin->ring == NULL) {
		bin_ring_set(bin, &slab->link);
	} else {
		ql_push_tail(bin->ring, &slab->link);
	}
}

static void
bin_ring_remove(bin_t *bin, edata_t *slab) {
	ql_t *next = slab->link.next;
	if (bin->ring == &slab->link) {
		bin_ring_set(bin, next == &slab->link ? NULL : next);
	}
	ql_remove(&slab->link);
}

static void
bin_set_nholes(bin_t *bin, uint32_t n) {
	__atomic_store_n(&bin->nholes, n, MO_RELAXED);
}

/* The slab has no holes from now on. */
static NOINLINE void
bin_drop_holes(bin_t *bin, edata_t *slab) {
	unsigned n = popcount_zu(slab->holes);
	assert(bin->nholes >= n && !slab->is_listed);
	bin_set_nholes(bin, bin->nholes - n);
	slab->holes = 0;
}

static void
bin_nonfull_add(bin_t *bin, edata_t *slab) {
	assert(!slab->is_listed && slab->nfree > 0 && slab != bin->slabcur);
	ph_insert(bin_heap_of(bin, slab), &slab->heap, edata_cmp_addr);
	slab->is_listed = true;
	if (bin_looks_at(slab)) {
		bin_ring_add(bin, slab);
	}
	bin->stats.nonfull_slabs++;
}

static void
bin_nonfull_remove(bin_t *bin, edata_t *slab) {
	assert(slab->is_listed && bin->stats.nonfull_slabs > 0);
	ph_remove(bin_heap_of(bin, slab), &slab->heap, edata_cmp_addr);
	slab->is_listed = false;
	if (bin_looks_at(slab)) {
		bin_ring_remove(bin, slab);
	}
	bin->stats.nonfull_slabs--;
}

/* Makes the next slab the current one. False if there is none. */
static bool
bin_try_next_slab(bin_t *bin) {
	edata_t *slab = bin_next_slab_locked(bin);
	if (slab == NULL) {
		return false;
	}
	bin_nonfull_remove(bin, slab);
	slab->seen_empty = 0;
	if (unlikely(slab->holes != 0)) {
		bin_drop_holes(bin, slab);
	}
	bin->slabcur = slab;
	bin->stats.nreslabs++;
	return true;
}

unsigned
bin_take_locked(bin_t *bin, const bin_info_t *info, void **out, unsigned n) {
	mutex_assert_owner(&bin->mtx);
	unsigned got = stock_take(&bin->stock, out, n);
	while (got < n) {
		edata_t *slab = bin->slabcur;
		if (slab != NULL && slab->nfree > 0) {
			bin_set_idle(bin, bin_idle_not);
			got += slab_take(slab, info, &out[got], n - got);
		} else if (!bin_try_next_slab(bin)) {
			break;
		}
	}
	bin->stats.nmalloc += got;
	bin_set_curregs(bin, bin->stats.curregs + got);
	bin_check(bin, info);
	return got;
}

bool
bin_try_add_slab_locked(bin_t *bin, edata_t *slab) {
	mutex_assert_owner(&bin->mtx);
	if (bin->slabcur != NULL && bin->slabcur->nfree > 0) {
		return false; /* another thread was faster */
	}
	slab->serial = (uint32_t)++bin->stats.nslabs;
	bin->stats.curslabs++;
	bin->slabcur = slab;
	return true;
}

/* Adds a slab that is neither current nor in a heap to the list that the caller deletes. */
ALWAYS_INLINE void
bin_let_go(bin_t *bin, edata_t *slab, edata_t **empty) {
	assert(slab != bin->slabcur && !slab->is_listed && bin->stats.curslabs > 0);
	bin->stats.curslabs--;
	if (unlikely(slab->holes != 0)) {
		bin_drop_holes(bin, slab);
	}
	slab->heap.next = *empty == NULL ? NULL : &(*empty)->heap;
	*empty = slab;
}

void
bin_drop_current_locked(bin_t *bin, const bin_info_t *info, edata_t **empty) {
	edata_t *slab = bin->slabcur;
	mutex_assert_owner(&bin->mtx);
	assert(bin_has_empty_current_locked(bin, info));
	bin->slabcur = NULL;
	bin_set_idle(bin, bin_idle_not);
	bin_let_go(bin, slab, empty);
	bin_check(bin, info);
}

/*
 * Called after regions were returned to a slab: it enters its heap, or leaves the bin if it is
 * empty; slabcur stays.
 */
ALWAYS_INLINE void
bin_slab_settle(bin_t *bin, const bin_info_t *info, edata_t *slab, edata_t **empty) {
	if (slab == bin->slabcur) {
		return;
	}
	if (slab->nfree < info->nregs) {
		if (unlikely(!slab->is_listed)) {
			bin_nonfull_add(bin, slab);
		}
		return;
	}
	if (slab->is_listed) {
		bin_nonfull_remove(bin, slab);
	}
	bin_let_go(bin, slab, empty);
}

void
bin_fail_no_slab(void) {
	safety_fail("double free or pointer to no block");
	abort(); /* the hook returned, but there is no slab to go on with */
}

/*
 * Misuse: a region that was not in use came back. It counts as one that came back, by
 * bin_put_stock_locked() before or by bin_put_locked() afterwards; this takes that count off again.
 */
static NOINLINE void
bin_fail_not_in_use(bin_t *bin) {
	safety_fail("double free or pointer into a block");
	bin->stats.ndalloc--;
	bin_set_curregs(bin, bin->stats.curregs + 1);
}

/*
 * Returns the regions at the front of ptrs that belong to this bin to their slabs; returns their
 * number. Neighbours in a batch often lie in one slab, so bin_slab_settle() is called only when a
 * region of another slab follows; and not if none went back, as the slab may have left the bin.
 */
static unsigned
bin_regs_back_locked(bin_t *bin, const bin_info_t *info, void **ptrs, unsigned n,
    edata_t **empty) {
	mutex_assert_owner(&bin->mtx);
	assert(n > 0);
	size_t reg = info->reg_size, end = info->nregs * reg;
	uint64_t magic = info->magic;
	/* from: at - from is the number of regions that went back to `slab` */
	void **at = ptrs, **last = ptrs + n, **from = ptrs;
	edata_t *slab = bin_slab_of(ptrs[0]);
	for (; at < last; at++) {
		size_t off = (size_t)((char *)*at - slab->addr);
		if (off >= end) {
			edata_t *next = bin_slab_of(*at);
			if (unlikely(next->arena_ind != slab->arena_ind || next->bin_shard != slab->bin_shard)
			    || unlikely(next->szind != slab->szind)) {
				break;
			}
			if (likely(at != from)) {
				bin_slab_settle(bin, info, slab, empty);
			}
			slab = next;
			from = at;
			off = (size_t)((char *)*at - slab->addr);
		}
		assert(slab->is_slab && sz_i2s(slab->szind) == reg);
		if (unlikely(off >= end) || unlikely(!slab_try_put(slab, reg, magic, off))) {
			bin_fail_not_in_use(bin);
			from++;
		}
	}
	if (likely(at != from)) {
		bin_slab_settle(bin, info, slab, empty);
	}
	return (unsigned)(at - ptrs);
}

unsigned
bin_put_locked(bin_t *bin, const bin_info_t *info, void **ptrs, unsigned n, edata_t **empty) {
	unsigned nback = bin_regs_back_locked(bin, info, ptrs, n, empty);
	bin_count_back(bin, nback);
	bin_check(bin, info);
	return nback;
}

void
bin_take_pages_locked(bin_t *bin, const bin_info_t *info, edata_t *slab, uint32_t pages) {
	mutex_assert_owner(&bin->mtx);
	assert(slab->is_listed && pages != 0 && (pages & slab->holes) == 0);
	slab_take_pages(slab, info, pages);
	if (slab->nfree == 0) {
		bin_nonfull_remove(bin, slab);
	}
	bin_check(bin, info);
}

/*
 * While the pages were taken, the slab may have become the current one. Then they do not count as
 * holes, because their regions will be used next. The current slab, this one or another, is not
 * kept if it is empty.
 */
void
bin_put_pages_locked(bin_t *bin, const bin_info_t *info, edata_t *slab, uint32_t pages,
    bool are_holes, edata_t **empty) {
	mutex_assert_owner(&bin->mtx);
	if (slab->is_listed) {
		bin_nonfull_remove(bin, slab);
	}
	slab_put_pages(slab, info, pages);
	if (are_holes && slab != bin->slabcur) {
		assert((slab->holes & pages) == 0);
		slab->holes |= (uint16_t)pages;
		bin_set_nholes(bin, bin->nholes + popcount_zu(pages));
	}
	bin_slab_settle(bin, info, slab, empty);
	if (bin_has_empty_current_locked(bin, info)) {
		bin_drop_current_locked(bin, info, empty);
	}
	bin_check(bin, info);
}

void
bin_check_latest(const bin_t *bin, unsigned n) {
	mutex_assert_owner(&bin->mtx);
	for (unsigned i = 1; i <= n; i++) {
		const char *p = bin->stock.ptrs[bin->stock.n - i];
		if (unlikely(!slab_is_taken(emap_edata(p), p))) {
			safety_fail("double free or pointer into a block");
		}
	}
}

void
bin_unstock_locked(bin_t *bin, const bin_info_t *info, unsigned n, edata_t **empty) {
	stock_t *s = &bin->stock;
	assert(n > 0 && n <= s->n);
	if (unlikely(bin_regs_back_locked(bin, info, s->ptrs, n, empty) != n)) {
		safety_fail("double free or pointer to no block");
	}
	stock_drop_oldest(s, n);
	bin_check(bin, info);
}

void
bin_forget(bin_t *bin) {
	mutex_lock(&bin->mtx);
	bin->slabcur = NULL;
	bin_set_idle(bin, bin_idle_not);
	ph_init(&bin->nonfull);
	ph_init(&bin->holed);
	bin_ring_set(bin, NULL);
	bin_set_nholes(bin, 0);
	stock_drop_oldest(&bin->stock, bin->stock.n);
	bin->stats.ndalloc += bin->stats.curregs;
	bin_set_curregs(bin, 0);
	bin->stats.curslabs = 0;
	bin->stats.nonfull_slabs = 0;
	mutex_unlock(&bin->mtx);
}

/* A concurrent reader of totals may still read the old counters. */
void
bin_stats_zero_locked(bin_t *bin) {
	mutex_assert_owner(&bin->mtx);
	assert(bin->stats.curregs == 0);
#define BIN_STATS_ZERO(name, type, says) __atomic_store_n(&bin->stats.name, 0, MO_RELAXED);
	BIN_STATS_FIELDS(BIN_STATS_ZERO)
#undef BIN_STATS_ZERO
}

void
bin_stats_merge(bin_t *bin, bin_stats_t *out, mutex_prof_data_t *mutex_out) {
	mutex_prof_data_t data;
	mutex_lock(&bin->mtx);
#define BIN_STATS_ADD(name, type, says) out->name += bin->stats.name;
	BIN_STATS_FIELDS(BIN_STATS_ADD)
#undef BIN_STATS_ADD
	mutex_prof_read(&data, &bin->mtx);
	mutex_unlock(&bin->mtx);
	mutex_prof_merge(mutex_out, &data);
}
