/*
 * The shard of huge page allocation; hpa.h has the contract, the invariant and the order of locks.
 * Functions named _locked need mtx; the others take it where they need it. Before a slab changes,
 * hpa_open_locked() removes it from the set or the empty list and from the shard's counts;
 * afterwards hpa_close_locked() adds it to the counts and to the lists that fit its new state. The
 * set and the empty list share the link `place` of a slab, so hset_remove() serves for both. A tick
 * chooses jobs in this order: return an empty slab, purge the slab that has been dirty longest,
 * make the slab huge that has been ripe longest (hpa_next_locked). Called by pac_hpa.c, by an
 * inline function of pac_types.h (hpa_dalloc), by jemalloc_init.c (hpa_sys), by pac_life.c
 * (hpa_stats_zero), and for statistics by inspect.c and ctl_snapshot.c.
 */
#include "hpa/hpa.h"

#include "meta/edata.h"
#include "meta/sz.h"
#include "os/witness.h"

/* A tick makes system calls for at most this many slabs. */
#define HPA_TICK_JOBS 16u

/* ------------------------------------------------------------------ the system */

static atomic_u8_t hpa_sys_state; /* hpa_sys_t plus one; 0: not asked yet */

static hpa_sys_t
hpa_sys_ask(void) {
	thp_mode_t mode = pages_system_thp_mode();
	bool has_none = mode == thp_mode_never || mode == thp_mode_not_supported
	    || opt_thp == thp_mode_never;
	if (has_none || pages_huge_size() != HSLAB_SIZE || !pages_has_thp()) {
		return hpa_sys_off;
	}
	return mode == thp_mode_always || opt_thp == thp_mode_always ? hpa_sys_always : hpa_sys_asked;
}

hpa_sys_t
hpa_sys(void) {
	uint8_t state = atomic_load_u8(&hpa_sys_state, MO_RELAXED);
	if (unlikely(state == 0)) {
		state = (uint8_t)(hpa_sys_ask() + 1);
		atomic_store_u8(&hpa_sys_state, state, MO_RELAXED);
	}
	return (hpa_sys_t)(state - 1);
}

static hpa_mode_t
hpa_mode(void) {
	return hrule_mode(hpa_sys(), opt_hpa_hugify_style, opt_experimental_hpa_enforce_hugify,
	    opt_experimental_hpa_start_huge_if_thp_always);
}

/* ------------------------------------------------------------------ filing a slab */

hpa_t *
hpa_new(base_t *base, const hpa_source_t *source, void *ctx) {
	hpa_t *h = base_alloc(base, sizeof(*h), CACHELINE);
	if (h == NULL) {
		return NULL;
	}
	mutex_init(&h->grow_mtx, "hpa_shard_grow", WITNESS_RANK_HPA_GROW);
	mutex_init(&h->mtx, "hpa_shard", WITNESS_RANK_HPA);
	h->base = base;
	h->source = source;
	h->ctx = ctx;
	hset_init(&h->sets[false]);
	hset_init(&h->sets[true]);
	ql_t *const lists[] = {&h->all, &h->empty, &h->dirty, &h->ripe, &h->spare};
	for (unsigned i = 0; i < ARRAY_LEN(lists); i++) {
		ql_init(lists[i]);
	}
	return h;
}

/* Adds `more`, which may be negative, to one of the counts that are written under mtx. */
static void
hpa_count_locked(atomic_zu_t *count, int more) {
	atomic_store_zu(count, atomic_load_zu(count, MO_RELAXED) + (size_t)more, MO_RELAXED);
}

static void
hpa_count_one(atomic_u64_t *count) {
	atomic_fetch_add_u64(count, 1, MO_RELAXED);
}

/* Adds a slab's counts to those of the shard; sign -1: subtracts them. */
static void
hpa_sum_locked(hpa_t *h, const hslab_t *s, int sign) {
	mutex_assert_owner(&h->mtx);
	hpa_count_locked(&h->nempty, sign * (s->n_used == 0));
	hpa_count_locked(&h->nactive, sign * (int)s->n_used);
	hpa_count_locked(&h->ndirty, sign * (int)hslab_ndirty(s));
	hpa_count_locked(&h->nidle, sign * (int)hslab_nidle(s));
}

/*
 * Called before a slab changes: removes it from the set or the empty list, if it is there, and from
 * the shard's counts.
 */
static void
hpa_open_locked(hpa_t *h, hslab_t *s) {
	hset_remove(&h->sets[atomic_load_b(&s->is_dense, MO_RELAXED)], s);
	hpa_sum_locked(h, s, -1);
}

/* is_wanted: puts a slab at a list's end and sets *since, unless it is there; else removes it. */
static void
hpa_list_locked(ql_t *list, ql_t *link, uint64_t *since, bool is_wanted) {
	if (!is_wanted) {
		ql_remove(link);
	} else if (ql_is_empty(link)) {
		*since = nstime_monotonic_coarse_ns();
		ql_push_tail(list, link);
	}
}

/* Called after a slab changed: adds it to the counts and, unless it is out, to its lists. */
static void
hpa_close_locked(hpa_t *h, hslab_t *s) {
	hpa_sum_locked(h, s, 1);
	if (s->is_out) {
		return;
	}
	if (s->n_used > 0 && s->longest > 0) {
		hset_insert(&h->sets[atomic_load_b(&s->is_dense, MO_RELAXED)], s);
	} else {
		hpa_list_locked(&h->empty, &s->place, &s->empty_since, s->n_used == 0);
	}
	hpa_list_locked(&h->dirty, &s->dirty, &s->dirty_since,
	    hrule_may_purge(s->n_used, hslab_ndirty(s), opt_hpa_purge_threshold));
	hpa_list_locked(&h->ripe, &s->ripe, &s->ripe_since,
	    hrule_is_ripe(hpa_mode(), s->is_huge, s->n_used, opt_hpa_hugification_threshold));
}

/*
 * The slab becomes "out" (hpa.h), for a system call of this thread. It leaves all lists but
 * hpa_t.all; the shard's counts still include it.
 */
static void
hpa_take_out_locked(hpa_t *h, hslab_t *s) {
	assert(!s->is_out);
	hset_remove(&h->sets[atomic_load_b(&s->is_dense, MO_RELAXED)], s);
	ql_remove(&s->dirty);
	ql_remove(&s->ripe);
	s->is_out = true;
}

/* ------------------------------------------------------------------ pages */

/*
 * Takes a run of n pages: from the fullest slab of the kind (is_dense) that has one, else from the
 * slab that became empty last, else, in a small shard, from one of the other kind. NULL: none has
 * one. *is_zeroed: the run is known to read as zero.
 */
static char *
hpa_take_locked(hpa_t *h, unsigned n, bool is_dense, bool *is_zeroed) {
	hslab_t *s = hset_fit(&h->sets[is_dense], n);
	if (s == NULL && !ql_is_empty(&h->empty)) {
		s = container_of(h->empty.prev, hslab_t, place);
	}
	if (s == NULL && hrule_may_mix(atomic_load_zu(&h->nslabs, MO_RELAXED))) {
		s = hset_fit(&h->sets[!is_dense], n);
	}
	if (s == NULL) {
		return NULL;
	}
	hpa_open_locked(h, s);
	if (s->n_used == 0) {
		atomic_store_b(&s->is_dense, is_dense, MO_RELAXED);
	}
	unsigned first = hslab_find(s, n);
	*is_zeroed = hslab_take(s, first, n);
	hpa_close_locked(h, s);
	return s->addr + ((size_t)first << LG_PAGE);
}

/*
 * Takes a run of n pages for each extent, from the front of the list on, until no slab has one.
 * Returns how many extents got a run; adds them, their pages and the changes of slab to *count.
 */
static unsigned
hpa_take_some(hpa_t *h, unsigned n, bool is_dense, ql_t *extents, hpa_alloc_stats_t *count) {
	uintptr_t slab = 0;
	unsigned done = 0;
	bool is_zeroed;
	char *p;
	mutex_lock(&h->mtx);
	for (ql_t *l = ql_first(extents); l != NULL; l = ql_next(extents, l), done++) {
		edata_t *e = edata_of_link(l);
		if ((p = hpa_take_locked(h, n, is_dense, &is_zeroed)) == NULL) {
			break;
		}
		e->addr = p;
		e->is_zeroed = is_zeroed;
		count->ps += slab != (uintptr_t)p >> HSLAB_LG_SIZE;
		slab = (uintptr_t)p >> HSLAB_LG_SIZE;
	}
	mutex_unlock(&h->mtx);
	count->extents += done;
	count->pages += (uint64_t)done * n;
	return done;
}

/* Takes a spare descriptor of a slab, or makes one; NULL: there is no memory. */
static hslab_t *
hpa_descriptor(hpa_t *h) {
	mutex_lock(&h->mtx);
	ql_t *l = ql_first(&h->spare);
	if (l != NULL) {
		ql_remove(l);
	}
	mutex_unlock(&h->mtx);
	return l != NULL ? container_of(l, hslab_t, place) : base_alloc(h->base, sizeof(hslab_t),
	    CACHELINE);
}

static void
hpa_descriptor_put(hpa_t *h, hslab_t *s) {
	mutex_lock(&h->mtx);
	ql_init(&s->place);
	ql_push_tail(&h->spare, &s->place);
	mutex_unlock(&h->mtx);
}

/* Counts the result of asking for a huge page; a refusal (err) begins a pause of HRULE_PAUSE_MS. */
static void
hpa_note_huge(hpa_t *h, int err, uint64_t now) {
	hpa_count_one(err == 0 ? &h->nhugifies : &h->nhugify_failures);
	if (err != 0) {
		atomic_store_u64(&h->huge_after, now + HRULE_PAUSE_MS * NSTIME_PER_MSEC, MO_RELAXED);
	}
}

static bool
hpa_is_paused(const hpa_t *h, uint64_t now) {
	return now < atomic_load_u64(&h->huge_after, MO_RELAXED);
}

/* Makes a new slab, which no other thread knows yet, huge if the rules say so (is_huge). */
static void
hpa_begin_huge(hpa_t *h, hslab_t *s) {
	hpa_mode_t mode = hpa_mode();
	s->is_huge = mode == hpa_mode_given;
	if (!hrule_is_born_huge(mode, atomic_load_zu(&h->nslabs, MO_RELAXED),
	    atomic_load_zu(&h->nactive, MO_RELAXED))) {
		return;
	}
	uint64_t now = nstime_monotonic_coarse_ns();
	if (!hpa_is_paused(h, now)) {
		int err = pages_advise(s->addr, HSLAB_SIZE, PAGES_HUGE);
		s->is_marked = true; /* even a refusal may leave a mark */
		s->is_huge = err == 0;
		hpa_note_huge(h, err, now);
	}
}

/* Fetches a slab, an empty one; without memory nothing changes. The caller holds grow_mtx. */
static void
hpa_grow(hpa_t *h) {
	mutex_assert_owner(&h->grow_mtx);
	void *home = NULL;
	hslab_t *s = hpa_descriptor(h);
	if (s == NULL) {
		return;
	}
	char *addr = h->source->get(h->ctx, &home);
	if (addr == NULL) {
		hpa_descriptor_put(h, s);
		return;
	}
	hslab_init(s, addr, home);
	hslab_enter(addr, s);
	hpa_begin_huge(h, s);
	mutex_lock(&h->mtx);
	ql_push_tail(&h->all, &s->all);
	hpa_count_locked(&h->nslabs, 1);
	hpa_close_locked(h, s);
	mutex_unlock(&h->mtx);
}

/* Adds the result of a call that requested n runs, `count`, to the statistics of its kind. */
static void
hpa_alloc_note(hpa_t *h, unsigned n, hpa_alloc_stats_t *count, uint64_t start) {
	count->elapsed_ns = nstime_ns_between(start, nstime_monotonic_ns());
	mutex_lock(&h->mtx);
	hpa_alloc_stats_add(&h->alloc[hpa_alloc_kind(n)], count, hpa_alloc_kind(n));
	mutex_unlock(&h->mtx);
}

unsigned
hpa_alloc_some(hpa_t *h, size_t size, bool is_dense, ql_t *extents) {
	assert(size > 0 && size <= HSLAB_SIZE && (size & PAGE_MASK) == 0 && !ql_is_empty(extents));
	unsigned n = (unsigned)(size >> LG_PAGE), want = 0;
	hpa_alloc_stats_t count = {0};
	uint64_t start = nstime_monotonic_ns();
	for (ql_t *l = ql_first(extents); l != NULL; l = ql_next(extents, l)) {
		want++;
	}
	unsigned done = hpa_take_some(h, n, is_dense, extents, &count);
	if (unlikely(done == 0)) {
		mutex_lock(&h->grow_mtx);
		done = hpa_take_some(h, n, is_dense, extents, &count);
		if (done == 0) {
			hpa_grow(h);
			done = hpa_take_some(h, n, is_dense, extents, &count);
		}
		if (unlikely(done == 0)) {
			/* Without memory for a slab, those of the other kind serve, too. */
			done = hpa_take_some(h, n, !is_dense, extents, &count);
		}
		mutex_unlock(&h->grow_mtx);
	}
	hpa_alloc_note(h, want, &count, start);
	return done;
}

/* The caller owns the extent that ends at addr, in a slab of this shard, so s is not NULL. */
bool
hpa_try_alloc_at(hpa_t *h, char *addr, size_t size, bool *is_zeroed) {
	hslab_t *s = hslab_of(addr - 1);
	unsigned first = (unsigned)((size_t)(addr - s->addr) >> LG_PAGE),
	    n = (unsigned)(size >> LG_PAGE);
	mutex_lock(&h->mtx);
	bool is_free = size <= HSLAB_SIZE && !s->is_out && hslab_is_free(s, first, n);
	if (is_free) {
		hpa_open_locked(h, s);
		*is_zeroed = hslab_take(s, first, n);
		hpa_close_locked(h, s);
	}
	mutex_unlock(&h->mtx);
	return is_free;
}

void
hpa_dalloc(hpa_t *h, char *addr, size_t size) {
	hslab_t *s = hslab_of(addr);
	assert(s != NULL && hslab_of(addr + size - 1) == s);
	mutex_lock(&h->mtx);
	hpa_open_locked(h, s);
	hslab_put(s, (unsigned)((size_t)(addr - s->addr) >> LG_PAGE), (unsigned)(size >> LG_PAGE));
	hpa_close_locked(h, s);
	mutex_unlock(&h->mtx);
}

/* ------------------------------------------------------------------ returning and purging */

/* Returns the memory of a slab, which is out and has no pages in use, to the source. */
static void
hpa_return(hpa_t *h, hslab_t *s) {
	void *home = s->home;
	bool is_marked = s->is_marked;
	mutex_lock(&h->mtx);
	assert(s->is_out && s->n_used == 0);
	hpa_open_locked(h, s);
	ql_remove(&s->all);
	hpa_count_locked(&h->nslabs, -1);
	mutex_unlock(&h->mtx);
	hslab_enter(s->addr, NULL);
	h->source->put(h->ctx, home, is_marked);
	hpa_count_one(&h->npurges);
	hpa_descriptor_put(h, s);
}

/*
 * Purges ranges: in one call if that works (pages_purge_forced_many), else one by one. 0, or an
 * errno value if some were not purged.
 */
static int
hpa_purge_ranges(const struct iovec *ranges, unsigned n) {
	int err = 0;
	if (n == 0 || pages_purge_forced_many(ranges, n) == 0) {
		return 0;
	}
	for (unsigned i = 0; i < n; i++) {
		int one = pages_purge_forced(ranges[i].iov_base, ranges[i].iov_len);
		err = err == 0 ? one : err;
	}
	return err;
}

/* Marks the pages that were dirty in `was`, a former state of s, as purged. */
static void
hpa_clean_locked(hslab_t *s, const hslab_t *was) {
	for (unsigned first = 0, n; (n = hslab_dirty_run(was, &first)) != 0; first += n) {
		hslab_clean(s, first, n);
	}
}

/*
 * Makes a slab no longer out. was: its state when the purge began; all pages that were dirty then
 * are purged, and become clean. NULL: they were not, or only some of them; then all stay dirty.
 */
static void
hpa_bring_back(hpa_t *h, hslab_t *s, bool is_huge, const hslab_t *was) {
	mutex_lock(&h->mtx);
	assert(s->is_out);
	hpa_open_locked(h, s);
	if (was != NULL) {
		hpa_clean_locked(s, was);
	}
	s->is_huge = is_huge;
	s->is_out = false;
	hpa_close_locked(h, s);
	mutex_unlock(&h->mtx);
}

/*
 * Purges the dirty pages of a slab, which is out and was partly in use. Pages that become dirty
 * meanwhile stay dirty; if all are free by then, the slab becomes an empty one.
 */
static void
hpa_purge_slab(hpa_t *h, hslab_t *s) {
	struct iovec ranges[PAGES_BATCH_MAX];
	unsigned n = 0, len;
	int err = 0;
	mutex_lock(&h->mtx);
	hslab_t was = *s;
	mutex_unlock(&h->mtx);
	if (was.is_huge) {
		s->is_marked = true;
		pages_advise(was.addr, HSLAB_SIZE, PAGES_NO_HUGE);
		hpa_count_one(&h->ndehugifies);
	}
	for (unsigned first = 0; err == 0 && (len = hslab_dirty_run(&was, &first)) != 0; first += len) {
		ranges[n].iov_base = was.addr + ((size_t)first << LG_PAGE);
		ranges[n++].iov_len = (size_t)len << LG_PAGE;
		if (n == ARRAY_LEN(ranges)) {
			err = hpa_purge_ranges(ranges, n);
			n = 0;
		}
	}
	err = err == 0 ? hpa_purge_ranges(ranges, n) : err;
	hpa_count_one(&h->npurges);
	hpa_bring_back(h, s, false, err == 0 ? &was : NULL);
}

/*
 * Asks the system to back a slab, which is out, by one huge page. The system does that later, or
 * with may_collapse at once, by copying the pages; if it has no huge page free, still later.
 */
static void
hpa_hugify(hpa_t *h, hslab_t *s, uint64_t now, bool may_collapse) {
	int err = pages_advise(s->addr, HSLAB_SIZE, PAGES_HUGE);
	bool is_huge = err == 0;
	if (is_huge && may_collapse) {
		err = pages_advise(s->addr, HSLAB_SIZE, PAGES_COLLAPSE);
		/* Before Linux 6.1 there is only the request for later. */
		err = err == EINVAL ? 0 : err;
	}
	hpa_note_huge(h, err, now);
	s->is_marked = true; /* even a refusal may leave a mark */
	hpa_bring_back(h, s, is_huge, NULL);
}

/* ------------------------------------------------------------------ ticks */

typedef enum {
	hpa_job_none,
	hpa_job_return,
	hpa_job_purge,
	hpa_job_hugify
} hpa_job_t;

/* Whether slabs are purged now, as too many pages are dirty; begins and ends that (is_passing). */
static bool
hpa_try_pass_locked(hpa_t *h, uint64_t now) {
	size_t ndirty = atomic_load_zu(&h->ndirty, MO_RELAXED);
	size_t limit = hrule_dirty_limit(atomic_load_zu(&h->nactive, MO_RELAXED), opt_hpa_dirty_mult);
	if (!h->is_passing && hrule_may_begin(ndirty, limit, h->last_pass,
	    opt_hpa_min_purge_interval_ms, now)) {
		h->is_passing = true;
		h->npassed = 0;
	}
	h->is_passing = h->is_passing
	    && hrule_may_go_on(ndirty, limit, h->npassed, opt_experimental_hpa_max_purge_nhp);
	return h->is_passing;
}

/* Counts a slab of the pass, if there is one; the first one counts the pass. */
static void
hpa_note_passed_locked(hpa_t *h, uint64_t now) {
	if (h->is_passing && h->npassed++ == 0) {
		h->last_pass = now;
		hpa_count_one(&h->npurge_passes);
	}
}

/* Chooses the next slab with a job that is due. NULL with *job hpa_job_none: there is none. */
static hslab_t *
hpa_next_locked(hpa_t *h, uint64_t now, ssize_t decay_ms, hpa_job_t *job) {
	bool is_passing = hpa_try_pass_locked(h, now);
	ql_t *empty = ql_first(&h->empty), *dirty = ql_first(&h->dirty), *ripe = ql_first(&h->ripe);
	hslab_t *s = empty == NULL ? NULL : container_of(empty, hslab_t, place);
	*job = hpa_job_return;
	if (s != NULL && (is_passing || hrule_may_return(s->empty_since, decay_ms, now))) {
		return s;
	}
	s = dirty == NULL ? NULL : container_of(dirty, hslab_t, dirty);
	*job = hpa_job_purge;
	if (s != NULL && is_passing && hrule_has_passed(s->dirty_since, opt_hpa_min_purge_delay_ms,
	    now)) {
		return s;
	}
	h->is_passing = false;
	s = ripe == NULL ? NULL : container_of(ripe, hslab_t, ripe);
	*job = hpa_job_hugify;
	if (s != NULL && !hpa_is_paused(h, now)
	    && hrule_has_passed(s->ripe_since, opt_hpa_hugify_delay_ms, now)) {
		return s;
	}
	*job = hpa_job_none;
	return NULL;
}

void
hpa_tick(hpa_t *h, uint64_t now, ssize_t decay_ms, bool may_collapse) {
	hpa_job_t job = hpa_job_return;
	for (unsigned i = 0; i < HPA_TICK_JOBS && job != hpa_job_none; i++) {
		mutex_lock(&h->mtx);
		hslab_t *s = hpa_next_locked(h, now, decay_ms, &job);
		if (s != NULL) {
			hpa_take_out_locked(h, s);
			hpa_note_passed_locked(h, now);
		}
		mutex_unlock(&h->mtx);
		if (job == hpa_job_return) {
			hpa_return(h, s);
		} else if (job == hpa_job_purge) {
			hpa_purge_slab(h, s);
		} else if (job == hpa_job_hugify) {
			hpa_hugify(h, s, now, may_collapse);
		}
	}
	atomic_store_b(&h->is_behind, job != hpa_job_none, MO_RELAXED);
}

/*
 * Moves the first slab of the list of all to its end. Returns it, made out, if it is empty or (with
 * is_all) has dirty pages; otherwise NULL.
 */
static hslab_t *
hpa_turn_locked(hpa_t *h, bool is_all) {
	ql_t *l = ql_first(&h->all);
	hslab_t *s = l == NULL ? NULL : container_of(l, hslab_t, all);
	if (s == NULL) {
		return NULL;
	}
	ql_remove(l);
	ql_push_tail(&h->all, l);
	if (s->is_out || (s->n_used > 0 && (!is_all || hslab_ndirty(s) == 0))) {
		return NULL;
	}
	hpa_take_out_locked(h, s);
	return s;
}

size_t
hpa_purge(hpa_t *h, bool is_all) {
	size_t n = atomic_load_zu(&h->nslabs, MO_RELAXED), nreturned = 0;
	for (size_t i = 0; i < n; i++) {
		mutex_lock(&h->mtx);
		hslab_t *s = hpa_turn_locked(h, is_all);
		bool is_empty = s != NULL && s->n_used == 0;
		mutex_unlock(&h->mtx);
		if (is_empty) {
			hpa_return(h, s);
			nreturned++;
		} else if (s != NULL) {
			hpa_purge_slab(h, s);
		}
	}
	return nreturned * HSLAB_SIZE;
}

/* ------------------------------------------------------------------ statistics */

static void
hpa_slabs_stats_add(hpa_slabs_stats_t *to, const hslab_t *s) {
	*(s->is_huge ? &to->npageslabs_huge : &to->npageslabs_nonhuge) += 1;
	*(s->is_huge ? &to->nactive_huge : &to->nactive_nonhuge) += s->n_used;
	*(s->is_huge ? &to->ndirty_huge : &to->ndirty_nonhuge) += hslab_ndirty(s);
}

void
hpa_alloc_stats_add(hpa_alloc_stats_t *to, const hpa_alloc_stats_t *from, unsigned kind) {
	assert(kind < HPA_ALLOC_KINDS);
	to->min_extents = kind == 0 ? 1 : (UINT64_C(1) << (kind - 1)) + 1;
	to->max_extents = kind + 1 == HPA_ALLOC_KINDS ? HSLAB_NPAGES_MAX + 1
	    : UINT64_C(1) << kind;
	to->extents += from->extents;
	to->ps += from->ps;
	to->pages += from->pages;
	to->elapsed_ns += from->elapsed_ns;
	uint64_t ps = to->ps == 0 ? 1 : to->ps;
	to->pages_per_ps = to->pages / ps;
	to->extents_per_ps = to->extents / ps;
	to->total_elapsed_ns_per_ps = to->elapsed_ns / ps;
}

void
hpa_stats_read(hpa_t *h, hpa_stats_t *out) {
	mutex_lock(&h->mtx);
	for (unsigned i = 0; i < HPA_ALLOC_KINDS; i++) {
		hpa_alloc_stats_add(&out->alloc[i], &h->alloc[i], i);
	}
	out->npageslabs += atomic_load_zu(&h->nslabs, MO_RELAXED);
	out->nactive += atomic_load_zu(&h->nactive, MO_RELAXED);
	out->ndirty += atomic_load_zu(&h->ndirty, MO_RELAXED);
#define HPA_COUNTER_READ(name, type, says) out->name += atomic_load_u64(&h->name, MO_RELAXED);
	HPA_COUNTER_FIELDS(HPA_COUNTER_READ)
	HPA_SEC_FIELDS(HPA_COUNTER_READ)
#undef HPA_COUNTER_READ
	for (ql_t *l = ql_first(&h->all); l != NULL; l = ql_next(&h->all, l)) {
		const hslab_t *s = container_of(l, hslab_t, all);
		unsigned pind = s->longest == 0 ? 0 : sz_psz_floor((size_t)s->longest << LG_PAGE);
		hpa_slabs_stats_add(&out->slabs, s);
		hpa_slabs_stats_add(s->n_used == 0 ? &out->empty_slabs : s->longest == 0 ? &out->full_slabs
		    : &out->nonfull_slabs[pind], s);
	}
	mutex_unlock(&h->mtx);
}

void
hpa_stats_zero(hpa_t *h) {
	mutex_lock(&h->mtx);
	assert(atomic_load_zu(&h->nslabs, MO_RELAXED) == 0);
	memset(h->alloc, 0, sizeof(h->alloc));
#define HPA_COUNTER_ZERO(name, type, says) atomic_store_u64(&h->name, 0, MO_RELAXED);
	HPA_COUNTER_FIELDS(HPA_COUNTER_ZERO)
	HPA_SEC_FIELDS(HPA_COUNTER_ZERO)
#undef HPA_COUNTER_ZERO
	mutex_unlock(&h->mtx);
}
