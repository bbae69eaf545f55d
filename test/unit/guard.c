/*
 * extent/guard.h, by way of a page cache and of an arena: what can be touched and what is counted
 * while an extent is guarded and after it has gone, and what is left when the system refuses.
 */
#include "core.h"

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "arena/large.h"
#include "extent/guard.h"
#include "extent/pac_hpa.h"
#include "extent/pac_life.h"
#include "meta/base.h"
#include "os/gate.h"

#include <sys/mman.h>

#define N_ROW 8

static pac_t *pac;
static base_t *base;
static struct os_hooks_s hooks;
static struct {
	int fail_prot; /* mprotect to this fails; -1: none does */
	size_t dontneed;
	size_t unmapped;
	bool fail_open;
} sys;

static int
hook_mprotect(void *addr, size_t size, int prot) {
	if (prot == sys.fail_prot) {
		errno = ENOMEM;
		return -1;
	}
	return os_hooks_real.mprotect(addr, size, prot);
}

static int
hook_madvise(void *addr, size_t size, int advice) {
	sys.dontneed += advice == MADV_DONTNEED ? size : 0;
	return os_hooks_real.madvise(addr, size, advice);
}

static int
hook_munmap(void *addr, size_t size) {
	sys.unmapped += size;
	return os_hooks_real.munmap(addr, size);
}

static int
hook_open(const char *path, int flags, unsigned mode) {
	if (sys.fail_open) {
		errno = EACCES;
		return -1;
	}
	return os_hooks_real.open(path, flags, mode);
}

static void
start(void) {
	static unsigned ind = 3600;
	base = base_new();
	pac = base_alloc(base, sizeof(*pac), CACHELINE);
	pac_init(pac, base, ind++, 10000, 0, 1);
	memset(&sys, 0, sizeof(sys));
	sys.fail_prot = -1;
}

static bool
can_touch(const char *page) {
	return sys_is_readable(page, 1) && sys_is_readable(page + PAGE - 1, 1);
}

static size_t
zu(const atomic_zu_t *a) {
	return atomic_load_zu(a, MO_RELAXED);
}

static void
test_life(void) {
	start();
	edata_t *e = pac_alloc_guarded(pac, 5 * PAGE, PAGE, false);
	char *addr = e->addr;
	memset(addr, 1, e->size);
	is_uint(e->size, 5 * PAGE, "an extent as long as was asked for");
	is_uint(e->nguards, 2, "with two guards");
	ok(!can_touch(addr - PAGE) && !can_touch(addr + 5 * PAGE), "which nobody can touch");
	ok(emap_edata(addr - PAGE) == NULL && emap_edata(addr + 5 * PAGE) == NULL, "and no extent has");
	is_uint(zu(&pac->nactive), 5, "pages in use: without guards");
	is_uint(zu(&pac->mapped), 5 * PAGE, "mapped: too");
	is_uint(zu(&pac->nguard), 2, "they are counted by themselves");
	is_uint(sys.dontneed, 0, "new ones hold no memory");
	pac_dalloc(pac, e);
	is_uint(zu(&pac->nactive), 0, "given back: no page is in use");
	is_uint(zu(&pac->nguard), 0, "none is a guard");
	is_uint(pac_ndirty(pac), 7, "all seven are unused");
	is_uint(zu(&pac->mapped), 7 * PAGE, "and mapped");
	e = pac_alloc(pac, 7 * PAGE, PAGE, false);
	ok(e->addr == addr - PAGE && e->nguards == 0, "the same seven, plain");
	memset(e->addr, 1, e->size);
	pass("can all be written");
	pac_dalloc(pac, e);
	e = pac_alloc_guarded(pac, 5 * PAGE, PAGE, true);
	ok(e->addr == addr && is_filled(addr, 0, e->size), "guarded again, zeroed");
	is_uint(sys.dontneed, 2 * PAGE, "guards that were written hold no memory");
	pac_dalloc(pac, e);
}

/* With huge slabs: no guard lies in one, whether the extent is new, cached or hot. */
static void
test_huge_slabs(void) {
	edata_t *e[3];
	start();
	opt_hpa = true;
	opt_hpa_slab_max_alloc = 16 * PAGE;
	is_int(pac_hpa_init(pac, base), 0, "an arena with huge slabs");
	for (size_t n = 5; n < 16; n += 9) { /* in the small extent cache; longer */
		edata_t *plain = pac_alloc(pac, n * PAGE, PAGE, false);
		ok(plain->is_hpa, "an extent of %zu pages comes from one", n);
		pac_dalloc(pac, plain);
		for (unsigned i = 0; i < 3; i++) {
			e[i] = pac_alloc_guarded(pac, (n - 2) * PAGE, PAGE, false);
			memset(e[i]->addr, 1, e[i]->size);
			ok(!e[i]->is_hpa && e[i]->nguards == 2, "a guarded one does not");
		}
		for (unsigned i = 0; i < 3; i++) {
			pac_dalloc(pac, e[i]);
		}
	}
	is_uint(zu(&pac->nactive), 0, "all given back");
	opt_hpa = false;
}

static void
test_alignment(void) {
	start();
	edata_t *e = pac_alloc_guarded(pac, 2 * PAGE, 4 * PAGE, false);
	ok(is_aligned((uintptr_t)e->addr, 4 * PAGE), "aligned to more than a page");
	is_uint(e->nguards, 1, "one guard");
	ok(!can_touch(edata_end(e)), "behind it");
	pac_dalloc(pac, e);
	is_uint(pac_ndirty(pac), 3, "three pages come back");
}

/* However they go, one piece is left. */
static void
test_coalesce(void) {
	edata_t *row[N_ROW];
	uint64_t seed = 5;
	size_t n = 0;
	start();
	for (unsigned i = 0; i < N_ROW; i++) {
		row[i] = pac_alloc_guarded(pac, PAGE, PAGE, false);
		row[i]->addr[0] = 1;
	}
	is_uint(row[N_ROW - 1]->addr - row[0]->addr, (N_ROW - 1) * 3 * PAGE, "a row of guarded pages");
	for (unsigned left = N_ROW; left > 0; left--) {
		unsigned k = (unsigned)draw_below(&seed, left);
		pac_dalloc(pac, row[k]);
		row[k] = row[left - 1];
	}
	pac_purge(pac, 2, true);
	for (unsigned i = 0; i < SC_NPSIZES; i++) {
		n += zu(&pac->retained.eset.classes[i].nextents);
	}
	is_uint(n, 1, "one piece when all are gone");
	is_uint(zu(&pac->mapped), 0, "nothing is mapped");
}

static void
test_refusals(void) {
	start();
	sys.fail_prot = PROT_NONE;
	edata_t *e = pac_alloc_guarded(pac, 2 * PAGE, PAGE, false);
	memset(e->addr, 1, e->size);
	ok(can_touch(e->addr - PAGE) && can_touch(edata_end(e)),
	    "no guard where the system refuses, and no failure");
	pac_dalloc(pac, e);
	is_uint(pac_ndirty(pac), 4, "all pages come back");
	sys.fail_prot = -1;
	room_space.max = SIZE_MAX / 2; /* a limit, so that what is in use is counted */
	size_t used = zu(&room_space.used);
	e = pac_alloc_guarded(pac, 2 * PAGE, PAGE, false);
	char *before = e->addr - PAGE, *behind = edata_end(e);
	size_t all = zu(&room_mapped) - zu(&pac->mapped);
	ok(!can_touch(before) && !can_touch(behind), "guards");
	size_t space = zu(&room_space.mapped);
	sys.fail_prot = PROT_READ | PROT_WRITE;
	pac_dalloc(pac, e);
	is_uint(sys.unmapped, 2 * PAGE, "what cannot be opened is unmapped");
	is_uint(pac_ndirty(pac), 2, "the rest comes back");
	is_uint(zu(&pac->mapped), 2 * PAGE, "and is what is mapped");
	is_uint(zu(&room_mapped) - zu(&pac->mapped), all, "in the sum of all too");
	is_uint(space - zu(&room_space.mapped), 2 * PAGE, "so much less address space is mapped");
	is_uint(zu(&pac->nactive), 0, "no page is in use");
	is_uint(zu(&room_space.used), used, "nor counts against the bound of address space");
	is_uint(zu(&pac->nguard), 0, "no guard is left");
	ok(emap_edata(before) == NULL && emap_edata(behind) == NULL, "nor in the page map");
	sys.fail_prot = -1;
	room_space.max = SIZE_MAX;
}

static void
test_limit(void) {
	unsigned limit = guard_limit;
	start();
	guard_limit = 1;
	edata_t *e = pac_alloc_guarded(pac, PAGE, PAGE, false);
	edata_t *f = pac_alloc_guarded(pac, PAGE, PAGE, false);
	is_uint(e->nguards, 2, "one is allowed");
	ok(f->nguards == 0 && f->size == PAGE, "no other beside it");
	pac_dalloc(pac, e);
	e = pac_alloc_guarded(pac, PAGE, PAGE, false);
	is_uint(e->nguards, 2, "after it there is");
	pac_dalloc(pac, e);
	pac_dalloc(pac, f);
	guard_limit = limit;
}

static unsigned n_maxima;

static void
on_maximum(void) {
	n_maxima++;
}

/*
 * More is mapped when guards are taken in again, but who releases may hold locks: he does not tell.
 */
static void
test_maximum(void) {
	edata_t *row[N_ROW];
	start();
	pac_new_maximum_hook = on_maximum;
	row[0] = pac_alloc(pac, (size_t)1 << 30, PAGE, false);
	ok(n_maxima > 0, "a maximum");
	for (unsigned i = 1; i < N_ROW; i++) {
		row[i] = pac_alloc_guarded(pac, PAGE, PAGE, false);
	}
	unsigned before = n_maxima;
	size_t mapped = zu(&pac->mapped);
	for (unsigned i = 1; i < N_ROW; i++) {
		pac_dalloc(pac, row[i]);
	}
	is_uint(zu(&pac->mapped), mapped + (N_ROW - 1) * 2 * PAGE, "more is mapped");
	is_uint(n_maxima, before, "nobody is told");
	pac_new_maximum_hook = NULL;
	pac_dalloc(pac, row[0]);
}

static void
test_boot(void) {
	unsigned limit = guard_limit;
	start();
	opt_san_guard_large = 1;
	sys.fail_open = true;
	guard_boot();
	is_uint(guard_limit, 65530 / 8, "an eighth of the system's default");
	sys.fail_open = false;
	guard_boot();
	ok(guard_limit > 0, "an eighth of what the system tells: %u", guard_limit);
	opt_san_guard_large = 0;
	guard_limit = limit;
}

static void
test_program_hooks(void) {
	static ehooks_table_t own;
	start();
	own = ehooks_system;
	ehooks_set(&pac->src.ehooks, &own);
	edata_t *e = pac_alloc_guarded(pac, 2 * PAGE, PAGE, false);
	ok(e->nguards == 0 && e->size == 2 * PAGE, "no guards where the pages are the program's");
	pac_dalloc(pac, e);
}

/* ------------------------------------------------------------------ in an arena */

static arena_stats_t stats;

static void
read_stats(arena_t *a) {
	memset(&stats, 0, sizeof(stats));
	arena_stats_merge(a, &stats);
}

static void
test_large(arena_t *a) {
	char *p[9];
	unsigned n = 0, bad = 0;
	size_t usize = sz_s2u(SC_LARGE_MINCLASS + 1); /* of a class that caches hold */
	opt_san_guard_large = 3;
	for (unsigned i = 0; i < 9; i++) {
		p[i] = arena_large_malloc(a, usize, 0, false);
		edata_t *e = emap_edata(p[i]);
		memset(p[i], 1, usize);
		n += e->nguards == 2;
		bad += (e->nguards != 0) != (i % 3 == 2);
		bad += e->nguards != 0
		    && (wrong_if(can_touch(p[i] + usize)) || wrong_if(can_touch(p[i] - PAGE)));
	}
	is_uint(n, 3, "every third large extent is guarded");
	is_uint(bad, 0, "from the object's first byte to its last");
	edata_t *e = emap_edata(p[8]);
	is_uint(emap_elem(p[8]) & ELEM_LARGE, 0, "no cache takes it");
	is_int(arena_large_resize(e, usize + PAGE, usize + PAGE, false, false), ENOMEM,
	    "it does not grow in place");
	is_int(arena_large_resize(e, usize, usize + PAGE, false, false), 0,
	    "but may stay as it is");
	is_int(arena_large_resize(e, SC_LARGE_MINCLASS, SC_LARGE_MINCLASS, false, false), ENOMEM,
	    "nor does it shrink");
	read_stats(a);
	is_uint(stats.large.allocated, 9 * usize, "allocated: the objects");
	is_uint(zu(&a->pac.nguard), 6, "six guard pages");
	is_uint(stats.retained - (ecache_npages(&a->pac.retained) << LG_PAGE), 6 * PAGE,
	    "are told as retained");
	for (unsigned i = 0; i < 9; i++) {
		arena_large_dalloc(emap_edata(p[i]));
	}
	is_uint(zu(&a->pac.nguard) + zu(&a->pac.nactive), 0, "all freed: nothing in use, no guard");
	opt_san_guard_large = 0;
}

static void
test_slabs(arena_t *a) {
	char *p[8];
	unsigned bad = 0;
	if (bin_infos[sz_s2i(PAGE)].nregs != 1) {
		skip(4, "no slab has one region");
		return;
	}
	opt_san_guard_small = 2;
	for (unsigned i = 0; i < 8; i++) {
		p[i] = arena_malloc(a, PAGE, 0, true, 1);
		edata_t *e = emap_edata(p[i]);
		memset(p[i], 1, PAGE);
		bad += e->nguards != (i % 2) * 2;
		bad += e->nguards != 0
		    && (wrong_if(can_touch(p[i] - PAGE)) || wrong_if(can_touch(p[i] + PAGE)));
	}
	is_uint(bad, 0, "every second slab is guarded");
	is_uint(zu(&a->pac.nguard), 8, "eight guard pages");
	for (unsigned i = 0; i < 8; i++) {
		arena_dalloc(p[i], emap_elem(p[i]));
	}
	/* The current slab stays with its bin. */
	ok(zu(&a->pac.nguard) <= 2, "freed: %zu", zu(&a->pac.nguard));
	opt_san_guard_small = 0;
}

/* An arena ends with guarded extents in use. */
static void
test_end(void) {
	unsigned ind, bad = 0;
	if (arenas_create(&ind, NULL) != 0) {
		bail_out("no arena");
	}
	arena_t *a = arenas_get(ind);
	opt_san_guard_small = opt_san_guard_large = 1;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 200; i++) {
			size_t usize = sz_s2u(1 + i * i);
			char *p = arena_malloc(a, usize, 0, i % 3 == 0, 1);
			memset(p, 1, usize < SC_LARGE_MINCLASS ? canary_room(usize) : usize);
		}
		bad += zu(&a->pac.nguard) == 0;
		arena_end(a, NULL, round != 0);
		bad += wrong_if(zu(&a->pac.nguard) != 0) || wrong_if(zu(&a->pac.nactive) != 0);
	}
	is_uint(bad, 0, "reset and destroyed with all its guards");
	is_uint(zu(&a->pac.mapped), 0, "nothing of it is mapped");
	opt_san_guard_small = opt_san_guard_large = 0;
}

static void
body(void) {
	unsigned ind;
	pages_can_purge_forced(); /* asks the system once */
	hooks = os_hooks_real;
	hooks.mprotect = hook_mprotect;
	hooks.madvise = hook_madvise;
	hooks.munmap = hook_munmap;
	hooks.open = hook_open;
	os_hooks = &hooks;
	gate_enter(tls_get());
	if (arenas_create(&ind, NULL) != 0) {
		bail_out("no arena");
	}
	test_life();
	test_huge_slabs();
	test_alignment();
	test_coalesce();
	test_refusals();
	test_limit();
	test_maximum();
	test_boot();
	test_program_hooks();
	start();
	test_large(arenas_get(ind));
	test_slabs(arenas_get(ind));
	test_end();
	gate_exit(tls_get());
	os_hooks = &os_hooks_real;
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
