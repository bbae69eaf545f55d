/*
 * thread/tcache.h: exact byte counts under random use of the public functions, samples of the right
 * number and spacing for each class, growth, upkeep, small and large limits.
 */
#include "ctl.h"

#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <ucontext.h>

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "meta/freepool.h"
#include "os/gate.h"
#include "os/nstime.h"
#include "thread/quarantine.h"
#include "thread/shelter.h"
#include "thread/tcache.h"
#include "thread/tcache_budget.h"
#include "thread/tcache_set.h"
#include "thread/thread_event.h"
#include "thread/tsd.h"

static size_t
below(uint64_t *state, size_t n) {
	return (size_t)(test_random(state) % n);
}

/* ------------------------------------------------------------------ counting */

#define N_HELD 500

static struct {
	char *p;
	size_t size;
	unsigned char fill;
} held[N_HELD];

static uint64_t want_alloc, want_dalloc;
static unsigned by_hand;

/* The bytes of a block by all counts: those of its class also where less may be used. */
static size_t
class_bytes(const void *p) {
	return arena_usize(emap_elem(p));
}

static void
object_new(unsigned k, uint64_t *seed) {
	size_t kind = below(seed, 20);
	size_t size = below(seed, kind == 0 ? 300000 : kind < 3 ? 40000 : 1500);
	switch (below(seed, 7)) {
	case 0:
		held[k].p = keep(calloc(1, size));
		break;
	case 1:
		held[k].p = keep(aligned_alloc((size_t)1 << below(seed, 14), size));
		break;
	case 2:
		held[k].p = keep(mallocx(size + 1, MALLOCX_TCACHE(by_hand)));
		size++;
		break;
	case 3:
		held[k].p = keep(mallocx(size + 1, MALLOCX_TCACHE_NONE));
		size++;
		break;
	case 4:
		held[k].p = keep(mallocx(size + 1, MALLOCX_ARENA(0) | MALLOCX_ZERO));
		size++;
		break;
	default:
		held[k].p = keep(malloc(size));
		break;
	}
	held[k].size = size;
	held[k].fill = (unsigned char)below(seed, 256);
	memset(held[k].p, held[k].fill, size);
	want_alloc += class_bytes(held[k].p);
}

static unsigned
object_free(unsigned k, uint64_t *seed) {
	unsigned bad = !is_filled(held[k].p, held[k].fill, held[k].size);
	want_dalloc += class_bytes(held[k].p);
	switch (below(seed, 4)) {
	case 0:
		dallocx(held[k].p, MALLOCX_TCACHE(by_hand));
		break;
	case 1:
		dallocx(held[k].p, MALLOCX_TCACHE_NONE);
		break;
	default:
		free(held[k].p);
		break;
	}
	held[k].p = NULL;
	return bad;
}

static unsigned
object_resize(unsigned k, uint64_t *seed) {
	size_t size = 1 + below(seed, below(seed, 4) == 0 ? 200000 : 2000);
	size_t old = class_bytes(held[k].p);
	char *p = keep(realloc(held[k].p, size));
	size_t now = class_bytes(p);
	unsigned bad = p == NULL || !is_filled(p, held[k].fill, size < held[k].size ? size
	    : held[k].size);
	want_alloc += now;
	want_dalloc += old;
	held[k].p = p;
	held[k].size = size;
	memset(p, held[k].fill, size);
	return bad;
}

static unsigned
counts_differ(void) {
	tsd_t *tsd = tsd_enter();
	uint64_t a = tsd_allocated(tsd), d = tsd_deallocated(tsd);
	tsd_leave();
	return a != want_alloc || d != want_dalloc;
}

static void
count_from_now(void) {
	tsd_t *tsd = tsd_enter();
	want_alloc = tsd_allocated(tsd);
	want_dalloc = tsd_deallocated(tsd);
	tsd_leave();
}

static void
test_counts(const char *what, unsigned steps) {
	uint64_t seed = 77;
	unsigned bad = 0, bad_counts = 0;
	size_t len = sizeof(by_hand);
	mallctl("tcache.create", &by_hand, &len, NULL, 0);
	count_from_now();
	for (unsigned i = 0; i < steps; i++) {
		unsigned k = (unsigned)below(&seed, N_HELD);
		if (held[k].p == NULL) {
			object_new(k, &seed);
		} else if (below(&seed, 3) == 0) {
			bad += object_resize(k, &seed);
		} else {
			bad += object_free(k, &seed);
		}
		bad_counts += i % 37 == 0 ? counts_differ() : 0;
	}
	is_uint(bad, 0, "%s: %u random steps keep all contents", what, steps);
	is_uint(bad_counts, 0, "%s: allocated and deallocated are exact all the time", what);
	for (unsigned k = 0; k < N_HELD; k++) {
		bad += held[k].p != NULL ? object_free(k, &seed) : 0;
	}
	is_uint(bad_counts + counts_differ(), 0, "%s: and at the end", what);
	mallctl("tcache.destroy", NULL, NULL, &by_hand, sizeof(by_hand));
}

/* ------------------------------------------------------------------ samples */

/* The number of samples among n requests, each with probability p, within five deviations. */
static bool
is_likely(double got, double n, double p) {
	double mean = n * p, dev = sqrt(n * p * (1 - p)) + 1;
	return got > mean - 5 * dev && got < mean + 5 * dev;
}

/* The first request to an explicit cache after a change of the rate draws for all classes, once. */
static void
test_rate_by_hand(void) {
	tsd_t *tsd = tsd_enter();
	tcache_t *tc = tcache_new(tsd, tsd->arena, tcache_max_default, false);
	unsigned bad = 0;
	for (unsigned lg = 40; lg < 44; lg++) {
		uint64_t before = tsd->prng;
		tsd->sample_interval = (uint64_t)1 << lg;
		tcache_count_to_sample(tsd, tc, 1 + lg % 4);
		bad += wrong_if(tsd->prng == before) + wrong_if(tc->interval != tsd->sample_interval);
		before = tsd->prng;
		for (unsigned i = 0; i < 100; i++) {
			bad += tcache_count_to_sample(tsd, tc, 1 + i % 8);
		}
		bad += wrong_if(tsd->prng != before);
		for (unsigned s = 1; s < tc->nslots; s++) {
			bad += wrong_if(tc->cold[s].to_sample + tc->bins[s].countdown == 0);
		}
	}
	tsd->sample_interval = 0;
	tcache_count_to_sample(tsd, tc, 1);
	for (unsigned s = 1; s < tc->nslots; s++) {
		bad += wrong_if(tc->cold[s].to_sample != UINT64_MAX);
	}
	tcache_delete(tsd, tc);
	tsd_leave();
	is_uint(bad, 0, "a rate that changes is drawn by once, for all classes of an explicit cache");
}

static void
test_class_samples(size_t size, uint64_t interval, unsigned n) {
	tsd_t *tsd = tsd_enter();
	tsd->prng = size * 31 + interval;
	tsd->sample_interval = interval;
	tcache_t *tc = tcache_new(tsd, tsd->arena, tcache_max_default, false);
	unsigned slot = sz_s2i(size) + 1, samples = 0, gap = 0, ones = 0, gaps = 0;
	double p = 1 - exp(-(double)sz_s2u(size) / (double)interval), square = 0;
	for (unsigned i = 0; i < n; i++) {
		gap++;
		if (tcache_count_to_sample(tsd, tc, slot)) {
			samples++;
			ones += gap == 1;
			gaps += gap;
			square += (double)gap * gap;
			gap = 0;
		}
	}
	tcache_delete(tsd, tc);
	tsd->sample_interval = 0;
	tsd_leave();
	ok(is_likely(samples, n, p), "size %zu, interval %llu: %u samples of %u, expected %.0f", size,
	    (unsigned long long)interval, samples, n, n * p);
	ok(is_likely(ones, samples, p), "a sample right behind another: %u, expected %.1f", ones,
	    samples * p);
	/* Geometric: variance of the gap (1-p)/p^2. */
	double mean = gaps / (double)samples, var = square / samples - mean * mean;
	double want = (1 - p) / (p * p);
	ok(samples < 1000 || (var > want * 0.75 - 0.1 && var < want * 1.3 + 0.1),
	    "variance of the gaps %.1f, expected %.1f", var, want);
}

static void
test_samples(void) {
	test_class_samples(8, 4096, 3000000);
	test_class_samples(64, 4096, 1000000);
	test_class_samples(64, 524288, 8000000);
	test_class_samples(1024, 2048, 300000);
	test_class_samples(14336, 4096, 100000);
	test_class_samples(14336, 524288, 400000);
	test_class_samples(100, 1, 1000);
	test_rate_by_hand();
}

/* ------------------------------------------------------------------ stacks */

static size_t
cached_of(tsd_t *tsd, size_t size) {
	unsigned slot = sz_s2i(size) + 1;
	cache_bin_t *b = &tsd->tcache->bins[slot];
	tcache_cold_t *c = &tsd->tcache->cold[slot];
	return (size_t)(c->slots + c->nslots - b->head);
}

static void
test_growth_and_upkeep(void) {
	static void *p[1000];
	size_t size = 48, request = size - CANARY_BYTES;
	tsd_t *tsd = tsd_enter();
	tcache_enabled_set(tsd, false);
	tcache_enabled_set(tsd, true); /* a fresh one */
	tcache_flush(tsd, tsd->tcache);
	is_uint(tcache_cached_bytes(tsd->tcache), 0, "flushed: empty");
	tsd_leave();
	free(keep(malloc(request)));
	tsd = tsd_enter();
	tcache_cold_t *c = &tsd->tcache->cold[sz_s2i(size) + 1];
	tsd_leave();
	ok(c->nslots <= 8, "a stack begins small (%u)", c->nslots);
	for (unsigned i = 0; i < 1000; i++) {
		p[i] = keep(malloc(request));
	}
	for (unsigned i = 0; i < 1000; i++) {
		free(p[i]);
	}
	is_uint(c->nslots, c->max, "and grows to its limit, %u", c->max);
	is_uint(c->max, tcache_ncached_max_default(sz_s2i(size)), "which is the options'");
	tsd = tsd_enter();
	size_t before = cached_of(tsd, size);
	ok(before >= c->max / 8, "%zu objects are cached: an eighth stays at least", before);
	uint64_t allocated = tsd_allocated(tsd), deallocated = tsd_deallocated(tsd);
	for (unsigned i = 0; i < 40 * tsd->tcache->nslots; i++) {
		tcache_gc_step(tsd, tsd->tcache);
	}
	ok(cached_of(tsd, size) <= 2, "what is not used goes: %zu are left", cached_of(tsd, size));
	ok(tsd_allocated(tsd) == allocated && tsd_deallocated(tsd) == deallocated,
	    "without a change of counts");
	tsd_leave();
}

#define N_SWUNG 100

static uint64_t clock_now;

static uint64_t
read_clock(void) {
	return clock_now;
}

/* So many objects are taken and given back, in turn. */
static void
swing(unsigned rounds, size_t size) {
	static void *p[N_SWUNG];
	for (unsigned r = 0; r < rounds; r++) {
		for (unsigned i = 0; i < N_SWUNG; i++) {
			p[i] = keep(malloc(size));
		}
		for (unsigned i = 0; i < N_SWUNG; i++) {
			free(p[i]);
		}
	}
}

/* A size that caches hold only on a grant. */
#define LARGE_SIZE (16 * TCACHE_GRANT_ABOVE)

/* A counter of all large classes: nfills or nflushes. */
static uint64_t
large_stat(const char *stat) {
	char name[64];
	ctl_epoch();
	return ctl_u64(ctl_name(name, "stats.arenas.4096.large.%s", stat));
}

static void
beat(unsigned times, uint64_t apart_ns) {
	tsd_t *tsd = tsd_enter();
	for (unsigned i = 0; i < times; i++) {
		clock_now += apart_ns;
		tsd->beat_ns = clock_now;
		tcache_heartbeat(tsd, 0);
	}
	tsd_leave();
}

static size_t
granted_now(void) {
	size_t granted = tsd_enter()->tcache->granted;
	tsd_leave();
	return granted;
}

/* Each time an empty cache turns to the arena is one fill. */
static void
check_fills(void) {
	unsigned tc;
	size_t len = sizeof(tc);
	if (SC_LARGE_MINCLASS > 16384) {
		skip(2, "no object that is large is cached");
		return;
	}
	mallctl("tcache.create", &tc, &len, NULL, 0);
	uint64_t before = large_stat("nfills");
	void *p = keep(mallocx(16384, MALLOCX_TCACHE(tc)));
	is_uint(large_stat("nfills"), before + 1, "an empty cache fetches once");
	dallocx(p, MALLOCX_TCACHE(tc));
	dallocx(keep(mallocx(16384, MALLOCX_TCACHE(tc))), MALLOCX_TCACHE(tc));
	is_uint(large_stat("nfills"), before + 1, "not when it has an object");
	mallctl("tcache.destroy", NULL, NULL, &tc, sizeof(tc));
}

/* What realloc has made longer passes the cache when it is freed; the next object does not. */
static void
check_grown(tsd_t *tsd) {
	void *p = keep(realloc(keep(malloc(LARGE_SIZE / 8 * 7)), LARGE_SIZE));
	size_t before = cached_of(tsd, LARGE_SIZE);
	free(p);
	is_uint(cached_of(tsd, LARGE_SIZE), before, "an object that realloc made longer is not cached");
	p = keep(malloc(LARGE_SIZE));
	before = cached_of(tsd, LARGE_SIZE);
	free(p);
	ok(cached_of(tsd, LARGE_SIZE) == before + 1 || config_hardening, "another one is");
}

/* To make way for a large request what is there on grants goes, not what a call has allowed. */
static void
check_way(tsd_t *tsd) {
	const size_t size = 2 * LARGE_SIZE;
	tsd_enter();
	tcache_ncached_max_set(tsd, size, size, 1);
	tsd_leave();
	free(keep(malloc(size)));
	swing(6, LARGE_SIZE);
	ok(cached_of(tsd, LARGE_SIZE) > 1 || config_hardening, "a large class has a grant");
	tsd_enter();
	tcache_make_way(tsd, tsd->tcache, TCACHE_GRANT_ABOVE, (size_t)1 << 30);
	tsd_leave();
	is_uint(cached_of(tsd, LARGE_SIZE), 0, "what it has there makes way");
	ok(cached_of(tsd, size) == 1 || config_hardening, "a limit that was set is kept");
}

/* Each way to ask for more than is there lets as many cached objects go as it takes bytes. */
static void
check_who_makes_way(tsd_t *tsd) {
	static const char *const ways[] = {"malloc", "calloc", "aligned_alloc", "past the cache",
		"of an arena", "calloc of less"};
	void *p[ARRAY_LEN(ways)];
	for (unsigned i = 0; i < ARRAY_LEN(ways); i++) {
		size_t size = (5 + 2 * i) * LARGE_SIZE / 2;
		swing(6, LARGE_SIZE);
		size_t before = cached_of(tsd, LARGE_SIZE);
		p[i] = keep(i == 0 ? malloc(size) : i == 1 ? calloc(1, size)
		    : i == 2 ? aligned_alloc(2 * PAGE, size)
		    : i == 3 ? mallocx(size, MALLOCX_TCACHE_NONE)
		    : i == 4 ? mallocx(size, MALLOCX_ARENA(0)) : calloc(1, TCACHE_FLUSH_ABOVE - 1));
		size_t n = i == 5 ? 0 : (class_bytes(p[i]) + LARGE_SIZE - 1) / LARGE_SIZE;
		ok(cached_of(tsd, LARGE_SIZE) + n == before && before > n, "%s: %zu of %zu make way",
		    ways[i], n, before);
	}
	for (unsigned i = 0; i < ARRAY_LEN(ways); i++) {
		free(p[i]);
	}
}

/*
 * A thread that swings between all and nothing gets slots for all, as far as the budget goes, and
 * loses them when it stops.
 */
static int
child_grants(void) {
	size_t size = 16384;
	tsd_t *tsd = tsd_enter();
	tsd_leave();
	tcache_t *tc = tsd->tcache;
	tcache_cold_t *c = &tc->cold[sz_s2i(size) + 1];
	clock_now = nstime_monotonic_coarse_ns();
	nstime_now_hook = read_clock;
	check_fills();
	swing(1, size);
	is_uint(c->nslots, c->max, "once all and nothing: the limit, %u", c->max);
	is_uint(tc->granted, 0, "no grant");
	swing(4, size);
	ok(c->nslots >= N_SWUNG, "again and again: %u slots", c->nslots);
	is_uint(tc->granted, (size_t)(c->nslots - c->max) * size, "the grant is counted");
	uint64_t before = large_stat("nfills");
	swing(20, size);
	is_uint(large_stat("nfills"), before, "nothing is fetched from the arena any more");
	beat(4 * tc->nslots, 0);
	ok(c->nslots >= N_SWUNG, "at the same time nothing is taken back");
	beat(40 * tc->nslots, 100 * NSTIME_PER_MSEC);
	is_uint(c->nslots, c->max, "later what lay unused goes, and the slots");
	is_uint(tc->granted, 0, "the grant too");
	for (size_t each = 16384; each <= 32768; each += 4096) {
		swing(6, each);
	}
	swing(6, 2048);
	ok(tc->granted > 0 && tc->granted <= tcache_budget(),
	    "many sizes: %zu bytes, inside of the budget", tc->granted);
	for (size_t each = LARGE_SIZE; each <= 2 * LARGE_SIZE; each += LARGE_SIZE / 4) {
		swing(6, each);
	}
	ok(tc->granted_map != 0 || config_hardening, "large sizes: bins %zx", (size_t)tc->granted_map);
	beat(40 * tc->nslots, 100 * NSTIME_PER_MSEC);
	is_uint(tc->granted_map, 0, "all of it goes when nothing uses them");
	swing(6, LARGE_SIZE);
	ok(tc->granted_map != 0 || config_hardening, "and comes again");
	check_grown(tsd);
	swing(6, size);
	size_t idle = cached_of(tsd, size);
	beat(12, NSTIME_PER_SEC + NSTIME_PER_SEC / 8);
	ok(idle >= N_SWUNG - 2 && cached_of(tsd, size) <= 2,
	    "twelve heartbeats, a second apart: of %zu objects %zu are left", idle,
	    cached_of(tsd, size));
	tsd_enter();
	tcache_enabled_set(tsd, false);
	tcache_enabled_set(tsd, true);
	tsd_leave();
	is_uint(tsd->tcache->granted, 0, "a new cache has none");
	check_way(tsd);
	if (config_hardening) {
		skip(6, "such objects are not cached");
	} else {
		check_who_makes_way(tsd);
	}
	nstime_now_hook = NULL;
	return done_testing();
}

/*
 * Random use, of sizes that together want more than the budget: the grants that a cache counts are
 * those of its bins, they stay within the budget, and a bin grows by more than an eighth or not.
 */
static unsigned
grants_wrong(const tcache_t *tc, const unsigned *before) {
	static size_t budget; /* the greatest so far: what was granted within it may stay for a while */
	size_t all = 0, large = 0;
	uint64_t map = 0;
	unsigned bad = 0;
	for (unsigned s = 1; s < tc->nslots; s++) {
		const tcache_cold_t *c = &tc->cold[s];
		size_t size = sz_i2s((szind_t)(s - 1));
		size_t granted = c->nslots > c->max ? (c->nslots - c->max) * size : 0;
		all += granted;
		if (size > TCACHE_GRANT_ABOVE) {
			large += granted;
			map |= (uint64_t)(granted != 0) << (s - (sz_s2i(TCACHE_GRANT_ABOVE) + 2u));
		}
		if (c->nslots > before[s] && c->nslots <= before[s] + before[s] / 8) {
			diag("%zu bytes: %u slots, then %u", size, before[s], c->nslots);
			bad++;
		}
	}
	bad += all != tc->granted || (large != 0) != (tc->granted_map != 0) || map != tc->granted_map;
	budget = max_zu(budget, tcache_budget());
	return bad + (all > budget);
}

static void
slots_copy(const tcache_t *tc, unsigned *to) {
	for (unsigned s = 1; s < tc->nslots; s++) {
		to[s] = tc->cold[s].nslots;
	}
}

static int
child_grants_random(void) {
	static unsigned before[256];
	uint64_t seed = 20;
	unsigned bad = 0, grown = 0;
	tcache_t *tc = tsd_enter()->tcache;
	tsd_leave();
	clock_now = nstime_monotonic_coarse_ns();
	nstime_now_hook = read_clock;
	for (unsigned step = 0; step < 300; step++) {
		static void *p[N_SWUNG];
		size_t size = (size_t)1 << (10 + below(&seed, 8));
		size += below(&seed, 4) * size / 4;
		unsigned n = 20 + (unsigned)below(&seed, N_SWUNG - 20);
		for (unsigned r = 0; r < 3; r++) {
			for (unsigned i = 0; i < 2 * n; i++) {
				slots_copy(tc, before);
				size_t granted = tc->granted;
				if (i < n) {
					p[i] = keep(malloc(size));
				} else {
					free(p[i - n]);
				}
				grown += tc->granted > granted;
				bad += grants_wrong(tc, before);
			}
		}
		if (step % 16 == 15) {
			beat(1 + (unsigned)below(&seed, 2 * tc->nslots), below(&seed, 2) * 100
			    * NSTIME_PER_MSEC);
			slots_copy(tc, before);
			bad += grants_wrong(tc, before);
		}
	}
	ok(grown > 100, "bins grow: %u times", grown);
	is_uint(bad, 0, "what is granted is counted, within the limits, in steps of an eighth");
	nstime_now_hook = NULL;
	return done_testing();
}

#define N_HANDED 64u
/* A large class, whatever the page is. */
#define HANDED_SIZE max_zu(65536, SC_LARGE_MINCLASS)
#define HANDED_BATCH (TCACHE_BATCH_BYTES / HANDED_SIZE < TCACHE_BATCH_MAX \
	? TCACHE_BATCH_BYTES / HANDED_SIZE : TCACHE_BATCH_MAX)

static void *handed[N_HANDED];
static pthread_barrier_t handed_turn;
static size_t handed_granted[2], handed_left;

/* Frees what the other thread allocates, and then does nothing but heartbeats. */
static void *
free_handed(void *arg) {
	for (unsigned r = 0; r < 40; r++) {
		pthread_barrier_wait(&handed_turn);
		for (unsigned i = 0; i < N_HANDED; i++) {
			free(handed[i]);
		}
		pthread_barrier_wait(&handed_turn);
	}
	handed_granted[1] = granted_now();
	beat(40 * tls_get()->tsd->tcache->nslots, 100 * NSTIME_PER_MSEC);
	handed_left = cached_of(tls_get()->tsd, HANDED_SIZE) + granted_now();
	return arg;
}

/* The thread's slots for a large class. Inlined it is a trap of gcc 12's -fsanitize=undefined. */
static NOINLINE unsigned
slots_of(size_t size) {
	return tls_get()->tsd->tcache->cold[sz_s2i(size) + 1].nslots;
}

/* One thread only allocates blocks of a large class, another one only frees them: by batches. */
static int
child_handed(void) {
	pthread_t other;
	clock_now = nstime_monotonic_coarse_ns();
	nstime_now_hook = read_clock;
	free(keep(malloc(1)));
	uint64_t fills = 0, flushes = 0;
	pthread_barrier_init(&handed_turn, NULL, 2);
	pthread_create(&other, NULL, free_handed, NULL);
	for (unsigned r = 0; r < 40; r++) {
		fills = r == 20 ? large_stat("nfills") : fills;
		flushes = r == 20 ? large_stat("nflushes") : flushes;
		for (unsigned i = 0; i < N_HANDED; i++) {
			handed[i] = keep(malloc(HANDED_SIZE));
		}
		pthread_barrier_wait(&handed_turn);
		pthread_barrier_wait(&handed_turn);
	}
	fills = large_stat("nfills") - fills;
	flushes = large_stat("nflushes") - flushes;
	handed_granted[0] = granted_now();
	pthread_join(other, NULL);
	/* At the end of what has come back a fill is smaller. */
	size_t most = 20 * N_HANDED / (HANDED_BATCH * 3 / 4);
	ok(config_hardening || (fills <= most + most / 3 && flushes > 0 && flushes <= most),
	    "%u fills and %u flushes for %u blocks", (unsigned)fills, (unsigned)flushes, 20 * N_HANDED);
	for (unsigned i = 0; i < 2; i++) {
		ok(config_hardening || (handed_granted[i] > 0
		    && handed_granted[i] <= HANDED_BATCH * HANDED_SIZE),
		    "a batch is granted: %zu bytes", handed_granted[i]);
	}
	is_uint(handed_left, 0, "it is taken back");
	size_t seldom = 0;
	for (unsigned i = 0; i < 8; i++) {
		beat(2 * tls_get()->tsd->tcache->nslots, 100 * NSTIME_PER_MSEC);
		handed[i] = keep(malloc(7 * HANDED_SIZE));
		seldom += slots_of(7 * HANDED_SIZE);
	}
	is_uint(seldom, 0, "blocks that are seldom get no batch");
	swing(12, 2 * HANDED_SIZE);
	unsigned nslots = slots_of(2 * HANDED_SIZE);
	/* Less than an eighth is not granted. */
	size_t budget = TCACHE_BUDGET_MIN / (2 * HANDED_SIZE);
	ok(nslots >= min_zu(N_SWUNG, budget - budget / 8) || config_hardening,
	    "a thread that frees what it allocates gets slots for all: %u", nslots);
	nstime_now_hook = NULL;
	return done_testing();
}

/* Sets the decay time of dirty pages of all arenas. */
static void
decay_all(ssize_t ms) {
	char name[64];
	unsigned failed = 0;
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		failed += arenas_get(i) != NULL
		    && ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", i), ms) != 0;
	}
	is_uint(failed, 0, "dirty_decay_ms of all arenas: %zd", ms);
}

static pthread_barrier_t decay_turns;

static size_t
large_cached(void) {
	return cached_of(tls_get()->tsd, LARGE_SIZE);
}

/* A second thread with grants, whose cache is emptied at its next slow call. */
static void *
decay_other(void *arg) {
	swing(6, LARGE_SIZE);
	swing(6, 16384);
	*(size_t *)arg = granted_now();
	pthread_barrier_wait(&decay_turns);
	pthread_barrier_wait(&decay_turns);
	free(keep(malloc(1)));
	is_uint(large_cached(), 0, "another thread's cache returns them at its next call");
	is_uint(tls_get()->tsd->tcache->granted, 0, "and its slots");
	return NULL;
}

/* A decay time of 0 at run time: what was granted goes, with its pages, and nothing is granted. */
static int
child_decay_zero(void) {
	pthread_t other;
	size_t granted = 0, mapped;
	swing(6, LARGE_SIZE);
	swing(6, 16384);
	pthread_barrier_init(&decay_turns, NULL, 2);
	pthread_create(&other, NULL, decay_other, &granted);
	pthread_barrier_wait(&decay_turns);
	ok((granted > 0 && large_cached() > 0) || config_hardening, "two threads have grants");
	granted = large_cached() * LARGE_SIZE;
	mapped = pac_mapped_all();
	ssize_t zero = 0;
	char name[64];
	ctl_name(name, "arena.%u.dirty_decay_ms", ctl_unsigned("thread.arena"));
	is_int(ctl_write(name, zero), 0, "dirty_decay_ms:0 for this thread's arena");
	is_uint(large_cached(), 0, "the thread that has set it caches no large blocks");
	is_uint(granted_now(), 0, "and has no granted slots");
	ok(mapped - pac_mapped_all() >= granted, "their pages went back: %zu of %zu bytes",
	    mapped - pac_mapped_all(), granted);
	decay_all(0);
	pthread_barrier_wait(&decay_turns);
	pthread_join(other, NULL);
	swing(6, LARGE_SIZE);
	swing(6, 16384);
	is_uint(granted_now(), 0, "while it is 0 nothing is granted");
	decay_all(10000);
	swing(6, LARGE_SIZE);
	ok(granted_now() > 0 || config_hardening, "afterwards grants again");
	return done_testing();
}

/* Where a limit was set it is the limit. */
static int
child_no_grants(void) {
	swing(8, 16384);
	swing(8, 512);
	is_uint(granted_now(), 0, "no grant");
	return done_testing();
}

static int
child_no_grants_by_call(void) {
	is_int(tcache_ncached_max_set(tsd_enter(), 16384, 16384, 24), 0, "a limit by call");
	tsd_leave();
	swing(8, 16384);
	is_uint(granted_now(), 0, "no grant");
	size_t most = tcache_ncached_max_default(sz_s2i(32768));
	is_int(tcache_ncached_max_set(tsd_enter(), 32768, 32768, most), 0, "the default by call");
	tsd_leave();
	swing(8, 32768);
	is_uint(granted_now(), 0, "no grant either");
	is_int(tcache_ncached_max_set(tsd_enter(), LARGE_SIZE, LARGE_SIZE, 0), 0, "none by call");
	tsd_leave();
	swing(8, LARGE_SIZE);
	is_uint(granted_now(), 0, "no grant for a large size");
	is_int(tcache_max_set(tsd_enter(), LARGE_SIZE), 0, "a maximum by call");
	tsd_leave();
	swing(8, 2 * LARGE_SIZE);
	is_uint(granted_now(), 0, "no grant above it");
	is_int(tcache_max_set(tsd_enter(), tcache_max_default), 0, "the default again");
	tsd_leave();
	swing(8, 2 * LARGE_SIZE);
	ok(granted_now() > 0 || config_hardening, "grants again");
	return done_testing();
}

static void
test_grants(void) {
	static const char *const confs[] = {"tcache_nslots_large:21", "tcache_nslots_small_max:198",
		"tcache_nslots_small_min:18", "lg_tcache_nslots_mul:2",
		"tcache_ncached_max:16384-16384:20", "tcache_max:4194304", "lg_tcache_max:22",
		"tcache_nslots_large:20", "tcache_nslots_small_max:200"};
	static struct test_result r;
	run_child_conf(&r, "grants", NULL);
	child_exits(&r, 0, "grants");
	run_child_conf(&r, "grants", "tcache_ncached_max:16384-8:20|8388609-9000000:1");
	child_exits(&r, 0, "grants with limits that hold for no class");
	run_child_conf(&r, "grants-random", NULL);
	child_exits(&r, 0, "grants under random use");
	run_child_conf(&r, "handed", "populate:false");
	child_exits(&r, 0, "blocks handed to another thread");
	run_child_conf(&r, "decay-zero", NULL);
	child_exits(&r, 0, "decay time 0 at run time");
	run_child_conf(&r, "no-grants-by-call", NULL);
	child_exits(&r, 0, "none where a call has set a limit");
	for (unsigned i = 0; i < sizeof(confs) / sizeof(confs[0]); i++) {
		run_child_conf(&r, "no-grants", confs[i]);
		child_exits(&r, 0, "none with %s", confs[i]);
	}
}

/* Use goes on between the turns of upkeep: all objects stay whole and none is handed out twice. */
static void
test_upkeep_in_use(void) {
	static char *p[300];
	uint64_t seed = 3;
	unsigned bad = 0;
	for (unsigned i = 0; i < 100000; i++) {
		unsigned k = (unsigned)below(&seed, 300);
		if (p[k] != NULL) {
			bad += !is_filled(p[k], (int)(k & 0xff), 200);
			memset(p[k], 0xee, 200);
			free(p[k]);
			p[k] = NULL;
		} else {
			p[k] = keep(malloc(200));
			memset(p[k], (int)(k & 0xff), 200);
		}
		if (below(&seed, 20) == 0) {
			tsd_t *tsd = tsd_enter();
			tsd->gc_last = sz_s2i(200);
			tcache_gc_step(tsd, tsd->tcache);
			tsd_leave();
		}
	}
	for (unsigned k = 0; k < 300; k++) {
		free(p[k]);
	}
	is_uint(bad, 0, "upkeep between 100000 steps of use");
}

/* ------------------------------------------------------------------ threads */

#define N_MOVED 20000

static void *moved[N_MOVED];
static uint64_t giver[2], taker[2];

static void
read_counts(uint64_t out[2]) {
	tsd_t *tsd = tsd_enter();
	out[0] = tsd_allocated(tsd);
	out[1] = tsd_deallocated(tsd);
	tsd_leave();
}

static void *
give(void *arg) {
	uint64_t seed = 5;
	for (unsigned i = 0; i < N_MOVED; i++) {
		moved[i] = keep(malloc(1 + below(&seed, 3000)));
	}
	read_counts(giver);
	return arg;
}

static void *
take(void *arg) {
	uint64_t before[2];
	read_counts(before);
	for (unsigned i = 0; i < N_MOVED; i++) {
		free(moved[i]);
	}
	read_counts(taker);
	taker[1] -= before[1];
	return arg;
}

static void
test_foreign_frees(void) {
	pthread_t t;
	uint64_t bytes = 0;
	pthread_create(&t, NULL, give, NULL);
	pthread_join(t, NULL);
	for (unsigned i = 0; i < N_MOVED; i++) {
		bytes += class_bytes(moved[i]);
	}
	pthread_create(&t, NULL, take, NULL);
	pthread_join(t, NULL);
	ok(giver[0] >= bytes && giver[0] <= bytes + 4096, "the giver counts what it allocated");
	is_uint(taker[1], bytes, "the taker what it freed");
}

/* ------------------------------------------------------------------ options */

static int
child_churn(void) {
	static char *p[400];
	uint64_t seed = 1;
	for (unsigned i = 0; i < 40000; i++) {
		unsigned k = (unsigned)below(&seed, 400);
		if (p[k] != NULL && !is_filled(p[k], (int)(k & 0x7f), 8))
			return 1;
		free(p[k]);
		p[k] = keep(malloc(8 + below(&seed, i % 9 == 0 ? 50000 : 5000)));
		memset(p[k], (int)(k & 0x7f), 8);
	}
	return 0;
}

/* Counting again, with other limits. */
static int
child_counts(void) {
	test_counts("child", 6000);
	return done_testing();
}

static const struct test_child children[] = {
	{"grants", child_grants},
	{"grants-random", child_grants_random},
	{"handed", child_handed},
	{"decay-zero", child_decay_zero},
	{"no-grants", child_no_grants},
	{"no-grants-by-call", child_no_grants_by_call},
	{"churn", child_churn},
	{"counts", child_counts},
	{NULL, NULL},
};

static void
test_options(void) {
	static const char *const confs[] = {
		"tcache_max:0", "tcache_max:8", "tcache_max:1000", "tcache_max:4095", "tcache_max:65536",
		"tcache_max:8388608", "tcache:false", "tcache_nslots_small_max:2,tcache_nslots_small_min:1",
		"tcache_nslots_small_max:2048,lg_tcache_nslots_mul:4", "tcache_nslots_large:1",
		"lg_tcache_flush_small_div:16,lg_tcache_flush_large_div:16", "lg_tcache_nslots_mul:-16",
		"tcache_ncached_max:8-128:1|129-4096:0|4097-32768:8191", "junk:true", "zero:true",
		"narenas:1", "bin_shards:1-4096:8", "retain:false", "cache_oblivious:false",
	};
	static struct test_result r;
	for (unsigned i = 0; i < sizeof(confs) / sizeof(confs[0]); i++) {
		run_child_conf(&r, "churn", confs[i]);
		child_exits(&r, 0, "use with %s", confs[i]);
		run_child_conf(&r, "counts", confs[i]);
		child_exits(&r, 0, "counts with %s", confs[i]);
	}
}

/*
 * A signal handler allocates after the last step of a countdown and before the look that follows:
 * it counts on past zero. The look still comes, with what the handler took counted.
 */
static void
test_past_zero(void) {
	for (unsigned i = 0; i < 20000; i++) {
		free(keep(malloc(64 - CANARY_BYTES))); /* heartbeats are apart, whatever went before */
	}
	tsd_t *tsd = tsd_enter();
	tcache_t *tc = tsd->tcache;
	unsigned slot = sz_s2i(64) + 1;
	void *some[8];
	for (unsigned i = 0; i < 16; i++) {
		/* then the stack is not empty */
		i < 8 ? (void)(some[i] = keep(malloc(64 - CANARY_BYTES))) : free(some[i - 8]);
	}
	cache_bin_t *b = &tc->bins[slot];
	tcache_cold_t *c = &tc->cold[slot];
	tcache_fold(tsd, tc);
	uint64_t popped = tsd->popped;
	uint32_t left = b->countdown;
	b->countdown = 0; /* the thread is here, having counted */
	void *p = NULL;
	bool is_popped = cache_bin_try_pop(b, &p);
	ok(is_popped && b->countdown > c->window, "a handler counts past zero");
	ok(tcache_is_due(tc), "a look is due all the same");
	tcache_count_to_sample(tsd, tc, slot);
	ok(b->countdown > 0 && b->countdown <= c->window && c->window <= THREAD_EVENT_BYTES / 64,
	    "the next countdown begins");
	is_uint(tsd->popped - popped, ((uint64_t)left + 1) * 64, "what both took is counted");
	tsd_leave();
	free(canary_put(p, 64, 64 - CANARY_BYTES));
}

/*
 * A signal handler that has interrupted its thread inside the gate ends a countdown, and the cache
 * does not serve its request: the next request ends the countdown.
 */
static void
test_handler_ends_countdown(void) {
	size_t size = 64 - CANARY_BYTES;
	unsigned slot = sz_s2i(64) + 1;
	for (unsigned i = 0; i < 20000; i++) {
		free(keep(malloc(size)));
	}
	tsd_t *tsd = tsd_enter();
	cache_bin_t *b = &tsd->tcache->bins[slot];
	tcache_cold_t *c = &tsd->tcache->cold[slot];
	b->countdown = 1;
	void *p = keep(malloc(size)); /* as a handler */
	is_uint(b->countdown, 1, "a handler's request is not counted");
	tsd_leave();
	void *q = keep(malloc(size));
	ok(shelter_owns(emap_elem(p)) && b->countdown > 0 && b->countdown <= c->window,
	    "the request after it ends the countdown");
	free(p);
	free(q);
}

/* With ThreadSanitizer the handler would come after each instruction of that too. */
#if defined(__x86_64__) && !COMPILER_TSAN

#define N_STEPS 400
#define STEPS(bits) \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" bits ", (%%rsp)\n\tpopfq\n\t" \
	    "lea 128(%%rsp), %%rsp" ::: "memory", "cc")

static unsigned steps_left;
static void *of_handler;

static void
on_step(int sig UNUSED, siginfo_t *info UNUSED, void *context) {
	if (--steps_left == 0) {
		of_handler = keep(malloc(64 - CANARY_BYTES));
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)0x100;
	}
}

/*
 * A malloc finds an empty bin and two steps of the countdown left; wherever it is when a handler
 * takes one of them, the other one ends the countdown.
 */
static void
test_handler_amid_refill(void) {
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	unsigned slot = sz_s2i(64) + 1, bad = 0;
	sigaction(SIGTRAP, &action, NULL);
	for (unsigned i = 1; i <= N_STEPS; i++) {
		ctl_void("thread.tcache.flush");
		tsd_t *tsd = tsd_enter();
		cache_bin_t *b = &tsd->tcache->bins[slot];
		tcache_fold(tsd, tsd->tcache);
		b->countdown = tsd->tcache->cold[slot].window = 2;
		tsd_leave();
		steps_left = i;
		of_handler = NULL;
		STEPS("orq $0x100");
		void *p = keep(malloc(64 - CANARY_BYTES));
		STEPS("andq $~0x100");
		bad += b->countdown == 0 || b->countdown > tsd->tcache->cold[slot].window;
		free(p);
		free(of_handler);
	}
	is_uint(bad, 0, "a handler amid a fill ends no countdown unseen");
}

#else

static void
test_handler_amid_refill(void) {
	skip(1, "no test of single steps in this build");
}

#endif

static uint64_t
requests_of(const tcache_t *tc, size_t size) {
	static uint64_t by_class[SC_NSIZES];
	memset(by_class, 0, sizeof(by_class));
	tcache_add_requests(tc, by_class);
	szind_t ind = sz_s2i(size);
	if (ind >= SC_NSIZES) {
		abort(); /* the compiler warns of a read above the array otherwise */
	}
	return by_class[ind] + (ind < SC_NBINS ? arena_bin(tc->arena, ind, 0)->stats.nrequests
	    : atomic_load_u64(&tc->arena->large[ind - SC_NBINS].nrequests, MO_RELAXED));
}

/* One turn of upkeep for the bin; the objects that are cached then. */
static size_t
after_turn(tsd_t *tsd, unsigned slot) {
	tsd_enter();
	tsd->gc_last = slot - 1;
	tcache_gc_step(tsd, tsd->tcache);
	tsd_leave();
	return cached_of(tsd, tsd->tcache->bins[slot].size);
}

/*
 * A thread that takes and frees one object again and again neither fills nor flushes its bin, which
 * report requests: 32 bits do not hold those of a minute. Upkeep reports them, and of an explicit
 * cache the next request.
 */
static void
test_many_requests(void) {
	static const size_t sizes[] = {64, 80, 20480, 24576}; /* the caches share no class */
	unsigned id;
	size_t len = sizeof(id);
	if (!config_stats || mallctl("tcache.create", &id, &len, NULL, 0) != 0) {
		skip(4, "nothing is counted");
		return;
	}
	tsd_t *tsd = tsd_enter();
	tsd_leave();
	for (unsigned i = 0; i < 4; i++) {
		size_t size = sizes[i];
		unsigned slot = sz_s2i(size) + 1;
		tcache_t *tc = i % 2 == 0 ? tsd->tcache : tcaches_get(id);
		int flags = i % 2 == 0 ? 0 : MALLOCX_TCACHE(id);
		dallocx(keep(mallocx(size - CANARY_BYTES, flags)), flags);
		tc->cold[slot].nrequests = UINT32_MAX - 5000;
		uint64_t before = requests_of(tc, size);
		if (tc->is_auto) {
			after_turn(tsd, slot);
		}
		for (unsigned k = 0; k < 10000; k++) {
			dallocx(keep(mallocx(size - CANARY_BYTES, flags)), flags);
		}
		is_uint(requests_of(tc, size) - before, 10000, "%zu bytes: beyond 2^32 of %s cache",
		    size, tc->is_auto ? "a thread's" : "an explicit");
	}
	mallctl("tcache.destroy", NULL, NULL, &id, sizeof(id));
}

static uint64_t
freed_by(tsd_t *tsd) {
	tsd_enter();
	uint64_t bytes = tsd_deallocated(tsd);
	tsd_leave();
	return bytes;
}

/* A look takes the object that was freed last, once in a countdown; its bytes count as freed. */
static void
test_look(void) {
	tsd_t *tsd = tsd_enter();
	cache_bin_t *b = &tsd->tcache->bins[sz_s2i(64) + 1];
	tsd_leave();
	if (!config_hardening) {
		skip(4, "no looks in this build");
		return;
	}
	void *last = keep(malloc(64 - CANARY_BYTES)), *next = keep(malloc(64 - CANARY_BYTES));
	free(next);
	free(last);
	b->countdown = 1;
	uint64_t freed = freed_by(tsd);
	keep(malloc(64 - CANARY_BYTES)); /* begins a countdown */
	ok(quarantine_has(tsd, last), "what was freed last waits");
	ok(!quarantine_has(tsd, next), "nothing else");
	is_uint(freed_by(tsd), freed, "it was counted as freed before");
	free(next = keep(malloc(64 - CANARY_BYTES)));
	ok(!quarantine_has(tsd, next) && tcache_has(tsd->tcache, sz_s2i(64) + 1, next),
	    "one is enough");
}

/* ------------------------------------------------------------------ handlers amid a change */

#define HANDLER_SIZE ((size_t)192)

static struct os_hooks_s amid;
static unsigned n_handled, n_from_cache, n_to_cache;
static void *theirs; /* a block that the handler frees */

/* A signal handler, as far as the cache can tell; it comes while the thread is in a system call. */
static void
handler(void) {
	static bool is_in;
	struct tls_s *t = tls_get();

	if (is_in || t->tsd == NULL || !gate_is_entered(t))
		return;
	is_in = true;
	n_handled++;
	void *p = keep(malloc(HANDLER_SIZE - CANARY_BYTES));
	n_from_cache += !shelter_owns(emap_elem(p));
	free(theirs);
	n_to_cache += theirs != NULL
	    && tcache_has(t->tsd->tcache, sz_s2i(HANDLER_SIZE) + 1, theirs);
	theirs = NULL;
	is_in = false;
}

static int
handled_madvise(void *addr, size_t size, int advice) {
	handler();
	return os_hooks_real.madvise(addr, size, advice);
}

static void *
handled_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset) {
	handler();
	return os_hooks_real.mmap(addr, size, prot, flags, fd, offset);
}

static void
test_handlers(void) {
	static void *ours[20000];
	unsigned ind;
	size_t len = sizeof(ind);
	ssize_t at_once = 0;
	char name[40];

	if (mallctl("arenas.create", &ind, &len, NULL, 0) != 0 || ctl_write("thread.arena", ind) != 0)
		bail_out("no arena");
	ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", ind), at_once);
	theirs = keep(malloc(HANDLER_SIZE - CANARY_BYTES));
	ctl_void("thread.tcache.flush");
	amid = os_hooks_real;
	amid.mmap = handled_mmap;
	os_hooks = &amid;
	for (unsigned i = 0; i < 20000; i++)
		ours[i] = keep(malloc(HANDLER_SIZE - CANARY_BYTES));
	ok(n_handled > 0 && n_from_cache == 0, "no handler takes from a bin amid its fill");
	is_uint(n_to_cache, 0, "nor puts there");
	n_handled = 0;
	amid.mmap = os_hooks_real.mmap;
	amid.madvise = handled_madvise;
	for (unsigned i = 0; i < 20000; i++)
		free(ours[i]);
	ctl_void("thread.tcache.flush");
	os_hooks = &os_hooks_real;
	ok(n_handled > 0 && n_from_cache == 0, "nor takes one that is flushed: %u of %u", n_from_cache,
	    n_handled);
}

/* A counter of a class in all arenas. */
static uint64_t
class_stat(const char *stat, size_t size) {
	char name[64];
	ctl_epoch();
	return ctl_u64(ctl_name(name, "stats.arenas.4096.bins.%u.%s", sz_s2i(size), stat));
}

/* Of a small class too each fill and each flush is counted once, whatever it fetches or returns. */
static void
test_small_counts(void) {
	const size_t size = 320;
	unsigned tc;
	size_t len = sizeof(tc);
	void *p[3];
	mallctl("tcache.create", &tc, &len, NULL, 0);
	int flags = (int)MALLOCX_TCACHE(tc);
	uint64_t fills = class_stat("nfills", size), flushes = class_stat("nflushes", size);
	uint64_t requests = class_stat("nrequests", size);
	for (unsigned i = 0; i < 3; i++) {
		p[i] = mallocx(size - CANARY_BYTES, flags);
	}
	is_uint(class_stat("nfills", size), fills + 1, "an empty cache is filled once for three");
	is_uint(class_stat("nflushes", size), flushes, "and not flushed");
	for (unsigned i = 0; i < 3; i++) {
		dallocx(p[i], flags);
	}
	mallctl("tcache.flush", NULL, NULL, &tc, sizeof(tc));
	is_uint(class_stat("nfills", size), fills + 1, "nor filled as it is flushed");
	is_uint(class_stat("nflushes", size), flushes + 1, "which is one flush");
	is_uint(class_stat("nrequests", size), requests + 3, "of three requests");
	mallctl("tcache.destroy", NULL, NULL, &tc, sizeof(tc));
}

/* A request that was refused after it was counted, and one that is served after all. */
static void
test_uncount(void) {
	tsd_t *tsd = tsd_enter();
	tcache_t *tc = tsd->tcache;
	unsigned slot = sz_s2i(320) + 1;
	size_t size = sz_i2s(slot - 1);
	cache_bin_t *b = &tc->bins[slot], was = *b;
	tcache_cold_t *c = &tc->cold[slot], cold = *c;
	uint64_t popped = tsd->popped;
	c->window = 10;
	c->nrequests = 1;
	b->countdown = 8;
	tcache_uncount(tsd, tc, slot);
	ok(b->countdown == 9 && c->nrequests == 1 && tsd->popped == popped, "the countdown has it");
	tcache_uncount(tsd, tc, slot);
	ok(b->countdown == 10 && c->nrequests == 1, "and one more");
	tcache_uncount(tsd, tc, slot);
	ok(b->countdown == 10 && c->nrequests == 0 && tsd->popped == popped - size, "then the sum");
	tcache_recount(tsd, tc, slot);
	ok(c->nrequests == 1 && tsd->popped == popped && b->countdown == 10, "counted again");
	c->nrequests = 0;
	tcache_uncount(tsd, tc, slot);
	is_uint(c->nrequests, 0, "a sum that was told already stays");
	b->countdown = 5;
	tcache_uncount_fast(tc, size);
	is_int((int)b->countdown, 5, "a countdown that goes on stays");
	b->countdown = 0;
	tcache_uncount_fast(tc, 0);
	tcache_uncount_fast(tc, SC_LARGE_MAXCLASS);
	is_int((int)b->countdown, 0, "so it does for other sizes, or none");
	tcache_uncount_fast(tc, size);
	is_int((int)b->countdown, 1, "one that has ended ends again with the next request");
	tsd->popped = popped;
	*b = was;
	*c = cold;
	tsd_leave();
}

/* Grows the stacks of a cache, and its own memory, as far as they go. */
static void
fill_stacks(int flags) {
	static void *p[600];
	for (size_t size = 16; size <= 40000; size = size * 5 / 3) {
		for (unsigned round = 0; round < 3; round++) {
			for (unsigned i = 0; i < 600; i++)
				p[i] = mallocx(size, flags);
			for (unsigned i = 0; i < 600; i++)
				dallocx(p[i], flags);
		}
	}
}

/* What a cache has for itself is given back when it ends, whatever it has grown to. */
static void
test_memory(void) {
	size_t in_use = 0;
	bool on = true, off = false;
	for (unsigned round = 0; round < 8; round++) {
		unsigned id = 0;
		size_t len = sizeof(id);
		mallctl("tcache.create", &id, &len, NULL, 0);
		fill_stacks((int)MALLOCX_TCACHE(id));
		ctl_write("tcache.destroy", id);
		ctl_write("thread.tcache.enabled", off);
		ctl_write("thread.tcache.enabled", on);
		fill_stacks(0);
		ctl_write("thread.tcache.enabled", off);
		ctl_void("arena.0.purge");
		in_use = round == 3 ? meta_in_use() : in_use;
		if (round == 7)
			is_uint(meta_in_use(), in_use, "caches that have ended leave nothing");
		ctl_write("thread.tcache.enabled", on);
	}
}

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	free(keep(malloc(1)));
	test_counts("defaults", 40000);
	test_past_zero();
	test_handler_ends_countdown();
	test_handler_amid_refill();
	test_many_requests();
	test_samples();
	if (!config_debug) {
		test_growth_and_upkeep();
	}
	test_upkeep_in_use();
	test_look();
	test_grants();
	test_foreign_frees();
	test_options();
	test_handlers();
	test_small_counts();
	test_uncount();
	test_memory();
	return done_testing();
}
