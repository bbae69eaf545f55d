/*
 * extent/pac.h with a clock of our own and a count of what the system is asked to do: when pages
 * go, where to, and that none is lost or kept.
 */
#include "core.h"
#include "strict.h"

#include "extent/ahead.h"
#include "extent/join.h"
#include "extent/pac_hot.h"
#include "extent/pac_hpa.h"
#include "extent/pac_life.h"
#include "extent/pac_relieve.h"
#include "extent/pac_serve.h"
#include "meta/base.h"
#include "os/nstime.h"
#include "os/sys.h"

#include <sys/mman.h>

#include <pthread.h>
#include <semaphore.h>

#define MS UINT64_C(1000000)
#define T0 (UINT64_C(1000000) * MS)

static pac_t *pac;
static struct os_hooks_s hooks;
static uint64_t clock_ns;
static struct {
	size_t dontneed;
	size_t freed; /* MADV_FREE */
	size_t unmapped;
	bool fail_munmap;
	bool fail_madvise;
	edata_t *freed_in_call; /* what another thread frees during the next call */
} sys;

/* The other thread; it is made before, because this one may hold locks when it needs it. */
static sem_t is_wanted, is_done;

static void *
other_thread(void *arg UNUSED) {
	for (;;) {
		sem_wait(&is_wanted);
		edata_t *e = sys.freed_in_call;
		if (e == NULL) {
			return NULL;
		}
		sys.freed_in_call = NULL;
		pac_dalloc(pac, e);
		sem_post(&is_done);
	}
}

static void
free_in_call(void) {
	if (sys.freed_in_call != NULL) {
		sem_post(&is_wanted);
		sem_wait(&is_done);
	}
}

static int
count_madvise(void *addr, size_t size, int advice) {
	if (sys.fail_madvise) {
		errno = EINVAL;
		return -1;
	}
	free_in_call();
	sys.dontneed += advice == MADV_DONTNEED ? size : 0;
	sys.freed += advice == MADV_FREE ? size : 0;
	return os_hooks_real.madvise(addr, size, advice);
}

static int
count_munmap(void *addr, size_t size) {
	if (sys.fail_munmap) {
		errno = ENOMEM;
		return -1;
	}
	free_in_call();
	sys.unmapped += size;
	return os_hooks_real.munmap(addr, size);
}

static uint64_t
read_clock(void) {
	return clock_ns;
}

static void
start(ssize_t dirty_ms, ssize_t muzzy_ms) {
	static unsigned ind = 3100;
	base_t *base = base_new();
	memset(&sys, 0, sizeof(sys));
	clock_ns = T0;
	pac = base_alloc(base, sizeof(*pac), CACHELINE);
	pac_init(pac, base, ind++, dirty_ms, muzzy_ms, clock_ns);
}

static size_t
ndirty(void) {
	return pac_ndirty(pac);
}

static size_t
nmuzzy(void) {
	return ecache_npages(&pac->muzzy);
}

static size_t
nretained(void) {
	return ecache_npages(&pac->retained);
}

/* n extents of one page with gaps between, all freed at once: n separate dirty pages. */
static void
make_dirty(unsigned n) {
	static edata_t *got[4000];
	for (unsigned i = 0; i < 2 * n; i++) {
		got[i] = pac_alloc(pac, PAGE, PAGE, false);
		got[i]->addr[0] = 1;
	}
	for (unsigned i = 0; i < 2 * n; i += 2) {
		pac_dalloc(pac, got[i]);
	}
}

static void
test_curve(void) {
	uint64_t decay = 1000 * MS, epoch = decay / SMOOTHSTEP_NSTEPS;
	unsigned rises = 0, bad = 0;
	start(1000, 0);
	make_dirty(1000);
	size_t last = ndirty(), half = 0;
	is_uint(last, 1000, "a thousand dirty pages");
	size_t active = atomic_load_zu(&pac->nactive, MO_RELAXED);
	for (unsigned i = 1; i <= SMOOTHSTEP_NSTEPS + 2; i++) {
		clock_ns += epoch;
		pac_tick(pac, clock_ns);
		rises += ndirty() > last;
		bad += wrong_if(sys.dontneed != (1000 - ndirty()) * PAGE) || wrong_if(nmuzzy() != 0);
		last = ndirty();
		half = i == SMOOTHSTEP_NSTEPS / 2 + 1 ? last : half;
	}
	is_uint(rises, 0, "the number of dirty pages never rises");
	is_uint(bad, 0, "what is not dirty any more was given to the system");
	ok(half > 450 && half < 550, "about half at half time: %zu", half);
	is_uint(last, 0, "none is left after the decay time");
	is_uint(atomic_load_u64(&pac->decay_dirty.purged, MO_RELAXED), 1000, "counted: pages");
	ok(atomic_load_u64(&pac->decay_dirty.npurge, MO_RELAXED) > 50, "counted: passes");
	is_uint(atomic_load_u64(&pac->decay_dirty.nmadvise, MO_RELAXED), 1000, "counted: extents");
	is_uint(atomic_load_zu(&pac->nactive, MO_RELAXED), active, "pages in use stay");
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), active * PAGE, "mapped: those in use");
}

static unsigned nwakes;

static void
count_wake(unsigned ind) {
	nwakes += ind == pac->src.ehooks.arena_ind;
}

/* A thread that serves the cache: when it has to look again, and who wakes it before. */
static void
test_serve(void) {
	uint64_t epoch = 1000 * MS / SMOOTHSTEP_NSTEPS;
	pac_wake_hook = count_wake;
	nwakes = 0;
	start(1000, 0);
	make_dirty(1);
	is_uint(nwakes, 0, "nobody serves: nobody is woken");
	is_uint(pac_serve(pac, clock_ns), 2 * epoch, "pages that are new: two epochs");
	make_dirty(1000);
	is_uint(nwakes, 0, "so soon nobody need be woken");
	clock_ns += 1010 * MS;
	pac_tick(pac, clock_ns);
	clock_ns += 1010 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty(), 0, "two decay times later all are gone");
	is_uint(pac_serve(pac, clock_ns), UINT64_MAX, "nothing unused: for ever");
	make_dirty(1);
	is_uint(nwakes, 1, "the first unused page wakes");
	make_dirty(10);
	is_uint(nwakes, 1, "the next do not");
	clock_ns += 10 * MS;
	pac_tick(pac, clock_ns);
	uint64_t next = pac_serve(pac, clock_ns);
	ok(next > 500 * MS && next < 1000 * MS, "few pages: when the last is due (%llu)",
	    (unsigned long long)next);
	unsigned step = (unsigned)((1 << 20) / PAGE);
	size_t few = ndirty(); /* these are taken first each time */
	make_dirty((unsigned)few + step);
	is_uint(nwakes, 1, "a megabyte more does not wake");
	make_dirty((unsigned)few + step + 2); /* one is in the slot */
	is_uint(nwakes, 2, "a page beyond does");
	is_int(pac_decay_ms_set(pac, &pac->decay_dirty, -1, clock_ns), 0, "decay time -1");
	is_uint(nwakes, 3, "a new decay time wakes");
	is_uint(pac_serve(pac, clock_ns), UINT64_MAX, "-1: for ever");
	make_dirty(1500);
	is_uint(nwakes, 3, "whatever becomes unused");
	pac_decay_ms_set(pac, &pac->decay_dirty, 1000, clock_ns);
	pac_purge(pac, clock_ns, true);
	is_uint(pac_serve(pac, clock_ns), UINT64_MAX, "empty");
	nwakes = 0;
	pac_unserve(pac);
	make_dirty(1500);
	is_uint(nwakes, 0, "no longer served: nobody is woken");
	ok(!atomic_load_b(&pac->is_served, MO_RELAXED), "and it says so");
	pac_wake_hook = NULL;
}

/* With a dirty decay time of 0 releases wake nobody, but leave muzzy pages. */
static void
test_serve_at_once(void) {
	pac_wake_hook = count_wake;
	nwakes = 0;
	start(0, 1500);
	is_uint(pac_serve(pac, clock_ns), 1000 * MS, "decay time 0: the thread looks each second");
	make_dirty(100);
	is_uint(nmuzzy(), 100, "each release makes its pages muzzy");
	is_uint(nwakes, 0, "and wakes nobody");
	unsigned runs = 0;
	uint64_t longest = 0;
	for (; nmuzzy() > 0 && runs < 100; runs++) {
		uint64_t ns = pac_serve(pac, clock_ns);
		longest = ns > longest ? ns : longest;
		clock_ns += ns;
		pac_tick(pac, clock_ns);
	}
	ok(nmuzzy() == 0 && longest <= 1000 * MS, "the thread purges them (in %u runs)", runs);
	ok(atomic_load_b(&pac->is_served, MO_RELAXED), "it is served");
	pac_renew(pac, 1000, 0, clock_ns);
	ok(!atomic_load_b(&pac->is_served, MO_RELAXED), "not after its arena was destroyed and made");
	pac_unserve(pac);
	pac_wake_hook = NULL;
}

static void
way_dalloc(edata_t *e) {
	pac_dalloc(pac, e);
}

/* Frees e in a pass of this thread, so that it stays dirty. */
static void
free_in_pass(edata_t *e) {
	pac_pass_begin(&pac->decay_dirty, true);
	pac_dalloc(pac, e);
	pac_pass_end(&pac->decay_dirty);
}

static void
way_purge(edata_t *e) {
	free_in_pass(e);
	pac_purge(pac, clock_ns, true);
}

static void
way_oldest(edata_t *e) {
	free_in_pass(e);
	pac_purge_oldest(pac, 0);
}

static void
way_relieve(edata_t *e) {
	free_in_pass(e);
	pac_relieve(pac, PAGE, NULL); /* retained address space is enough */
}

static void
way_set(edata_t *e) {
	pac_decay_ms_set(pac, &pac->decay_dirty, 1000, clock_ns);
	pac_dalloc(pac, e);
	pac_decay_ms_set(pac, &pac->decay_dirty, 0, clock_ns);
}

static void
way_pass(edata_t *e) {
	pac_pass_enter(pac, true);
	pac_dalloc(pac, e);
	free_in_call();
	pac_pass_leave(pac);
}

/* As arena.<i>.reset. */
static void
way_reset(edata_t *e) {
	pac_close(pac);
	pac_dalloc(pac, e);
	free_in_call();
	pac_open(pac);
}

/*
 * Each kind of pass: what another thread frees meanwhile, and what is freed in the pass, goes when
 * it ends, with a decay time of 0, and down to a bound.
 */
static void
test_passes_at_once(void) {
	static const struct {
		const char *name;
		void (*fn)(edata_t *e);
	} ways[] = {{"a release", way_dalloc}, {"a purge", way_purge}, {"the oldest", way_oldest},
		{"want of memory", way_relieve}, {"a new decay time", way_set}, {"a pass", way_pass},
		{"a reset", way_reset}};
	pthread_t t;
	sem_init(&is_wanted, 0, 0);
	sem_init(&is_done, 0, 0);
	pthread_create(&t, NULL, other_thread, NULL);
	for (unsigned i = 0; i < ARRAY_LEN(ways); i++) {
		start(0, 0);
		edata_t *e = pac_alloc(pac, 64 * PAGE, PAGE, false);
		edata_t *gap = pac_alloc(pac, PAGE, PAGE, false);
		edata_t *f = pac_alloc(pac, 64 * PAGE, PAGE, false);
		sys.freed_in_call = f;
		ways[i].fn(e);
		ok(sys.freed_in_call == NULL && gap->state == extent_state_active,
		    "%s: another thread frees meanwhile", ways[i].name);
		is_uint(ndirty(), 0, "%s: all has gone afterwards", ways[i].name);
	}
	for (unsigned i = 5; i < ARRAY_LEN(ways); i++) {
		start(10000, 0);
		pac_bound(pac, PAC_GRAIN);
		ways[i].fn(pac_alloc(pac, 32 * PAC_GRAIN, PAGE, false));
		is_uint(ndirty() * PAGE, PAC_GRAIN, "%s: no more stays than the bound", ways[i].name);
	}
	sys.freed_in_call = NULL;
	sem_post(&is_wanted);
	pthread_join(t, NULL);
}

/* Many extents are freed: the thread comes again until pages of their descriptors have gone too. */
static void
test_serve_spare(void) {
	static edata_t *e[5 * EDATA_KEPT];
	edata_cache_t *c;
	start(1000, 0);
	c = &pac->src.edata_cache;
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		e[i] = pac_alloc(pac, PAGE, PAGE, false);
	}
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		pac_dalloc(pac, e[i]);
	}
	unsigned runs = 0;
	for (uint64_t ns; (ns = pac_serve(pac, clock_ns)) != UINT64_MAX && runs < 1000; runs++) {
		clock_ns += ns > 10 * MS ? ns : 10 * MS;
		pac_tick(pac, clock_ns);
	}
	ok(ndirty() == 0 && runs < 1000, "all go (in %u runs)", runs);
	ok(PAGE > 4096 || (c->npurged > 0 && atomic_load_zu(&c->count, MO_RELAXED) < 2 * EDATA_KEPT),
	    "so do their descriptors: %zu pages, %zu are left", c->npurged,
	    atomic_load_zu(&c->count, MO_RELAXED));
}

/* The first huge slab wakes the thread, which then looks each second. */
static void
test_serve_slabs(void) {
	pac_wake_hook = count_wake;
	nwakes = 0;
	start(-1, 0);
	opt_hpa = true;
	is_int(pac_hpa_init(pac, base_new()), 0, "a cache that may have slabs");
	is_uint(pac_serve(pac, clock_ns), UINT64_MAX, "no slabs: for ever");
	edata_t *first = pac_alloc(pac, PAGE, PAGE, false);
	ok(first->is_hpa && nwakes == 1, "the first wakes");
	is_uint(pac_serve(pac, clock_ns), 1000 * MS, "the thread looks each second");
	edata_t *next = pac_alloc(pac, PAGE, PAGE, false);
	ok(next->is_hpa && nwakes == 1, "the next extent does not wake");
	opt_hpa = false;
	pac_wake_hook = NULL;
}

/* The thread that serves looks while an extent is in nobody's place, and sleeps. */
static void
test_back_in_place(void) {
	edata_t *e, *in_hand = NULL;
	pac_wake_hook = count_wake;
	nwakes = 0;
	start(1000, 0);
	e = pac_alloc(pac, 20 * PAGE, PAGE, false);
	pac_dalloc(pac, e);
	is_uint(pac_hot_take(pac, 20 * PAGE, 20 * PAGE, PAGE, &in_hand, 1), 1, "a hot extent, in hand");
	ok(in_hand == e && e->state == extent_state_active, "is the one that was freed");
	is_uint(pac_serve(pac, clock_ns), UINT64_MAX, "nothing is seen of it");
	pac_put_unused(pac, e);
	pac_recheck_wake(pac);
	is_uint(nwakes, 1, "put back it wakes");
	pac_purge(pac, clock_ns, true);
	is_uint(pac_serve(pac, clock_ns), UINT64_MAX, "again");
	e = pac_alloc(pac, 21 * PAGE, PAGE, false);
	pac_dalloc(pac, e);
	is_uint(nwakes, 2, "what is freed to a stack wakes (%zu pages)", ndirty());
	pac_wake_hook = NULL;
}

/*
 * Nobody looks for a long time; then one look, and one after another decay time, clear everything.
 */
static void
test_sleep(void) {
	start(1000, 0);
	make_dirty(100);
	clock_ns += 6 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty(), 100, "young pages stay");
	clock_ns += 1000000 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty(), 0, "a long sleep later all are gone at the first look");
}

static void
test_never_and_at_once(void) {
	start(-1, -1);
	make_dirty(100);
	clock_ns += UINT64_C(1000000000) * MS;
	pac_tick(pac, clock_ns);
	pac_purge(pac, clock_ns, false);
	is_uint(ndirty(), 100, "-1: pages stay for ever");
	pac_purge(pac, clock_ns, true);
	is_uint(ndirty(), 0, "but for an explicit purge");
	is_uint(nmuzzy(), 0, "which does not stop at muzzy");
	start(0, 0);
	make_dirty(100);
	is_uint(ndirty() + nmuzzy(), 0, "0: nothing waits");
	is_uint(sys.dontneed, 100 * PAGE, "all was given to the system");
	start(0, 1000);
	make_dirty(100);
	is_uint(ndirty(), 0, "0 and later");
	is_uint(nmuzzy(), 100, "the pages are muzzy");
}

static void
test_muzzy(void) {
	start(1000, 2000);
	make_dirty(200);
	clock_ns += 10 * MS;
	pac_tick(pac, clock_ns);
	clock_ns += 1005 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty(), 0, "after the first decay time nothing is dirty");
	is_uint(nmuzzy(), 200, "all is muzzy");
	is_uint(sys.freed, 200 * PAGE, "the system may take it");
	is_uint(sys.dontneed, 0, "and has not to");
	edata_t *e = pac_alloc(pac, PAGE, PAGE, true);
	ok(is_filled(e->addr, 0, PAGE), "a muzzy page is zeroed when asked");
	is_uint(nmuzzy(), 199, "it is taken before new ones");
	pac_dalloc(pac, e);
	clock_ns += 20 * MS;
	pac_tick(pac, clock_ns);
	clock_ns += 4020 * MS;
	pac_tick(pac, clock_ns);
	clock_ns += 4020 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty() + nmuzzy(), 0, "after the second nothing is left");
	is_uint(sys.dontneed, 200 * PAGE, "all was given to the system");
}

static void
test_change(void) {
	start(1000, 0);
	make_dirty(100);
	is_int(pac_decay_ms_set(pac, &pac->decay_dirty, -2, clock_ns), EINVAL, "-2 is no decay time");
	is_int(pac_decay_ms_set(pac, &pac->decay_dirty, -1, clock_ns), 0, "from 1000 to -1");
	clock_ns += 5000 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty(), 100, "they stay");
	is_int(pac_decay_ms_set(pac, &pac->decay_dirty, 500, clock_ns), 0, "from -1 to 500");
	pac_tick(pac, clock_ns);
	is_uint(ndirty(), 100, "what is unused starts to decay afresh");
	clock_ns += 3 * MS;
	pac_tick(pac, clock_ns);
	clock_ns += 500 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty(), 0, "and goes in that time");
	make_dirty(10);
	is_int(pac_decay_ms_set(pac, &pac->decay_dirty, 0, clock_ns), 0, "to 0");
	is_uint(ndirty(), 0, "purges at once");
}

static void
test_no_retain(void) {
	static edata_t *got[100];
	uint64_t seed = 31;
	unsigned bad = 0;
	size_t asked = 0;
	opt_retain = false;
	start(1000, 0);
	for (unsigned i = 0; i < 100; i++) {
		size_t size = (1 + draw_below(&seed, 50)) * PAGE;
		size_t alignment = draw_below(&seed, 4) == 0 ? PAGE << draw_below(&seed, 7) : PAGE;
		got[i] = pac_alloc(pac, size, alignment, false);
		bad += wrong_if(got[i] == NULL)
		    || wrong_if(((uintptr_t)got[i]->addr & (alignment - 1)) != 0);
		asked += size;
	}
	is_uint(bad, 0, "no retaining: 100 extents");
	is_uint(nretained(), 0, "nothing is mapped beyond them");
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), asked, "mapped: just these");
	for (unsigned i = 0; i < 100; i++) {
		pac_dalloc(pac, got[i]);
	}
	size_t before = sys.unmapped;
	sys.fail_munmap = true;
	clock_ns += 10 * MS;
	pac_tick(pac, clock_ns);
	pac_purge(pac, clock_ns, true);
	is_uint(nretained() * PAGE, asked, "munmap fails: the address space is kept");
	is_uint(sys.dontneed, asked, "without its pages");
	sys.fail_munmap = false;
	edata_t *e = pac_alloc(pac, 5 * PAGE, PAGE, true);
	ok(is_filled(e->addr, 0, 5 * PAGE), "and serves again, zeroed");
	is_uint(nretained() * PAGE, asked - 5 * PAGE, "from what was kept");
	pac_dalloc(pac, e);
	pac_purge(pac, clock_ns, true);
	is_uint(sys.unmapped - before, 5 * PAGE, "munmap works again: it is unmapped");
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), 0, "nothing is mapped");
	opt_retain = true;
}

static void
test_no_madvise(void) {
	start(1000, 1000);
	sys.fail_madvise = true;
	edata_t *e = pac_alloc(pac, 20 * PAGE, PAGE, false);
	memset(e->addr, 'x', 20 * PAGE);
	pac_dalloc(pac, e);
	pac_purge(pac, clock_ns, true);
	is_uint(ndirty() + nmuzzy(), 0, "madvise fails: pages leave the cache nevertheless");
	e = pac_alloc(pac, 20 * PAGE, PAGE, true);
	ok(is_filled(e->addr, 0, 20 * PAGE), "and are zeroed by hand when they come back");
	sys.fail_madvise = false;
}

/* Random allocation, resizing in place and release, contents checked, counters recomputed. */
#define N_HELD 60
static struct {
	edata_t *e;
	unsigned char fill;
} held[N_HELD];
static size_t held_pages;

static unsigned
step_new(uint64_t *seed, unsigned k) {
	size_t size = (1 + draw_below(seed, 40)) * PAGE;
	size_t alignment = draw_below(seed, 4) == 0 ? PAGE << draw_below(seed, 6) : PAGE;
	bool zero = draw_below(seed, 2) == 0;
	edata_t *e = pac_alloc(pac, size, alignment, zero);
	unsigned bad = e->size != size || ((uintptr_t)e->addr & (alignment - 1)) != 0;
	bad += zero && !is_filled(e->addr, 0, size);
	held[k].e = e;
	held[k].fill = (unsigned char)(1 + draw_below(seed, 255));
	memset(e->addr, held[k].fill, size);
	held_pages += size / PAGE;
	return bad;
}

static unsigned
step_resize(uint64_t *seed, unsigned k) {
	edata_t *e = held[k].e;
	size_t old = e->size, size = (1 + draw_below(seed, 60)) * PAGE;
	bool zero = draw_below(seed, 2) == 0;
	int err = size > old ? pac_expand(pac, e, size, zero) : size < old ? pac_shrink(pac, e, size)
	    : 0;
	if (err != 0) {
		return e->size != old || err != ENOMEM;
	}
	unsigned bad = e->size != size || !is_filled(e->addr, held[k].fill, min_zu(old, size));
	if (size > old) {
		bad += zero && !is_filled(e->addr + old, 0, size - old);
		memset(e->addr + old, held[k].fill, size - old);
	}
	held_pages += size / PAGE - old / PAGE;
	return bad;
}

static void
test_random_steps(bool retain) {
	uint64_t seed = 47;
	unsigned bad = 0, bad_counts = 0;
	opt_retain = retain;
	start(50, 30);
	held_pages = 0;
	for (unsigned i = 0; i < 8000; i++) {
		unsigned k = (unsigned)draw_below(&seed, N_HELD);
		clock_ns += draw_below(&seed, 2 * MS);
		if (held[k].e == NULL) {
			bad += step_new(&seed, k);
		} else if (draw_below(&seed, 2) == 0) {
			bad += step_resize(&seed, k);
		} else {
			bad += !is_filled(held[k].e->addr, held[k].fill, held[k].e->size);
			held_pages -= held[k].e->size / PAGE;
			pac_dalloc(pac, held[k].e);
			held[k].e = NULL;
		}
		if (i % 16 == 0) {
			pac_tick(pac, clock_ns);
		}
		bad_counts += atomic_load_zu(&pac->nactive, MO_RELAXED) != held_pages;
		bad_counts += atomic_load_zu(&pac->mapped, MO_RELAXED)
		    != (held_pages + ndirty() + nmuzzy()) * PAGE;
	}
	is_uint(bad, 0, "8000 random steps, retain %d: contents, sizes, zeros", retain);
	is_uint(bad_counts, 0, "active and mapped are exact all the time");
	for (unsigned k = 0; k < N_HELD; k++) {
		if (held[k].e != NULL) {
			pac_dalloc(pac, held[k].e);
			held[k].e = NULL;
		}
	}
	pac_purge(pac, clock_ns, true);
	is_uint(atomic_load_zu(&pac->nactive, MO_RELAXED), 0, "in the end nothing is active");
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), 0, "nor mapped");
	opt_retain = true;
}

static unsigned n_maxima;

static void
on_maximum(void) {
	n_maxima++;
}

static void
test_maximum(void) {
	start(-1, -1);
	pac_new_maximum_hook = on_maximum;
	edata_t *a = pac_alloc(pac, 4096 * PAGE, PAGE, false);
	is_uint(n_maxima, 1, "a new maximum is told");
	pac_dalloc(pac, a);
	pac_purge(pac, clock_ns, true);
	a = pac_alloc(pac, 4000 * PAGE, PAGE, false);
	is_uint(n_maxima, 1, "less than that is none");
	edata_t *b = pac_alloc(pac, 500 * PAGE, PAGE, false);
	is_uint(n_maxima, 2, "more is");
	pac_dalloc(pac, b);
	b = pac_alloc(pac, 500 * PAGE, PAGE, false);
	is_uint(n_maxima, 2, "once");
	pac_new_maximum_hook = NULL;
	pac_dalloc(pac, a);
	pac_dalloc(pac, b);
}

#define MIB ((size_t)1 << 20)

static size_t
nactive(void) {
	return atomic_load_zu(&pac->nactive, MO_RELAXED);
}

static size_t
nhot(void) {
	return atomic_load_zu(&pac->hot_npages, MO_RELAXED);
}

/* By bytes: never more than the peak, never more than half beside what is in use, or the least. */
static void
test_bound(void) {
	edata_t *e[20];
	uint64_t seed = 91;
	unsigned bad = 0;
	start(1000, 0);
	pac_bound(pac, 8 * MIB);
	for (unsigned i = 0; i < 10; i++) {
		e[i] = pac_alloc(pac, 10 * MIB, PAC_GRAIN, false);
	}
	pac_dalloc(pac, e[0]);
	is_uint(ndirty() * PAGE, 10 * MIB, "one of ten unused: it stays");
	is_uint(nhot() * PAGE, 10 * MIB, "hot");
	ok((e[0] = pac_alloc(pac, 10 * MIB, PAC_GRAIN, false)) != NULL && nhot() == 0,
	    "it is used again, whole");
	is_uint(ecache_npages(&pac->dirty) + nactive(), 100 * MIB / PAGE, "and nothing else");
	pac_dalloc(pac, e[0]);
	pac_dalloc(pac, pac_alloc(pac, 10 * MIB - PAC_GRAIN, PAC_GRAIN, false));
	is_uint(ndirty() * PAGE, 10 * MIB, "another size takes its pages");
	is_uint(nhot() * PAGE, 10 * MIB - PAC_GRAIN, "and is hot in its place");
	for (unsigned i = 1; i < 9; i++) {
		pac_dalloc(pac, e[i]);
		bad += ndirty() > max_zu(nactive() / 2, 8 * MIB / PAGE);
	}
	is_uint(bad, 0, "nine unused: half of what is in use, or the least");
	ok(nhot() * PAGE <= 8 * MIB, "hot or not");
	is_uint(ndirty() * PAGE, 8 * MIB, "the least in the end");
	is_uint(sys.dontneed, 82 * MIB, "the rest was given back, no more");
	e[0] = pac_alloc(pac, 10 * MIB, PAC_GRAIN, false);
	is_uint(ndirty(), 0, "ten again: all that is unused is in it");
	pac_dalloc(pac, e[0]);
	pac_dalloc(pac, e[9]);
	is_uint(ndirty() * PAGE, 8 * MIB, "nothing in use: the least");
	clock_ns += 6 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty() * PAGE, 8 * MIB, "a moment later too");
	clock_ns += 1005 * MS;
	pac_tick(pac, clock_ns);
	is_uint(ndirty(), 0, "after the decay time nothing");
	memset(e, 0, sizeof(e));
	for (unsigned i = 0; i < 500; i++) {
		unsigned k = (unsigned)draw_below(&seed, ARRAY_LEN(e));
		if (e[k] != NULL) {
			pac_dalloc(pac, e[k]);
		}
		e[k] = pac_alloc(pac, (16 + draw_below(&seed, 64)) * PAC_GRAIN, PAC_GRAIN, false);
		size_t peak = atomic_load_zu(&pac->npeak, MO_RELAXED);
		bad += wrong_if(nactive() + ndirty() > peak)
		    || wrong_if(ndirty() > max_zu(nactive() / 2, 8 * MIB / PAGE));
		bad += !is_aligned((uintptr_t)e[k]->addr, PAC_GRAIN);
		bad += atomic_load_zu(&pac->mapped, MO_RELAXED) != (nactive() + ndirty()) * PAGE;
	}
	is_uint(bad, 0, "500 random steps: never above the peak");
	pac_bound(pac, 0);
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		pac_dalloc(pac, e[i]);
	}
	ok(ndirty() * PAGE > 8 * MIB, "unbounded again: more stays");
}

/* Two caches: what one of them keeps goes as the other one grows. */
static void
test_yield(void) {
	edata_t *e[256];
	start(10000, 0);
	pac_t *large = pac;
	pac_bound(large, 64 * MIB);
	pac_yields(large);
	start(10000, 0);
	/* Beyond what the tests before have reached, in every state of the count. */
	edata_t *most = pac_alloc(large, (size_t)4 << 30, PAC_GRAIN, false);
	pac_dalloc(large, pac_alloc(large, 32 * MIB, PAC_GRAIN, false));
	is_uint(pac_ndirty(large) * PAGE, 32 * MIB, "32 MiB are kept");
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		e[i] = pac_alloc(pac, 4 * PAC_GRAIN, PAGE, false);
	}
	size_t kept = pac_ndirty(large) * PAGE;
	is_uint(kept, 0, "64 MiB elsewhere: none is");
	pac_dalloc(large, pac_alloc(large, 32 * MIB, PAC_GRAIN, false));
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		pac_dalloc(pac, e[i]);
		e[i] = pac_alloc(pac, 4 * PAC_GRAIN, PAGE, false);
	}
	is_uint(pac_ndirty(large) * PAGE, 32 * MIB, "without growth it stays");
	pac_alloc(pac, PAC_GRAIN, PAGE, false);
	is_uint(pac_ndirty(large) * PAGE, 32 * MIB - PAC_YIELD, "a little growth takes a little");
	pac_yields(NULL);
	pac_dalloc(large, most);
}

/* In any cache: a large request that needs new pages drives out unused ones. */
static void
test_exchange(void) {
	edata_t *e[16];
	start(1000, 0);
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		e[i] = pac_alloc(pac, 2 * MIB, PAGE, false);
	}
	for (unsigned i = 0; i < ARRAY_LEN(e); i += 2) {
		pac_dalloc(pac, e[i]);
	}
	clock_ns += 6 * MS;
	pac_tick(pac, clock_ns); /* what was hot is plain dirty */
	is_uint(ndirty() * PAGE, 16 * MIB, "every other one is unused");
	edata_t *small = pac_alloc(pac, 16 * PAGE, PAGE, false), *large = pac_alloc(pac, 10 * MIB, PAGE,
	    false);
	is_uint((nactive() + ndirty()) * PAGE, 40 * MIB,
	    "a large one beside them: no more than a quarter above the peak");
	ok(sys.dontneed >= 2 * MIB && sys.dontneed < 3 * MIB, "as much was given back (%zu)",
	    sys.dontneed);
	pac_dalloc(pac, small);
	pac_dalloc(pac, large);
	for (unsigned i = 1; i < ARRAY_LEN(e); i += 2) {
		pac_dalloc(pac, e[i]);
	}
}

/* n requests that no unused extent fits; returns the pages that are given back meanwhile. */
static size_t
trade(size_t npages, unsigned n) {
	size_t before = sys.dontneed;
	for (unsigned i = 0; i < n; i++) {
		pac_alloc(pac, npages * PAGE, PAGE, false);
	}
	return (sys.dontneed - before) / PAGE;
}

/*
 * Small requests that need new pages drive out the oldest unused ones as soon as those exceed the
 * peak of what is in use by more than a part of it; a part of the peak in each epoch of the decay.
 */
static void
test_trade(void) {
	enum { N = 8192, PAGES = 4 };
	static edata_t *e[N];
	const size_t part = N * PAGES / PAC_TRADE_SHARE;
	const unsigned more = (unsigned)(max_zu(part, PAC_TRADE_MIN / PAGE) / (2 * PAGES));
	for (int is_endless = 0; is_endless < 2; is_endless++) {
		start(is_endless ? -1 : 10000, 0);
		for (unsigned i = 0; i < N; i++) {
			e[i] = pac_alloc(pac, PAGES * PAGE, PAGE, false);
		}
		for (unsigned i = 0; i < N; i += 4) {
			pac_dalloc(pac, e[i]);
		}
		clock_ns += 60 * MS;
		pac_tick(pac, clock_ns);
		is_uint(ndirty(), N * PAGES / 4, "every fourth extent is unused");
		is_uint(trade(2 * PAGES, more), 0, "new pages up to a part above the peak");
		size_t gone = trade(2 * PAGES, 100);
		if (is_endless) {
			is_uint(gone, 0, "decay time -1: nothing goes");
			continue;
		}
		ok(gone >= part && gone < part + PAGES, "beyond it the oldest go: %zu pages", gone);
		is_uint(trade(2 * PAGES, 100), 0, "no more in this epoch");
		clock_ns += 50 * MS;
		pac_tick(pac, clock_ns);
		gone = trade(2 * PAGES, 100);
		ok(gone >= part && gone < part + PAGES, "as many in the next: %zu pages", gone);
	}
}

/*
 * A small request breaks up a large unused piece only where much lies unused beside what is in use.
 */
static void
test_plenty(void) {
	start(1000, 0);
	edata_t *spare = pac_alloc(pac, 16 * MIB, PAGE, false), *rest = pac_alloc(pac, 256 * MIB, PAGE,
	    false);
	char *from = spare->addr, *to = edata_end(spare);
	pac_dalloc(pac, spare);
	clock_ns += 6 * MS;
	pac_tick(pac, clock_ns); /* what was hot is plain dirty */
	edata_t *e = pac_alloc(pac, PAGE, PAGE, false);
	ok(e->addr < from || e->addr >= to, "16 MiB unused beside 256 in use: a page is new");
	is_uint(ndirty() * PAGE, 16 * MIB, "and the large piece is whole");
	ok(pac_shrink(pac, rest, 64 * MIB) == 0, "192 MiB more are unused");
	pac_purge(pac, clock_ns, true);
	spare = pac_alloc(pac, 16 * MIB, PAGE, false);
	from = spare->addr;
	to = edata_end(spare);
	pac_dalloc(pac, spare);
	clock_ns += 6 * MS;
	pac_tick(pac, clock_ns);
	edata_t *f = pac_alloc(pac, PAGE, PAGE, false);
	ok(f->addr >= from && f->addr < to, "16 MiB unused beside 64 in use: a page is taken from "
	    "them");
	pac_dalloc(pac, e);
	pac_dalloc(pac, f);
	pac_dalloc(pac, rest);
}

/* Who grows finds what was freed behind it just now: in a hot slot, or in several pieces. */
static void
test_grow_into_hot(void) {
	unsigned moved = 0;
	start(10000, 0);
	edata_t *e = pac_alloc(pac, 128 * PAGE, PAGE, false), *behind[4];
	for (unsigned i = 0; i < 200; i++) {
		size_t size = (2 + i % 100) * PAGE;
		moved += wrong_if(pac_shrink(pac, e, size) != 0)
		    || wrong_if(pac_expand(pac, e, (size / PAGE + 1 + i % 7) * PAGE, false) != 0);
		moved += pac_expand(pac, e, 128 * PAGE, false) != 0;
	}
	is_uint(moved, 0, "200 times it is cut and grows again in two steps");
	is_uint(ndirty(), 0, "all of the tail is in use");
	start(10000, 0);
	e = pac_alloc(pac, 2 * PAGE, PAGE, false);
	for (unsigned i = 0; i < 4; i++) {
		behind[i] = pac_alloc(pac, (9 - 2 * i) * PAGE, PAGE, false);
		moved += behind[i]->addr != edata_end(i == 0 ? e : behind[i - 1]);
	}
	is_uint(moved, 0, "four extents in a row behind another");
	for (unsigned i = 0; i < 3; i++) {
		pac_dalloc(pac, behind[i]);
	}
	is_int(pac_expand(pac, e, 24 * PAGE, false), ENOMEM,
	    "three are freed: it does not grow into what is in use");
	is_uint(ndirty(), 21, "which leaves the rest where it is");
	is_int(pac_expand(pac, e, 23 * PAGE, false), 0, "but up to it");
	pac_dalloc(pac, behind[3]);
	pac_dalloc(pac, e);
}

#define QUARTER (MIB / 4)

/* What is above the bound goes back to the system, not only to the muzzy pages. */
static void
test_bound_with_muzzy(void) {
	edata_t *e[25];
	for (int is_bound_later = 0; is_bound_later < 2; is_bound_later++) {
		start(1000, 1000);
		if (!is_bound_later) {
			pac_bound(pac, QUARTER);
		}
		for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
			e[i] = pac_alloc(pac, QUARTER, PAC_GRAIN, false);
		}
		for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
			pac_dalloc(pac, e[i]);
		}
		clock_ns += 10 * MS;
		pac_tick(pac, clock_ns);
		if (is_bound_later) {
			clock_ns += 1005 * MS;
			pac_tick(pac, clock_ns);
			ok(nmuzzy() * PAGE > 12 * QUARTER, "by time all becomes muzzy");
			pac_bound(pac, QUARTER);
		}
		ok((ndirty() + nmuzzy()) * PAGE <= QUARTER, "all is freed: no more stays than the bound");
		clock_ns += 1005 * MS;
		pac_tick(pac, clock_ns);
		is_uint(ndirty() + nmuzzy(), 0, "after the dirty pages' time nothing");
		is_uint(sys.dontneed, 25 * QUARTER, "all of it was given back");
	}
	start(1000, -1);
	pac_bound(pac, QUARTER);
	e[0] = pac_alloc(pac, 4 * QUARTER, PAC_GRAIN, false);
	pac_dalloc(pac, e[0]);
	is_uint((ndirty() + nmuzzy()) * PAGE, 4 * QUARTER, "-1: muzzy pages stay as they always do");
}

/* The system has no more: the largest go first, and no more than is wanted. */
static void
test_relieve(void) {
	edata_t *e[8], *far;
	start(10000, 0);
	opt_retain = true;
	far = pac_alloc(pac, 16 * MIB, PAGE, false);
	pac_dalloc(pac, far);
	pac_purge(pac, clock_ns, true);
	far = pac_alloc(pac, 16 * MIB - 16 * PAC_GRAIN, PAGE, false);
	for (unsigned i = 0; i < 8; i++) {
		e[i] = pac_alloc(pac, (i % 2 == 0 ? i + 2 : 1) * PAC_GRAIN, PAGE, false);
	}
	size_t kept = nretained() * PAGE;
	for (unsigned i = 0; i < 8; i += 2) {
		pac_dalloc(pac, e[i]);
	}
	is_uint(pac_relievable(pac), kept + 20 * PAC_GRAIN, "what is unused, and kept address space");
	sys.unmapped = 0;
	is_uint(pac_relieve(pac, PAC_GRAIN, NULL), PAC_GRAIN, "a little is wanted");
	is_uint(sys.unmapped, PAC_GRAIN, "no more goes");
	is_uint(pac_relieve(pac, kept, NULL), kept, "kept address space goes");
	ok(nretained() == 0 && ndirty() * PAGE == 19 * PAC_GRAIN, "first");
	pac_decay_t *d = &pac->decay_dirty;
	uint64_t npurge = atomic_load_u64(&d->npurge, MO_RELAXED);
	uint64_t purged = atomic_load_u64(&d->purged, MO_RELAXED);
	is_uint(pac_relieve(pac, 8 * PAC_GRAIN, NULL), 8 * PAC_GRAIN, "then dirty pages");
	is_uint(ndirty() * PAGE, 11 * PAC_GRAIN, "as many as are wanted");
	is_uint(atomic_load_u64(&d->npurge, MO_RELAXED) - npurge, 1, "which is one purge");
	is_uint((atomic_load_u64(&d->purged, MO_RELAXED) - purged) * PAGE, 8 * PAC_GRAIN,
	    "of so many pages");
	ok(ecache_take_at(&pac->src, &pac->dirty, e[0]->addr, 2 * PAC_GRAIN) != NULL,
	    "of the largest: a small one is whole");
	sys.fail_munmap = true;
	size_t had = pac_relievable(pac);
	is_uint(pac_relieve(pac, SIZE_MAX, NULL), 0, "what the system does not take");
	is_uint(pac_relievable(pac), had, "stays");
	sys.fail_munmap = false;
}

#define SLAB_PIECE (64 << 10)

/* Empty slabs go as address space also when nobody may wait; pages of slabs in use do not. */
static void
test_relieve_slabs(bool may_wait) {
	static edata_t *e[10 * HSLAB_SIZE / SLAB_PIECE];
	const char *text = may_wait ? "waiting" : "not waiting";
	bool was_busy = false, *wait = may_wait ? NULL : &was_busy;
	start(10000, 0);
	opt_hpa = true;
	opt_retain = true;
	is_int(pac_hpa_init(pac, base_new()), 0, "slabs");
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		e[i] = pac_alloc(pac, SLAB_PIECE, PAGE, false);
		memset(e[i]->addr, 1, e[i]->size);
	}
	is_uint(atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED), 10, "ten slabs");
	for (unsigned i = 1; i < ARRAY_LEN(e); i++) {
		pac_dalloc(pac, e[i]);
	}
	is_uint(atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED), 10, "nine of them are empty");
	size_t partly = HSLAB_SIZE - e[0]->size;
	sys.unmapped = sys.dontneed = 0;
	is_uint(pac_relieve(pac, PAGE, wait) != 0, true, "%s: a little is wanted", text);
	is_uint(pac_hpa_nidle(pac) * PAGE, partly, "%s: a slab in use keeps its pages", text);
	pac_relieve(pac, 64 * MIB, wait);
	ok(!was_busy, "%s: no thread is in a pass", text);
	is_uint(atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED), 1, "%s: the empty slabs go", text);
	ok(sys.unmapped >= 9 * HSLAB_SIZE, "%s: to the system", text);
	opt_hpa = false;
}

/* A system that lacks memory wants more than the slabs have: it gets what they have. */
static void
test_relieve_many_slabs(void) {
	static edata_t *e[20 * MIB / SLAB_PIECE];
	start(10000, 0);
	opt_hpa = true;
	is_int(pac_hpa_init(pac, base_new()), 0, "slabs again");
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		e[i] = pac_alloc(pac, SLAB_PIECE, PAGE, false);
	}
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		pac_dalloc(pac, e[i]);
	}
	bool was_busy = false;
	pac_decay_t *d = &pac->decay_dirty;
	is_int(pac_pass_begin(d, true), 0, "a pass");
	is_uint(pac_relieve(pac, 64 * MIB, &was_busy), 0, "nothing goes during it");
	ok(was_busy, "and the caller is told");
	pac_pass_end(d);
	was_busy = false;
	pac_relieve(pac, 64 * MIB, &was_busy);
	ok(!was_busy, "not after it");
	is_uint(atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED), 0, "all slabs go at the first try");
	opt_hpa = false;
}

/* A dirty decay time of 0: what the extent caches and empty slabs have goes without a tick. */
static void
test_slabs_at_once(void) {
	static edata_t *e[36 * MIB / SLAB_PIECE];
	start(10000, 0);
	opt_hpa = true;
	is_int(pac_hpa_init(pac, base_new()), 0, "slabs for a change of the decay time");
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		e[i] = pac_alloc(pac, i % 2 == 0 ? SLAB_PIECE : PAGE, PAGE, false);
	}
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		pac_dalloc(pac, e[i]);
	}
	pac_decay_ms_set(pac, &pac->decay_muzzy, 0, clock_ns);
	ok(pac_hpa_nidle(pac) > 0, "what is not muzzy stays");
	pac_decay_ms_set(pac, &pac->decay_dirty, 0, clock_ns);
	is_uint(pac_hpa_nidle(pac), 0, "with 0 no page of them stays in memory");
	is_uint(atomic_load_zu(&pac->hpa->nslabs, MO_RELAXED), 0, "nor a slab");
	opt_hpa = false;
}

/* A purge down to a number of pages: the oldest go, the last extent in part. */
static void
test_purge_oldest(void) {
	edata_t *e[3];
	start(1000, 1000);
	for (unsigned i = 0; i < 3; i++) {
		e[i] = pac_alloc(pac, 2 * MIB, PAGE, false);
		pac_alloc(pac, PAGE, PAGE, false);
	}
	for (unsigned i = 0; i < 3; i++) {
		pac_dalloc(pac, e[i]);
	}
	pac_purge_oldest(pac, 6 * MIB / PAGE);
	is_uint(ndirty() * PAGE, 6 * MIB, "as many as are there may stay");
	pac_purge_oldest(pac, 3 * MIB / PAGE);
	is_uint(ndirty() * PAGE, 3 * MIB, "so many stay");
	is_uint(sys.dontneed, 3 * MIB, "the others went to the system at once");
	is_uint(nmuzzy(), 0, "and are not muzzy");
	pac_purge_oldest(pac, 0);
	is_uint(ndirty(), 0, "all go");
}

/*
 * A thread in a pass over dirty pages, with the mutex or without, until it is told to end it or has
 * waited so long.
 */
static struct {
	bool with_mutex;
	uint64_t patience_ns;
	sem_t is_begun, is_over;
	bool has_waited; /* nobody told */
} passing;

static void *
be_in_pass(void *arg) {
	pac_decay_t *d = &pac->decay_dirty;
	struct timespec until;
	if (passing.with_mutex) {
		pac_pass_lock(d, true);
	} else {
		pac_pass_begin(d, true);
	}
	sem_post(&passing.is_begun);
	clock_gettime(CLOCK_REALTIME, &until);
	uint64_t ns = (uint64_t)until.tv_nsec + passing.patience_ns;
	until.tv_sec += (time_t)(ns / NSTIME_PER_SEC);
	until.tv_nsec = (long)(ns % NSTIME_PER_SEC);
	passing.has_waited = sem_timedwait(&passing.is_over, &until) != 0;
	if (passing.with_mutex) {
		pac_pass_unlock(d);
	} else {
		pac_pass_end(d);
	}
	return arg;
}

/* Another thread begins a pass; end_other() tells it to end it, and waits for that. */
static pthread_t
begin_other(bool with_mutex, uint64_t patience_ns) {
	pthread_t t;
	passing.with_mutex = with_mutex;
	passing.patience_ns = patience_ns;
	sem_init(&passing.is_begun, 0, 0);
	sem_init(&passing.is_over, 0, 0);
	pthread_create(&t, NULL, be_in_pass, NULL);
	sem_wait(&passing.is_begun);
	return t;
}

static void
end_other(pthread_t t) {
	sem_post(&passing.is_over);
	pthread_join(t, NULL);
}

/* Starts a cache that has unused pages: eight in separate places, or those of two huge slabs. */
static void
start_unused(bool is_huge) {
	static edata_t *e[2 * HSLAB_SIZE / SLAB_PIECE];
	start(1000, 0);
	opt_hpa = is_huge;
	opt_retain = !is_huge; /* bytes of slabs count as given back if they are unmapped */
	if (!is_huge) {
		make_dirty(8);
		pac_hot_flush(pac);
		clock_ns += 10 * NSTIME_PER_MSEC;
		pac_tick(pac, clock_ns);
		return;
	}
	is_int(pac_hpa_init(pac, base_new()), 0, "huge slabs");
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		e[i] = pac_alloc(pac, SLAB_PIECE, PAGE, false);
	}
	for (unsigned i = 0; i < ARRAY_LEN(e); i++) {
		pac_dalloc(pac, e[i]);
	}
	pac_hot_flush(pac);
}

/* Work that is not asked for by a user does not wait for a thread that does the same. */
static void
test_passed_over(bool is_huge, bool with_mutex) {
	bool was_busy = false;
	start_unused(is_huge);
	size_t idle = pac_nidle(pac);
	is_uint(idle, is_huge ? 2 * HSLAB_NPAGES : 8, "pages that will be due");
	pthread_t t = begin_other(with_mutex, 100 * NSTIME_PER_SEC);
	clock_ns += 5000 * NSTIME_PER_MSEC;
	is_uint(pac_serve(pac, clock_ns), NSTIME_PER_SEC / 10, "a background thread comes again soon");
	pac_tick(pac, clock_ns);
	is_uint(pac_nidle(pac), idle, "a heartbeat purges nothing");
	pac_purge_oldest(pac, 0);
	is_uint(pac_nidle(pac), idle, "nor does one with too many pages");
	is_uint(pac_relieve(pac, PAGE, &was_busy), 0, "nothing goes back for another arena");
	ok(was_busy, "which hears why");
	end_other(t);
	ok(!passing.has_waited, "none of them has waited, %s mutex, %s slabs",
	    with_mutex ? "with a" : "without", is_huge ? "with" : "without");
	pac_tick(pac, clock_ns);
	is_uint(pac_nidle(pac), 0, "then all is done");
	opt_hpa = false;
	opt_retain = true;
}

static void
ask_relieve(void) {
	pac_relieve(pac, 64 * MIB, NULL);
}

static void
ask_purge(void) {
	pac_purge(pac, clock_ns, true);
}

static void
ask_at_once(void) {
	pac_decay_ms_set(pac, &pac->decay_dirty, 0, clock_ns);
}

static void
ask_bound(void) {
	pac_bound(pac, PAGE);
}

/* Work that a user asks for waits until the other thread is done, and then does it all. */
static void
test_waited_for(bool is_huge, bool with_mutex) {
	/* A bound lets slabs go, but not the last pages that are unused. */
	static void (*const asks[])(void) = {ask_relieve, ask_purge, ask_at_once, ask_bound};
	for (unsigned i = 0; i < ARRAY_LEN(asks) - !is_huge; i++) {
		start_unused(is_huge);
		pthread_t t = begin_other(with_mutex, 20 * NSTIME_PER_MSEC);
		asks[i]();
		is_uint(pac_nidle(pac), 0, "asked in way %u, %s mutex, %s slabs: all is done", i,
		    with_mutex ? "with a" : "without", is_huge ? "with" : "without");
		end_other(t);
	}
	opt_hpa = false;
	opt_retain = true;
}

static void
body(void) {
	opt_populate = false; /* pages are counted here one by one; test/unit/ahead.c has runs */
	pages_can_purge_forced(); /* asks the system once */
	hooks = os_hooks_real;
	hooks.madvise = count_madvise;
	hooks.munmap = count_munmap;
	os_hooks = &hooks;
	nstime_now_hook = read_clock;
	test_curve();
	for (unsigned i = 0; i < 4; i++) {
		test_passed_over(i >= 2, i % 2 == 0);
		test_waited_for(i >= 2, i % 2 == 0);
	}
	test_serve();
	test_serve_at_once();
	test_serve_slabs();
	test_back_in_place();
	test_sleep();
	test_never_and_at_once();
	test_muzzy();
	test_bound_with_muzzy();
	test_change();
	test_no_retain();
	test_no_madvise();
	test_random_steps(true);
	test_random_steps(false);
	test_maximum();
	test_bound();
	test_yield();
	test_exchange();
	test_trade();
	test_plenty();
	test_grow_into_hot();
	test_relieve();
	test_relieve_slabs(true);
	test_relieve_slabs(false);
	test_relieve_many_slabs();
	test_slabs_at_once();
	test_purge_oldest();
	test_passes_at_once();
	test_serve_spare();
	os_hooks = &os_hooks_real;
	nstime_now_hook = NULL;
}

static bool
can_read(const char *addr) {
	int fd = memfd_create("to", MFD_CLOEXEC);
	bool can = write(fd, addr, 1) == 1;
	close(fd);
	return can;
}

static edata_t *
serve_plain(void) {
	return pac_alloc(pac, 64 * PAGE, PAGE, false);
}

static edata_t *
serve_roomy(void) {
	edata_t *e = pac_alloc_new(pac, 64 * PAGE, 16 * PAGE, PAGE);
	if (e != NULL)
		pac_leave_room(pac, e, 64 * PAGE);
	return e;
}

static edata_t *
serve_guarded(void) {
	return pac_alloc_guarded(pac, 64 * PAGE, PAGE, false);
}

static edata_t *
serve_longer(void) {
	edata_t *e = pac_alloc(pac, PAGE, PAGE, false);
	return pac_expand(pac, e, 64 * PAGE, false) == 0 ? e : NULL;
}

/* A dirty part and the retained one behind it. */
static edata_t *
serve_joined(void) {
	edata_t *front = pac_alloc(pac, JOIN_MIN, PAGE, false);
	char *addr = front->addr;
	pac_dalloc(pac, front);
	pac_hot_flush(pac);
	edata_t *e = pac_alloc(pac, JOIN_MIN + 64 * PAGE, PAGE, false);
	return e->addr == addr ? e : NULL;
}

/* Whatever takes address space that was kept without pages makes all of it memory again. */
static void
test_strict_ways(void) {
	static const struct {
		const char *name;
		edata_t *(*serve)(void);
	} ways[] = {{"a request", serve_plain}, {"one with room behind it", serve_roomy},
	    {"one with guards", serve_guarded}, {"growth in place", serve_longer},
	    {"a join", serve_joined}};
	for (unsigned i = 0; i < ARRAY_LEN(ways); i++) {
		start(-1, -1);
		edata_t *e = pac_alloc(pac, 16 * JOIN_MIN, PAGE, false);
		char *from = e->addr, *end = edata_end(e);
		pac_dalloc(pac, e);
		pac_purge(pac, clock_ns, true);
		bool was_kept = !can_read(from) && !can_read(end - 1);
		e = ways[i].serve();
		bool can = e != NULL && e->is_committed && e->addr >= from && edata_end(e) <= end;
		for (size_t at = 0; can && at < e->size; at += PAGE) {
			can = can_read(e->addr + at);
		}
		ok(was_kept && can, "%s has all its pages", ways[i].name);
		pac_dalloc(pac, e);
	}
}

/* What is kept of the address space is not counted there, and is whole when it serves again. */
static int
child_strict(void) {
	free(malloc(1));
	opt_populate = false;
	nstime_now_hook = read_clock;
	ok(pages_can_decommit(), "a system that counts pages");
	start(0, 0);
	edata_t *e = pac_alloc(pac, 5 * PAGE, PAGE, false);
	char *addr = e->addr;
	addr[0] = 1;
	pac_dalloc(pac, e);
	pac_purge(pac, clock_ns, true);
	ok(nretained() >= 5 && !can_read(addr), "kept, as address space alone");
	e = pac_alloc(pac, 5 * PAGE, PAGE, true);
	ok(e->is_committed && is_filled(e->addr, 0, 5 * PAGE), "committed when they serve again");
	pac_dalloc(pac, e);
	test_strict_ways();
	test_random_steps(true);
	test_random_steps(false);
	return done_testing();
}

int
main(int argc, char **argv) {
	return strict_run_all(argc, argv, child_strict, body);
}
