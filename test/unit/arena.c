/*
 * arena/arena.h: objects of all sizes straight from an arena of our own; contents, counts, zeroing,
 * several threads, foreign frees.
 */
#include "core.h"

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "os/gate.h"

#include <pthread.h>

#define N_HELD 400

struct object {
	char *p;
	size_t usize;
	unsigned char fill;
};

static arena_t *arena;
static arena_stats_t stats;

static void
read_stats(void) {
	memset(&stats, 0, sizeof(stats));
	arena_stats_merge(arena, &stats);
}

/* A usable size, with its alignment (0: natural). */
static size_t
random_usize(uint64_t *seed, size_t *alignment) {
	size_t kind = draw_below(seed, 10);
	size_t size = 1 + draw_below(seed, kind == 0 ? 60 * PAGE : kind == 1 ? 5 * PAGE : 2000);
	*alignment = draw_below(seed, 4) == 0 ? (size_t)1 << draw_below(seed, LG_PAGE + 4) : 0;
	return *alignment == 0 ? sz_s2u(size) : sz_sa2u(size, *alignment);
}

/* What may be written of an object; the rest are canaries. */
static size_t
writable(size_t usize) {
	return usize >= SC_LARGE_MINCLASS ? usize : canary_room(usize);
}

static unsigned
object_make(struct object *o, uint64_t *seed) {
	size_t alignment;
	bool zero = draw_below(seed, 2) == 0;
	o->usize = random_usize(seed, &alignment);
	o->fill = (unsigned char)(1 + draw_below(seed, 255));
	o->p = arena_malloc(arena, o->usize, alignment, zero, 1);
	if (o->p == NULL) {
		return 1;
	}
	uint64_t elem = emap_elem(o->p);
	size_t real = arena_usize(elem);
	unsigned bad = real < o->usize || elem_edata(elem)->arena_ind != arena->ind;
	bad += alignment != 0 && ((uintptr_t)o->p & (alignment - 1)) != 0;
	bad += ((uintptr_t)o->p & (o->usize >= 16 ? 15 : 7)) != 0;
	bad += zero && !is_filled(o->p, 0, writable(o->usize));
	memset(o->p, o->fill, writable(o->usize));
	return bad;
}

static unsigned
object_free(struct object *o) {
	unsigned bad = !is_filled(o->p, o->fill, writable(o->usize));
	arena_dalloc(o->p, emap_elem(o->p));
	o->p = NULL;
	return bad;
}

static unsigned
churn(uint64_t seed, unsigned steps) {
	static __thread struct object held[N_HELD];
	unsigned bad = 0;
	gate_enter(tls_get());
	for (unsigned i = 0; i < steps; i++) {
		struct object *o = &held[draw_below(&seed, N_HELD)];
		bad += o->p == NULL ? object_make(o, &seed) : object_free(o);
	}
	for (unsigned i = 0; i < N_HELD; i++) {
		bad += held[i].p != NULL ? object_free(&held[i]) : 0;
	}
	gate_exit(tls_get());
	return bad;
}

/*
 * Of two threads that fetch a slab at once one is later: its slab waits, whole, until it is needed
 * (n_waiting of each bin).
 */
static void
check_all_gone(const char *what, unsigned n_waiting) {
	unsigned bad = 0;
	read_stats();
	for (unsigned i = 0; i < SC_NBINS; i++) {
		bad += wrong_if(stats.bins[i].curregs != 0)
		    || wrong_if(stats.bins[i].nmalloc != stats.bins[i].ndalloc);
		bad += stats.bins[i].curslabs > bin_infos[i].n_shards + n_waiting;
	}
	for (unsigned i = 0; i < SC_NSIZES - SC_NBINS; i++) {
		bad += stats.lextents[i].curlextents != 0;
	}
	is_uint(bad, 0, "%s: no object is left in any class", what);
	is_uint(stats.small.allocated + stats.large.allocated, 0, "%s: no byte", what);
}

static void
test_one_thread(void) {
	is_uint(churn(1, 30000), 0, "30000 random steps");
	check_all_gone("one thread", 0);
	ok(stats.small.nmalloc > 5000 && stats.large.nmalloc > 1000, "small and large ones");
	is_uint(stats.small.nmalloc, stats.small.nrequests, "a request for each small one");
	is_uint(stats.large.nmalloc, stats.large.nrequests, "and each large one");
	size_t slab_pages = 0;
	for (unsigned i = 0; i < SC_NBINS; i++) {
		slab_pages += stats.bins[i].curslabs * bin_infos[i].slab_size / PAGE;
	}
	is_uint(stats.pactive, slab_pages, "the pages in use are the current slabs");
	ok(stats.mapped >= (stats.pactive + stats.pdirty) * PAGE, "mapped");
	arenas_decay(arena, true);
	read_stats();
	is_uint(stats.pdirty + stats.pmuzzy, 0, "a purge leaves no unused pages");
}

static void *
churn_thread(void *arg) {
	return (void *)(uintptr_t)churn((uintptr_t)arg, 15000);
}

static void
test_threads(void) {
	pthread_t t[4];
	uintptr_t bad = 0;
	for (uintptr_t i = 0; i < 4; i++) {
		pthread_create(&t[i], NULL, churn_thread, (void *)(i + 50));
	}
	for (unsigned i = 0; i < 4; i++) {
		void *ret;
		pthread_join(t[i], &ret);
		bad += (uintptr_t)ret;
	}
	is_uint(bad, 0, "four threads on one arena");
	check_all_gone("four threads", 3);
}

#define MIXED_MAX 100

static arena_t *mixed[MIXED_MAX];

/*
 * One batch with objects of n arenas goes back to each: of few arenas one by one, of many sorted.
 */
static void
test_mixed_flush(unsigned n, unsigned each) {
	static void *ptrs[MIXED_MAX * 9];
	unsigned bad = 0;
	size_t before[MIXED_MAX];
	for (unsigned i = 0; i < n; i++) {
		unsigned ind;
		bad += mixed[i] == NULL && arenas_create(&ind, NULL) != 0;
		mixed[i] = mixed[i] == NULL ? arenas_get(ind) : mixed[i];
		before[i] = mixed[i]->bins[5]->stats.ndalloc;
	}
	for (unsigned i = 0; i < n * each; i++) {
		bad += arena_small_fill(mixed[i * 7 % n], 5, 0, &ptrs[i], 1, 1, 0) != 1;
	}
	for (unsigned i = 0; i < n; i++) {
		bad += mixed[i]->bins[5]->stats.curregs != each;
	}
	arena_small_return(5, ptrs, n * each, NULL);
	for (unsigned i = 0; i < n; i++) {
		bad += mixed[i]->bins[5]->stats.ndalloc != before[i] + each;
		bad += wrong_if(mixed[i]->bins[5]->stats.curregs != 0)
		    || wrong_if(mixed[i]->bins[5]->stats.curslabs > 1);
	}
	is_uint(bad, 0, "a batch of the objects of %u arenas, %u of each", n, each);
}

static void
test_samples(void) {
	unsigned bad = 0;
	sample_rec_t *rec;
	size_t sizes[] = {8, 100, 4096, SC_LARGE_MINCLASS, 40 * PAGE};
	for (unsigned i = 0; i < 5; i++) {
		size_t usize = sz_s2u(sizes[i]);
		char *p = arenas_malloc_sampled(arena, usize, 0, true, 1, &rec);
		uint64_t elem = emap_elem(p);
		bad += wrong_if(p == NULL) || wrong_if(rec == NULL)
		    || wrong_if((elem & ELEM_SAMPLED) == 0);
		/* No way around the slow path. */
		bad += wrong_if(elem >> ELEM_BIN_SHIFT != 0) || wrong_if((elem & ELEM_LARGE) != 0);
		bad += wrong_if(arena_sample_rec(p, elem) != rec)
		    || wrong_if(rec->tctx != NULL) || wrong_if(rec->link != NULL);
		bad += usize < SC_LARGE_MINCLASS && !arena_may_be_sampled(p);
		bad += wrong_if(arena_usize(elem) != usize)
		    || wrong_if(!is_filled(p, 0, writable(usize)));
		rec->weight = 77;
		arena_dalloc(p, elem);
		p = arenas_malloc_sampled(arena, usize, 0, false, 1, &rec);
		bad += wrong_if(rec->tctx != NULL) || wrong_if(rec->link != NULL);
		arena_dalloc(p, emap_elem(p));
	}
	is_uint(bad, 0, "sampled objects have an empty record and never a cache bin");
	char *p = arena_malloc(arena, 64, 0, false, 1);
	ok(arena_sample_rec(p, emap_elem(p)) == NULL, "others have none");
	arena_dalloc(p, emap_elem(p));
	ok(arena_may_be_sampled(NULL), "a sized free of NULL is kept off the fast path");
}

static void
test_decay_ms(void) {
	is_int(arena_decay_ms_set(arena, true, -2), EINVAL, "-2 is no decay time");
	is_int(arena_decay_ms_set(arena, true, 1234), 0, "dirty");
	is_int(arena_decay_ms_set(arena, false, -1), 0, "muzzy");
	is_int(arena_decay_ms_get(arena, true), 1234, "is what was set");
	is_int(arena_decay_ms_get(arena, false), -1, "each for itself");
}

static void
bad_flush(void *arg) {
	void *ptrs[2];
	arena_small_fill(arena, 5, 0, ptrs, 1, 1, 0);
	ptrs[1] = *(int *)arg == 0 ? ptrs[0] : (void *)(uintptr_t)0x5000;
	arena_small_return(5, ptrs, 2, NULL);
}

static void
body(void) {
	unsigned ind;
	if (arenas_create(&ind, NULL) != 0) {
		bail_out("no arena");
	}
	arena = arenas_get(ind);
	gate_enter(tls_get());
	test_one_thread();
	gate_exit(tls_get());
	test_threads();
	gate_enter(tls_get());
	test_mixed_flush(3, 100);
	test_mixed_flush(MIXED_MAX, 1);
	test_mixed_flush(MIXED_MAX, 9);
	test_mixed_flush(64, 2);
	test_samples();
	test_decay_ms();
	gate_exit(tls_get());
	int what = 0;
	dies(SIGABRT, "<jemalloc>: double free or pointer into a block", bad_flush, &what,
	    "twice in a batch");
	what = 1;
	if (config_hardening) {
		skip(1, "read for its canaries before");
	} else {
		dies(SIGABRT, "<jemalloc>: double free or pointer to no block", bad_flush, &what,
		    "a foreign pointer");
	}
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
