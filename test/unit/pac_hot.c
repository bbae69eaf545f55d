/*
 * extent/pac_hot.h and what large.c does with it: what is freed is had again, last in, first out,
 * with a quarter of slack; counts of pages and objects stay exact; stacks grow; threads that take
 * and leave extents of different sizes of one page class own each of theirs alone.
 */
#include "core.h"

#include <pthread.h>

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "arena/large.h"
#include "os/gate.h"

#define N_THREADS 6
#define N_ROUNDS 60000

static arena_t *arena;

/* Up to n objects from hot extents, handed out; inside the gate. */
static unsigned
take_hot(size_t usize, void **out, unsigned n) {
	unsigned got = arena_large_reuse(arena, usize, out, n);
	for (unsigned i = 0; i < got; i++) {
		out[i] = arena_large_hand_out(out[i]);
	}
	return got;
}

/* Frees n objects as a thread cache does; inside the gate. */
static void
flush(void *const *p, unsigned n) {
	void *es[64];
	assert(n <= 64);
	for (unsigned i = 0; i < n; i++) {
		es[i] = emap_edata(p[i]);
		if (!arena_large_try_claim(es[i])) {
			abort();
		}
	}
	arena_large_flush(es, n);
}

/* Whether a hot extent serves the request; *p is the object then. */
static bool
was_reused(size_t usize, void **p) {
	gate_enter(tls_get());
	bool is_done = take_hot(usize, p, 1) == 1;
	if (is_done) {
		arena_large_count_requests(arena, sz_s2i(usize), 1, 0, 0);
	}
	gate_exit(tls_get());
	return is_done;
}

static void *
reused_or_new(size_t usize) {
	void *p = NULL;
	if (!was_reused(usize, &p)) {
		gate_enter(tls_get());
		p = arena_large_malloc(arena, usize, 0, false);
		arena_large_count_requests(arena, sz_s2i(usize), 1, 0, 0);
		gate_exit(tls_get());
	}
	return p;
}

static void
free_large(void *p) {
	gate_enter(tls_get());
	arena_large_dalloc(emap_edata(p));
	gate_exit(tls_get());
}

static size_t
active_pages(void) {
	return atomic_load_zu(&arena->pac.nactive, MO_RELAXED);
}

static size_t
stacked(void) {
	return atomic_load_zu(&arena->pac.hot_npages, MO_SEQ_CST);
}

static void
decay_all(void) {
	gate_enter(tls_get());
	arenas_decay(arena, true);
	gate_exit(tls_get());
}

static void
test_one(void) {
	size_t usize = 64 * PAGE, extent = usize + (opt_cache_oblivious ? PAGE : 0);
	void *p = NULL, *q = NULL;
	ok(!was_reused(usize, &p), "nothing was freed yet");
	p = reused_or_new(usize);
	size_t active = active_pages(), dirty = pac_ndirty(&arena->pac);
	free_large(p);
	is_uint(elem_state(emap_elem(p)), extent_state_hot, "a free leaves it hot, as the map says");
	is_uint(active - active_pages(), extent >> LG_PAGE, "its pages are not in use");
	is_uint(pac_ndirty(&arena->pac) - dirty, extent >> LG_PAGE, "but dirty");
	is_uint(stacked(), extent >> LG_PAGE, "and hot");
	ok(was_reused(usize, &q) && q == p, "the same size gets it");
	is_uint(elem_state(emap_elem(p)), extent_state_active, "it is in use");
	is_uint(active_pages(), active, "and counted");
	is_uint(stacked(), 0, "in one place");
	ok(!was_reused(usize, &q), "once");
	free_large(p);
}

/* An extent that came by another way has another usable size in the same number of pages. */
static void
test_other_use(void) {
	size_t size = 64 * PAGE;
	decay_all();
	gate_enter(tls_get());
	edata_t *e = pac_alloc(&arena->pac, size, PAGE, false);
	emap_set_boundary(e);
	pac_dalloc(&arena->pac, e);
	gate_exit(tls_get());
	void *p = NULL;
	size_t usize = size - (opt_cache_oblivious ? PAGE : 0);
	ok(was_reused(usize, &p), "an extent left by others");
	is_uint(arena_usize(emap_elem(p)), usize, "has the right size");
	ok(emap_edata(p)->u.large_start == p && emap_edata(p) == e, "and begins right");
	free_large(p);
}

/* The stack of a class grows, serves what fits within a quarter, and is emptied by decay. */
static void
test_stack(void) {
	enum { N = 24 };
	size_t usize = 64 * PAGE, extent = (usize >> LG_PAGE) + opt_cache_oblivious;
	void *p[N], *q = NULL;
	decay_all();
	for (unsigned i = 0; i < N; i++) {
		p[i] = reused_or_new(usize);
	}
	for (unsigned i = 0; i < N; i++) {
		free_large(p[i]);
		is_uint(stacked(), (i + 1) * extent, "extent %u is hot and counted", i);
	}
	ok(!was_reused(usize * 2, &q), "none fits twice the size");
	ok(!was_reused(usize + PAGE, &q), "nor one page more");
	ok(!was_reused(usize * 3 / 4, &q), "nor three quarters: too much would lie unused");
	ok(was_reused(usize - 7 * PAGE, &q), "seven pages less fit");
	ok(q == p[N - 1], "the last one in is the first one out");
	is_uint(arena_usize(emap_elem(q)), usize - 7 * PAGE, "with the size that was asked for");
	is_uint(emap_edata(q)->size >> LG_PAGE, extent, "in the whole extent");
	free_large(q);
	unsigned missing = 0;
	for (unsigned i = 0; i < N; i++) {
		missing += !was_reused(usize, &q);
	}
	is_uint(missing, 0, "all come back");
	is_uint(stacked(), 0, "none is left");
	for (unsigned i = 0; i < N; i++) {
		free_large(p[i]);
	}
	decay_all();
	is_uint(stacked() + active_pages() + pac_ndirty(&arena->pac), 0, "decay takes them");
}

/* A stack holds PAC_HOT_DEEP extents; what is freed beyond that is plain dirty. */
static void
test_full_stack(void) {
	enum { N = PAC_HOT_DEEP + 5 };
	static void *p[N];
	size_t usize = 32 * PAGE, extent = (usize >> LG_PAGE) + opt_cache_oblivious;
	for (unsigned i = 0; i < N; i++) {
		p[i] = reused_or_new(usize);
	}
	for (unsigned i = 0; i < N; i++) {
		free_large(p[i]);
	}
	is_uint(stacked(), PAC_HOT_DEEP * extent, "a full stack");
	ok(PAC_HOT_DEEP >= 1000, "which has room for 1000 blocks that a thread frees at once");
	is_uint(pac_ndirty(&arena->pac), N * extent, "all pages are unused");
	is_uint(active_pages(), 0, "none is in use");
	decay_all();
}

/* Where a growing extent meets hot ones, they become dirty and can be joined. */
static void
test_cool(void) {
	size_t size = 8 * PAGE;
	gate_enter(tls_get());
	edata_t *whole = pac_alloc(&arena->pac, 3 * size, PAGE, false);
	emap_set_boundary(whole);
	char *addr = whole->addr;
	is_uint(pac_shrink(&arena->pac, whole, 2 * size), 0, "a hot third");
	is_uint(pac_shrink(&arena->pac, whole, size), 0, "and another one before it");
	is_uint(stacked(), 2 * size >> LG_PAGE, "both are hot");
	is_uint(pac_expand(&arena->pac, whole, 3 * size, false), 0, "the first third grows over both");
	ok(whole->addr == addr && whole->size == 3 * size, "and is as it was");
	is_uint(stacked(), 0, "nothing is hot");
	is_uint(pac_shrink(&arena->pac, whole, 2 * size), 0, "the last third again");
	edata_t *last = pac_alloc(&arena->pac, size, PAGE, false);
	is_uint(pac_shrink(&arena->pac, whole, size), 0, "and the one before it");
	pac_hot_flush(&arena->pac);
	pac_dalloc(&arena->pac, last);
	is_uint(stacked(), size >> LG_PAGE, "the last one is hot, behind a dirty one");
	is_uint(pac_expand(&arena->pac, whole, 3 * size, false), 0, "the first grows over both");
	pac_dalloc(&arena->pac, whole);
	gate_exit(tls_get());
	decay_all();
}

/* A request that none fits has one longer extent made dirty; the others stay hot. */
static void
test_cool_one(void) {
	edata_t *e[3], *held[3];
	gate_enter(tls_get());
	for (unsigned i = 0; i < 3; i++) {
		e[i] = pac_alloc(&arena->pac, (16 >> i) * PAGE, PAGE, false);
		held[i] = pac_alloc(&arena->pac, PAGE, PAGE, false); /* so that none are joined */
	}
	char *addr = e[1]->addr;
	for (unsigned i = 0; i < 3; i++) {
		pac_dalloc(&arena->pac, e[i]);
	}
	is_uint(stacked(), 28, "three hot extents");
	ok(!pac_hot_try_cool(&arena->pac, 17 * PAGE), "none is long enough for 17 pages");
	is_uint(stacked(), 28, "all stay");
	e[0] = pac_alloc(&arena->pac, 5 * PAGE, PAGE, false);
	ok(e[0]->addr == addr, "five pages are of the one that is a little longer");
	is_uint(stacked(), 20, "the others stay hot");
	e[1] = pac_alloc(&arena->pac, 3 * PAGE, PAGE, false);
	is_uint(stacked(), 20, "the next request takes what was left of it");
	for (unsigned i = 0; i < 3; i++) {
		pac_dalloc(&arena->pac, held[i]);
	}
	pac_dalloc(&arena->pac, e[0]);
	pac_dalloc(&arena->pac, e[1]);
	gate_exit(tls_get());
	decay_all();
}

/* What the page map says of hot extents that were objects; explicit arenas cache some classes. */
static extent_state_t
state_of_hot(size_t usize) {
	return sz_s2i(usize) < arena_large_explicit_min ? extent_state_active : extent_state_hot;
}

/* So do those that were objects before, of which only the descriptors say that they are hot. */
static void
test_cool_objects(void) {
	size_t usize = SC_LARGE_MINCLASS, size = usize + arena_large_pad(usize);
	void *p[2];
	gate_enter(tls_get());
	edata_t *whole = pac_alloc(&arena->pac, 3 * size, PAGE, false);
	emap_set_boundary(whole);
	char *addr = whole->addr;
	is_uint(pac_shrink(&arena->pac, whole, 2 * size) + pac_shrink(&arena->pac, whole, size), 0,
	    "two thirds are hot");
	is_uint(take_hot(usize, p, 2), 2, "and become objects");
	arena_large_count_requests(arena, SC_NBINS, 2, 1, 0);
	ok(pac_expand(&arena->pac, whole, 2 * size, false) != 0, "over which nothing grows");
	flush(p, 2);
	is_uint(elem_state(emap_elem(addr + size)), state_of_hot(usize), "hot, not by the map");
	is_uint(stacked(), 2 * size >> LG_PAGE, "but in the stack");
	is_uint(pac_expand(&arena->pac, whole, 3 * size, false), 0, "the first third grows over both");
	ok(whole->addr == addr && whole->size == 3 * size, "and is as it was");
	is_uint(stacked(), 0, "nothing is hot");
	pac_dalloc(&arena->pac, whole);
	gate_exit(tls_get());
	decay_all();
}

/* Of the n objects: those of which the page map or a second free says something else. */
static unsigned
count_unlike_freed(void *const *p, unsigned n) {
	unsigned bad = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t elem = emap_elem(p[i]);
		edata_t *e = elem_edata(elem);
		bad += e->state != extent_state_hot || elem_state(elem) != state_of_hot(SC_LARGE_MINCLASS)
		    || arena_large_is_live(p[i], e) || arena_large_try_claim(e);
	}
	return bad;
}

typedef struct {
	size_t active, stacked, allocated;
	uint64_t ndalloc, nmalloc;
} counts_t;

/* Of the arena, for the smallest large class. */
static counts_t
counts(void) {
	const arena_large_count_t *c = &arena->large[0];
	return (counts_t){active_pages(), stacked(),
	    atomic_load_zu(&arena->large_allocated, MO_RELAXED),
	    atomic_load_u64(&c->ndalloc, MO_RELAXED), atomic_load_u64(&c->nmalloc, MO_RELAXED)};
}

/* What a thread cache takes and leaves at once is counted as if it had gone one by one. */
static void
test_batches(void) {
	enum { N = 40 };
	size_t usize = SC_LARGE_MINCLASS, extent = (usize + arena_large_pad(usize)) >> LG_PAGE;
	void *p[N + 2];
	decay_all();
	gate_enter(tls_get());
	unsigned got = take_hot(usize, p, N);
	is_uint(got, 0, "none is hot");
	for (; got < N; got++) {
		p[got] = arena_large_malloc(arena, usize, 0, false);
	}
	arena_large_count_requests(arena, SC_NBINS, N, 1, 0);
	for (unsigned round = 0; round < 3; round++) {
		counts_t before = counts();
		flush(p, N);
		counts_t c = counts();
		is_uint(before.active - c.active, N * extent, "their pages are not in use");
		is_uint(c.stacked, N * extent, "they lie in a stack");
		is_uint(count_unlike_freed(p, N), 0, "the map is as it was; a second free is told");
		is_uint(c.ndalloc - before.ndalloc, config_stats ? N : 0, "all are freed");
		is_uint(before.allocated - c.allocated, config_stats ? N * usize : 0, "with their bytes");
		for (got = 0; got < N; got += 10) {
			is_uint(take_hot(usize, p + got, 10), 10, "all come back");
		}
		arena_large_count_requests(arena, SC_NBINS, N, 1, 0);
		c = counts();
		is_uint(c.active, before.active, "in use");
		is_uint(c.stacked, 0, "out of the stack");
		is_uint(c.nmalloc - before.nmalloc, config_stats ? N : 0, "made");
		is_uint(c.allocated, before.allocated, "with their bytes");
	}
	/* Objects of other arenas, sizes and kinds in between are freed as they must be. */
	p[N] = p[N / 2];
	p[N / 2] = arena_large_malloc(arenas_get(0), usize, 0, false);
	p[N + 1] = p[3];
	p[3] = arena_large_malloc(arena, 2 * usize, 0, false);
	arena_large_count_requests(arenas_get(0), SC_NBINS, 1, 0, 0);
	arena_large_count_requests(arena, sz_s2i(2 * usize), 1, 0, 0);
	flush(p, N + 2);
	gate_exit(tls_get());
	is_uint(active_pages(), 0, "a mixed batch is freed");
	decay_all();
	is_uint(stacked() + pac_ndirty(&arena->pac), 0, "and purged");
}

/* A batch takes the lock once, also of fresh objects that have no mark behind them yet. */
static void
test_locks(void) {
	enum { N = 8 };
	size_t usize = (size_t)512 << 10;
	arena_t *a = arenas_get(0);
	const uint64_t *locks = &a->pac.hot_mtx.counts.n_lock_ops;
	void *p[N];
	gate_enter(tls_get());
	for (unsigned i = 0; i < N; i++) {
		p[i] = arena_large_malloc(a, usize, 0, false);
	}
	flush(p, N); /* makes the stack, too */
	uint64_t before = *locks;
	unsigned got = arena_large_reuse(a, usize, p, N);
	is_uint(got, N, "a batch of fresh objects");
	is_uint(*locks - before, 1, "is taken under one lock");
	before = *locks;
	arena_large_flush(p, got);
	is_uint(*locks - before, 1, "and left under one");
	arena_large_count_requests(a, sz_s2i(usize), 2 * N, 1, 1);
	arenas_decay(a, true);
	gate_exit(tls_get());
}

static int
compare_pointers(const void *a, const void *b) {
	uintptr_t x = (uintptr_t)*(void *const *)a, y = (uintptr_t)*(void *const *)b;
	return x < y ? -1 : x > y;
}

/* Pages of the longest run of extents side by side; sorts p. */
static size_t
longest_run(void **p, unsigned n) {
	size_t longest = 0, run = 0;
	qsort(p, n, sizeof(p[0]), compare_pointers);
	for (unsigned i = 0; i < n; i++) {
		edata_t *e = emap_edata(p[i]), *before = i > 0 ? emap_edata(p[i - 1]) : NULL;
		bool is_next = before != NULL && (char *)before->addr + before->size == (char *)e->addr;
		run = (is_next ? run : 0) + (e->size >> LG_PAGE);
		longest = run > longest ? run : longest;
	}
	return longest;
}

/*
 * Hot extents that do not fit are joined before the arena asks the system for more. Where the
 * system has put mappings apart, all runs may be too short: the rest is mapped behind one of them.
 */
static void
test_stack_gives_way(void) {
	enum { N = 16 };
	void *p[N];
	for (unsigned i = 0; i < N; i++) {
		p[i] = reused_or_new(48 * PAGE);
	}
	size_t need = 300 + opt_cache_oblivious;
	size_t most = longest_run(p, N) < need ? need - 48 : 0;
	gate_enter(tls_get());
	for (unsigned i = 0; i < N; i++) {
		arena_large_dalloc(emap_edata(p[i]));
	}
	size_t mapped = atomic_load_zu(&arena->pac.mapped, MO_RELAXED), had = stacked();
	void *big = arena_large_malloc(arena, 300 * PAGE, 0, false);
	arena_large_count_requests(arena, sz_s2i(300 * PAGE), 1, 0, 0);
	ok(had >= N * 48 && stacked() == 0, "the stacks are emptied");
	size_t grown = atomic_load_zu(&arena->pac.mapped, MO_RELAXED) - mapped;
	ok(grown <= most << LG_PAGE, "and nothing is mapped but what is missing: %zu of %zu pages",
	    grown >> LG_PAGE, most);
	arena_large_dalloc(emap_edata(big));
	gate_exit(tls_get());
	decay_all();
}

/* In a bounded cache only what is within the limit stays, hot ones included. */
static void
test_bounded(void) {
	size_t usize = 64 * PAGE, other = 512 * PAGE;
	gate_enter(tls_get());
	pac_bound(&arena->pac, 128 * PAGE);
	gate_exit(tls_get());
	void *p = reused_or_new(usize), *big = reused_or_new(other);
	free_large(big);
	is_uint(stacked(), 0, "more than may be kept is not hot");
	ok(pac_ndirty(&arena->pac) <= 128, "and is given back");
	free_large(p);
	gate_enter(tls_get());
	size_t ndirty = pac_ndirty(&arena->pac);
	pac_bound(&arena->pac, 0);
	gate_exit(tls_get());
	ok(ndirty <= 128, "in the end the least is unused (%zu)", ndirty);
}

static void
test_at_once(void) {
	arena_decay_ms_set(arena, true, 0);
	void *p = reused_or_new(64 * PAGE);
	free_large(p);
	is_uint(pac_ndirty(&arena->pac), 0, "with a decay time of 0 nothing stays hot, nor dirty");
	is_uint(active_pages(), 0, "or in use");
	arena_decay_ms_set(arena, true, 10000);
}

/* Each thread writes its number at both ends of what it has. */
static void *
worker(void *arg) {
	uint64_t seed = (uintptr_t)arg + 7, bad = 0;
	char *held[3] = {NULL};
	size_t usizes[3] = {0};
	for (unsigned i = 0; i < N_ROUNDS; i++) {
		unsigned k = (unsigned)draw_below(&seed, 3);
		if (held[k] != NULL) {
			bad += wrong_if(held[k][0] != (char)(uintptr_t)arg)
			    || wrong_if(held[k][usizes[k] - 1] != (char)(uintptr_t)arg);
			free_large(held[k]);
			held[k] = NULL;
			continue;
		}
		usizes[k] = (64 + draw_below(&seed, 4)) * PAGE;
		held[k] = reused_or_new(usizes[k]);
		bad += arena_usize(emap_elem(held[k])) != usizes[k];
		held[k][0] = held[k][usizes[k] - 1] = (char)(uintptr_t)arg;
		if (i % 5000 == 0) {
			gate_enter(tls_get());
			arenas_decay(arena, true);
			gate_exit(tls_get());
		}
	}
	for (unsigned k = 0; k < 3; k++) {
		if (held[k] != NULL) {
			free_large(held[k]);
		}
	}
	return (void *)(uintptr_t)bad;
}

/* The same with batches, as thread caches take and leave them. */
static void *
batch_worker(void *arg) {
	enum { MOST = 40 };
	uint64_t seed = (uintptr_t)arg + 77, bad = 0;
	void *held[MOST];
	for (unsigned i = 0; i < N_ROUNDS / 40; i++) {
		unsigned n = 0, want = 1 + (unsigned)draw_below(&seed, MOST);
		gate_enter(tls_get());
		while (n < want) {
			unsigned got = take_hot(SC_LARGE_MINCLASS, held + n, want - n);
			if (got == 0) {
				held[n] = arena_large_malloc(arena, SC_LARGE_MINCLASS, 0, false);
				got = 1;
			}
			arena_large_count_requests(arena, SC_NBINS, got, 1, 0);
			n += got;
		}
		gate_exit(tls_get());
		for (unsigned k = 0; k < n; k++) {
			memset(held[k], (int)(uintptr_t)arg, 16);
		}
		for (unsigned k = 0; k < n; k++) {
			bad += ((char *)held[k])[15] != (char)(uintptr_t)arg;
		}
		gate_enter(tls_get());
		flush(held, n);
		if (i % 200 == 0) {
			arenas_decay(arena, true);
		}
		gate_exit(tls_get());
	}
	return (void *)(uintptr_t)bad;
}

static void
test_threads(void) {
	pthread_t threads[N_THREADS];
	uintptr_t bad = 0;
	for (uintptr_t i = 0; i < N_THREADS; i++) {
		pthread_create(&threads[i], NULL, i % 3 == 0 ? batch_worker : worker, (void *)(i + 1));
	}
	for (unsigned i = 0; i < N_THREADS; i++) {
		void *b;
		pthread_join(threads[i], &b);
		bad += (uintptr_t)b;
	}
	is_uint(bad, 0, "nobody else wrote into an object");
	is_uint(active_pages(), 0, "no page is in use any more");
	uint64_t nmalloc = 0, ndalloc = 0, nrequests = 0;
	for (unsigned i = 0; i < LARGE_CLASSES_MAX; i++) {
		nmalloc += atomic_load_u64(&arena->large[i].nmalloc, MO_RELAXED);
		ndalloc += atomic_load_u64(&arena->large[i].ndalloc, MO_RELAXED);
		nrequests += atomic_load_u64(&arena->large[i].nrequests, MO_RELAXED);
	}
	if (config_stats) {
		ok(nmalloc > N_THREADS * N_ROUNDS / 4, "%llu objects", (unsigned long long)nmalloc);
		is_uint(ndalloc, nmalloc, "as many freed");
		is_uint(nrequests, nmalloc, "all asked for");
		is_uint(atomic_load_zu(&arena->large_allocated, MO_RELAXED), 0, "no bytes are left");
	}
}

static void
body(void) {
	pac_rise_hook = NULL; /* which ticks: here time passes by decay_all() only */
	unsigned ind;
	gate_enter(tls_get());
	if (arenas_create(&ind, NULL) != 0) {
		bail_out("no arena");
	}
	arena = arenas_get(ind);
	arena_decay_ms_set(arena, true, 10000);
	gate_exit(tls_get());
	test_one();
	test_other_use();
	test_stack();
	test_full_stack();
	test_cool();
	test_cool_one();
	test_cool_objects();
	test_batches();
	test_locks();
	test_stack_gives_way();
	test_bounded();
	gate_enter(tls_get());
	test_at_once();
	gate_exit(tls_get());
	test_threads();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
