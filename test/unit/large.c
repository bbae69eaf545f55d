/* arena/large.c: offsets, resizing in place against a model, zeroing, statistics by class. */
#include "core.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "arena/large.h"
#include "os/gate.h"

#define N_HELD 30

static arena_t *arena;
static arena_stats_t stats;
static unsigned misaligned, too_long;
static struct {
	char *p;
	size_t usize;
	unsigned char fill;
} held[N_HELD];

#define N_OFFSETS 500u
static void
test_offsets(void) {
	unsigned bad = 0, n_lines = 0;
	static bool is_seen[65536 / CACHELINE];
	static void *live[N_OFFSETS];
	for (unsigned i = 0; i < N_OFFSETS; i++) {
		size_t usize = sz_s2u(LARGE_OFFSET_MIN + (i % 5) * PAGE);
		char *p = arena_large_malloc(arena, usize, 0, false);
		edata_t *e = emap_edata(p);
		size_t off = (size_t)(p - e->addr);
		bad += wrong_if(off % CACHELINE != 0) || wrong_if(off >= PAGE)
		    || wrong_if(off + usize > e->size) || wrong_if(e->is_slab);
		bad += arena_usize(emap_elem(p)) != usize;
		n_lines += !is_seen[off / CACHELINE];
		bad += e->u.large_start != p;
		is_seen[off / CACHELINE] = true;
		live[i] = p;
	}
	for (unsigned i = 0; i < N_OFFSETS; i++) {
		arena_large_dalloc(emap_edata(live[i]));
	}
	is_uint(bad, 0, "objects start at a cache line of their first page and fit");
	if (opt_cache_oblivious) {
		ok(n_lines > 32, "%u of %zu lines are used", n_lines, PAGE / CACHELINE);
	}
	for (size_t alignment = 128; alignment <= 64 * PAGE; alignment *= 2) {
		char *p = arena_large_malloc(arena, SC_LARGE_MINCLASS, alignment, false);
		bad += ((uintptr_t)p & (alignment - 1)) != 0;
		arena_large_dalloc(emap_edata(p));
	}
	is_uint(bad, 0, "alignment goes before the offset");
	ok(arena_large_malloc(arena, SC_LARGE_MAXCLASS, 0, false) == NULL,
	    "the largest size cannot be had");
	ok(arena_large_malloc(arena, SIZE_MAX, 0, false) == NULL, "nor more");
}

/* Objects below LARGE_OFFSET_MIN are their extents: an offset would cost a page for each. */
static void
test_no_offsets(void) {
	unsigned ind, bad = 0;
	if (arenas_create(&ind, NULL) != 0) {
		bail_out("no arena");
	}
	for (size_t npages = 4; npages <= 32; npages *= 2) {
		size_t usize = npages * PAGE;
		edata_t *e = emap_edata(arena_large_malloc(arenas_get(ind), usize, 0, false));
		bool has_offset = opt_cache_oblivious && usize >= LARGE_OFFSET_MIN;
		bad += wrong_if((e->u.large_start != e->addr) != has_offset)
		    || wrong_if(e->size != usize + has_offset * PAGE)
		    || wrong_if(large_has_marks(e) != has_offset);
	}
	is_uint(bad, 0, "objects from %zu bytes on have an offset, no smaller one",
	    LARGE_OFFSET_MIN);
	opt_cache_oblivious_all = true;
	is_uint(LARGE_OFFSET_MIN, SC_LARGE_MINCLASS, "all have where the option is given");
	opt_cache_oblivious_all = false;
}

static unsigned
step_resize(uint64_t *seed, unsigned k) {
	size_t a = sz_s2u(SC_LARGE_MINCLASS + draw_below(seed, 40 * PAGE));
	size_t b = sz_s2u(a + draw_below(seed, 10 * PAGE)), old = held[k].usize;
	bool zero = draw_below(seed, 2) == 0;
	edata_t *e = emap_edata(held[k].p);
	int err = arena_large_resize(e, a, b, zero, false);
	size_t now = arena_usize(emap_elem(held[k].p));
	unsigned bad = 0;
	if (err != 0) {
		return now != old || err != ENOMEM || (old >= a && old <= b);
	}
	bad += wrong_if(now < a) || wrong_if(now > b) || wrong_if(held[k].p + now > edata_end(e));
	bad += wrong_if(emap_edata(held[k].p) != e) || wrong_if(emap_edata(edata_end(e) - 1) != e);
	bad += !is_filled(held[k].p, held[k].fill, min_zu(old, now));
	bad += zero && now > old && !is_filled(held[k].p + old, 0, now - old);
	memset(held[k].p, held[k].fill, now);
	misaligned += pac_is_bounded(&arena->pac) && (wrong_if(e->size % PAC_GRAIN != 0)
	    || wrong_if((uintptr_t)e->addr % PAC_GRAIN != 0));
	held[k].usize = now;
	size_t offset = e->u.large_start != e->addr ? PAGE : 0;
	too_long += pac_is_bounded(&arena->pac)
	    && e->size != align_up(now + offset, max_zu(PAC_GRAIN, PAGE));
	return bad;
}

static unsigned
check_stats(void) {
	size_t bytes = 0;
	static size_t n[SC_NSIZES];
	unsigned bad = 0;
	memset(n, 0, sizeof(n));
	memset(&stats, 0, sizeof(stats));
	arena_stats_merge(arena, &stats);
	for (unsigned k = 0; k < N_HELD; k++) {
		if (held[k].p != NULL) {
			bytes += held[k].usize;
			n[sz_s2i(held[k].usize)]++;
		}
	}
	bad += stats.large.allocated != bytes;
	for (unsigned i = SC_NBINS; i < SC_NSIZES; i++) {
		bad += stats.lextents[i - SC_NBINS].curlextents != n[i];
	}
	return bad;
}

static void
test_resize(unsigned nsteps) {
	uint64_t seed = 12;
	unsigned bad = 0, bad_stats = 0, n_in_place = 0;
	for (unsigned i = 0; i < nsteps; i++) {
		unsigned k = (unsigned)draw_below(&seed, N_HELD);
		if (held[k].p == NULL) {
			bool zero = draw_below(&seed, 2) == 0;
			held[k].usize = sz_s2u(SC_LARGE_MINCLASS + draw_below(&seed, 30 * PAGE));
			held[k].p = arena_large_malloc(arena, held[k].usize, 0, zero);
			bad += zero && !is_filled(held[k].p, 0, held[k].usize);
			held[k].fill = (unsigned char)(1 + draw_below(&seed, 255));
			memset(held[k].p, held[k].fill, held[k].usize);
		} else if (draw_below(&seed, 4) != 0) {
			size_t old = held[k].usize;
			bad += step_resize(&seed, k);
			n_in_place += held[k].usize != old;
		} else {
			bad += !is_filled(held[k].p, held[k].fill, held[k].usize);
			arena_large_dalloc(emap_edata(held[k].p));
			held[k].p = NULL;
		}
		if (i % 40 == 0) {
			bad_stats += check_stats();
		}
	}
	is_uint(bad, 0, "%u random steps, %u resized in place", nsteps, n_in_place);
	ok(n_in_place > nsteps / 12, "often enough");
	is_uint(bad_stats, 0, "the statistics of each class are exact all the time");
	for (unsigned k = 0; k < N_HELD; k++) {
		if (held[k].p != NULL) {
			arena_large_dalloc(emap_edata(held[k].p));
			held[k].p = NULL;
		}
	}
	is_uint(check_stats(), 0, "nothing is left");
	is_uint(stats.pactive, 0, "no page either");
}

/* Growing by a page at a time: the object stays where there is room behind it. */
static void
test_small_steps(void) {
	size_t usize = 32 * SC_LARGE_MINCLASS, moves = 0;
	char *p = arena_large_malloc(arena, 2 * usize, 0, false);
	edata_t *e = emap_edata(p);
	is_int(arena_large_resize(e, usize, usize, false, false), 0, "there is room behind it");
	for (unsigned i = 0; i < 32; i++) {
		usize += PAGE;
		moves += arena_large_resize(e, usize, usize, false, false) != 0
		    || e->u.large_usize != usize;
	}
	is_uint(moves, 0, "32 small steps are done in place");
	arena_large_dalloc(e);
}

/* ------------------------------------------------------------------ pages of fresh objects */

#define N_FRESH 40

static size_t
n_resident(const edata_t *e) {
	static unsigned char in_memory[2048];
	size_t n = 0, npages = e->size / PAGE;
	if (npages > sizeof(in_memory) || mincore(e->addr, e->size, in_memory) != 0) {
		return SIZE_MAX;
	}
	for (size_t i = 0; i < npages; i++) {
		n += in_memory[i] & 1;
	}
	return n;
}

/* Fresh objects of an arena of their own that nobody writes to. */
static void
test_fresh(size_t usize, size_t pages_each, bool has_tail) {
	unsigned ind, bad = 0;
	size_t n = 0;
	if (arenas_create(&ind, NULL) != 0) {
		bail_out("no arena");
	}
	for (unsigned i = 0; i < N_FRESH; i++) {
		edata_t *e = emap_edata(arena_large_malloc(arenas_get(ind), usize, 0, false));
		n += n_resident(e);
		bad += large_has_marks(e) && !large_mark_is(large_front(e), LARGE_MARK_WORD);
		bad += large_has_marks(e) && large_mark_is(large_tail(e), LARGE_MARK_WORD) != has_tail;
	}
	is_uint(bad, 0, "%zu bytes: marks", usize);
	ok(n <= N_FRESH * pages_each, "%zu bytes: %zu pages of %u objects are touched", usize, n,
	    N_FRESH);
}

static void
write_behind(void *arg UNUSED) {
	edata_t *e = emap_edata(arena_large_malloc(arena, sz_s2u(1 << 20), 0, false));
	*(char *)large_tail(e) = 1;
	arena_large_dalloc(e);
}

static void
test_pages(void) {
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	test_fresh(sz_s2u(256 << 10), 2, true);
	test_fresh(sz_s2u(1 << 20), config_hardening ? 2 : 1, config_hardening);
	if (opt_cache_oblivious) {
		dies(SIGABRT, "<jemalloc>: write behind the end of a block", write_behind, NULL,
		    "a write behind a fresh block");
	}
}

static void
body(void) {
	unsigned ind;
	gate_enter(tls_get());
	if (arenas_create(&ind, NULL) != 0) {
		bail_out("no arena");
	}
	arena = arenas_get(ind);
	test_offsets();
	test_no_offsets();
	test_small_steps();
	test_resize(6000);
	test_pages();
	pac_bound(&arena->pac, PAC_GRAIN);
	test_resize(1500);
	is_uint(misaligned, 0, "in a bounded cache extents are whole grains");
	is_uint(too_long, 0, "as few as their objects need");
	gate_exit(tls_get());
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
