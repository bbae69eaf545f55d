/*
 * Fill, flush and upkeep of one cache; tcache.h explains when each happens. tcache_limits.c has the
 * limits of bins, tcache_set.c the changes of settings and the explicit caches.
 *
 * The parameter `slot` is the index of a bin, its size class plus 1. A bin is a stack that grows
 * towards lower addresses: `head` is its top, the end of its array the bottom. The places of the
 * array are its slots; those beyond their limit `max` are its grant. Its countdown is the number of
 * requests (pops) until the slow path takes a sample or tests whether a heartbeat is due; to fold
 * the countdown is to add the requests that it has counted to the counters. Upkeep sets `empty`,
 * where pops stop, to the middle of the stack as a mark; the slow path of a pop removes it. If it
 * is still there at the next upkeep, the objects below it were not used. bin_close() frees slots,
 * and recall_close() keeps the pops and pushes of a signal handler off.
 *
 * Invariant: each bin's pointers lie between `head` and the bottom of its stack, the oldest at the
 * bottom, which is flushed first (see bin_check). Only the owner of a cache changes it (but for
 * tcache_take_over), so no lock is taken here except the arena's tcache_list_mtx for the link of
 * the cache; functions of the arena take their own. Called by the slow path of requests
 * (imalloc.c), at heartbeats, at the start and end of a thread (tsd.c), for explicit caches
 * (tcache_set.c), by claim.c, peak.c and icheck.c, and by mallctl.
 */
#include "thread/tcache.h"

#include "arena/arenas.h"
#include "arena/large.h"
#include "extent/pac_relieve.h"
#include "meta/freepool.h"
#include "os/nstime.h"
#include "thread/quarantine.h"
#include "thread/recall.h"
#include "thread/tcache_budget.h"
#include "thread/thread_event.h"

/* Slots of a stack when it is first used; it doubles up to the bin's limit. */
#define TCACHE_NSLOTS_FIRST 8u
/* Requests after which a bin that becomes full is granted nothing (bin_is_soon_full). */
#define TCACHE_GRANT_REQUESTS 16u

atomic_zu_t tcache_slow_min = {SIZE_MAX};

static size_t
slot_size(unsigned slot) {
	assert(slot > 0);
	return sz_i2s(slot - 1);
}

static bool
slot_is_small(unsigned slot) {
	return slot - 1 < SC_NBINS;
}

/* NULL for a bin without slots; no pointer arithmetic, because C defines none with NULL. */
static void **
bin_bottom(const tcache_cold_t *c) {
	return (void **)((uintptr_t)c->slots + c->nslots * sizeof(void *));
}

static unsigned
bin_ncached(const cache_bin_t *b, const tcache_cold_t *c) {
	return (unsigned)(((uintptr_t)bin_bottom(c) - (uintptr_t)b->head) / sizeof(void *));
}

static unsigned
bin_shard(const tsd_t *tsd, unsigned slot) {
	unsigned n = bin_infos[slot - 1].n_shards;
	return likely(n == 1) || tsd == NULL ? 0 : tsd->shard_seed % n; /* usually no division */
}

/* Checks the invariants of a stack and its cold half. */
static void
bin_check(const cache_bin_t *b UNUSED, const tcache_cold_t *c UNUSED) {
	assert(b->head >= c->slots && b->head <= bin_bottom(c));
	assert(b->full == c->slots && b->empty >= b->head && b->empty <= bin_bottom(c));
	assert(c->is_marked || b->empty == bin_bottom(c));
	assert((c->nslots == 0) == (c->slots == NULL));
	assert(b->countdown <= c->window);
}

/* ------------------------------------------------------------------ counting */

/*
 * Whether each request of the class takes the slow path (tcache_slow_min), which it does only
 * while sampling is on. size: the class's.
 */
static bool
bin_takes_slow_path(const tcache_cold_t *c, size_t size) {
	return c->to_sample != UINT64_MAX && size >= atomic_load_zu(&tcache_slow_min, MO_RELAXED);
}

/* Starts the next countdown, to a sample or a heartbeat, and the next look (tcache.h). */
static void
bin_arm(const tsd_t *tsd, cache_bin_t *b, tcache_cold_t *c) {
	size_t size = b->size;
	uint64_t w = unlikely(bin_takes_slow_path(c, size)) ? 1 : thread_event_requests(tsd, size);
	if (c->to_sample != UINT64_MAX) {
		w = c->to_sample < w ? c->to_sample : w;
		c->to_sample -= w;
	}
	assert(w > 0);
	c->window = (uint32_t)w;
	b->countdown = (uint32_t)w;
	c->must_look = config_hardening && size < SC_LARGE_MINCLASS;
}

/*
 * Whether the countdown has wrapped below zero. That happens when a signal handler allocates
 * between the last step of a countdown and the slow path that follows it.
 */
static bool
bin_is_past_zero(const cache_bin_t *b, const tcache_cold_t *c) {
	return b->countdown > c->window;
}

/*
 * Adds the pops since the last fold to the bin's nrequests and, in bytes, to tsd->popped (not those
 * of an explicit cache). Returns their bytes, which all callers but tcache_flush() add to
 * tsd->event_bytes, themselves or by thread_event_*(). A countdown that has wrapped becomes 0.
 */
static uint64_t
bin_fold(tsd_t *tsd, const tcache_t *tc, cache_bin_t *b, tcache_cold_t *c) {
	uint32_t pops = c->window - b->countdown; /* correct also after a wrap below zero */
	uint64_t bytes = (uint64_t)pops * b->size;
	if (unlikely(bin_is_past_zero(b, c))) {
		b->countdown = 0;
	}
	c->window = b->countdown;
	c->nrequests += pops;
	if (tc->is_auto) {
		tsd->popped += bytes; /* requests to an explicit cache are counted one by one */
	}
	return bytes;
}

void
tcache_fold(tsd_t *tsd, tcache_t *tc) {
	for (unsigned s = 1; s < tc->nslots; s++) {
		tsd->event_bytes += bin_fold(tsd, tc, &tc->bins[s], &tc->cold[s]);
	}
}

void
tcache_retune(tsd_t *tsd, tcache_t *tc) {
	for (unsigned s = 1; s < tc->nslots; s++) {
		tsd->event_bytes += bin_fold(tsd, tc, &tc->bins[s], &tc->cold[s]);
		tc->cold[s].to_sample = thread_event_draw_objects(tsd, tc->bins[s].size);
		bin_arm(tsd, &tc->bins[s], &tc->cold[s]);
	}
}

/* A countdown of 0 belongs to a request that is under way, so it is left alone. */
void
tcache_shorten_interval(tsd_t *tsd) {
	tcache_t *tc = tsd->tcache;
	thread_event_shorten_interval(tsd);
	for (unsigned s = 1; tc != NULL && s < tc->nslots; s++) {
		cache_bin_t *b = &tc->bins[s];
		tcache_cold_t *c = &tc->cold[s];
		if (b->countdown > 1 && !bin_is_past_zero(b, c)
		    && (uint64_t)b->countdown * b->size > tsd->beat_bytes) {
			tsd->event_bytes += bin_fold(tsd, tc, b, c);
			c->to_sample += c->to_sample != UINT64_MAX ? b->countdown : 0;
			bin_arm(tsd, b, c);
		}
	}
}

bool
tcache_is_due(const tcache_t *tc) {
	for (unsigned s = 1; s < tc->nslots; s++) {
		if (tc->bins[s].countdown == 0 || bin_is_past_zero(&tc->bins[s], &tc->cold[s])) {
			return true;
		}
	}
	return false;
}

/* Adds the bin's requests, and so many flushes, to the counters of the cache's arena. */
static void
bin_report(const tsd_t *tsd, tcache_t *tc, unsigned slot, unsigned nflushes) {
	tcache_cold_t *c = &tc->cold[slot];
	if (slot_is_small(slot)) {
		arena_small_count_requests(tc->arena, slot - 1, bin_shard(tsd, slot), c->nrequests,
		    nflushes);
	} else {
		arena_large_count_requests(tc->arena, slot - 1, c->nrequests, 0, nflushes);
	}
	c->nrequests = 0;
}

/*
 * Reports requests before they exceed 32 bits: where a thread pops and pushes the same objects
 * again and again there is no fill or flush, which report them otherwise. Called at upkeep, and at
 * each request to an explicit cache, which has no upkeep.
 */
static void
bin_report_many(const tsd_t *tsd, tcache_t *tc, unsigned slot) {
	if (unlikely(tc->cold[slot].nrequests > INT32_MAX)) {
		bin_report(tsd, tc, slot, 0);
	}
}

/*
 * For each request to an explicit cache: draws new distances if the sample rate changed, as a
 * recall handles only the thread's own cache, and does what upkeep does for that.
 */
static NOINLINE void
tcache_look_by_hand(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	if (tc->interval != tsd->sample_interval) {
		tc->interval = tsd->sample_interval;
		tcache_retune(tsd, tc);
	}
	bin_report_many(tsd, tc, slot);
}

bool
tcache_count_to_sample(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	assert(slot > 0 && slot < tc->nslots);
	tsd_assert_own(tsd);
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	if (unlikely(!tc->is_auto)) {
		tcache_look_by_hand(tsd, tc, slot);
	}
	if (b->countdown != 0 && likely(!bin_is_past_zero(b, c)) && --b->countdown != 0) {
		return false;
	}
	uint64_t bytes = bin_fold(tsd, tc, b, c);
	bool is_sample = c->to_sample == 0;
	if (is_sample) {
		c->to_sample = thread_event_draw_objects(tsd, b->size);
	}
	bin_arm(tsd, b, c);
	if (!is_sample || b->size < SC_LARGE_MINCLASS) {
		thread_event_advance(tsd, bytes);
	} else if (!thread_event_try_pass(tsd, bytes)) {
		thread_event_advance_large(tsd, bytes);
	}
	return is_sample;
}

void
tcache_count_apart(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	assert(slot > 0 && slot < tc->nslots);
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	if (unlikely(!tc->is_auto)) {
		tcache_look_by_hand(tsd, tc, slot);
	}
	b->countdown -= b->countdown != 0;
	uint64_t bytes = bin_fold(tsd, tc, b, c);
	/* The countdown has counted the request, which is not to shorten the distance to a sample. */
	c->to_sample += c->to_sample != UINT64_MAX;
	if (b->countdown == 0) {
		bin_arm(tsd, b, c);
	}
	thread_event_advance(tsd, bytes);
}

void
tcache_uncount(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	assert(slot > 0 && slot < tc->nslots);
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	if (b->countdown < c->window) {
		b->countdown++;
		return;
	}
	c->nrequests -= c->nrequests > 0 ? 1 : 0;
	if (tc->is_auto) {
		tsd->popped -= slot_size(slot);
	}
}

void
tcache_recount(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	assert(slot > 0 && slot < tc->nslots);
	tc->cold[slot].nrequests++;
	if (tc->is_auto) {
		tsd->popped += slot_size(slot);
	}
}

/*
 * The end of a countdown must reach tcache_count_to_sample(). If the fast path ended it for a
 * request that is not served by the cache, one step is added so that the next request ends it.
 */
void
tcache_uncount_fast(tcache_t *tc, size_t usize) {
	szind_t ind = usize == 0 ? SC_NSIZES : sz_s2i(usize);
	if (ind + 1 < tc->nslots && tc->bins[ind + 1].countdown == 0) {
		tc->bins[ind + 1].countdown = 1;
	}
}

/* ------------------------------------------------------------------ stacks */

/* Moves the mark to the bottom, so that the whole stack can be popped. */
static void
bin_unmark(cache_bin_t *b, tcache_cold_t *c) {
	b->empty = bin_bottom(c);
	c->is_marked = false;
}

/*
 * Moves the content to a new stack of nslots pointers, or none if nslots is 0; no mark. Without
 * memory nothing changes.
 */
static void
bin_resize(cache_bin_t *b, tcache_cold_t *c, unsigned nslots) {
	unsigned n = bin_ncached(b, c);
	assert(nslots >= n && nslots <= UINT16_MAX);
	void **slots = nslots == 0 ? NULL : meta_alloc(nslots * sizeof(void *));
	if (slots == NULL && nslots != 0) {
		return;
	}
	void **head = nslots == 0 ? NULL : slots + nslots - n;
	if (n > 0) {
		memcpy(head, b->head, n * sizeof(void *));
	}
	void *open = recall_close(tls_get());
	meta_free(c->slots, c->nslots * sizeof(void *));
	__atomic_store_n(&c->slots, slots, MO_RELAXED);
	__atomic_store_n(&c->nslots, (uint16_t)nslots, MO_RELAXED);
	cache_bin_set_head(b, head);
	b->full = slots;
	bin_unmark(b, c);
	recall_open(tls_get(), open);
	assert(bin_ncached(b, c) == n);
	bin_check(b, c);
}

/* Doubles the stack, at most to the bin's limit. */
static void
bin_grow_next(cache_bin_t *b, tcache_cold_t *c) {
	unsigned next = c->nslots == 0 ? TCACHE_NSLOTS_FIRST : c->nslots * 2u;
	bin_resize(b, c, (unsigned)min_zu(next, c->max));
}

/* ------------------------------------------------------------------ grants */

/* The grant of a bin in bytes: the size of its class times its slots beyond the limit. */
static size_t
bin_granted(const tcache_cold_t *c, unsigned slot) {
	return c->nslots > c->max ? (size_t)(c->nslots - c->max) * slot_size(slot) : 0;
}

/* The first bin of objects above TCACHE_GRANT_ABOVE. */
static unsigned
tcache_first_large(void) {
	return sz_s2i(TCACHE_GRANT_ABOVE) + 2u;
}

/* Counts that the grant of one bin has changed from `before` to `after` bytes. */
static void
grants_change(tcache_t *tc, unsigned slot, size_t before, size_t after) {
	tcache_budget_change(tc->granted, tc->granted + after - before);
	tc->granted += after - before;
	if (slot_size(slot) > TCACHE_GRANT_ABOVE) {
		uint64_t bit = UINT64_C(1) << (slot - tcache_first_large());
		tc->granted_map = after != 0 ? tc->granted_map | bit : tc->granted_map & ~bit;
	}
}

/* bin_resize() of a bin that has a grant before or after; counts the change. */
static void
bin_regrant(tcache_t *tc, unsigned slot, unsigned nslots) {
	tcache_cold_t *c = &tc->cold[slot];
	size_t before = bin_granted(c, slot);
	bin_resize(&tc->bins[slot], c, nslots);
	grants_change(tc, slot, before, bin_granted(c, slot));
}

/*
 * Whether the class may have grants. None may while the arena returns unused pages at once (decay
 * time 0), and oversized objects above TCACHE_GRANT_ABOVE never: the arena of oversized requests
 * keeps their pages itself.
 */
static bool
grants_suit(const tcache_t *tc, unsigned slot) {
	size_t size = slot_size(slot);
	return (size <= TCACHE_GRANT_ABOVE || size < arenas_oversize_min)
	    && arena_decay_ms_get(tc->arena, true) != 0;
}

/* Ends that the cache is refused grants; it may ask again. */
static void
cache_end_refusal(tcache_t *tc) {
	if (tc->is_waiting) {
		tcache_budget_end_wait();
	}
	tc->is_waiting = false;
	tc->is_refused = false;
}

/* Ends that the cache counts in the budget. */
static void
cache_leave_budget(tcache_t *tc) {
	tcache_budget_change(tc->granted, 0);
	cache_end_refusal(tc);
}

bool
tcache_has_part(const tcache_t *tc) {
	return tc->granted != 0 || tc->is_waiting;
}

/*
 * The slots that the budget allows beyond those of the bin. A cache without grants that gets none
 * asks again after its next heartbeat. If its part would hold an object, the parts of the others
 * are smaller meanwhile, so that they give some back.
 */
static size_t
bin_slots_left(tcache_t *tc, unsigned slot) {
	assert(!tc->is_refused);
	size_t n = tcache_budget_more(tc->granted) / slot_size(slot);
	if (n == 0 && tc->granted == 0) {
		tc->is_refused = true;
		tc->is_waiting = tcache_budget_try_wait(slot_size(slot));
	}
	return n;
}

/*
 * Enlarges a bin to `next` slots, or to as many as the budget allows, but by more than an eighth or
 * not at all. A limit that was set by an option or a call is never exceeded. Returns whether one
 * more object has room now; false if the bin did not grow.
 */
static bool
bin_try_grow(tcache_t *tc, unsigned slot, size_t next) {
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	size_t now = c->nslots;
	if (tc->is_refused || c->is_fixed || !tc->is_auto || !tcache_may_grant(slot - 1, c->max)) {
		return false;
	}
	next = min_zu(min_zu(next, TCACHE_NSLOTS_LIMIT), now + bin_slots_left(tc, slot));
	if (next <= now + now / 8 || !grants_suit(tc, slot)) {
		return false;
	}
	bin_regrant(tc, slot, (unsigned)next);
	return b->head != b->full;
}

/*
 * Whether a full bin has served few requests since its last fill: at most TCACHE_GRANT_REQUESTS, or
 * at most as many as it has slots, which after a fill and a row of frees is always so. Where large
 * objects come and go at random the stack is full or empty now and then; more slots for it hold
 * memory and save few instructions (doc/PERFORMANCE.md). True for small objects.
 */
static bool
bin_is_soon_full(const tcache_t *tc, unsigned slot) {
	const tcache_cold_t *c = &tc->cold[slot];
	size_t served = c->nrequests + (c->window - tc->bins[slot].countdown);
	return slot_is_small(slot) || served <= max_zu(TCACHE_GRANT_REQUESTS, c->nslots);
}

/*
 * Adds half of its slots and one to a full bin (the first one to a bin without slots), if the
 * thread alternates between taking and freeing more objects than the bin holds (is_swinging).
 */
static bool
bin_try_grant(tcache_t *tc, unsigned slot) {
	assert(tc->bins[slot].head == tc->bins[slot].full);
	unsigned n = tc->cold[slot].nslots;
	return tc->cold[slot].is_swinging && bin_is_soon_full(tc, slot)
	    && bin_try_grow(tc, slot, n + n / 2u + 1u);
}

/*
 * Grants a bin without slots those of a batch, for a thread that only allocates or only frees such
 * objects: it then takes the arena's lock once for a batch. Not if it would be less than 2 objects.
 * Only for large classes: a small one has a limit of 0 only if it was set (tcache_may_grant).
 */
static bool
bin_try_grant_batch(tcache_t *tc, unsigned slot) {
	size_t n = min_zu(TCACHE_BATCH_BYTES / slot_size(slot), TCACHE_BATCH_MAX);
	assert(tc->cold[slot].nslots == 0);
	return n >= 2 && bin_try_grow(tc, slot, n);
}

/*
 * Halves the slots of a granted bin after upkeep has flushed objects, but not below its limit or
 * the number of its objects. A bin whose limit is 0 keeps at least one slot, another one at least
 * TCACHE_NSLOTS_FIRST. Ends is_swinging, also without a grant.
 */
static void
bin_ungrant(tcache_t *tc, unsigned slot) {
	tcache_cold_t *c = &tc->cold[slot];
	unsigned first = c->max == 0 ? 1 : TCACHE_NSLOTS_FIRST;
	unsigned least = (unsigned)max_zu(max_zu(c->max, bin_ncached(&tc->bins[slot], c)), first);
	c->is_swinging = false;
	if (c->nslots > least) {
		bin_regrant(tc, slot, (unsigned)max_zu(c->nslots / 2, least));
	}
}

/* Small objects go to their slabs, or if `from` is not NULL perhaps to stocks (arena.h). */
static void
slot_free_objects(unsigned slot, void **objs, unsigned n, const arena_t *from) {
	if (!slot_is_small(slot)) {
		arena_large_flush(objs, n);
	} else {
		arena_small_return(slot - 1, objs, n, from);
	}
}

/*
 * Returns the n oldest objects to their slabs or extents, or if is_surplus, of a full stack,
 * perhaps to stocks.
 */
static void
bin_return_bottom(tsd_t *tsd, tcache_t *tc, unsigned slot, unsigned n, bool is_surplus) {
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	unsigned ncached = bin_ncached(b, c);
	assert(n <= ncached);
	if (n == 0) {
		return;
	}
	bin_report(tsd, tc, slot, 1);
	void *open = recall_close(tls_get()); /* a handler must not pop what is returned */
	bin_unmark(b, c); /* first: the head must not pass the mark */
	slot_free_objects(slot, bin_bottom(c) - n, n, is_surplus ? tc->arena : NULL);
	memmove(b->head + n, b->head, (ncached - n) * sizeof(void *));
	cache_bin_set_head(b, b->head + n);
	recall_open(tls_get(), open);
	assert(bin_ncached(b, c) == ncached - n);
	bin_check(b, c);
	if (tc->is_auto) {
		tsd->flushed += (uint64_t)n * slot_size(slot);
	}
}

void
tcache_flush(tsd_t *tsd, tcache_t *tc) {
	if (tc->is_auto) {
		quarantine_flush(tsd);
	}
	tcache_spare_flush(&tc->spares);
	for (unsigned s = 1; s < tc->nslots; s++) {
		bin_fold(tsd, tc, &tc->bins[s], &tc->cold[s]);
		if (tc->cold[s].nslots > 0) {
			bin_return_bottom(tsd, tc, s, bin_ncached(&tc->bins[s], &tc->cold[s]), false);
		}
		if (tc->cold[s].nrequests > 0) {
			bin_report(tsd, tc, s, 1);
		}
	}
}

/* Whether the free of a cached object may call hooks of the user. */
static bool
slot_object_has_hooks(unsigned slot, void *obj) {
	const edata_t *e = slot_is_small(slot) ? emap_edata(obj) : obj;
	arena_t *a = arena_table_get(e->arena_ind);
	return a == NULL || ehooks_are_custom(&a->pac.src.ehooks);
}

size_t
tcache_take_over(tcache_t *tc) {
	size_t bytes = 0;
	for (unsigned s = 1; s < tc->nslots; s++) {
		tcache_cold_t *c = &tc->cold[s];
		void **head = __atomic_load_n(&tc->bins[s].head, MO_RELAXED), **bottom = bin_bottom(c);
		unsigned most = head < bottom ? (unsigned)(bottom - head) - 1 : 0, n = 0;
		/* The owner may wait for this, with a lock of its own that a hook wants too. */
		while (n < most && !slot_object_has_hooks(s, bottom[-1 - (ptrdiff_t)n])) {
			n++;
		}
		if (n > 0) {
			slot_free_objects(s, bottom - n, n, NULL);
		}
		c->n_taken = (uint16_t)n;
		bytes += n * slot_size(s);
	}
	cache_leave_budget(tc);
	atomic_store_zu(&tc->taken, bytes, MO_RELEASE);
	return bytes;
}

void
tcache_settle_taken(tsd_t *tsd, tcache_t *tc) {
	tsd_assert_own(tsd);
	for (unsigned s = 1; s < tc->nslots; s++) {
		cache_bin_t *b = &tc->bins[s];
		tcache_cold_t *c = &tc->cold[s];
		unsigned n = c->n_taken, ncached = c->nslots == 0 ? 0 : bin_ncached(b, c);
		c->n_taken = 0; /* and so marked_at, in the same union: an old mark, not a young one */
		if (n > 0) {
			/* One was left; a pop or a push that was under way has perhaps made that 0 or 2. */
			assert(ncached >= n && ncached - n <= 2);
			memmove(b->head + n, b->head, (ncached - n) * sizeof(void *));
			cache_bin_set_head(b, b->head + n);
			bin_unmark(b, c);
			tsd->flushed += (uint64_t)n * slot_size(s);
		}
	}
	atomic_store_zu(&tc->taken, 0, MO_RELAXED);
	tcache_budget_change(0, tc->granted);
	tcache_return_grants(tsd, tc);
}

bool
tcache_try_gather(tsd_t *tsd, arena_t *a) {
	size_t before = pac_relievable(&a->pac);
	if (tsd->tcache != NULL) {
		tcache_flush(tsd, tsd->tcache);
	}
	arena_trim(a, true);
	return pac_relievable(&a->pac) > before;
}

/* ------------------------------------------------------------------ taking and putting */

void
tcache_make_way(tsd_t *tsd, tcache_t *tc, size_t above, size_t want) {
	assert(above >= TCACHE_GRANT_ABOVE);
	for (unsigned s = tc->nslots - 1; want > 0 && tc->granted_map != 0
	    && slot_size(s) > above; s--) {
		size_t size = slot_size(s);
		const tcache_cold_t *c = &tc->cold[s];
		unsigned have = c->nslots == 0 || c->is_fixed ? 0 : bin_ncached(&tc->bins[s], c);
		unsigned n = (unsigned)min_zu(have, (want + size - 1) / size);
		bin_return_bottom(tsd, tc, s, n, false);
		want -= min_zu(want, n * size);
	}
}

/*
 * Fetches up to n objects from an arena, as a bin of the slot holds them (large ones: descriptors),
 * and reports the bin's earlier requests to it. Large ones come from hot extents, or if none fits,
 * only one is made in another extent. Returns the number; 0: no memory.
 */
ALWAYS_INLINE unsigned
slot_fetch_objects(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot, void **out, unsigned n) {
	assert(n > 0);
	tcache_cold_t *c = &tc->cold[slot];
	if (!slot_is_small(slot) && tc->is_auto) {
		tsd->event_bytes += bin_fold(tsd, tc, &tc->bins[slot], c); /* for bin_is_soon_full() */
	}
	/* This request, if it is in nrequests, stays: on failure tcache_uncount() subtracts it. */
	uint32_t kept = c->nrequests > 0 && tc->bins[slot].countdown == c->window ? 1 : 0;
	uint64_t nrequests = c->nrequests - kept;
	c->nrequests = kept;
	if (slot_is_small(slot)) {
		return arena_small_fill(from, slot - 1, bin_shard(tsd, slot), out, n, nrequests, 1);
	}
	arena_large_count_requests(from, slot - 1, nrequests, 1, 0);
	unsigned got = arena_large_reuse(from, slot_size(slot), out, n);
	if (got == 0) {
		if (slot_size(slot) > TCACHE_FLUSH_ABOVE) {
			tcache_make_way(tsd, tc, TCACHE_FLUSH_ABOVE, slot_size(slot));
		}
		out[0] = arena_large_new(from, slot_size(slot), 0, false);
		got = out[0] != NULL;
	}
	return got;
}

/*
 * The name (slab_name()) of the current slab of the arena's bin, read without the bin's lock: its
 * descriptor may be that of another extent by now, whose name it then has. 0: there is none.
 */
static NO_SANITIZE_THREAD uint64_t
current_slab(const tsd_t *tsd, arena_t *from, unsigned slot) {
	const bin_t *bin = arena_bin(from, slot - 1, bin_shard(tsd, slot));
	const edata_t *e = *(edata_t *const volatile *)&bin->slabcur;
	const char *addr = e == NULL ? NULL : *(char *const volatile *)&e->addr;
	return addr == NULL ? 0 : slab_name(e, addr);
}

uint64_t
tcache_next_slab(const tsd_t *tsd, const tcache_t *tc, arena_t *from, unsigned slot) {
	assert(slot_is_small(slot));
	const cache_bin_t *b = tc == NULL || slot >= tc->nslots ? NULL : &tc->bins[slot];
	if (b == NULL || b->head == bin_bottom(&tc->cold[slot])) {
		return current_slab(tsd, from, slot);
	}
	const void *p = *b->head;
	uint64_t elem = emap_elem(p);
	return (elem & ELEM_SLAB) == 0 ? 0 : slab_name(elem_edata(elem), p);
}

/*
 * The number of objects to fetch for an empty bin; 0 without slots. Of a small class: half of its
 * slots, or of its limit if that is less; seven eighths of them if the bin was filled before since
 * its last upkeep and the transfer cache holds as many. Of a large class: one at the first fill
 * since the last upkeep, and always one in a thread that measures its peak, which is updated at
 * fills; otherwise half of the slots, or all in a thread that does not free such objects in turn.
 */
ALWAYS_INLINE unsigned
bin_fill_count(const tsd_t *tsd, const tcache_t *tc, arena_t *from, unsigned slot,
    bool was_empty) {
	unsigned nslots = (unsigned)min_zu(tc->cold[slot].nslots, tc->cold[slot].max),
	    most = nslots - nslots / 8;
	if (!slot_is_small(slot)) {
		nslots = tc->cold[slot].nslots;
		unsigned batch = tc->cold[slot].is_swinging ? (nslots + 1) / 2 : nslots;
		return was_empty && !tsd->has_peak_reset ? batch : nslots != 0;
	}
	const bin_t *bin = arena_bin(from, slot - 1, bin_shard(tsd, slot));
	return was_empty && STOCK_SEEN(bin->stock.n) >= most ? most : (nslots + 1) / 2;
}

/*
 * Fills the empty stack from the arena. It stays empty if there is no memory, or if the bin has no
 * slots.
 */
ALWAYS_INLINE void
bin_fill(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot) {
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	if (c->nslots < c->max && (c->nslots == 0 || c->was_empty)) {
		bin_grow_next(b, c);
	} else if (c->max == 0 && c->nslots == 0 && c->was_empty && !c->was_full) {
		bin_try_grant_batch(tc, slot);
	}
	unsigned n = bin_fill_count(tsd, tc, from, slot, c->was_empty);
	c->was_empty = true;
	c->is_swinging = c->is_swinging || c->was_full;
	c->was_full = false;
	if (n == 0) {
		return;
	}
	assert(bin_ncached(b, c) == 0);
	void **at = bin_bottom(c) - n;
	void *open = recall_close(tls_get()); /* a handler must not push where objects come */
	unsigned got = slot_fetch_objects(tsd, tc, from, slot, at, n);
	if (got < n) {
		memmove(at + (n - got), at, got * sizeof(void *));
	}
	assert(got <= n);
	cache_bin_set_head(b, bin_bottom(c) - got);
	recall_open(tls_get(), open);
	bin_check(b, c);
	if (tc->is_auto) {
		tsd->filled += (uint64_t)got * slot_size(slot);
	}
}

/* A look (tcache.h) at the object that was freed last, if there is one and a look is due. */
static void
bin_look(tsd_t *tsd, cache_bin_t *b, tcache_cold_t *c) {
	void *obj;
	if (!c->must_look || !cache_bin_try_take(b, &obj)) {
		return;
	}
	c->must_look = false;
	if (quarantine_try_add(tsd, emap_edata(obj), obj, b->size)) {
		tsd->flushed += b->size;
	} else {
		cache_bin_try_push(b, obj);
	}
}

/*
 * Fetches one object directly from the arena, for a bin that cannot hold any. Returns it as the bin
 * would hold it.
 */
static NOINLINE void *
slot_fetch_one(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot) {
	void *obj;
	if (slot_fetch_objects(tsd, tc, from, slot, &obj, 1) == 0) {
		return NULL;
	}
	if (tc->is_auto) {
		tsd->filled += slot_size(slot);
	}
	return obj;
}

void *
tcache_take(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot) {
	assert(slot > 0 && slot < tc->nslots);
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	if (config_hardening && tc->is_auto) {
		bin_look(tsd, b, c);
	}
	if (b->head == b->empty && c->is_marked) {
		bin_unmark(b, c);
	}
	if (b->head == b->empty) {
		bin_fill(tsd, tc, from, slot);
	}
	void *obj;
	if (!cache_bin_try_take(b, &obj)) {
		obj = slot_fetch_one(tsd, tc, from, slot);
	}
	if (unlikely(obj == NULL)) {
		tcache_uncount(tsd, tc, slot);
		return NULL;
	}
	return slot_is_small(slot) ? obj : arena_large_hand_out(obj);
}

/*
 * The number of objects that leave a full stack, at least 1: its slots divided by 2 to the power of
 * an option lg_tcache_flush_*_div. With its default 1 that is half. But in a phase of freeing, when
 * the bin was not filled since it was last full (was_full), it is seven eighths of small objects,
 * and all large ones unless the thread allocates them in turn (is_swinging).
 */
static unsigned
bin_surplus(const tcache_cold_t *c, bool is_small) {
	unsigned div = is_small ? opt_lg_tcache_flush_small_div : opt_lg_tcache_flush_large_div;
	unsigned n = c->nslots;
	bool is_freeing = c->was_full && div == 1 && (is_small || !c->is_swinging);
	return (unsigned)max_zu(!is_freeing ? n >> div : is_small ? n - n / 8 : n, 1);
}

/* Makes room in a full stack: by a grant, or else by moving the oldest objects out. */
static void
bin_make_room(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	tcache_cold_t *c = &tc->cold[slot];
	if (bin_try_grant(tc, slot)) {
		return;
	}
	unsigned n = bin_surplus(c, slot_is_small(slot));
	bin_return_bottom(tsd, tc, slot, n, true);
	c->was_full = true;
	/* Large objects are extents: the page cache counts them itself (pac_report_rise). */
	tsd->small_freed += slot_is_small(slot) ? n * slot_size(slot) : 0;
	if (unlikely(tsd->small_freed >= ARENAS_RISE)) {
		thread_event_freed_much(tsd);
	}
}

bool
tcache_try_put(tsd_t *tsd, tcache_t *tc, unsigned slot, void *obj) {
	assert(slot > 0 && slot < tc->nslots);
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	if (b->head == b->full && c->nslots < c->max) {
		bin_grow_next(b, c);
	}
	if (b->head == b->full) {
		if (c->nslots == 0 && !bin_try_grant(tc, slot)
		    && !(c->was_full && bin_try_grant_batch(tc, slot))) {
			c->was_full = true;
			return false;
		}
		if (b->head == b->full) {
			bin_make_room(tsd, tc, slot);
		}
	}
	bool is_pushed = cache_bin_try_push(b, obj);
	assert(is_pushed);
	return is_pushed;
}

bool
tcache_has(const tcache_t *tc, unsigned slot, const void *ptr) {
	assert(slot_is_small(slot));
	if (slot >= tc->nslots || tc->cold[slot].nslots == 0) {
		return false;
	}
	for (void **at = tc->bins[slot].head; at < bin_bottom(&tc->cold[slot]); at++) {
		if (*at == ptr) {
			return true;
		}
	}
	return false;
}

/* ------------------------------------------------------------------ upkeep */

/*
 * Whether the mark of a granted bin is too young to be evaluated (less than one to two steps of 67
 * ms): the thread may need several heartbeats for one batch of objects.
 */
static bool
bin_is_mark_young(const tcache_cold_t *c, uint16_t now) {
	return c->nslots > c->max && (uint16_t)(now - c->marked_at) < 2;
}

/* Frees the stack and grant of an empty bin of limit 0. */
static void
bin_close(tcache_t *tc, unsigned slot) {
	tcache_cold_t *c = &tc->cold[slot];
	assert(c->max == 0 && bin_ncached(&tc->bins[slot], c) == 0);
	bin_regrant(tc, slot, 0);
	c->is_swinging = false;
}

void
tcache_return_grants(tsd_t *tsd, tcache_t *tc) {
	tsd_assert_own(tsd);
	for (unsigned s = 1; s < tc->nslots && tc->granted != 0; s++) {
		tcache_cold_t *c = &tc->cold[s];
		if (bin_granted(c, s) == 0) {
			continue;
		}
		unsigned n = bin_ncached(&tc->bins[s], c);
		bin_return_bottom(tsd, tc, s, n > c->max ? n - c->max : 0, false);
		if (c->max == 0) {
			bin_close(tc, s);
		} else {
			bin_regrant(tc, s, c->max);
			c->is_swinging = false;
		}
	}
}

/*
 * Upkeep of an empty bin of large objects whose limit is 0: frees its granted slots if nothing was
 * requested from it since its last turn and its mark is not young. If something was requested,
 * reports and zeroes its requests, so that the next turn can compare.
 */
static void
bin_upkeep_empty(tsd_t *tsd, tcache_t *tc, unsigned slot, uint16_t now) {
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	assert(!slot_is_small(slot) && bin_ncached(b, c) == 0);
	c->was_empty = false;
	c->was_full = false;
	bin_unmark(b, c);
	if (c->nrequests != 0 || b->countdown != c->window) {
		tsd->event_bytes += bin_fold(tsd, tc, b, c);
		bin_report(tsd, tc, slot, 0);
		c->marked_at = now;
	} else if (!bin_is_mark_young(c, now)) {
		bin_close(tc, slot);
	}
}

/* Takes back half of the slots of a granted bin, used or not. */
static void
bin_yield(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	tcache_cold_t *c = &tc->cold[slot];
	unsigned n = bin_ncached(&tc->bins[slot], c), left = c->nslots / 2u;
	bin_return_bottom(tsd, tc, slot, n > left ? n - left : 0, false);
	bin_ungrant(tc, slot);
}

/*
 * Sets the mark to the middle of the stack for the next turn. A single object is marked only in a
 * bin whose limit is 0.
 */
static void
bin_mark(cache_bin_t *b, tcache_cold_t *c) {
	unsigned n = bin_ncached(b, c);
	bool is_granted_only = c->max == 0;
	bin_unmark(b, c);
	if (n > !is_granted_only) {
		b->empty = b->head + (is_granted_only ? n / 2 : (n + 1) / 2);
		c->is_marked = true;
	}
}

/*
 * Upkeep of one bin: if the mark is still there, flushes three quarters of the objects below it and
 * takes back a part of its grant; then sets the mark for the next turn. Beyond the cache's part of
 * the budget a granted bin yields half of its slots instead. A mark that is young stays.
 */
static void
bin_upkeep(tsd_t *tsd, tcache_t *tc, unsigned slot) {
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	bin_report_many(tsd, tc, slot);
	uint16_t now = c->nslots > c->max ? (uint16_t)(nstime_monotonic_coarse_ns() >> 26) : 0;
	/* Only two misses without an upkeep between them grant slots to a bin that has none. */
	c->was_empty = c->was_empty && c->nslots != 0;
	bool is_exceeded = c->nslots > c->max && tcache_budget_is_exceeded(tc->granted);
	if (c->nslots == 0 || (bin_is_mark_young(c, now) && (c->is_marked || !is_exceeded))) {
		return;
	}
	if (c->max == 0 && bin_ncached(b, c) == 0) {
		bin_upkeep_empty(tsd, tc, slot, now);
		return;
	}
	if (is_exceeded) {
		bin_yield(tsd, tc, slot);
	} else if (c->is_marked) {
		/* Nothing below the mark was used since the last turn: three quarters are flushed. */
		unsigned idle = (unsigned)(bin_bottom(c) - b->empty);
		bin_return_bottom(tsd, tc, slot, idle - idle / 4, false);
		bin_ungrant(tc, slot);
	}
	c->was_empty = false;
	c->was_full = false;
	c->marked_at = now;
	bin_mark(b, c);
}

void
tcache_gc_step(tsd_t *tsd, tcache_t *tc) {
	tsd_assert_own(tsd);
	if (++tsd->gc_last >= tc->nslots) {
		tsd->gc_last = 1;
		tcache_spare_flush(&tc->spares);
	}
	if (tsd->gc_last < tc->nslots) {
		bin_upkeep(tsd, tc, tsd->gc_last);
	}
}

/*
 * One step of upkeep for bins of large objects with granted slots, in addition to tcache_gc_step(),
 * which reaches them only after all other bins.
 */
static void
tcache_gc_large(tsd_t *tsd, tcache_t *tc) {
	uint64_t map = tc->granted_map, next = map & ~(((uint64_t)2 << tc->gc_large) - 1);
	if (map != 0) {
		tc->gc_large = ctz64(next != 0 ? next : map);
		bin_upkeep(tsd, tc, tcache_first_large() + tc->gc_large);
	}
}

/*
 * Number of steps of upkeep (bins) at a heartbeat: one, and more in a thread whose heartbeats are
 * seldom, so that each bin has its turn about once a second (2^30 ns). Otherwise a thread that has
 * become slow would keep for minutes what it cached while it was fast.
 */
static unsigned
upkeep_nsteps(const tsd_t *tsd, const tcache_t *tc) {
	uint64_t gap = tsd->gc_ns == 0 ? 0 : nstime_ns_between(tsd->gc_ns, tsd->beat_ns);
	return gap >> 30 != 0 ? tc->nslots : 1 + (unsigned)(gap * tc->nslots >> 30);
}

void
tcache_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	tcache_t *tc = tsd->tcache;
	unsigned n = tc == NULL ? 0 : upkeep_nsteps(tsd, tc);
	tsd->gc_ns = tsd->beat_ns;
	if (tc != NULL) {
		cache_end_refusal(tc);
	}
	for (unsigned i = 0; i < n; i++) {
		tcache_gc_step(tsd, tc);
	}
	if (n > 0) {
		tcache_gc_large(tsd, tc);
	}
}

size_t
tcache_cached_bytes(const tcache_t *tc) {
	size_t bytes = 0;
	for (unsigned s = 1; s < tc->nslots; s++) {
		/* Another thread may read while the stack grows: head may not match slots then. */
		unsigned nslots = __atomic_load_n(&tc->cold[s].nslots, MO_RELAXED);
		uintptr_t bottom = (uintptr_t)__atomic_load_n(&tc->cold[s].slots, MO_RELAXED)
		    + nslots * sizeof(void *);
		size_t n = (bottom - (uintptr_t)__atomic_load_n(&tc->bins[s].head, MO_RELAXED))
		    / sizeof(void *);
		bytes += n > nslots ? 0 : n * slot_size(s);
	}
	size_t taken = atomic_load_zu(&tc->taken, MO_RELAXED);
	return bytes > taken ? bytes - taken : 0;
}

void
tcache_add_requests(const tcache_t *tc, uint64_t by_class[SC_NSIZES]) {
	for (unsigned s = 1; s < tc->nslots; s++) {
		const tcache_cold_t *c = &tc->cold[s];
		uint32_t window = __atomic_load_n(&c->window, MO_RELAXED);
		uint32_t left = __atomic_load_n(&tc->bins[s].countdown, MO_RELAXED);
		by_class[s - 1] += __atomic_load_n(&c->nrequests, MO_RELAXED);
		/* left > window: the countdown has just begun anew, or is past zero */
		by_class[s - 1] += left <= window ? window - left : 0;
	}
}

/* ------------------------------------------------------------------ life */

/*
 * Bytes of a cache's memory, one piece: the struct, the bins, the cold halves. The fast path
 * indexes bins by class without a check up to SC_LOOKUP_MAX, so there are at least bins up to that.
 * *bins_at, *cold_at: offsets in bytes of the bins and of the cold halves.
 */
static size_t
tcache_bytes(unsigned nslots, size_t *bins_at, size_t *cold_at) {
	size_t nbins = max_zu(nslots, sz_s2i(SC_LOOKUP_MAX) + 2u);
	*bins_at = align_up(sizeof(tcache_t), CACHELINE);
	*cold_at = *bins_at + nbins * sizeof(cache_bin_t);
	return *cold_at + nslots * sizeof(tcache_cold_t);
}

tcache_t *
tcache_new(tsd_t *tsd, arena_t *arena, size_t max, bool is_auto) {
	size_t bins_at, cold_at;
	/* The fast path reads the bins of all these sizes, even above max. */
	size_t last = max_zu(max_zu(max, tcache_max_default), SC_LOOKUP_MAX);
	unsigned nslots = sz_s2i(last) + 2;
	tcache_t *tc = meta_alloc(tcache_bytes(nslots, &bins_at, &cold_at));
	if (tc == NULL) {
		return NULL;
	}
	tc->bins = (cache_bin_t *)((char *)tc + bins_at);
	tc->cold = (tcache_cold_t *)((char *)tc + cold_at);
	tc->nslots = nslots;
	tc->is_auto = is_auto;
	tc->interval = tsd->sample_interval;
	for (unsigned s = 1; s < nslots; s++) {
		tc->bins[s].size = (uint32_t)slot_size(s);
		tc->cold[s].is_fixed = slot_size(s) > max;
		tc->cold[s].max = slot_size(s) > max ? 0
		    : (uint16_t)tcache_ncached_max_default(s - 1);
		tc->cold[s].to_sample = thread_event_draw_objects(tsd, slot_size(s));
		bin_arm(tsd, &tc->bins[s], &tc->cold[s]);
	}
	ql_init(&tc->link);
	tcache_rebind(tc, arena);
	return tc;
}

void
tcache_delete(tsd_t *tsd, tcache_t *tc) {
	assert(tc->granted == 0 || tc->is_auto);
	size_t bins_at, cold_at;
	if (tsd != NULL) {
		tsd->n_cache_ends++;
	}
	tcache_flush(tsd, tc);
	cache_leave_budget(tc);
	tcache_rebind(tc, NULL);
	for (unsigned s = 1; s < tc->nslots; s++) {
		meta_free(tc->cold[s].slots, tc->cold[s].nslots * sizeof(void *));
	}
	meta_free(tc, tcache_bytes(tc->nslots, &bins_at, &cold_at));
}

void
tcache_rebind(tcache_t *tc, arena_t *arena) {
	assert(tc->arena != arena);
	if (tc->arena != NULL) {
		mutex_lock(&tc->arena->tcache_list_mtx);
		ql_remove(&tc->link);
		mutex_unlock(&tc->arena->tcache_list_mtx);
	}
	tc->arena = arena;
	if (arena != NULL) {
		mutex_lock(&arena->tcache_list_mtx);
		ql_push_tail(&arena->tcaches, &tc->link);
		mutex_unlock(&arena->tcache_list_mtx);
	}
}
