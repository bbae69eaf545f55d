/*
 * Decides whether moving a small block would make its slab emptier and another one fuller
 * (defrag.h).
 *
 * A bin serves requests from its stock (regions that thread caches have returned, arena/stock.h),
 * then from its current slab, then from the partly free slab with the lowest address. Slabs with
 * holes (pages given back, arena/holes.h) come after all others. Blocks of other slabs that have at
 * least half the mean number of free regions are to be moved. Once the stock is empty (its regions
 * may lie in any slab), their copies fill the slab that serves requests, and the slabs they leave
 * become empty and are returned. The emptiest slab always has at least the mean, so a program that
 * repeats this over all its blocks gets hints until at most one slab is partly filled, if every
 * block can be moved. Invariant: nothing is changed here. Lock: that of the block's bin, inside the
 * gate (os/gate.h). Called by jemalloc.c (je_get_defrag_hint).
 */
#include "defrag.h"

#include "arena/arenas.h"
#include "os/gate.h"
#include "os/tls.h"

/*
 * The slab that serves the next request which the stock cannot serve; NULL: it will be a new one.
 */
static const edata_t *
next_slab_locked(const bin_t *bin) {
	mutex_assert_owner(&bin->mtx);
	if (bin->slabcur != NULL && bin->slabcur->nfree > 0) {
		return bin->slabcur;
	}
	return bin_next_slab_locked(bin);
}

/*
 * Whether the slab has at least half the mean number of free regions. False for a full slab, and
 * for the slab that next_slab_locked() returns, because blocks are moved to it. The mean is that of
 * all partly filled slabs without this next one. Half of it suffices, because a few nearly empty
 * slabs, whose blocks the program cannot move or thread caches hold, raise the mean so far that no
 * other slab would reach it.
 */
static bool
slab_is_sparse_locked(const edata_t *slab, const bin_t *bin) {
	mutex_assert_owner(&bin->mtx);
	const edata_t *next = next_slab_locked(bin);
	if (!slab->is_listed || slab == next) {
		return false;
	}
	size_t taken = bin->stats.curregs + bin->stock.n;
	assert(next != NULL && taken <= bin->stats.curslabs * slab_info(slab)->nregs);
	size_t nfree = bin->stats.curslabs * slab_info(slab)->nregs - taken - next->nfree;
	size_t nslabs = bin->stats.nonfull_slabs - (next == bin->slabcur ? 0 : 1);
	return slab->nfree * nslabs >= nfree / 2;
}

/* slab_is_sparse_locked() for the slab that has ptr; false: it is in none, or in one of samples. */
static bool
block_is_in_sparse_slab(const void *ptr) {
	uint64_t elem = emap_elem_any(ptr);
	if (elem_state(elem) != extent_state_active || (elem & ELEM_SLAB) == 0
	    || (elem & ELEM_SAMPLED) != 0) {
		return false;
	}
	const edata_t *slab = elem_edata(elem);
	assert(slab->is_slab && slab->szind < SC_NBINS);
	arena_t *arena = arena_table_get(slab->arena_ind);
	bin_t *bin = arena_bin(arena, slab->szind, slab->bin_shard);
	mutex_lock(&bin->mtx);
	bool is_sparse = slab_is_sparse_locked(slab, bin);
	mutex_unlock(&bin->mtx);
	return is_sparse;
}

bool
defrag_would_help(const void *ptr) {
	struct tls_s *tls = tls_get();
	if (unlikely(!gate_try_enter(tls))) {
		return false;
	}
	bool would_help = block_is_in_sparse_slab(ptr);
	gate_exit(tls);
	return would_help;
}
