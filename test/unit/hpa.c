/*
 * hpa/: the bitmaps of a huge slab against a model, the order of the set, each rule with a clock of
 * the test's own, the small extent cache, and a shard whose memory and system calls are counted;
 * what becomes of marks for huge pages when the page cache gets a slab back.
 */
#include "core.h"

#include "extent/pac.h"
#include "extent/pac_hpa.h"
#include "extent/pac_life.h"
#include "extent/pac_purge.h"
#include "extent/pac_relieve.h"
#include "hpa/hpa.h"
#include "meta/sz.h"

#include <sys/mman.h>

#define MSEC NSTIME_PER_MSEC
#define COLLAPSE 25 /* MADV_COLLAPSE, which the headers may not have */
#define N_RUNS 400

static struct os_hooks_s hooks;
static uint64_t now;
static const char *enabled = "always [madvise] never\n"; /* the system's setting */
static struct {
	unsigned got, put, marked; /* slabs from the source, and back; of these with a mark */
	unsigned huge, nohuge, collapse;
	size_t purged;
	unsigned anew; /* slabs that were mapped again in their place */
	int fail_with; /* of making huge */
	int fail_collapse; /* of doing so at once */
	int advice;    /* the last one about huge pages */
	bool is_dry;   /* the source has nothing */
} sys;

static uint64_t
fake_now(void) {
	return now;
}

static int
fake_madvise(void *addr, size_t size, int advice) {
	sys.advice = advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE ? advice : sys.advice;
	if (advice == MADV_HUGEPAGE || advice == COLLAPSE) {
		int err = advice == COLLAPSE && sys.fail_with == 0 ? sys.fail_collapse : sys.fail_with;
		*(advice == COLLAPSE ? &sys.collapse : &sys.huge) += 1;
		errno = err;
		return err == 0 ? 0 : -1;
	}
	/* Not that of the page map, where huge pages come by themselves. */
	bool is_map = (uintptr_t)addr - (uintptr_t)emap_window.elems < EMAP_WINDOW_ENTRIES * 8;
	sys.nohuge += advice == MADV_NOHUGEPAGE && !is_map;
	sys.purged += advice == MADV_DONTNEED ? size >> LG_PAGE : 0;
	return os_hooks_real.madvise(addr, size, advice);
}

static void *
fake_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	sys.anew += (flags & MAP_FIXED) != 0 && size == HSLAB_SIZE;
	return os_hooks_real.mmap(addr, size, prot, flags, fd, off);
}

static ssize_t
no_madvise_many(const struct iovec *ranges, size_t n, int advice) {
	(void)ranges;
	(void)n;
	(void)advice;
	errno = ENOSYS;
	return -1;
}

/* Answers for the files of the system: huge pages of 2 MiB, and when they are used. */
static int
fake_open(const char *path, int flags, unsigned mode) {
	const char *text = strstr(path, "transparent_hugepage/enabled") != NULL
	    ? enabled : strstr(path, "hpage_pmd_size") != NULL ? "2097152\n" : NULL;
	if (text == NULL) {
		return os_hooks_real.open(path, flags, mode);
	}
	int fd = memfd_create("fake", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) != 0) {
		abort();
	}
	return fd;
}

/* One run of a kind; NULL: no memory. */
static char *
take_kind(hpa_t *h, size_t size, bool is_dense, bool *is_zeroed) {
	edata_t e;
	ql_t list;
	ql_init(&list);
	ql_push_tail(&list, &e.link);
	if (hpa_alloc_some(h, size, is_dense, &list) == 0) {
		return NULL;
	}
	*is_zeroed = e.is_zeroed;
	return e.addr;
}

static char *
take(hpa_t *h, size_t size, bool *is_zeroed) {
	return take_kind(h, size, true, is_zeroed);
}

static char *
source_get(void *ctx, void **home) {
	(void)ctx;
	bool commit = true;
	char *p = sys.is_dry ? NULL : pages_map(NULL, HSLAB_SIZE, HSLAB_SIZE, &commit);
	if (p != NULL && emap_reserve(p, HSLAB_SIZE) != 0) {
		bail_out("no page map");
	}
	*home = p;
	sys.got += p != NULL;
	return p;
}

static void
source_put(void *ctx, void *home, bool is_marked) {
	(void)ctx;
	sys.put++;
	sys.marked += is_marked;
	pages_unmap(home, HSLAB_SIZE);
}

static const hpa_source_t source = {source_get, source_put};

/* ------------------------------------------------------------------ a slab */

static unsigned
model_longest(const bool *used) {
	unsigned longest = 0, run = 0;
	for (unsigned i = 0; i < HSLAB_NPAGES; i++) {
		run = used[i] ? 0 : run + 1;
		longest = run > longest ? run : longest;
	}
	return longest;
}

static void
test_slab(void) {
	static bool used[HSLAB_NPAGES_MAX], touched[HSLAB_NPAGES_MAX];
	static hslab_t s;
	uint64_t rnd = 7;
	unsigned bad = 0;
	hslab_init(&s, NULL, NULL);
	for (unsigned k = 0; k < 3000; k++) {
		unsigned n = 1 + (unsigned)draw_below(&rnd, 9), at = (unsigned)draw_below(&rnd,
		    HSLAB_NPAGES);
		if (n <= s.longest && (k & 1) == 0) {
			unsigned first = hslab_find(&s, n), fresh = 0;
			for (unsigned i = 0; i < n; i++) {
				bad += wrong_if(used[first + i]);
				fresh += !touched[first + i];
				used[first + i] = touched[first + i] = true;
			}
			bad += wrong_if(hslab_take(&s, first, n) != (fresh == n));
		} else if (used[at]) {
			hslab_put(&s, at, 1);
			used[at] = false;
		} else if (k % 50 == 1) {
			for (unsigned first = 0, len; (len = hslab_dirty_run(&s, &first)) != 0; first += len) {
				hslab_clean(&s, first, len);
				memset(touched + first, 0, len);
			}
		}
		unsigned n_used = 0, n_touched = 0;
		for (unsigned i = 0; i < HSLAB_NPAGES; i++) {
			n_used += used[i];
			n_touched += touched[i];
		}
		bad += wrong_if(s.n_used != n_used) || wrong_if(s.n_touched != n_touched)
		    || wrong_if(s.longest != model_longest(used));
	}
	is_uint(bad, 0, "bitmaps, counts and the longest run agree with a model");
}

static hslab_t *
slab_with(hslab_t *s, unsigned n_used) {
	hslab_init(s, NULL, NULL);
	hslab_take(s, 0, n_used);
	return s;
}

static void
test_set(void) {
	static hset_t set;
	static hslab_t few, half, most;
	unsigned n = HSLAB_NPAGES;
	hset_init(&set);
	ok(hset_fit(&set, 1) == NULL, "an empty set has nothing");
	hset_insert(&set, slab_with(&few, n / 16));
	hset_insert(&set, slab_with(&most, n - n / 8));
	hset_insert(&set, slab_with(&half, n / 2));
	ok(hset_fit(&set, 1) == &most, "the fullest is taken first");
	ok(hset_fit(&set, n / 8 + 1) == &half, "that has room");
	ok(hset_fit(&set, n / 2 + 1) == &few, "the emptiest last");
	ok(hset_fit(&set, n) == NULL, "none, if no run is long enough");
	hset_remove(&set, &most);
	ok(hset_fit(&set, 1) == &half, "what was removed is not found");
	hset_insert(&set, slab_with(&most, n - n / 8 - n / 64));
	ok(hset_fit(&set, n / 8 + n / 64) == &most && hset_fit(&set, n / 8 + n / 64 + 1) == &half,
	    "a run between two classes");
}

/* ------------------------------------------------------------------ rules */

static void
test_rule_of_modes(void) {
	unsigned bad = 0;
	for (unsigned style = hpa_style_auto; style <= hpa_style_lazy; style++) {
		bad += wrong_if(hrule_mode(hpa_sys_off, style, true, true) != hpa_mode_never)
		    || wrong_if(hrule_mode(hpa_sys_always, style, false, true) != hpa_mode_given);
	}
	is_uint(bad, 0, "without huge pages never; where they are always made, they are given");
	ok(hrule_mode(hpa_sys_asked, hpa_style_none, false, true) == hpa_mode_never
	    && hrule_mode(hpa_sys_asked, hpa_style_none, true, true) == hpa_mode_lazy,
	    "none, unless enforced");
	ok(hrule_mode(hpa_sys_asked, hpa_style_auto, false, true) == hpa_mode_lazy
	    && hrule_mode(hpa_sys_always, hpa_style_auto, false, false) == hpa_mode_never,
	    "auto leaves it to the system");
	ok(hrule_mode(hpa_sys_asked, hpa_style_eager, false, true) == hpa_mode_eager
	    && hrule_mode(hpa_sys_always, hpa_style_lazy, false, false) == hpa_mode_lazy,
	    "the others are what they are");
}

static void
test_rule_of_birth(void) {
	size_t all = (size_t)HRULE_GROWN * HSLAB_NPAGES;
	ok(hrule_is_born_huge(hpa_mode_eager, 0, 0) && !hrule_is_born_huge(hpa_mode_never, 100,
	    100 * all), "eager: each; never: none");
	ok(hrule_is_born_huge(hpa_mode_lazy, HRULE_GROWN, all) && !hrule_is_born_huge(hpa_mode_lazy,
	    HRULE_GROWN, all / 2), "lazy: while slabs are in use");
	ok(!hrule_is_born_huge(hpa_mode_lazy, HRULE_GROWN - 1, all), "and there are some");
	ok(hrule_is_ripe(hpa_mode_lazy, false, 3, 3 * PAGE) && !hrule_is_ripe(hpa_mode_lazy, false, 2,
	    3 * PAGE), "ripe from the threshold on");
	ok(!hrule_is_ripe(hpa_mode_lazy, true, 3, 3 * PAGE) && !hrule_is_ripe(hpa_mode_never, false, 3,
	    3 * PAGE), "not if it is huge, nor if none is to be");
}

static void
test_rules_of_purging(void) {
	uint64_t t = 1000 * MSEC;
	ok(hrule_dirty_limit(1000, FXP_INIT_PERCENT(25)) == 250 && hrule_dirty_limit(1,
	    HPA_DIRTY_MULT_NEVER) == SIZE_MAX, "dirty pages: a part of those in use, or any number");
	ok(hrule_may_purge(1, 2, 2 * PAGE) && !hrule_may_purge(1, 1, 2 * PAGE) && !hrule_may_purge(0, 5,
	    PAGE) && !hrule_may_purge(1, 0, 0), "in part: from the threshold on, if it is in use");
	ok(hrule_may_begin(11, 10, 0, 500, 1) && !hrule_may_begin(10, 10, 0, 500, 1),
	    "a pass begins beyond the limit");
	ok(!hrule_may_begin(11, 10, t, 500, t + 499 * MSEC) && hrule_may_begin(11, 10, t, 500,
	    t + 500 * MSEC), "and not before the interval has passed");
	ok(hrule_may_go_on(11, 10, 99, -1) && !hrule_may_go_on(10, 10, 0, -1) && hrule_may_go_on(11, 10,
	    1, 2) && !hrule_may_go_on(11, 10, 2, 2), "it ends at the limit, or after so many slabs");
	ok(hrule_may_return(t, 0, t) && !hrule_may_return(t, -1, UINT64_MAX) && !hrule_may_return(t, 10,
	    t + 9 * MSEC) && hrule_may_return(t, 10, t + 10 * MSEC),
	    "an empty one goes after the decay time");
	ok(!hrule_has_passed(t, UINT64_MAX, UINT64_MAX) && !hrule_has_passed(t, 1, t - 1),
	    "no delay overflows");
}

/* ------------------------------------------------------------------ a shard */

static hpa_t *
shard(void) {
	memset(&sys, 0, sizeof(sys));
	return hpa_new(base_new(), &source, NULL);
}

static size_t
ndirty(const hpa_t *h) {
	return atomic_load_zu(&h->ndirty, MO_RELAXED);
}

static char *
slab_at(const char *p) {
	return (char *)((uintptr_t)p & ~(uintptr_t)(HSLAB_SIZE - 1));
}

/* Extents that stay and such that come and go lie in different slabs, once there are some. */
static void
test_kinds(void) {
	hpa_t *h = shard();
	bool is_zeroed;
	char *a = take(h, HSLAB_SIZE / 2, &is_zeroed);
	char *b = take_kind(h, PAGE, false, &is_zeroed);
	ok(slab_at(a) == slab_at(b), "a small shard mixes kinds");
	hpa_dalloc(h, b, PAGE);
	while (sys.got < HRULE_GROWN) {
		take(h, HSLAB_SIZE, &is_zeroed);
	}
	b = take_kind(h, PAGE, false, &is_zeroed);
	ok(slab_at(a) != slab_at(b) && sys.got == HRULE_GROWN + 1, "one that has grown does not");
	ok(slab_at(take(h, HSLAB_SIZE / 2, &is_zeroed)) == slab_at(a), "each kind has its slabs");
	hpa_dalloc(h, b, PAGE);
	ok(slab_at(take(h, PAGE, &is_zeroed)) == slab_at(b), "an empty one is for any kind");
	take_kind(h, PAGE, false, &is_zeroed);
	is_uint(sys.got, HRULE_GROWN + 2, "and then of that kind");
	sys.is_dry = true;
	b = take_kind(h, HSLAB_SIZE / 2, true, &is_zeroed);
	char *c = take_kind(h, HSLAB_SIZE / 2, true, &is_zeroed);
	sys.is_dry = false;
	ok(b != NULL && c != NULL, "without memory for a slab each kind takes what the other has");
}

static void
test_return(void) {
	hpa_t *h = shard();
	bool is_zeroed = false;
	char *a = take(h, HSLAB_SIZE / 2, &is_zeroed), *b = take(h, HSLAB_SIZE / 2,
	    &is_zeroed);
	ok(a != NULL && b == a + HSLAB_SIZE / 2 && is_zeroed && sys.got == 1, "two halves of one slab");
	char *c = take(h, PAGE, &is_zeroed);
	is_uint(sys.got, 2, "a page more is a slab more");
	hpa_dalloc(h, b, PAGE);
	ok(hpa_try_alloc_at(h, b, PAGE, &is_zeroed) && !is_zeroed,
	    "freed pages are taken again in place");
	ok(!hpa_try_alloc_at(h, b + PAGE, PAGE, &is_zeroed), "those in use are not");
	hpa_dalloc(h, b, HSLAB_SIZE / 2);
	hpa_dalloc(h, a, HSLAB_SIZE / 2);
	hpa_tick(h, now + 99 * MSEC, 100, false);
	is_uint(sys.put, 1, "too many are dirty: the empty one goes at once");
	opt_hpa_dirty_mult = HPA_DIRTY_MULT_NEVER;
	hpa_dalloc(h, c, PAGE);
	hpa_tick(h, now + 99 * MSEC, 100, false);
	is_uint(sys.put, 1, "any number may be dirty: the next one waits");
	hpa_tick(h, now + 1000 * MSEC, -1, false);
	is_uint(sys.put, 1, "for ever without a decay time");
	hpa_tick(h, now + 100 * MSEC, 100, false);
	is_uint(sys.put, 2, "or until it has passed");
	sys.is_dry = true;
	ok(take(h, PAGE, &is_zeroed) == NULL, "no memory is NULL");
	opt_hpa_dirty_mult = FXP_INIT_PERCENT(25);
}

static void
free_half(hpa_t *h, char *slab) {
	for (unsigned i = 0; i < HSLAB_NPAGES; i += 2) {
		hpa_dalloc(h, slab + ((size_t)i << LG_PAGE), PAGE);
	}
}

/* Takes n slabs whole; frees every other page of the first. */
static void
fill(hpa_t *h, unsigned n, char **slabs) {
	bool is_zeroed;
	for (unsigned i = 0; i < n; i++) {
		slabs[i] = take(h, HSLAB_SIZE, &is_zeroed);
	}
	free_half(h, slabs[0]);
}

static void
test_purge(void) {
	hpa_t *h = shard();
	char *slabs[2];
	fill(h, 2, slabs);
	size_t half = HSLAB_NPAGES / 2;
	is_uint(ndirty(h), half, "half a slab is dirty");
	opt_hpa_min_purge_delay_ms = 7;
	opt_hpa_min_purge_interval_ms = 50;
	hpa_tick(h, now + 6 * MSEC, 100000, false);
	is_uint(sys.purged, 0, "it waits for the delay");
	is_uint(atomic_load_u64(&h->npurge_passes, MO_RELAXED), 0, "which is no pass");
	hpa_tick(h, now + 8 * MSEC, 100000, false);
	ok(sys.purged == half && ndirty(h) == 0 && sys.nohuge == 0, "then exactly the dirty pages go");
	free_half(h, slabs[1]);
	hpa_tick(h, now + 57 * MSEC, 100000, false);
	is_uint(sys.purged, half, "the next pass waits for the interval since the last one");
	hpa_tick(h, now + 58 * MSEC, 100000, false);
	is_uint(sys.purged, 2 * half, "which then has passed");
	is_uint(atomic_load_u64(&h->npurge_passes, MO_RELAXED), 2, "two passes in all");
	is_uint(atomic_load_u64(&h->npurges, MO_RELAXED), 2, "each of one slab");
	hpa_dalloc(h, slabs[1] + PAGE, PAGE);
	hpa_tick(h, now + 5000 * MSEC, 100000, false);
	is_uint(sys.purged, 2 * half, "few dirty pages may stay");
	hpa_purge(h, true);
	is_uint(sys.purged, 2 * half + 1, "unless all are to go");
	is_uint(atomic_load_u64(&h->npurges, MO_RELAXED), 3, "which is one more slab");
	opt_hpa_min_purge_delay_ms = 0;
	opt_hpa_min_purge_interval_ms = 5000;
}

static void
test_huge(void) {
	hpa_t *h = shard();
	char *slabs[HRULE_GROWN + 1];
	bool is_zeroed;
	for (unsigned i = 0; i < HRULE_GROWN; i++) {
		slabs[i] = take(h, HSLAB_SIZE, &is_zeroed);
	}
	is_uint(sys.huge, 0, "the first slabs are not huge");
	slabs[HRULE_GROWN] = take(h, HSLAB_SIZE, &is_zeroed);
	is_uint(sys.huge, 1, "a growing shard's are");
	hpa_tick(h, now + 9999 * MSEC, -1, false);
	is_uint(sys.huge, 1, "full ones wait for the delay");
	sys.fail_with = EAGAIN;
	hpa_tick(h, now + 10000 * MSEC, -1, false);
	ok(sys.huge == 2 && atomic_load_u64(&h->nhugify_failures, MO_RELAXED) == 1, "one is refused");
	sys.fail_with = 0;
	hpa_tick(h, now + 69999 * MSEC, -1, false);
	is_uint(sys.huge, 2, "then none is tried for a minute");
	hpa_tick(h, now + 70000 * MSEC, -1, true);
	ok(sys.huge == 2 + HRULE_GROWN && sys.collapse == HRULE_GROWN,
	    "afterwards all become huge, at once if that is allowed");
	is_uint(atomic_load_u64(&h->nhugifies, MO_RELAXED), 1 + HRULE_GROWN, "and are counted");
	is_uint(atomic_load_u64(&h->nhugify_failures, MO_RELAXED), 1, "none more is refused");
	is_uint(atomic_load_u64(&h->npurges, MO_RELAXED), 0, "none was purged");
	hpa_dalloc(h, slabs[0], HSLAB_SIZE / 2);
	hpa_purge(h, true);
	ok(sys.nohuge == 1 && atomic_load_u64(&h->ndehugifies, MO_RELAXED) == 1,
	    "one that is purged in part loses its mark");
	hpa_dalloc(h, slabs[1], HSLAB_SIZE);
	hpa_dalloc(h, slabs[0] + HSLAB_SIZE / 2, HSLAB_SIZE / 2);
	hpa_purge(h, false);
	ok(sys.put == 2 && sys.marked == 2, "the source hears of marks");
	is_uint(atomic_load_u64(&h->npurges, MO_RELAXED), 3,
	    "one purged in part and two that are given back");
}

/* The system takes the advice but has no huge page free: it may still fill the slab later. */
static void
test_huge_later(void) {
	hpa_t *h = shard();
	bool is_zeroed;
	char *slab = take(h, HSLAB_SIZE, &is_zeroed);
	sys.fail_collapse = EAGAIN;
	hpa_tick(h, now + 10000 * MSEC, -1, true);
	ok(sys.huge == 1 && sys.collapse == 1 && atomic_load_u64(&h->nhugify_failures, MO_RELAXED) == 1
	    && hslab_of(slab)->is_huge, "one that cannot be huge at once may become it");
	hpa_dalloc(h, slab, HSLAB_SIZE / 2);
	is_uint(atomic_load_zu(&h->nidle, MO_RELAXED), HSLAB_NPAGES / 2, "its free pages are idle");
	hpa_purge(h, true);
	ok(sys.nohuge == 1 && !hslab_of(slab)->is_huge, "until a purge withdraws the advice");
}

/* ------------------------------------------------------------------ all of it */

#define N_EXTENTS 64

static void
test_batch(void) {
	static edata_t e[6];
	hpa_t *h = shard();
	hpa_stats_t s;
	ql_t list;
	ql_init(&list);
	for (unsigned i = 0; i < 6; i++) {
		ql_init(&e[i].link);
		ql_push_tail(&list, &e[i].link);
	}
	is_uint(hpa_alloc_some(h, HSLAB_SIZE / 4, true, &list), 4, "a batch fetches one slab, not two");
	bool is_dense = true;
	for (unsigned i = 1; i < 4; i++) {
		is_dense = is_dense && e[i].addr == e[0].addr + i * (HSLAB_SIZE / 4) && e[i].is_zeroed;
	}
	ok(is_dense && sys.got == 1, "and fills it");
	memset(&s, 0, sizeof(s));
	hpa_stats_read(h, &s);
	ok(s.alloc[3].extents == 4 && s.alloc[3].ps == 1 && s.alloc[3].extents_per_ps == 4
	    && s.alloc[3].pages_per_ps == HSLAB_NPAGES && s.alloc[3].min_extents == 5
	    && s.alloc[3].max_extents == 8, "a request for five to eight is counted as such");
	is_uint(s.alloc[HPA_ALLOC_KINDS - 1].max_extents, (HSLAB_SIZE >> LG_PAGE_MIN) + 1,
	    "the last kind ends with a slab, not with the configured huge page");
	ok(hpa_alloc_kind(1) == 0 && hpa_alloc_kind(2) == 1 && hpa_alloc_kind(3) == 2
	    && hpa_alloc_kind(4) == 2 && hpa_alloc_kind(128) == 7 && hpa_alloc_kind(129) == 8
	    && hpa_alloc_kind(1000) == 8, "kinds double");
}

/* The page class of so many pages: the last one that is not larger. */
static unsigned
model_pind(unsigned npages) {
	unsigned pind = 0;
	while (sz_pind2sz(pind + 1) <= (size_t)npages << LG_PAGE) {
		pind++;
	}
	return pind;
}

static void
model_slab_add(hpa_slabs_stats_t *to, const hslab_t *s, unsigned n_used, unsigned n_dirty) {
	to->npageslabs_huge += s->is_huge ? 1 : 0;
	to->npageslabs_nonhuge += s->is_huge ? 0 : 1;
	to->nactive_huge += s->is_huge ? n_used : 0;
	to->nactive_nonhuge += s->is_huge ? 0 : n_used;
	to->ndirty_huge += s->is_huge ? n_dirty : 0;
	to->ndirty_nonhuge += s->is_huge ? 0 : n_dirty;
}

/*
 * What of the counts of a shard differs from a count of the bits of its slabs. seen: how often
 * there were huge slabs, full, empty and other ones.
 */
static unsigned
state_differs(hpa_t *h, size_t n_active, unsigned *seen) {
	static bool used[HSLAB_NPAGES_MAX];
	hpa_stats_t is, model;
	size_t nidle = 0, nempty = 0;
	memset(&is, 0, sizeof(is));
	memset(&model, 0, sizeof(model));
	for (ql_t *l = ql_first(&h->all); l != NULL; l = ql_next(&h->all, l)) {
		const hslab_t *s = container_of(l, hslab_t, all);
		unsigned n_used = 0, n_dirty = 0;
		for (unsigned i = 0; i < HSLAB_NPAGES; i++) {
			used[i] = fb_get(s->used, HSLAB_NPAGES, i);
			n_used += used[i];
			n_dirty += fb_get(s->touched, HSLAB_NPAGES, i) && !used[i];
		}
		unsigned longest = model_longest(used);
		hpa_slabs_stats_t *kind = n_used == 0 ? &model.empty_slabs : n_used == HSLAB_NPAGES
		    ? &model.full_slabs : &model.nonfull_slabs[model_pind(longest)];
		model_slab_add(&model.slabs, s, n_used, n_dirty);
		model_slab_add(kind, s, n_used, n_dirty);
		seen[0] += s->is_huge;
		seen[1] += n_used == HSLAB_NPAGES;
		seen[2] += n_used == 0;
		seen[3] += n_used != 0 && n_used != HSLAB_NPAGES;
		model.npageslabs++;
		model.nactive += n_used;
		model.ndirty += n_dirty;
		nempty += n_used == 0;
		nidle += s->is_huge ? HSLAB_NPAGES - n_used : n_dirty;
	}
	hpa_stats_read(h, &is);
	size_t from = offsetof(hpa_stats_t, slabs);
	return wrong_if(is.nactive != n_active) + wrong_if(is.nactive != model.nactive)
	    + wrong_if(is.npageslabs != model.npageslabs) + wrong_if(is.ndirty != model.ndirty)
	    + wrong_if(is.npageslabs != sys.got - sys.put)
	    + wrong_if(atomic_load_zu(&h->nempty, MO_RELAXED) != nempty)
	    + wrong_if(atomic_load_zu(&h->nidle, MO_RELAXED) != nidle)
	    + wrong_if(memcmp((char *)&is + from, (char *)&model + from, sizeof(is) - from) != 0);
}

static void
test_many(void) {
	static char *runs[N_RUNS];
	static size_t sizes[N_RUNS];
	hpa_t *h = shard();
	uint64_t rnd = 3;
	size_t sum = 0;
	unsigned bad = 0, seen[4] = {0};
	bool is_zeroed;
	for (unsigned k = 0; k < 20000; k++) {
		unsigned i = (unsigned)draw_below(&rnd, N_RUNS);
		if (runs[i] != NULL) {
			hpa_dalloc(h, runs[i], sizes[i]);
			sum -= sizes[i];
			runs[i] = NULL;
		} else {
			sizes[i] = draw_below(&rnd, 50) == 0 ? HSLAB_SIZE
			    : (1 + draw_below(&rnd, 17)) << LG_PAGE;
			runs[i] = take(h, sizes[i], &is_zeroed);
			sum += sizes[i];
		}
		if (k % 1000 == 0) {
			hpa_tick(h, now + k * MSEC, 100, false);
		}
		if (k % 100 == 0) {
			bad += state_differs(h, sum >> LG_PAGE, seen);
		}
	}
	is_uint(bad, 0, "the counts, and the sums by kind, are those of the slabs");
	ok(seen[0] > 0 && seen[1] > 0 && seen[2] > 0 && seen[3] > 0,
	    "of huge ones (%u), full (%u), empty (%u) and others (%u)", seen[0], seen[1], seen[2],
	    seen[3]);
	for (unsigned i = 0; i < N_RUNS; i++) {
		if (runs[i] != NULL) {
			hpa_dalloc(h, runs[i], sizes[i]);
		}
	}
	hpa_purge(h, true);
	ok(sys.got == sys.put && sys.got > 0 && ndirty(h) == 0, "in the end every slab is returned");
}

static void
setup(void) {
	hooks = os_hooks_real;
	hooks.madvise = fake_madvise;
	hooks.mmap = fake_mmap;
	hooks.madvise_many = no_madvise_many;
	hooks.open = fake_open;
	now = 5000 * NSTIME_PER_SEC;
	pages_boot();
	base_boot();
	hpa_opt_boot();
	ok(pages_can_purge_forced(), "the system gives pages up");
	os_hooks = &hooks;
	pages_boot_thp();
	/* Where the size of huge pages follows from that of a page: 2 MiB, whatever this system has. */
	size_t true_page = os_page_size;
	os_page_size = 4096;
	hpa_sys();
	os_page_size = true_page;
	nstime_now_hook = fake_now;
}

/* ------------------------------------------------------------------ a page cache with slabs */

#define SLAB_PIECE (64 << 10)
#define SLAB_PIECES (HSLAB_SIZE / SLAB_PIECE)

static edata_t *pieces[SLAB_PIECES];

/* A page cache with slabs, on a system with this setting. */
static pac_t *
cache_on(const char *setting) {
	enabled = setting;
	setup();
	base_t *base = base_new();
	pac_t *pac = base_alloc(base, sizeof(*pac), CACHELINE);
	pac_init(pac, base, 3700, 10000, 0, now);
	opt_hpa = true;
	is_int(pac_hpa_init(pac, base), 0, "slabs");
	memset(&sys, 0, sizeof(sys));
	return pac;
}

/* Takes all of a slab; returns how many slabs are huge. */
static size_t
take_slab(pac_t *pac) {
	hpa_stats_t s = {0};
	for (unsigned i = 0; i < SLAB_PIECES; i++) {
		pieces[i] = pac_alloc(pac, SLAB_PIECE, PAGE, false);
	}
	hpa_stats_read(pac->hpa, &s);
	is_uint(s.npageslabs, 1, "one slab");
	return s.slabs.npageslabs_huge;
}

/* Frees some pieces of it, and purges; returns how many slabs are left. */
static size_t
free_pieces(pac_t *pac, unsigned from, unsigned to) {
	for (unsigned i = from; i < to; i++) {
		pac_dalloc(pac, pieces[i]);
	}
	pac_purge(pac, now, true);
	return atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED);
}

/* Where huge pages come by themselves, memory that was a slab must get them again. */
static int
child_given(void) {
	pac_t *pac = cache_on("[always] madvise never\n");
	is_uint(take_slab(pac), 1, "a new slab is huge");
	is_uint(free_pieces(pac, 0, SLAB_PIECES), 0, "it returns");
	is_uint(sys.huge + sys.nohuge, 0, "and the system is told nothing");
	is_uint(take_slab(pac), 1, "so the next one is huge, too");
	is_uint(free_pieces(pac, 0, SLAB_PIECES / 2), 1, "half of it is purged");
	ok(sys.advice == MADV_NOHUGEPAGE && sys.nohuge == 1, "it is huge no more");
	is_uint(free_pieces(pac, SLAB_PIECES / 2, SLAB_PIECES), 0, "it returns, too");
	ok(sys.advice == MADV_HUGEPAGE && sys.huge == 1, "and may be huge again");
	is_uint(take_slab(pac), 1, "as the next one is");
	is_uint(free_pieces(pac, 0, SLAB_PIECES / 2), 1, "half of that is purged");
	sys.fail_with = ENOMEM;
	is_uint(free_pieces(pac, SLAB_PIECES / 2, SLAB_PIECES), 0, "it returns, and the mark stays");
	is_uint(sys.anew, 1, "so its memory is mapped anew");
	is_uint(extent_nmoved(), 0, "and is like any other");
	is_uint(take_slab(pac), 1, "as the next slab says");
	return done_testing();
}

/* A bound for unused pages holds for those of slabs too, from the call on. */
static int
child_bound(void) {
	pac_t *pac = cache_on(enabled);
	take_slab(pac);
	is_uint(free_pieces(pac, 1, SLAB_PIECES), 1, "one piece is in use");
	edata_t *e = pac_alloc_dense(pac, PAGE);
	pac_dalloc(pac, pieces[0]);
	pac_dalloc(pac, e);
	ok(pac_hpa_sec_bytes(pac) > 0, "the small extent cache has something");
	pac_bound(pac, HSLAB_SIZE);
	is_uint(pac_hpa_sec_bytes(pac), 0, "with a bound nothing");
	is_uint(atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED), 0, "the slab is gone too");
	return done_testing();
}

/* Takes n pages one by one, or gives them back; the result: bytes in the small extent cache. */
static size_t
take_pages(pac_t *pac, edata_t **e, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		e[i] = pac_alloc_dense(pac, PAGE);
	}
	return pac_hpa_sec_bytes(pac);
}

static size_t
give_pages(pac_t *pac, edata_t **e, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		pac_dalloc(pac, e[i]);
	}
	return pac_hpa_sec_bytes(pac);
}

static hpa_stats_t
sec_stats(pac_t *pac) {
	hpa_stats_t s = {0};
	hpa_stats_read(pac->hpa, &s);
	return s;
}

/* The small extent cache: hot extents up to a length, whose bytes are limited. */
static int
child_sec(void) {
	edata_t *e[12], *longer[3];
	pac_t *pac = cache_on(enabled);
	opt_hpa_sec_nshards = 2;
	opt_hpa_sec_max_bytes = 4 * PAGE;
	opt_hpa_sec_batch_fill_extra = 3;
	opt_hpa_slab_max_alloc = 2 * opt_hpa_sec_max_alloc;
	is_uint(take_pages(pac, e, 1), 3 * PAGE, "a miss brings three more");
	is_uint(take_pages(pac, e + 1, 11), 0, "which serve others");
	hpa_stats_t s = sec_stats(pac);
	ok(s.sec_misses == 3 && s.sec_hits == 9, "both are counted");
	is_uint(give_pages(pac, e, 12), 8 * PAGE, "more than it may hold goes to the slab");
	s = sec_stats(pac);
	ok(s.sec_dalloc_noflush == 8 && s.sec_dalloc_flush == 4, "that too");
	is_uint(atomic_load_zu(&pac->hpa->nactive, MO_RELAXED), 8, "as the slab says");
	ok(take_pages(pac, e, 12) == 0 && sec_stats(pac).sec_misses == 4,
	    "what it holds is taken first");
	opt_hpa_sec_max_bytes = PAGE;
	is_uint(take_pages(pac, longer, 1), 2 * PAGE, "what a miss brings is limited");
	is_uint(sec_stats(pac).sec_overfills, 1, "which is counted once");
	longer[1] = pac_alloc(pac, 2 * opt_hpa_sec_max_alloc, PAGE, false);
	longer[2] = pac_alloc(pac, 2 * opt_hpa_sec_max_alloc, PAGE, false);
	ok(give_pages(pac, longer + 1, 2) == 2 * PAGE && sec_stats(pac).sec_dalloc_noflush == 8,
	    "longer extents are not its own");
	pac_purge(pac, now, false);
	is_uint(pac_hpa_sec_bytes(pac), 0, "a sweep empties it");
	s = sec_stats(pac);
	pac_alloc(pac, PAGE, PAGE, false);
	ok(sec_stats(pac).sec_misses == s.sec_misses && pac_hpa_sec_bytes(pac) == 0,
	    "only dense ones ask it");
	enum { MANY = PAC_HOT_DEEP + 5 };
	static edata_t *many[MANY];
	opt_hpa_sec_max_bytes = MANY * PAGE;
	ok(take_pages(pac, many, MANY) < 4 * PAGE, "many pages are in use");
	pac_purge(pac, now, false);
	s = sec_stats(pac);
	is_uint(give_pages(pac, many, MANY), PAC_HOT_DEEP * PAGE, "a full stack");
	ok(sec_stats(pac).sec_dalloc_noflush - s.sec_dalloc_noflush == PAC_HOT_DEEP
	    && sec_stats(pac).sec_dalloc_flush - s.sec_dalloc_flush == 5,
	    "what that refuses counts so");
	pac_purge(pac, now, false);
	s = sec_stats(pac);
	opt_hpa_sec_nshards = 0;
	ok(give_pages(pac, e, 12) == 0 && sec_stats(pac).sec_dalloc_flush == s.sec_dalloc_flush,
	    "there may be none");
	ok(atomic_load_zu(&pac->hot_npages, MO_RELAXED) >= 12, "then its limit is none");
	return done_testing();
}

/* Where the process asks for them, no request outlives its slab. */
static int
child_asked(void) {
	pac_t *pac = cache_on(enabled);
	opt_hpa_hugify_style = hpa_style_eager;
	is_uint(take_slab(pac), 1, "a new slab is huge");
	ok(sys.advice == MADV_HUGEPAGE && sys.huge == 1, "by a request");
	is_uint(free_pieces(pac, 0, SLAB_PIECES), 0, "it returns");
	ok(sys.advice == MADV_NOHUGEPAGE && sys.nohuge == 1, "and the request is withdrawn");
	sys.fail_with = EAGAIN;
	is_uint(take_slab(pac), 0, "one for which it is refused");
	is_uint(free_pieces(pac, 0, SLAB_PIECES), 0, "returns");
	ok(sys.advice == MADV_NOHUGEPAGE && sys.nohuge == 2, "without a mark");
	return done_testing();
}

/* Bytes of slabs that are unmapped count as given back: a request that failed is tried again. */
static int
child_relieved(void) {
	pac_t *pac = cache_on(enabled);
	size_t others = atomic_load_zu(&room_mapped, MO_RELAXED)
	    - atomic_load_zu(&pac->mapped, MO_RELAXED);
	opt_retain = false;
	pac_dalloc(pac, pac_alloc_dense(pac, PAGE));
	ok(pac_hpa_sec_bytes(pac) > 0, "nothing but small extents, cached");
	is_uint(pac_relieve(pac, 1, NULL), HSLAB_SIZE, "their slab is given back");
	take_slab(pac);
	for (unsigned i = 0; i < SLAB_PIECES; i++) {
		pac_dalloc(pac, pieces[i]);
	}
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), HSLAB_SIZE, "nothing but an empty slab");
	is_uint(atomic_load_zu(&room_mapped, MO_RELAXED), others + HSLAB_SIZE, "in the sum of all too");
	is_uint(pac_relieve(pac, 1, NULL), HSLAB_SIZE, "it is given back, and counted");
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), 0, "nothing is left");
	is_uint(atomic_load_zu(&room_mapped, MO_RELAXED), others, "nor in the sum");
	opt_retain = true;
	take_slab(pac);
	for (unsigned i = 0; i < SLAB_PIECES; i++) {
		pac_dalloc(pac, pieces[i]);
	}
	size_t all = (ecache_npages(&pac->retained) << LG_PAGE) + HSLAB_SIZE;
	is_uint(pac_relieve(pac, SIZE_MAX / 2, NULL), all, "one that became retained counts once");
	return done_testing();
}

static void
body(void) {
	setup();
	test_slab();
	test_set();
	test_rule_of_modes();
	test_rule_of_birth();
	test_rules_of_purging();
	test_return();
	test_purge();
	test_huge();
	test_huge_later();
	test_kinds();
	test_batch();
	test_many();
	nstime_now_hook = NULL;
	os_hooks = &os_hooks_real;
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"given", child_given}, {"asked", child_asked},
		{"bound", child_bound}, {"relieved", child_relieved},
		{"sec", child_sec}, {NULL, NULL}};
	static struct test_result r;
	bool is_body = argc > 1 && strcmp(argv[1], "--child=body") == 0;
	if (!is_body) {
		test_children(argc, argv, children);
	}
	for (unsigned i = 0; children[i].name != NULL && !is_body; i++) {
		run_child_conf(&r, children[i].name, NULL);
		child_exits(&r, 0, "a page cache with slabs: %s", children[i].name);
	}
	return core_run_all_pages(argc, argv, body);
}
