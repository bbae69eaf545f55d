/*
 * Passes that give back pages inside slabs; holes.h has the contract, the invariant and the locks.
 * The state of a pass (arena_t.holes) belongs to the thread that is in the pass of the dirty decay,
 * but for its atomic fields. Called by arenas.c, background_thread.c and inspect.c.
 */
#include "arena/holes.h"

#include "extent/pac_hpa.h"
#include "os/nstime.h"

/* Passes begin at least a third of the decay time apart, and at least PERIOD_MIN_NS. */
#define PERIODS 3
#define PERIOD_MIN_NS (250 * NSTIME_PER_MSEC)
/* Least time between two steps of a pass. */
#define STEP_NS (10 * NSTIME_PER_MSEC)
/* A step looks at STEP_SLABS slabs, and in addition at up to 1 / STEP_PART of those of the pass. */
#define STEP_SLABS 256u
#define STEP_PART 2
/*
 * A step gives back pages of about so many slabs at most. That takes some milliseconds, by which
 * the user's call that makes the step is delayed.
 */
#define STEP_MAKES 1024u
/* After so many refusals of the system the arena has no more passes. */
#define REFUSALS_MAX 8u
/* Most slabs that are looked at, and of which pages are taken, while a bin's lock is held once. */
#define LOOKS_MAX 32u
#define TAKES_MAX 16u

/* Pages of a slab that the pass has taken: bit i of `pages` is page i of the slab. */
typedef struct {
	edata_t *slab;
	uint32_t pages;
} holes_take_t;

/* What a thread works on: a bin, and how. */
typedef struct {
	arena_t *a;
	bin_t *bin;
	const bin_info_t *info;
	bool all;      /* whatever the age of the pages */
	bool has_more; /* pages were seen, or slabs passed over, that may be due at the next pass */
	size_t budget; /* slabs that may still be looked at */
	size_t makes;  /* slabs of which pages may still be given back */
	edata_t *empty; /* slabs without regions in use, to be deleted; a chain by heap.next */
	unsigned n;    /* elements of takes that are used */
	holes_take_t takes[TAKES_MAX];
} holes_work_t;

/* ------------------------------------------------------------------ looking */

/*
 * Which share of the bin's memory is free, rounded down to a whole number of `parts`-ths (with
 * parts 4 the result is in quarters). 0 also if fewer than HOLES_MIN_FREE bytes are free. Regions
 * in the stock count as taken.
 */
static size_t
bin_free_part_locked(const bin_t *bin, const bin_info_t *info, size_t parts) {
	size_t all = bin->stats.curslabs * info->nregs;
	size_t taken = bin->stats.curregs + bin->stock.n;
	size_t nfree = all > taken ? all - taken : 0;
	return nfree * info->reg_size < HOLES_MIN_FREE ? 0 : nfree * parts / all;
}

/* Whether pages of a slab may be given back; may_break: also if that breaks huge pieces. */
static bool
holes_may_be_in(const edata_t *slab, bool may_break) {
	return !slab->is_hpa
	    && (may_break || (!emap_is_huge(slab->addr) && !emap_is_huge(edata_end(slab) - 1)));
}

/* Looks at a slab. The pages that are to be given back are taken. */
static void
holes_look_locked(holes_work_t *w, edata_t *slab, bool may_break) {
	uint32_t empty = slab_empty_pages(slab, w->info);
	uint32_t due = (w->all ? empty : empty & slab->seen_empty) & ~(uint32_t)slab->holes;
	assert((slab->holes & ~empty) == 0);
	slab->look = w->bin->look % BIN_LOOKS;
	slab->seen_empty = (uint16_t)empty;
	if (!holes_may_be_in(slab, may_break)) {
		return;
	}
	w->has_more = w->has_more || (empty & ~(uint32_t)slab->holes) != due;
	if (due != 0) {
		bin_take_pages_locked(w->bin, w->info, slab, due);
		w->takes[w->n++] = (holes_take_t){slab, due};
	}
}

/*
 * Looks at some slabs of the bin. Returns true if the pass has done with the bin: it has turned the
 * ring by as many slabs as there were when it came to the bin (or as there are now, if those are
 * fewer), the ring is empty, or too little is free. A slab that has joined the ring since the pass
 * began has the number of the pass in `look`, and is passed over.
 */
static bool
holes_look_some(holes_work_t *w) {
	bin_t *bin = w->bin;
	size_t *left = &w->a->holes.left;
	mutex_lock(&bin->mtx);
	*left = min_zu(*left, bin->stats.nonfull_slabs);
	size_t quarters = bin_free_part_locked(bin, w->info, 4);
	bool is_end = quarters == 0;
	for (unsigned i = 0; !is_end && i < LOOKS_MAX && w->n < TAKES_MAX && w->budget > 0; i++) {
		is_end = *left == 0 || bin->ring == NULL;
		if (!is_end) {
			edata_t *slab = edata_of_link(bin->ring);
			--*left;
			w->budget--;
			bin_ring_set(bin, slab->link.next);
			if (slab->look != bin->look) {
				holes_look_locked(w, slab, quarters >= 2);
			} else {
				w->has_more = true;
			}
		}
	}
	mutex_unlock(&bin->mtx);
	return is_end;
}

/* ------------------------------------------------------------------ giving back */

/*
 * Gives the pages back, run by run. False if the system refuses a run; then no page becomes a hole,
 * though the runs before it were given back.
 */
static bool
holes_try_purge(holes_work_t *w, const holes_take_t *take) {
	pac_decay_t *d = &w->a->pac.decay_dirty;
	for (uint32_t rest = take->pages; rest != 0;) {
		unsigned first = ctz64(rest), n = ctz64(~((uint64_t)rest >> first));
		char *addr = take->slab->addr + ((size_t)first << LG_PAGE);
		rest &= ~(uint32_t)(((UINT64_C(1) << n) - 1) << first);
		piece_break(addr, (size_t)n << LG_PAGE);
		if (pages_purge_forced(addr, (size_t)n << LG_PAGE) != 0) {
			return false;
		}
		atomic_fetch_add_u64(&d->nmadvise, 1, MO_RELAXED);
		atomic_fetch_add_u64(&d->purged, n, MO_RELAXED);
	}
	return true;
}

/* Purges the pages that were taken, and returns their regions to the bin. */
static void
holes_make(holes_work_t *w) {
	bool are_holes[TAKES_MAX];
	for (unsigned i = 0; i < w->n; i++) {
		are_holes[i] = holes_try_purge(w, &w->takes[i]);
		if (!are_holes[i]) {
			atomic_fetch_add_u32(&w->a->holes.nrefused, 1, MO_RELAXED);
		}
	}
	mutex_lock(&w->bin->mtx);
	for (unsigned i = 0; i < w->n; i++) {
		bin_put_pages_locked(w->bin, w->info, w->takes[i].slab, w->takes[i].pages, are_holes[i],
		    &w->empty);
	}
	mutex_unlock(&w->bin->mtx);
	w->makes -= min_zu(w->makes, w->n);
	w->n = 0;
}

/* Works on one bin until the pass has done with it (true), or budget or makes is used up. */
static bool
holes_work_on_bin(holes_work_t *w) {
	bool is_end;
	do {
		is_end = holes_look_some(w);
		if (w->n > 0) {
			holes_make(w);
		}
	} while (!is_end && w->budget > 0 && w->makes > 0);
	return is_end;
}

/* ------------------------------------------------------------------ passes */

static bool
holes_are_possible(const arena_t *a) {
	return !config_hardening && !ehooks_are_custom(&a->pac.src.ehooks)
	    && atomic_load_u32(&a->holes.nrefused, MO_RELAXED) < REFUSALS_MAX
	    && pages_can_purge_forced();
}

/* Whether the bin has slabs to look at; asked without its lock. */
static bool
bin_has_ring(const bin_t *bin) {
	return __atomic_load_n(&bin->ring, MO_RELAXED) != NULL;
}

/*
 * Begins a pass over the bin: bin->look becomes the number of the pass. Numbers repeat after
 * BIN_LOOKS passes, so a slab that was not looked at for so long has this number already. This pass
 * passes it over, and the next one looks at it. Returns how many slabs are in the ring.
 */
static size_t
bin_begin_pass(bin_t *bin) {
	mutex_lock(&bin->mtx);
	size_t n = bin->stats.nonfull_slabs;
	bin->look = (uint8_t)((bin->look + 1) % BIN_LOOKS);
	mutex_unlock(&bin->mtx);
	return n;
}

/*
 * Begins a pass. is_wanted is cleared before the locks of the bins are taken, so of regions that go
 * back meanwhile the pass sees the slab, or their thread sets is_wanted again. is_busy is set
 * first, so that the thread need not wake anybody.
 */
static void
holes_begin(arena_t *a, uint64_t now) {
	holes_t *h = &a->holes;
	atomic_store_b(&h->is_busy, true, MO_SEQ_CST);
	atomic_store_b(&h->is_wanted, false, MO_SEQ_CST);
	h->began = h->last = now;
	h->szind = h->shard = 0;
	h->left = SIZE_MAX;
	h->nslabs = 0;
	h->has_more = false;
	h->is_under_way = true;
	for (bin_t *bin = a->bins[0]; bin < arena_bins_end(a); bin++) {
		h->nslabs += bin_begin_pass(bin);
	}
}

/* Goes to the next bin. */
static void
holes_next(holes_t *h) {
	h->left = SIZE_MAX;
	if (++h->shard == bin_infos[h->szind].n_shards) {
		h->shard = 0;
		h->szind++;
	}
}

/* Goes on with the pass until all bins were seen, or as much was done as a step may do. */
static void
holes_go_on(arena_t *a, size_t budget, size_t makes, bool all) {
	holes_t *h = &a->holes;
	holes_work_t w = {.a = a, .all = all, .budget = budget, .makes = makes};
	bool is_end = true;
	while (is_end && h->szind < SC_NBINS) {
		w.info = slab_info_of(h->szind, arena_ind_is_hidden(a->ind));
		w.bin = arena_bin(a, h->szind, h->shard);
		is_end = !bin_has_ring(w.bin) || holes_work_on_bin(&w);
		if (is_end) {
			holes_next(h);
		}
	}
	h->has_more = h->has_more || w.has_more;
	h->is_under_way = !is_end;
	atomic_store_b(&h->is_busy, !is_end || h->has_more, MO_SEQ_CST);
	arena_slabs_delete(w.empty);
}

static uint64_t
holes_period(const arena_t *a) {
	uint64_t ms = (uint64_t)decay_ms(&a->pac.decay_dirty.decay);
	uint64_t period = ms * NSTIME_PER_MSEC / PERIODS;
	return period < PERIOD_MIN_NS ? PERIOD_MIN_NS : period;
}

/*
 * How many slabs a step looks at: so many that a pass takes about three eighths of a period. Both
 * terms of the quotient are ns / 2^20, so that the product does not overflow.
 */
static size_t
holes_budget(const holes_t *h, uint64_t now, uint64_t period) {
	uint64_t span = (period >> 20) * 3 / 8, past = nstime_ns_between(h->last, now) >> 20;
	size_t part = (size_t)(past < span ? h->nslabs * past / span : h->nslabs);
	return STEP_SLABS + min_zu(part, h->nslabs / STEP_PART);
}

/* A step of a pass; returns when the next one is due, in monotonic ns. */
static uint64_t
holes_step(arena_t *a, uint64_t now) {
	holes_t *h = &a->holes;
	uint64_t period = holes_period(a);
	if (!h->is_under_way) {
		holes_begin(a, now);
	}
	holes_go_on(a, holes_budget(h, now, period), STEP_MAKES, false);
	h->last = now;
	/* At least 5/8 of a period passes before the last slabs are looked at again. */
	uint64_t next = h->began + period, soonest = now + period / 8 * 5;
	return h->is_under_way ? now + STEP_NS : next > soonest ? next : soonest;
}

/*
 * Whether a pass, or the next step of one, may find pages and give them back. Called after is_busy
 * was cleared; arena_want_holes() sets is_wanted and then reads is_busy. So this finds is_wanted
 * set, or that function wakes the background thread.
 */
static bool
holes_are_wanted(const arena_t *a) {
	const holes_t *h = &a->holes;
	return (atomic_load_b(&h->is_busy, MO_SEQ_CST) || atomic_load_b(&h->is_wanted, MO_SEQ_CST))
	    && decay_ms(&a->pac.decay_dirty.decay) >= 0 && holes_are_possible(a);
}

uint64_t
holes_tick(arena_t *a, uint64_t now) {
	holes_t *h = &a->holes;
	uint64_t due = atomic_load_u64(&h->due, MO_RELAXED);
	if (!holes_are_wanted(a)) {
		return UINT64_MAX;
	}
	if (likely(now < due)) {
		return due - now;
	}
	uint64_t period = holes_period(a), next = now + (due == 0 ? period : STEP_NS);
	if (!atomic_cas_strong_u64(&h->due, &due, next, MO_RELAXED, MO_RELAXED) || due == 0) {
		return next - now;
	}
	if (pac_pass_enter(&a->pac, false) != 0) {
		return next - now;
	}
	next = holes_step(a, now);
	atomic_store_u64(&h->due, next, MO_RELAXED);
	pac_pass_leave(&a->pac);
	return !holes_are_wanted(a) ? UINT64_MAX : next > now ? next - now : STEP_NS;
}

void
holes_make_all(arena_t *a) {
	if (!holes_are_possible(a) || pac_pass_enter(&a->pac, true) != 0) {
		return;
	}
	holes_begin(a, nstime_monotonic_coarse_ns());
	holes_go_on(a, SIZE_MAX, SIZE_MAX, true);
	pac_pass_leave(&a->pac);
}

size_t
holes_npages(arena_t *a) {
	size_t n = 0;
	for (const bin_t *bin = a->bins[0]; bin < arena_bins_end(a); bin++) {
		n += __atomic_load_n(&bin->nholes, MO_RELAXED);
	}
	return n;
}
