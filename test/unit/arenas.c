/*
 * arena/arenas.h: how many, which one a thread gets, what the hidden one and the next of an index
 * have of it, arenas by hand up to the limit, what goes where the system counts pages.
 */
#include "core.h"
#include "ctl.h"
#include "strict.h"

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "arena/large.h"
#include "extent/pac_hpa.h"
#include "os/gate.h"
#include "os/nstime.h"
#include "os/thread.h"
#include "thread/tsd.h"

#include <pthread.h>
#include <sys/mman.h>

static uint64_t clock_ns;

static void
on_gone(arena_t *a UNUSED, arena_t *hidden UNUSED) {}

static uint64_t
read_clock(void) {
	return clock_ns;
}

static void
test_number(void) {
	unsigned ncpus = os_ncpus();
	is_uint(arenas_narenas_auto(), ncpus > 1 ? 4 * ncpus : 1, "four for each CPU, or one");
	is_uint(arenas_narenas_total(), arenas_narenas_auto() + 1,
	    "one for oversized requests, none by hand yet");
	ok(arenas_get(0) != NULL && arenas_get(0)->ind == 0, "arena 0 is there");
	ok(arenas_get(arenas_narenas_auto()) == NULL, "that one is not, before such a request");
	ok(arenas_get_or_init(arenas_narenas_auto() + 1) == NULL,
	    "the one behind the last is not made");
	ok(arenas_get(UINT_MAX) == NULL && arenas_get_or_init(UINT_MAX) == NULL, "nor a wild one");
	arena_t *a = arenas_get_or_init(arenas_narenas_auto() - 1);
	ok(a != NULL && a->is_auto, "the last automatic one is made");
	ok(arenas_get(arenas_narenas_auto() - 1) == a, "and stays");
}

static volatile int phase;
static unsigned arena_of_thread[64];

static void *
thread(void *arg) {
	unsigned i = (unsigned)(uintptr_t)arg;
	free(keep(malloc(10)));
	arena_of_thread[i] = tls_get()->tsd->arena->ind;
	__atomic_fetch_add(&phase, 1, __ATOMIC_SEQ_CST);
	while (phase < 1000) {
		usleep(1000);
	}
	return NULL;
}

/* Threads spread evenly, and leave no trace. */
static void
test_binding(void) {
	pthread_t t[64];
	unsigned n = (unsigned)min_zu(64, 2 * arenas_narenas_auto()), most = 0, sum = 0;
	for (uintptr_t i = 0; i < n; i++) {
		pthread_create(&t[i], NULL, thread, (void *)i);
		while (phase <= (int)i) {
			sched_yield();
		}
	}
	for (unsigned i = 0; i < arenas_narenas_auto(); i++) {
		arena_t *a = arenas_get(i);
		unsigned k = a == NULL ? 0 : atomic_load_u32(&a->nthreads, MO_RELAXED);
		most = k > most ? k : most;
		sum += k;
	}
	is_uint(sum, n + 1, "all threads are bound");
	ok(most <= 3, "evenly: at most %u on one arena", most);
	phase = 1000;
	for (unsigned i = 0; i < n; i++) {
		pthread_join(t[i], NULL);
	}
	sum = 0;
	for (unsigned i = 0; i < arenas_narenas_auto(); i++) {
		arena_t *a = arenas_get(i);
		sum += a == NULL ? 0 : atomic_load_u32(&a->nthreads, MO_RELAXED);
	}
	is_uint(sum, 1, "after they ended only this one is");
}

/* Large requests go to an arena of their own, but for those of a thread with an arena by hand. */
static void
test_oversize(void) {
	unsigned first = arenas_narenas_auto(), ind;
	tsd_t *tsd = tls_get()->tsd;
	arena_t *own = tsd->arena;
	size_t least = sz_i2s(sz_s2i(opt_oversize_threshold) - 1) + PAGE;
	is_uint(arenas_oversize_min, least, "there is a threshold: above the class below");
	char *below = keep(malloc(least - PAGE));
	is_uint(emap_edata(below)->arena_ind, own->ind, "less than it: the thread's arena");
	ok(arenas_get(first) == NULL, "the other is not made");
	char *p = keep(malloc(least - PAGE + 1));
	arena_t *a = arenas_get(first);
	ok(a != NULL && a->is_auto && emap_edata(p)->arena_ind == first,
	    "what is as large when rounded: the other");
	is_str(a->name, "auto_oversize", "its name");
	is_uint(atomic_load_u32(&a->nthreads, MO_RELAXED), 0, "no thread is bound to it");
	ok(pac_is_bounded(&a->pac) && !pac_is_bounded(&own->pac), "its unused memory is bounded");
	is_uint(atomic_load_zu(&a->pac.bound, MO_RELAXED), 4 * opt_oversize_threshold,
	    "by four such requests");
	is_uint((uintptr_t)emap_edata(p)->addr % PAC_GRAIN, 0, "its extents begin at grains");
	free(p);
	p = keep(aligned_alloc(64 * PAC_GRAIN, opt_oversize_threshold));
	ok(emap_edata(p)->arena_ind == first && is_aligned((uintptr_t)p, 64 * PAC_GRAIN),
	    "aligned more than that");
	gate_enter(tls_get());
	is_int(arenas_create(&ind, NULL), 0, "an arena by hand");
	is_uint(ind, first + 1, "has the next index");
	gate_exit(tls_get());
	tsd->arena = arenas_get(ind);
	char *q = keep(malloc(2 * opt_oversize_threshold));
	is_uint(emap_edata(q)->arena_ind, ind, "a thread with an arena by hand keeps to it");
	tsd->arena = own;
	free(p);
	free(q);
	free(below);
}

/* A round of decay goes through all arenas, the hidden one too, and not more often than need be. */
static void
test_tick(void) {
	unsigned ind;
	sample_rec_t *rec;
	clock_ns = nstime_monotonic_ns() + UINT64_C(3600000000000);
	nstime_now_hook = read_clock;
	is_int(arenas_create(&ind, NULL), 0, "an arena by hand");
	arena_t *a = arenas_get(ind);
	void *p = arena_malloc(a, 16 * PAGE, 0, false, 1);
	arena_dalloc(p, emap_elem(p));
	void *s[200];
	for (unsigned i = 0; i < 200; i++) {
		s[i] = arenas_malloc_sampled(a, sz_s2u(PAGE), 0, false, 1, &rec);
	}
	for (unsigned i = 0; i < 200; i++) {
		arena_dalloc(s[i], emap_elem(s[i]));
	}
	ok(pac_ndirty(&a->pac) >= 16 && pac_ndirty(&arenas_sampled(a)->pac) > 100,
	    "dirty pages in both");
	for (unsigned i = 0; i < 5; i++) {
		clock_ns += UINT64_C(6000000000);
		arenas_try_tick(clock_ns);
	}
	is_uint(pac_ndirty(&a->pac), 0, "gone after the decay time");
	is_uint(pac_ndirty(&arenas_sampled(a)->pac), 0, "from the hidden arena too");
	arena_decay_ms_set(a, true, 1);
	p = arena_malloc(a, 16 * PAGE, 0, false, 1);
	arena_dalloc(p, emap_elem(p));
	clock_ns += 20000000;
	arenas_try_tick(clock_ns);
	p = arena_malloc(a, 8 * PAGE, 0, false, 1);
	arena_dalloc(p, emap_elem(p));
	size_t before = pac_ndirty(&a->pac);
	clock_ns += 2000000;
	arenas_try_tick(clock_ns);
	is_uint(pac_ndirty(&a->pac), before, "two rounds are some milliseconds apart");
	clock_ns += 20000000;
	arenas_try_tick(clock_ns);
	clock_ns += 20000000;
	arenas_try_tick(clock_ns);
	is_uint(pac_ndirty(&a->pac), 0, "then it goes on");
	nstime_now_hook = NULL;
}

static void
test_defaults(void) {
	unsigned ind;
	is_int(arenas_decay_ms_default_set(true, -2), EINVAL, "-2 is no decay time");
	is_int(arenas_decay_ms_default_set(true, 4321), 0, "a default for arenas to come");
	is_int(arenas_create(&ind, NULL), 0, "one comes");
	is_int(arena_decay_ms_get(arenas_get(ind), true), 4321, "with that decay time");
	is_int(arena_decay_ms_get(arenas_get(0), true), opt_dirty_decay_ms, "others keep theirs");
	arenas_decay_ms_default_set(true, 10000);
}

/* The bound that comes with each threshold. */
static void
test_bounds(void) {
	const struct {
		size_t threshold, bound;
	} rows[] = {{0, 0}, {SC_LARGE_MINCLASS - 1, 0}, {SC_LARGE_MINCLASS, 4 * SC_LARGE_MINCLASS},
	    {ZU(1) << 30, ZU(1) << 32}, {SC_LARGE_MAXCLASS / 4, SC_LARGE_MAXCLASS},
	    {SC_LARGE_MAXCLASS, SC_LARGE_MAXCLASS}, {SC_LARGE_MAXCLASS + 1, 0}, {SIZE_MAX, 0}};
	unsigned ind;
	is_int(arenas_create(&ind, NULL), 0, "an arena");
	arena_t *a = arenas_get(ind);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		arenas_oversize_threshold_set(a, rows[i].threshold);
		is_uint(atomic_load_zu(&a->pac.bound, MO_RELAXED), rows[i].bound,
		    "requests from %zu bytes on", rows[i].threshold);
		is_uint(atomic_load_zu(&a->oversize_threshold, MO_RELAXED), rows[i].threshold, "as told");
	}
	is_int(arenas_destroy(ind, NULL, on_gone), 0, "it ends");
}

/* What a limit of unused memory was about goes with the arena that it was set for. */
static void
test_bound_ends(void) {
	unsigned ind, again;
	is_int(arenas_create(&ind, NULL), 0, "an arena");
	arena_t *a = arenas_get(ind);
	arenas_oversize_threshold_set(a, ZU(1) << 20);
	arena_malloc(a, 64 * PAGE, 0, false, 1);
	ok(pac_is_bounded(&a->pac) && atomic_load_zu(&a->pac.npeak, MO_RELAXED) >= 64, "bounded");
	is_int(arenas_destroy(ind, NULL, on_gone), 0, "it ends");
	is_int(arenas_create(&again, NULL), 0, "the next one");
	ok(again == ind && arenas_get(ind) == a, "is in its place");
	ok(!pac_is_bounded(&a->pac), "not bounded");
	is_uint(atomic_load_zu(&a->pac.npeak, MO_RELAXED), 0, "and was never larger");
	is_uint(atomic_load_zu(&a->oversize_threshold, MO_RELAXED), opt_oversize_threshold,
	    "the threshold is that of the option");
	is_int(arenas_destroy(ind, NULL, on_gone), 0, "it ends too");
}

/* What an arena knows of its life so far: for each of these, its number. */
static unsigned
life_of(arena_t *a, uint64_t *out) {
	const bin_t *bin = arena_bin(a, 3, 0);
	const uint64_t numbers[] = {
		atomic_load_u64(&a->left, MO_RELAXED), a->is_ending,
		atomic_load_u64(&a->holes.due, MO_RELAXED),
		atomic_load_u32(&a->holes.nrefused, MO_RELAXED),
		atomic_load_b(&a->holes.is_wanted, MO_RELAXED),
		atomic_load_b(&a->holes.is_busy, MO_RELAXED), a->holes.is_under_way,
		atomic_load_u64(&a->guard_small, MO_RELAXED),
		atomic_load_u64(&a->guard_large, MO_RELAXED),
		atomic_load_zu(&a->oversize_threshold, MO_RELAXED),
		atomic_load_zu(&a->stashed, MO_RELAXED), atomic_load_zu(&a->large_allocated, MO_RELAXED),
		atomic_load_u64(&a->large[0].nmalloc, MO_RELAXED),
		atomic_load_u64(&a->large_all.nfills, MO_RELAXED), bin->stats.nmalloc, bin->stats.nslabs,
		atomic_load_b(&a->pac.is_served, MO_RELAXED), atomic_load_zu(&a->pac.bound, MO_RELAXED),
		atomic_load_zu(&a->pac.npeak, MO_RELAXED), atomic_load_zu(&a->pac.trade_left, MO_RELAXED),
		atomic_load_zu(&a->pac.wake_above, MO_RELAXED), atomic_load_zu(&a->pac.mapped, MO_RELAXED),
		atomic_load_zu(&a->pac.nactive, MO_RELAXED), pac_nidle(&a->pac),
		atomic_load_u64(&a->pac.decay_dirty.npurge, MO_RELAXED),
		atomic_load_u64(&a->pac.decay_dirty.nmadvise, MO_RELAXED),
		atomic_load_u64(&a->pac.decay_dirty.purged, MO_RELAXED),
		(uint64_t)arena_decay_ms_get(a, true), (uint64_t)arena_decay_ms_get(a, false),
	};
	memcpy(out, numbers, sizeof(numbers));
	return ARRAY_LEN(numbers);
}

/* An arena that is used anew is as a new one, whatever happened to the one before it. */
static void
test_renewed(void) {
	unsigned fresh, ind, again, bad = 0;
	uint64_t want[40], had[40], now[40];
	is_int(arenas_create(&ind, NULL), 0, "an arena");
	arena_t *a = arenas_get(ind);
	is_int(arenas_create(&fresh, NULL), 0, "and one that stays as it is");
	arena_malloc(a, 64 * PAGE, 0, false, 1);
	arena_malloc(a, bin_infos[3].reg_size, 0, false, 1);
	arenas_oversize_threshold_set(a, ZU(1) << 20);
	arena_decay_ms_set(a, true, 77);
	arena_decay_ms_set(a, false, 78);
	atomic_store_u64(&a->left, 5, MO_RELAXED);
	atomic_store_u64(&a->holes.due, 6, MO_RELAXED);
	atomic_store_u32(&a->holes.nrefused, 7, MO_RELAXED);
	atomic_store_b(&a->holes.is_wanted, true, MO_RELAXED);
	atomic_store_b(&a->holes.is_busy, true, MO_RELAXED);
	a->holes.is_under_way = true;
	atomic_store_u64(&a->guard_small, 8, MO_RELAXED);
	atomic_store_u64(&a->guard_large, 9, MO_RELAXED);
	atomic_store_u64(&a->large[0].nmalloc, 10, MO_RELAXED);
	atomic_store_u64(&a->large_all.nfills, 11, MO_RELAXED);
	atomic_store_b(&a->pac.is_served, true, MO_RELAXED);
	atomic_store_zu(&a->pac.trade_left, 12, MO_RELAXED);
	atomic_store_zu(&a->pac.wake_above, 13, MO_RELAXED);
	unsigned n = life_of(arenas_get(fresh), want);
	life_of(a, had);
	is_int(arenas_destroy(ind, NULL, on_gone), 0, "it ends");
	is_int(arenas_create(&again, NULL), 0, "the next one");
	ok(again == ind && arenas_get(ind) == a, "is in its place");
	life_of(a, now);
	unsigned ndiffer = 0;
	for (unsigned i = 0; i < n; i++) {
		ndiffer += had[i] != want[i];
		if (now[i] != want[i]) {
			diag("number %u: %llu", i, (unsigned long long)now[i]);
			bad++;
		}
	}
	is_uint(bad, 0, "all is as in one that was never used");
	ok(ndiffer >= n - 6, "%u of %u were not", ndiffer, n);
	is_int(arenas_destroy(ind, NULL, on_gone), 0, "it ends too");
}

static void
write_ms(unsigned ind, ssize_t dirty_ms, ssize_t muzzy_ms) {
	char name[64];
	is_int(ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", ind), dirty_ms), 0, "dirty");
	is_int(ctl_write(ctl_name(name, "arena.%u.muzzy_decay_ms", ind), muzzy_ms), 0, "and muzzy");
}

static void
is_ms(const arena_t *a, ssize_t dirty_ms, ssize_t muzzy_ms, const char *what) {
	ok(arena_decay_ms_get(a, true) == dirty_ms && arena_decay_ms_get(a, false) == muzzy_ms,
	    "%s: %zd and %zd ms", what, dirty_ms, muzzy_ms);
}

/* The hidden arena of samples has the decay times of the arena that it belongs to. */
static void
test_hidden_ms(void) {
	unsigned ind;
	ssize_t dirty_ms = arenas_decay_ms_default_get(true),
	    muzzy_ms = arenas_decay_ms_default_get(false);
	arena_t *hidden = arenas_sampled(arenas_get(0));
	is_ms(hidden, dirty_ms, muzzy_ms, "arena 0");
	write_ms(0, 1234, 56);
	is_ms(hidden, 1234, 56, "a write reaches it");
	write_ms(0, dirty_ms, muzzy_ms);
	is_int(arenas_create(&ind, NULL), 0, "an arena by hand");
	write_ms(ind, 7, -1);
	ok(arenas_sampled_get(ind) == NULL, "without a hidden one");
	hidden = arenas_sampled(arenas_get(ind));
	is_ms(hidden, 7, -1, "which has the times of before");
	is_int(arenas_destroy(ind, NULL, on_gone), 0, "they end");
	is_int(arenas_create(&ind, NULL), 0, "and come again");
	ok(arenas_sampled(arenas_get(ind)) == hidden, "the hidden one too");
	is_ms(hidden, dirty_ms, muzzy_ms, "with the defaults");
}

/* How often the locks of the bins of an arena and its hidden one were taken. */
static uint64_t
bin_ops(arena_t *a) {
	static arena_stats_t st;
	uint64_t n = 0;
	memset(&st, 0, sizeof(st));
	arena_stats_merge(a, &st);
	for (unsigned i = 0; i < SC_NBINS; i++) {
		n += st.bin_mutexes[i].n_lock_ops;
	}
	return n;
}

static void
test_mutexes_reset(void) {
	arena_t *a = arenas_get(0), *hidden = arenas_sampled(a);
	unsigned nbins = 0;
	for (unsigned i = 0; i < SC_NBINS; i++) {
		nbins += bin_infos[i].n_shards;
	}
	for (unsigned i = 0; i < 5000; i++) {
		bin_t *bin = arena_bin(hidden, 0, 0);
		mutex_lock(&bin->mtx);
		mutex_unlock(&bin->mtx);
	}
	ok(bin_ops(a) >= 5000, "locks of the hidden arena are counted");
	arena_mutexes_reset(a);
	is_uint(bin_ops(a), 2 * nbins, "after a reset: each was taken once, to count");
}

/* In a child, for the sake of memory. */
static void
limit_now(void *arg) {
	unsigned ind, n = 0, last = arenas_narenas_total() - 1;
	(void)arg;
	while (arenas_create(&ind, NULL) == 0) {
		if (ind != ++last) {
			_exit(1);
		}
		n++;
	}
	if (arenas_create(&ind, NULL) != EAGAIN || n < 100 || arenas_narenas_total() != ARENA_LIMIT
	    || last != ARENA_LIMIT - 1) {
		_exit(2);
	}
	char *p = arena_malloc(arenas_get(last), 100, 0, true, 1);
	_exit(p == NULL || elem_edata(emap_elem(p))->arena_ind != last ? 3 : 0);
}

/* Address space without pages is nothing that it counts: if it refuses memory, all pages go. */
static int
child_strict(void) {
	struct tls_s *t = tls_get();
	free(keep(malloc(1)));
	for (unsigned i = 0; i < 2; i++) {
		gate_enter(t);
		void *p = arena_large_malloc(arenas_get_or_init(i), 4 << 20, 0, false);
		arena_large_dalloc(emap_edata(keep(p)));
		gate_exit(t);
		if (i == 0) {
			mallctl("arena.0.purge", NULL, NULL, NULL, 0);
		}
	}
	ok(pages_can_decommit() && pac_unused(&arenas_get(1)->pac) >= 4 << 20, "pages in one arena");
	ok(ecache_npages(&arenas_get(0)->pac.retained) > 0, "address space in another one");
	gate_enter(t);
	ok(arenas_try_relieve(PAGE), "something goes");
	arenas_relieve_end(true);
	gate_exit(t);
	is_uint(pac_unused(&arenas_get(1)->pac), 0, "the pages are among it");
	return done_testing();
}

static void
body(void) {
	static struct test_result r;
	free(keep(malloc(1)));
	test_number();
	test_binding();
	test_oversize();
	gate_enter(tls_get());
	test_tick();
	test_defaults();
	test_bounds();
	test_bound_ends();
	test_renewed();
	test_hidden_ms();
	test_mutexes_reset();
	gate_exit(tls_get());
	run_forked(&r, limit_now, NULL);
	child_exits(&r, 0, "arenas by hand up to the limit");
}

int
main(int argc, char **argv) {
	return strict_run_all(argc, argv, child_strict, body);
}
