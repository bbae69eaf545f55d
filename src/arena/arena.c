/*
 * Creation of an arena, its small objects, and the choice between them and large ones (large.h).
 * arena.h has the contract.
 *
 * A fill takes regions from the bin's stock, then from slabs, and makes a new slab if there are
 * none (arena_small_fill). A flush locks a bin once for a row (neighbours in the array that belong
 * to one bin), after sorting them by bin where rows are short, and puts them into stocks or slabs
 * (arena_small_return); empty slabs are deleted after the lock is released. arena_trim() returns
 * unused stocks and slabs. Locks: arena_new() and arena_name_default() are called under the lock
 * "arenas" (arenas.c), arena_mark_slow_sized_free() and arena_decay_ms_get() under any lock or
 * none, all others without one. Small objects are under the lock of their bin, which is not held
 * while pages are fetched or returned; the locks of two bins are never held together. Callers:
 * arenas.c makes arenas, marks their pieces and allocates samples; tcache.c fills, flushes and
 * trims; imalloc.c allocates and frees single objects; quarantine.c and tcache_spare.c free them;
 * shelter.c marks its pieces; ticks of arenas.c, background threads, vacant.c and mallctl call the
 * trim.
 */
#include "arena/arena.h"

#include "arena/large.h"
#include "arena/safety.h"
#include "extent/guard.h"
#include "extent/pac_hpa.h"
#include "extent/pac_life.h"
#include "meta/freepool.h"
#include "os/nstime.h"
#include "os/witness.h"
#include "util/fmt.h"

/* The byte of NULL is set from the start, so that a sized free of it takes the slow path. */
uint8_t arena_sampled_map[SAMPLED_MAP_SIZE] = {1};

/*
 * Objects that are flushed together are returned row by row (a row: neighbours in the array that
 * belong to one bin) while rows have FLUSH_ROW_MIN objects. After a shorter row a batch of up to
 * FLUSH_MAX objects is sorted by bin, if it has at least FLUSH_SORT_MIN: they are distributed over
 * FLUSH_GROUPS groups by a hash of the bin.
 */
#define FLUSH_ROW_MIN 8u
#define FLUSH_SORT_MIN 8u
#define FLUSH_MAX 128u
#define FLUSH_LG_GROUPS 6u
#define FLUSH_GROUPS (1u << FLUSH_LG_GROUPS)
/* Odd, about 2^64 divided by the golden ratio: consecutive numbers fall into different groups. */
#define FLUSH_HASH UINT64_C(0x9e3779b97f4a7c15)
cassert(FLUSH_MAX <= UINT8_MAX);

void
arena_mark_slow_sized_free(const void *addr, size_t size) {
	uintptr_t first = (uintptr_t)addr >> SAMPLED_MAP_LG_PIECE;
	uintptr_t last = ((uintptr_t)addr + size - 1) >> SAMPLED_MAP_LG_PIECE;
	for (uintptr_t i = first; i <= last; i++) {
		__atomic_store_n(&arena_sampled_map[i % SAMPLED_MAP_SIZE], 1, __ATOMIC_RELEASE);
	}
}

/* Most regions that leave a stock while the bin's lock is held once. */
#define STOCK_TRIM_STEP 128u
/* Time between two trims (250 ms): unused regions of a stock and empty slabs are returned then. */
#define STOCK_TRIM_NS ((uint64_t)250 * 1000 * 1000)

static int
arena_bins_init(arena_t *a) {
	size_t n = 0;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		n += bin_infos[i].n_shards;
	}
	bin_t *bins = base_alloc(a->base, n * sizeof(bin_t), CACHELINE);
	if (bins == NULL) {
		return ENOMEM;
	}
	for (szind_t i = 0; i < SC_NBINS; i++) {
		a->bins[i] = bins;
		bins += bin_infos[i].n_shards;
	}
	/* Zeroed memory is a valid bin; bin_init() names its lock for the lock-order check. */
	for (bin_t *bin = a->bins[0]; config_debug && bin < bins; bin++) {
		bin_init(bin);
	}
	return 0;
}

void
arena_name_default(arena_t *a) {
	const char *kind = arena_ind_is_hidden(a->ind) ? "sampled" : a->is_auto ? "auto" : "manual";
	fmt_snprintf(a->name, sizeof(a->name), "%s_%u", kind, a->ind);
}

arena_t *
arena_new(unsigned ind, bool is_auto, ssize_t dirty_ms, ssize_t muzzy_ms, ehooks_table_t *hooks) {
	base_t *base = ind == 0 ? base_b0() : base_new();
	arena_t *a = base == NULL ? NULL : base_alloc(base, sizeof(arena_t), CACHELINE);
	if (a == NULL) {
		goto fail;
	}
	a->base = base;
	if (arena_bins_init(a) != 0) {
		goto fail;
	}
	a->ind = ind;
	a->is_auto = is_auto;
	a->created_ns = ind == 0 ? nstime_monotonic_syscall_ns() : nstime_monotonic_coarse_ns();
	mutex_init(&a->tcache_list_mtx, "tcache_list", WITNESS_RANK_TCACHE_LIST);
	ql_init(&a->tcaches);
	pac_init(&a->pac, base, ind, dirty_ms, muzzy_ms, a->created_ns);
	ehooks_init(&a->pac.src.ehooks, ind, arena_ind_visible(ind), hooks);
	if (!arena_ind_is_hidden(ind) && pac_hpa_init(&a->pac, base) != 0) {
		goto fail;
	}
	arena_name_default(a);
	return a;
fail:
	if (base != NULL && ind != 0) {
		base_delete(base);
	}
	return NULL;
}

static edata_t *
arena_slab_new(arena_t *a, szind_t szind, unsigned shard) {
	bool is_sampled = arena_ind_is_hidden(a->ind);
	bool is_guarded = guard_count_extent(&a->guard_small, opt_san_guard_small);
	size_t size = slab_info_of(szind, is_sampled)->slab_size;
	edata_t *e;
	if (is_guarded) {
		e = pac_alloc_guarded(&a->pac, size, PAGE, false);
	} else if (bin_infos[szind].reg_size <= PAGE / 2) {
		e = pac_alloc_dense(&a->pac, size);
	} else {
		/* The user may leave whole pages of such objects untouched. */
		e = pac_alloc(&a->pac, size, PAGE, false);
	}
	if (e != NULL && slab_init(e, szind, shard, is_sampled) != 0) {
		pac_dalloc(&a->pac, e);
		e = NULL;
	}
	return e;
}

static void
arena_slab_delete(edata_t *e) {
	arena_t *a = arena_table_get(e->arena_ind);
	assert(a != NULL && e->nfree == slab_info(e)->nregs);
	slab_fini(e);
	pac_dalloc(&a->pac, e);
}

unsigned
arena_small_fill(arena_t *a, szind_t szind, unsigned shard, void **out, unsigned n,
    uint64_t nrequests, unsigned nfills) {
	assert(szind < SC_NBINS && n > 0);
	const bin_info_t *info = slab_info_of(szind, arena_ind_is_hidden(a->ind));
	bin_t *bin = arena_bin(a, szind, shard);
	mutex_lock(&bin->mtx);
	bin->stats.nrequests += nrequests;
	bin->stats.nfills += nfills;
	unsigned got = bin_take_locked(bin, info, out, n);
	edata_t *needless = NULL;
	while (got == 0) {
		mutex_unlock(&bin->mtx);
		edata_t *slab = arena_slab_new(a, szind, shard);
		mutex_lock(&bin->mtx);
		if (slab != NULL && !bin_try_add_slab_locked(bin, slab)) {
			needless = slab; /* the current slab has free regions by now: this ends the loop */
		}
		got = bin_take_locked(bin, info, out, n);
		if (slab == NULL) {
			break;
		}
	}
	mutex_unlock(&bin->mtx);
	if (unlikely(needless != NULL)) {
		arena_slab_delete(needless);
	}
	if (config_hardening) {
		canary_check_free(out, got, info->reg_size);
	}
	return got;
}

void
arena_slabs_delete(edata_t *empty) {
	while (empty != NULL) {
		edata_t *next = empty->heap.next == NULL ? NULL : edata_of_heap(empty->heap.next);
		arena_slab_delete(empty);
		empty = next;
	}
}

/* Enlarges the stock's array for n more regions, outside the bin's lock, if there is memory. */
static void
bin_stock_grow_slow(bin_t *bin, const bin_info_t *info, unsigned n) {
	unsigned room = stock_room_for(&bin->stock, n, info->stock_max), old_room = room;
	void **ptrs = meta_alloc(room * sizeof(void *));
	if (ptrs == NULL) {
		return;
	}
	mutex_lock(&bin->mtx);
	if (room > bin->stock.room) {
		ptrs = stock_set_room(&bin->stock, ptrs, room, &old_room);
	}
	mutex_unlock(&bin->mtx);
	meta_free(ptrs, old_room * sizeof(void *));
}

/* Makes room for n more regions in the stock, up to its limit. */
ALWAYS_INLINE void
bin_stock_grow(bin_t *bin, const bin_info_t *info, unsigned n) {
	unsigned room = STOCK_SEEN(bin->stock.room);
	if (unlikely(STOCK_SEEN(bin->stock.n) + n > room) && room < info->stock_max) {
		bin_stock_grow_slow(bin, info, n);
	}
}

/* Whether stocks and empty slabs may be kept; not if unused pages are to be returned at once. */
static bool
arena_may_keep(const arena_t *a) {
	return decay_ms(&a->pac.decay_dirty.decay) != 0;
}

/*
 * Whether surplus of a cache of the arena `from` may go into stocks of arena a. A stock hands
 * regions over to other threads; those of one thread alone would keep slabs from becoming empty.
 */
static bool
arena_may_stock(const arena_t *a, const arena_t *from) {
	return from != NULL && arena_may_keep(a)
	    && (a != from || atomic_load_u32(&a->nthreads, MO_RELAXED) != 1);
}

/* Notes that a trim is needed and wakes the background thread, which may sleep without a limit. */
static NOINLINE void
arena_set_has_spare_slow(arena_t *a) {
	atomic_store_b(&a->has_spare, true, MO_SEQ_CST);
	pac_wake(&a->pac);
}

ALWAYS_INLINE void
arena_set_has_spare(arena_t *a) {
	if (unlikely(!atomic_load_b(&a->has_spare, MO_SEQ_CST))) {
		arena_set_has_spare_slow(a);
	}
}

/* Notes that a pass has work, and wakes the background thread unless a pass is to come anyway. */
static NOINLINE void
arena_want_holes_slow(arena_t *a) {
	if (pac_nactive(&a->pac) < HOLES_MIN_USE >> LG_PAGE) {
		return;
	}
	atomic_store_b(&a->holes.is_wanted, true, MO_SEQ_CST);
	if (!atomic_load_b(&a->holes.is_busy, MO_SEQ_CST)) {
		pac_wake(&a->pac);
	}
}

/* Called after regions went back to slabs, in which pages may hold nothing now (holes.h). */
ALWAYS_INLINE void
arena_want_holes(arena_t *a) {
	if (unlikely(!atomic_load_b(&a->holes.is_wanted, MO_SEQ_CST))) {
		arena_want_holes_slow(a);
	}
}

/*
 * Called after regions were returned. If the current slab has become empty, it is deleted at once
 * if nothing may be kept, otherwise by a trim if it stays unused.
 */
ALWAYS_INLINE void
arena_note_back_locked(arena_t *a, bin_t *bin, const bin_info_t *info, edata_t **empty) {
	if (likely(!bin_has_empty_current_locked(bin, info))) {
		return;
	}
	if (arena_may_keep(a)) {
		bin_note_idle(bin);
		arena_set_has_spare(a);
	} else {
		bin_drop_current_locked(bin, info, empty);
	}
}

/*
 * Whether the stock of ptr's bin, read without the lock, may take surplus of a cache of the arena
 * `from`, which is not NULL; ptr: of class szind.
 */
static bool
arena_has_stock_room(szind_t szind, const void *ptr, const arena_t *from) {
	const edata_t *slab = bin_slab_of_class(ptr, szind);
	arena_t *a = arena_table_get(slab->arena_ind);
	szind = slab->szind; /* another one only if safety_abort_hook returned */
	return arena_may_stock(a, from)
	    && STOCK_SEEN(arena_bin(a, szind, slab->bin_shard)->stock.n) < bin_infos[szind].stock_max;
}

/*
 * Puts the objects at the front of ptrs that belong to the same bin as ptrs[0] back into their
 * slabs. The result is their number.
 */
static unsigned
arena_put_row(szind_t szind, void **ptrs, unsigned n, edata_t **empty) {
	const edata_t *slab = bin_slab_of_class(ptrs[0], szind);
	const bin_info_t *info = slab_info(slab);
	arena_t *a = arena_table_get(slab->arena_ind);
	bin_t *bin = arena_bin(a, slab->szind, slab->bin_shard);
	mutex_lock(&bin->mtx);
	n = bin_put_locked(bin, info, ptrs, n, empty);
	arena_note_back_locked(a, bin, info, empty);
	mutex_unlock(&bin->mtx);
	arena_want_holes(a);
	return n;
}

/*
 * Puts objects of slab's bin into its stock while there is room, and the others into their slabs.
 */
static void
arena_return_row(const edata_t *slab, void **ptrs, unsigned n, const arena_t *from,
    edata_t **empty) {
	arena_t *a = arena_table_get(slab->arena_ind);
	szind_t szind = slab->szind;
	bin_t *bin = arena_bin(a, szind, slab->bin_shard);
	const bin_info_t *info = slab_info(slab);
	unsigned nput = 0;
	bool are_put = false, to_stock = arena_may_stock(a, from);
	if (to_stock) {
		bin_stock_grow(bin, info, n);
	}
	mutex_lock(&bin->mtx);
	if (to_stock) {
		nput = bin_put_stock_locked(bin, ptrs, n);
	}
	if (nput < n) {
		are_put = true;
		nput += bin_put_locked(bin, info, ptrs + nput, n - nput, empty);
		arena_note_back_locked(a, bin, info, empty);
	}
	assert(nput == n && !(to_stock && slab->is_sampled));
	mutex_unlock(&bin->mtx);
	if (are_put) {
		arena_want_holes(a);
	}
	if (to_stock) {
		/* Not earlier: a trim meanwhile would find the stock empty and expect nothing more. */
		arena_set_has_spare(a);
	}
}

/*
 * Computes an order in which the regions of one bin are adjacent (or those of a few bins whose
 * hashes collide), from their slabs, by a counting sort.
 */
static void
arena_order_by_bin(uint8_t *order, const edata_t *const *slabs, unsigned n) {
	uint8_t group[FLUSH_MAX];
	uint8_t at[FLUSH_GROUPS] = {0};
	assert(n <= FLUSH_MAX);
	for (unsigned i = 0; i < n; i++) {
		group[i] = (uint8_t)(slabs[i]->home * FLUSH_HASH >> (64 - FLUSH_LG_GROUPS));
		at[group[i]]++;
	}
	/* Each sum is the end of a group; the second loop lowers it to the group's beginning. */
	for (unsigned g = 1; g < FLUSH_GROUPS; g++) {
		at[g] = (uint8_t)(at[g] + at[g - 1]);
	}
	assert(at[FLUSH_GROUPS - 1] == n);
	for (unsigned i = n; i-- > 0;) {
		order[--at[group[i]]] = (uint8_t)i;
	}
	assert(at[0] == 0);
}

/*
 * Returns up to FLUSH_MAX objects of any bins of the class; FLUSH_SORT_MIN or more are sorted by
 * bin.
 */
static void
arena_return_sorted(szind_t szind, void *const *ptrs, unsigned n, const arena_t *from,
    edata_t **empty) {
	const edata_t *slabs[FLUSH_MAX];
	void *sorted[FLUSH_MAX];
	uint8_t order[FLUSH_MAX];
	uint64_t differ = 0; /* bits that differ among the slabs */
	for (unsigned i = 0; i < n; i++) {
		slabs[i] = bin_slab_of_class(ptrs[i], szind);
		differ |= slabs[i]->home ^ slabs[0]->home;
		order[i] = (uint8_t)i;
	}
	if (differ != 0 && n >= FLUSH_SORT_MIN) {
		arena_order_by_bin(order, slabs, n);
	}
	for (unsigned i = 0; i < n; i++) {
		sorted[i] = ptrs[order[i]];
	}
	for (unsigned i = 0, end; i < n; i = end) {
		const edata_t *slab = slabs[order[i]];
		for (end = i + 1; end < n && slabs[order[end]]->home == slab->home; end++) {}
		arena_return_row(slab, sorted + i, end - i, from, empty);
	}
}

/*
 * Returns objects to their slabs, or to stocks (arena_may_stock) if there is room. Long rows of one
 * bin that go to slabs, the usual case, are returned without sorting; all others in batches that
 * are sorted, so that a batch locks each bin about once.
 */
void
arena_small_return(szind_t szind, void **ptrs, unsigned n, const arena_t *from) {
	edata_t *empty = NULL;
	if (config_hardening) {
		canary_check_free(ptrs, n, sz_i2s(szind));
	}
	for (unsigned done; n > 0; ptrs += done, n -= done) {
		done = from != NULL && arena_has_stock_room(szind, ptrs[0], from) ? 0
		    : arena_put_row(szind, ptrs, n, &empty);
		if (done < FLUSH_ROW_MIN && done < n) {
			unsigned batch = (unsigned)min_zu(n - done, FLUSH_MAX);
			arena_return_sorted(szind, ptrs + done, batch, from, &empty);
			done += batch;
		}
	}
	arena_slabs_delete(empty);
}

/*
 * Drops the current slab (adds it to *empty) if it is empty and, unless all is set, was empty at
 * the last trim already. Returns true if it may be due at the next trim.
 */
static bool
bin_trim_current_locked(bin_t *bin, const bin_info_t *info, bool all, edata_t **empty) {
	if (!bin_has_empty_current_locked(bin, info)) {
		return false;
	}
	if (!all && bin_idle(bin) != bin_idle_long) {
		bin_set_idle(bin, bin_idle_long);
		return true;
	}
	bin_drop_current_locked(bin, info, empty);
	return false;
}

/*
 * Trims the stock and the current slab. The lock is released after each step, so that no thread
 * waits long for it. Returns true if something is left that may be due at the next trim.
 */
static bool
bin_trim(bin_t *bin, const bin_info_t *info, bool all) {
	edata_t *empty = NULL;
	mutex_lock(&bin->mtx);
	bool is_left = !all && bin->stock.n > 0;
	unsigned n = all ? bin->stock.n : bin->stock.low;
	while (n > 0) {
		unsigned k = (unsigned)min_zu(n, STOCK_TRIM_STEP);
		bin_unstock_locked(bin, info, k, &empty);
		mutex_unlock(&bin->mtx);
		mutex_lock(&bin->mtx);
		n = (unsigned)min_zu(n - k, bin->stock.n);
	}
	bin->stock.low = bin->stock.n;
	is_left = bin_trim_current_locked(bin, info, all, &empty) || is_left;
	mutex_unlock(&bin->mtx);
	arena_slabs_delete(empty);
	return is_left;
}

static void
arena_trim_bins(arena_t *a, bool all) {
	bool is_hidden = arena_ind_is_hidden(a->ind), is_left = false;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		for (unsigned k = 0; k < bin_infos[i].n_shards; k++) {
			bin_t *bin = arena_bin(a, i, k);
			if (STOCK_SEEN(bin->stock.n) != 0 || bin_idle(bin) != bin_idle_not) {
				is_left = bin_trim(bin, slab_info_of(i, is_hidden), all) || is_left;
				arena_want_holes(a);
			}
		}
	}
	if (is_left) {
		atomic_store_b(&a->has_spare, true, MO_RELAXED);
	}
}

/*
 * An explicit or hidden arena is trimmed in a pass of dirty pages. A reset is such a pass too, so
 * it cannot free the slabs that a trim is about to delete. With `all` this waits for the pass of
 * another thread; EBUSY then means that the caller itself is in one, and the trim is part of that.
 * Without `all` there is no trim if a pass is under way, or if nothing became spare since the last
 * one. That does not stop a trim with `all`: another thread may have cleared has_spare for a trim
 * without `all`, which is under way and leaves what was used lately.
 */
void
arena_trim(arena_t *a, bool all) {
	if (likely(!all && !atomic_load_b(&a->has_spare, MO_RELAXED))) {
		return;
	}
	int err = a->is_auto ? EBUSY : pac_pass_enter(&a->pac, all);
	if (err == 0 || a->is_auto || all) {
		bool has_spare = atomic_exchange_b(&a->has_spare, false, MO_SEQ_CST);
		if (has_spare || all) {
			arena_trim_bins(a, all);
		}
	}
	if (err == 0) {
		pac_pass_leave(&a->pac);
	}
}

uint64_t
arena_trim_tick(arena_t *a, uint64_t now) {
	if (likely(!atomic_load_b(&a->has_spare, MO_RELAXED))) {
		return UINT64_MAX;
	}
	uint64_t due = atomic_load_u64(&a->next_trim, MO_RELAXED);
	if (now >= due
	    && atomic_cas_strong_u64(&a->next_trim, &due, now + STOCK_TRIM_NS, MO_RELAXED,
	    MO_RELAXED)) {
		arena_trim(a, false);
		due = now + STOCK_TRIM_NS;
	}
	return due > now ? due - now : STOCK_TRIM_NS;
}

void
arena_small_count_requests(arena_t *a, szind_t szind, unsigned shard, uint64_t nrequests,
    unsigned nflushes) {
	if (!config_stats) {
		return;
	}
	bin_t *bin = arena_bin(a, szind, shard);
	mutex_lock(&bin->mtx);
	bin->stats.nrequests += nrequests;
	bin->stats.nflushes += nflushes;
	mutex_unlock(&bin->mtx);
}

void *
arena_malloc(arena_t *a, size_t usize, size_t alignment, bool zero, unsigned nrequests) {
	assert(nrequests <= 1 && (alignment & (alignment - 1)) == 0);
	if (usize >= SC_LARGE_MINCLASS || alignment > PAGE) {
		usize = max_zu(usize, SC_LARGE_MINCLASS);
		arena_large_count_requests(a, sz_s2i(usize), nrequests, 0, 0);
		return arena_large_malloc(a, usize, alignment, zero);
	}
	void *p;
	szind_t szind = sz_s2i(usize);
	if (arena_small_fill(a, szind, 0, &p, 1, nrequests, 0) == 0) {
		return NULL;
	}
	if (zero) {
		memset(p, 0, canary_room(usize));
	}
	return p;
}

void
arena_dalloc(void *ptr, uint64_t elem) {
	edata_t *e = elem_edata(elem);
	assert(elem_state(elem) == extent_state_active && e->state == extent_state_active);
	if ((elem & ELEM_SLAB) == 0) {
		assert(ptr == e->u.large_start);
		arena_large_dalloc(e);
		return;
	}
	sample_rec_t *rec = arena_sample_rec(ptr, elem);
	if (rec != NULL) {
		assert(rec->tctx == NULL && rec->link == NULL);
		rec->req_size = 0; /* it may be TCACHE_REC_IS_SPARE (thread/tcache_spare.h) */
	}
	arena_small_return(e->szind, &ptr, 1, NULL);
}

int
arena_decay_ms_set(arena_t *a, bool is_dirty, ssize_t ms) {
	int err = pac_decay_ms_set(&a->pac, is_dirty ? &a->pac.decay_dirty : &a->pac.decay_muzzy, ms,
	    nstime_monotonic_coarse_ns());
	if (err == 0 && is_dirty) {
		/* Not known any more: the next holes_tick() computes it by the new time. */
		atomic_store_u64(&a->holes.due, 0, MO_RELAXED);
	}
	if (err == 0 && !arena_may_keep(a)) {
		arena_trim(a, true);
	}
	return err;
}

ssize_t
arena_decay_ms_get(const arena_t *a, bool is_dirty) {
	return decay_ms(is_dirty ? &a->pac.decay_dirty.decay : &a->pac.decay_muzzy.decay);
}

size_t
arena_need(size_t usize, size_t alignment) {
	size_t size = usize < SC_LARGE_MINCLASS ? bin_infos[sz_s2i(usize)].slab_size : usize + PAGE;
	return size + max_zu(alignment, PAC_GRAIN);
}
