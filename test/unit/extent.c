/*
 * extent/extent.h against a model: an array that says of each page of one mapping who has it.
 * Random takes, puts, splits and merges; after each the page map and the caches say the same.
 */
#include "core.h"

#include "extent/extent.h"
#include "meta/base.h"
#include "os/gate.h"
#include "os/sys.h"

#include <pthread.h>

#define N_PAGES 2000
#define N_HELD 100
#define ARENA_IND 3000

enum { page_dirty, page_retained, page_held };

static extent_src_t src;
static ecache_t dirty, retained;
static eset_class_t dirty_classes[SC_NPSIZES_MAX], retained_classes[SC_NPSIZES_MAX];
static eset_class_t fresh_classes[SC_NPSIZES_MAX], waste_classes[SC_NPSIZES_MAX];
static char *region;
static unsigned char owner[N_PAGES];
static edata_t *held[N_HELD];

static size_t
page_of(const char *p) {
	return (size_t)(p - region) / PAGE;
}

static bool
is_owned_by(const edata_t *e, unsigned char who) {
	for (size_t i = page_of(e->addr); i < page_of(edata_end(e)); i++) {
		if (owner[i] != who) {
			return false;
		}
	}
	return true;
}

static void
give(const edata_t *e, unsigned char who) {
	memset(&owner[page_of(e->addr)], who, e->size / PAGE);
}

/* The extent is right in itself and in the page map. */
static bool
is_sound(const edata_t *e, extent_state_t state) {
	const char *last = edata_end(e) - 1;
	return e->size % PAGE == 0 && e->size > 0 && e->state == state && e->arena_ind == ARENA_IND
	    && emap_edata(e->addr) == e && emap_edata(last) == e
	    && elem_state(emap_elem(e->addr)) == state && elem_state(emap_elem(last)) == state;
}

/* Walks over the mapping: each run of pages of one cache is one extent there, none else. */
static unsigned
check_caches(void) {
	unsigned bad = 0;
	size_t npages[2] = {0, 0};
	for (size_t i = 0; i < N_PAGES;) {
		if (owner[i] == page_held) {
			i++;
			continue;
		}
		const edata_t *e = emap_edata(region + i * PAGE);
		extent_state_t state = owner[i] == page_dirty ? extent_state_dirty : extent_state_retained;
		if (e == NULL || e->addr != region + i * PAGE || !is_sound(e, state)
		    || !is_owned_by(e, owner[i])) {
			return bad + 1;
		}
		size_t end = i + e->size / PAGE;
		bad += end < N_PAGES && owner[end] == owner[i]; /* should have been joined */
		npages[owner[i]] += e->size / PAGE;
		i = end;
	}
	bad += npages[page_dirty] != ecache_npages(&dirty);
	bad += npages[page_retained] != ecache_npages(&retained);
	return bad;
}

static void
hold(edata_t *e, unsigned k) {
	give(e, page_held);
	held[k] = e;
}

/* Room of a size anywhere in a cache, ignoring alignment. */
static size_t
longest_run(unsigned char who) {
	size_t best = 0, run = 0;
	for (size_t i = 0; i < N_PAGES; i++) {
		run = owner[i] == who ? run + 1 : 0;
		best = run > best ? run : best;
	}
	return best;
}

static unsigned
step_take(uint64_t *seed, unsigned k) {
	bool is_dirty = draw_below(seed, 2) == 0;
	ecache_t *c = is_dirty ? &dirty : &retained;
	unsigned char who = is_dirty ? page_dirty : page_retained;
	size_t size = (1 + draw_below(seed, 60)) * PAGE;
	size_t alignment = draw_below(seed, 3) == 0 ? PAGE << draw_below(seed, 6) : PAGE;
	edata_t *e = ecache_take(&src, c, size, alignment, 64);
	if (e == NULL) {
		/* Allowed only if no run is surely long enough: classes are at most a quarter apart. */
		size_t need = (size + alignment) / PAGE;
		return longest_run(who) > need + need / 2 + 4;
	}
	unsigned bad = !is_sound(e, extent_state_active) || e->size != size || !is_owned_by(e, who);
	bad += ((uintptr_t)e->addr & (alignment - 1)) != 0;
	hold(e, k);
	return bad;
}

static unsigned
step_put(uint64_t *seed, unsigned k) {
	bool is_dirty = draw_below(seed, 2) == 0;
	unsigned bad = !is_sound(held[k], extent_state_active) || !is_owned_by(held[k], page_held);
	give(held[k], is_dirty ? page_dirty : page_retained);
	ecache_put(&src, is_dirty ? &dirty : &retained, held[k]);
	held[k] = NULL;
	return bad;
}

static unsigned
step_split(uint64_t *seed, unsigned k, unsigned other) {
	size_t n = held[k]->size / PAGE;
	if (n < 2 || held[other] != NULL) {
		return 0;
	}
	size_t size_a = (1 + draw_below(seed, n - 1)) * PAGE;
	char *addr = held[k]->addr;
	edata_t *b = extent_split(&src, held[k], size_a);
	held[other] = b;
	return b == NULL || held[k]->size != size_a || b->size != n * PAGE - size_a
	    || b->addr != addr + size_a || !is_sound(held[k], extent_state_active)
	    || !is_sound(b, extent_state_active);
}

/* Extensions for which a neighbour lent its beginning, or all of it. */
static unsigned n_lent, n_lent_whole;

/* step_extend() by a border that moves; `run`: bytes that lie behind the extent. */
static unsigned
lend(ecache_t *c, unsigned k, size_t size, size_t run) {
	size_t old = held[k]->size;
	const edata_t *n = run == 0 ? NULL : emap_edata(edata_end(held[k]));
	bool was_zeroed = held[k]->is_zeroed, is_zeroed = was_zeroed && n != NULL && n->is_zeroed;
	if (!ecache_try_lend(&src, c, held[k], size)) {
		return run >= size || held[k]->size != old;
	}
	const char *border = held[k]->addr + old;
	bool is_inner = (old == PAGE || emap_elem(border - 1) == 0)
	    && (size == PAGE || emap_elem(border) == 0);
	give(held[k], page_held);
	n_lent++;
	n_lent_whole += run == size;
	return !is_inner || run < size || held[k]->size != old + size || held[k]->is_zeroed != is_zeroed
	    || !is_sound(held[k], extent_state_active);
}

/* Takes what lies directly behind an extent, and joins the two. */
static unsigned
step_extend(uint64_t *seed, unsigned k) {
	char *end = edata_end(held[k]);
	size_t size = (1 + draw_below(seed, 8)) * PAGE, old = held[k]->size, at = page_of(end);
	bool is_dirty = draw_below(seed, 2) == 0;
	unsigned char who = is_dirty ? page_dirty : page_retained;
	size_t run = 0;
	while (at + run < N_PAGES && owner[at + run] == who) {
		run++;
	}
	if (draw_below(seed, 2) == 0) {
		return lend(is_dirty ? &dirty : &retained, k, size, run * PAGE);
	}
	edata_t *t = ecache_take_at(&src, is_dirty ? &dirty : &retained, end, size);
	if (t == NULL) {
		return run * PAGE >= size;
	}
	unsigned bad = t->addr != end || t->size != size || run * PAGE < size;
	extent_merge(&src, held[k], t);
	give(held[k], page_held);
	return bad + (held[k]->size != old + size || !is_sound(held[k], extent_state_active));
}

static void
test_model(void) {
	uint64_t seed = 17;
	unsigned bad = 0, bad_caches = 0, n[4] = {0};
	for (unsigned i = 0; i < 30000; i++) {
		unsigned k = (unsigned)draw_below(&seed, N_HELD);
		unsigned what = held[k] == NULL ? 0 : 1 + (unsigned)draw_below(&seed, 3);
		bad += what == 0 ? step_take(&seed, k)
		    : what == 1 ? step_put(&seed, k)
		    : what == 2 ? step_split(&seed, k, (unsigned)draw_below(&seed, N_HELD))
		    : step_extend(&seed, k);
		n[what]++;
		if (i % 50 == 0) {
			bad_caches += check_caches();
		}
	}
	is_uint(bad, 0, "%u takes, %u puts, %u splits, %u extensions", n[0], n[1], n[2], n[3]);
	is_uint(bad_caches, 0, "the caches agree with the model all the time");
	ok(n[0] > 1000 && n[1] > 1000 && n[2] > 1000 && n[3] > 1000, "all of them often");
	ok(n_lent > 100 && n_lent_whole > 10, "%u borders moved, %u over all of the neighbour", n_lent,
	    n_lent_whole);
	for (unsigned k = 0; k < N_HELD; k++) {
		if (held[k] != NULL) {
			give(held[k], page_dirty);
			ecache_put(&src, &dirty, held[k]);
			held[k] = NULL;
		}
	}
	is_uint(check_caches(), 0, "everything put back");
}

/* The oldest leave first, down to a limit; in the end one extent is left, whole again. */
static void
test_evict(void) {
	unsigned bad = 0, n = 0;
	edata_t *e;
	size_t half = ecache_npages(&dirty) / 2, had = half;
	ok(ecache_evict(&dirty, ecache_npages(&dirty), true) == NULL,
	    "no more than the limit: nothing leaves");
	while ((e = ecache_evict(&dirty, half, true)) != NULL) {
		bad += wrong_if(!is_sound(e, extent_state_active))
		    || wrong_if(!is_owned_by(e, page_dirty));
		bad += ecache_npages(&dirty) > had * 2;
		give(e, page_retained);
		ecache_put(&src, &retained, e);
		n++;
	}
	ok(ecache_npages(&dirty) <= half && n > 0, "down to half in %u steps", n);
	is_uint(bad, 0, "all of them sound");
	is_uint(check_caches(), 0, "and filed right");
	while ((e = ecache_evict(&dirty, 0, true)) != NULL) {
		give(e, page_retained);
		ecache_put(&src, &retained, e);
	}
	is_uint(ecache_npages(&dirty), 0, "then to nothing");
	is_uint(check_caches(), 0, "all is retained");
	e = emap_edata(region);
	ok(e != NULL && e->addr == region && e->size == N_PAGES * PAGE, "in one piece");
}

/* Flags of the parts: joined pages are zero only if both parts are. */
static void
test_flags(void) {
	edata_t *a = ecache_take(&src, &retained, 4 * PAGE, PAGE, 64);
	edata_t *b = extent_split(&src, a, 2 * PAGE);
	a->is_zeroed = true;
	b->is_zeroed = true;
	extent_merge(&src, a, b);
	ok(a->is_zeroed, "zero and zero is zero");
	b = extent_split(&src, a, PAGE);
	ok(b->is_zeroed && b->is_committed && a->is_zeroed, "the parts inherit");
	b->is_zeroed = false;
	extent_merge(&src, a, b);
	ok(!a->is_zeroed, "zero and not is not");
	a->is_zeroed = true;
	edata_t *n = emap_edata(edata_end(a));
	n->is_zeroed = false;
	ok(ecache_try_lend(&src, &retained, a, PAGE) && !a->is_zeroed, "nor zero and a lent page");
	give(a, page_retained);
	ecache_put(&src, &retained, a);
}

static void
test_grow(void) {
	static edata_t *got[50];
	uint64_t seed = 23;
	unsigned bad = 0;
	size_t asked = 0;
	ecache_t fresh;
	memset(&fresh, 0, sizeof(fresh));
	/*
	 * Of a state that no other cache here has: what is mapped may come to lie beside the pages of
	 * another test.
	 */
	ecache_init(&fresh, fresh_classes, extent_state_muzzy, "fresh", WITNESS_RANK_OMIT);
	for (unsigned i = 0; i < 50; i++) {
		size_t size = (1 + draw_below(&seed, 900)) * PAGE;
		size_t alignment = draw_below(&seed, 3) == 0 ? PAGE << draw_below(&seed, 8) : PAGE;
		edata_t *e = ecache_take(&src, &fresh, size, alignment, 64);
		e = e != NULL ? e : extent_grow(&src, &fresh, size, alignment);
		bad += wrong_if(e == NULL) || wrong_if(e->size != size)
		    || wrong_if(((uintptr_t)e->addr & (alignment - 1)) != 0);
		bad += e != NULL
		    && (wrong_if(!is_sound(e, extent_state_active)) || wrong_if(!e->is_zeroed));
		e->addr[0] = e->addr[size - 1] = 1;
		asked += size;
		got[i] = e;
	}
	is_uint(bad, 0, "50 extents from the system: size, alignment, zeroed");
	ok(src.grow_next > HUGEPAGE, "mappings grow: the next one has %zu MiB", src.grow_next >> 20);
	for (unsigned i = 0; i < 50; i++) {
		ecache_put(&src, &fresh, got[i]);
	}
	ok(ecache_npages(&fresh) * PAGE >= asked, "all of it can be kept");
	unsigned n = 0;
	edata_t *e;
	while ((e = ecache_evict(&fresh, 0, true)) != NULL) {
		char *addr = e->addr;
		bad += wrong_if(extent_unmap(&src, e) != 0) || wrong_if(emap_elem(addr) != 0);
		n++;
	}
	is_uint(bad, 0, "or given back (%u pieces)", n);
}

/* No descriptor to be had: nothing is cut, nothing is lost. */
static bool
no_metadata(void) {
	return true;
}

static void
test_no_descriptors(void) {
	static edata_t *spare[20000];
	base_fault_hook = no_metadata;
	unsigned n = 0;
	while (n < 20000 && (spare[n] = edata_cache_get(&src.edata_cache)) != NULL) {
		n++;
	}
	ok(ecache_take(&src, &retained, PAGE, PAGE, 64) == NULL, "no descriptor: no cut");
	is_uint(check_caches(), 0, "the cache is as it was");
	edata_t *whole = ecache_take(&src, &retained, N_PAGES * PAGE, PAGE, 64);
	ok(whole != NULL, "the whole needs none");
	ok(extent_split(&src, whole, PAGE) == NULL && whole->size == N_PAGES * PAGE,
	    "it cannot be split");
	ok(extent_grow(&src, &retained, PAGE, PAGE) == NULL, "nor more be mapped");
	edata_cache_put(&src.edata_cache, spare[--n]);
	edata_t *b = extent_split(&src, whole, 3 * PAGE);
	ok(b != NULL, "one descriptor, one split");
	ecache_put(&src, &retained, whole);
	ecache_put(&src, &retained, b);
	is_uint(check_caches(), 0, "joined again");
	/*
	 * Both ends have to be cut and there is one descriptor only: refused, and all pages are there.
	 */
	uintptr_t at = ((uintptr_t)region + 64 * PAGE - 1) & ~(uintptr_t)(64 * PAGE - 1);
	size_t want = at == (uintptr_t)region ? 128 * PAGE : 64 * PAGE;
	edata_t *e = ecache_take(&src, &retained, PAGE, want, 64);
	ok(at == (uintptr_t)region || e == NULL, "two cuts with one descriptor");
	is_uint(ecache_npages(&retained) + (e != NULL), N_PAGES, "no page is lost");
	base_fault_hook = NULL;
	while (n > 0) {
		edata_cache_put(&src.edata_cache, spare[--n]);
	}
}

static unsigned n_own, n_held;

static void *
own_alloc(ehooks_table_t *own UNUSED, void *at, size_t size, size_t alignment, bool *zero,
    bool *commit, unsigned ind) {
	n_own++;
	n_held += mutex_is_owner(&src.grow_mtx);
	return ehooks_system.alloc(&ehooks_system, at, size, alignment, zero, commit, ind);
}

/* What a thread maps, longer than what any cache has; it begins when the main thread says so. */
static struct {
	atomic_b_t begins;
	ecache_t *retained;
	edata_t *e;
} late;

static void *
late_thread(void *arg UNUSED) {
	gate_enter(tls_get());
	while (!atomic_load_b(&late.begins, MO_ACQUIRE)) {
		usleep(1000);
	}
	late.e = extent_grow(&src, late.retained, 4 * N_PAGES * PAGE, PAGE);
	gate_exit(tls_get());
	return NULL;
}

/* Hooks that are set while a thread waits for its turn to map are called without the lock. */
static void
test_hooks_meanwhile(ecache_t *waste) {
	static ehooks_table_t own;
	pthread_t t;
	own = ehooks_system;
	own.alloc = own_alloc;
	late.retained = waste;
	pthread_create(&t, NULL, late_thread, NULL);
	mutex_lock(&src.grow_mtx);
	atomic_store_b(&late.begins, true, MO_RELEASE);
	while (atomic_load_u32(&src.grow_mtx.counts.n_waiting_thds, MO_RELAXED) == 0) {
		usleep(1000);
	}
	ehooks_set(&src.ehooks, &own);
	mutex_unlock(&src.grow_mtx);
	pthread_join(t, NULL);
	ok(late.e != NULL && n_own == 1, "a hook set meanwhile is called");
	is_uint(n_held, 0, "without grow_mtx");
	ehooks_set(&src.ehooks, &ehooks_system);
	ecache_put(&src, waste, late.e);
}

/* ------------------------------------------------------------------ steps of growth */

/* Sizes that the hook of the user was asked for by one request, of which it refuses the first. */
static struct {
	size_t asked[4];
	unsigned n, n_refused;
} steps;

static void *
step_alloc(ehooks_table_t *own UNUSED, void *at, size_t size, size_t alignment, bool *zero,
    bool *commit, unsigned ind) {
	steps.asked[steps.n++ % ARRAY_LEN(steps.asked)] = size;
	return steps.n <= steps.n_refused ? NULL
	    : ehooks_system.alloc(&ehooks_system, at, size, alignment, zero, commit, ind);
}

static bool
step_dalloc(ehooks_table_t *own UNUSED, void *addr, size_t size, bool committed UNUSED,
    unsigned ind UNUSED) {
	return pages_unmap(addr, size) != 0;
}

/* The step after a mapping of so many bytes: the page class after the one that holds them. */
static size_t
model_step_after(size_t bytes, size_t limit) {
	unsigned pind = 0;
	while (sz_pind2sz(pind) < bytes) {
		pind++;
	}
	return min_zu(sz_pind2sz(pind + 1), limit);
}

/* What a request asks for and makes of the step, if n_refused calls are refused. */
static unsigned
model_grow(size_t *next, size_t limit, size_t size, size_t alignment, size_t grain,
    size_t asked[2]) {
	unsigned n = 0;
	size_t need = (size + grain - 1) / grain * grain;
	bool takes_step = *next >= need && (alignment <= grain || alignment == HUGEPAGE);
	asked[n++] = takes_step ? *next : need;
	if (steps.n_refused > 0 && asked[0] > need) {
		unsigned pind = 0;
		while (sz_pind2sz(pind + 1) <= size) {
			pind++;
		}
		*next = grain == PAGE ? sz_pind2sz(pind) : *next;
		asked[n++] = need;
	}
	if (steps.n_refused < n && asked[n - 1] >= *next && grain == PAGE) {
		*next = model_step_after(asked[n - 1], limit);
	}
	return n;
}

static void
test_steps(size_t grain) {
	static ehooks_table_t own;
	static extent_src_t of_steps;
	ecache_t rest;
	uint64_t rnd = 31;
	unsigned bad = 0, n_limit = 0, n_twice = 0;
	memset(&rest, 0, sizeof(rest));
	memset(&of_steps, 0, sizeof(of_steps));
	ecache_init(&rest, fresh_classes, extent_state_muzzy, "rest", WITNESS_RANK_OMIT);
	extent_src_init(&of_steps, base_new(), ARENA_IND + 1);
	own = ehooks_system;
	own.alloc = step_alloc;
	own.dalloc = step_dalloc;
	ehooks_set(&of_steps.ehooks, &own);
	extent_grow_limit_set(&of_steps, 4 * HUGEPAGE);
	of_steps.grow_alignment = grain;
	size_t next = of_steps.grow_next, limit = extent_grow_limit_get(&of_steps);
	gate_enter(tls_get());
	for (unsigned i = 0; i < 600; i++) {
		size_t size = (1 + draw_below(&rnd, draw_below(&rnd, 3) == 0 ? 1000 : 40)) * PAGE;
		unsigned kind = (unsigned)draw_below(&rnd, 6);
		size_t alignment = kind == 0 ? PAGE << draw_below(&rnd, 9) : kind == 1 ? HUGEPAGE : PAGE;
		steps.n_refused = draw_below(&rnd, 8) == 0 ? 1 + (unsigned)draw_below(&rnd, 2) : 0;
		steps.n = 0;
		size_t asked[2];
		unsigned n = model_grow(&next, limit, size, alignment, grain, asked);
		edata_t *e = extent_grow(&of_steps, &rest, size, alignment);
		bad += wrong_if(steps.n != n) + wrong_if(steps.asked[0] != asked[0])
		    + wrong_if(n > 1 && steps.asked[1] != asked[1]) + wrong_if(of_steps.grow_next != next)
		    + wrong_if((e != NULL) != (steps.n_refused < n));
		n_twice += n > 1;
		n_limit += next == limit;
		if (e != NULL) {
			bad += wrong_if(e->size != size)
			    + wrong_if(((uintptr_t)e->addr & (alignment - 1)) != 0);
			ecache_put(&of_steps, &rest, e);
		}
		while ((e = ecache_evict(&rest, 0, true)) != NULL) {
			bad += wrong_if(extent_unmap(&of_steps, e) != 0);
		}
	}
	gate_exit(tls_get());
	is_uint(bad, 0, "mappings in multiples of %zu pages: sizes and steps are those of a model",
	    grain / PAGE);
	ok(n_twice > 3 && (n_limit > 3 || grain != PAGE), "%u were asked for twice, %u at the limit",
	    n_twice, n_limit);
}

static void
body(void) {
	base_t *base = base_new();
	extent_src_init(&src, base, ARENA_IND);
	ecache_init(&dirty, dirty_classes, extent_state_dirty, "dirty", WITNESS_RANK_EXTENT_DIRTY);
	ecache_init(&retained, retained_classes, extent_state_retained, "retained",
	    WITNESS_RANK_EXTENT_RETAINED);
	ecache_t waste;
	memset(&waste, 0, sizeof(waste));
	ecache_init(&waste, waste_classes, extent_state_muzzy, "waste", WITNESS_RANK_OMIT);
	edata_t *e = extent_grow(&src, &waste, N_PAGES * PAGE, PAGE);
	if (e == NULL) {
		bail_out("no memory");
	}
	region = e->addr;
	hold(e, 0);
	give(e, page_retained);
	ecache_put(&src, &retained, e);
	held[0] = NULL;
	test_model();
	test_evict();
	test_flags();
	test_grow();
	test_no_descriptors();
	test_hooks_meanwhile(&waste);
	test_steps(PAGE);
	test_steps(16 * PAGE);
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
