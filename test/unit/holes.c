/*
 * arena/holes.h: who asks for a pass, when the next one is due, and that none is once everything
 * was looked at. What passes give back: test/integration/holes.c.
 */
#include "core.h"

#include "arena/arenas.h"
#include "arena/holes.h"
#include "os/gate.h"
#include "os/nstime.h"
#include "os/sys.h"

#define MS NSTIME_PER_MSEC
#define N 40000u
#define KEPT 50u /* one of so many lives on */

static arena_t *arena, *other;
static void *objects[N], *others[100];
static size_t usize;
static uint64_t now;
static unsigned nwakes;

static void
count_wake(unsigned ind) {
	nwakes += ind == arena->ind;
}

static void
make(arena_t *a, void **out, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		out[i] = arena_malloc(a, usize, 0, false, 1);
	}
}

/*
 * Lets time pass until no call is due; how often one was. Each call tells when the next one is due,
 * which is soon, also if another thread is in a pass; a call before that does nothing.
 */
static unsigned
ticks_until_idle(void) {
	unsigned n = 0, bad = 0;
	for (uint64_t ns; n < 10000 && (ns = holes_tick(arena, now)) != UINT64_MAX; n++) {
		bad += wrong_if(ns == 0 || ns > 10000 * MS / 3);
		bad += wrong_if(holes_tick(arena, now + ns / 2) != ns - ns / 2);
		now += ns;
		if (n % 3 == 0) {
			size_t npages = holes_npages(arena);
			bad += wrong_if(pac_pass_enter(&arena->pac, false) != 0);
			ns = holes_tick(arena, now);
			pac_pass_leave(&arena->pac);
			bad += wrong_if(ns != 10 * MS) || wrong_if(holes_npages(arena) != npages);
			now += ns;
		}
	}
	is_uint(bad, 0, "each call tells when the next is due");
	return n;
}

/* Objects come back: the thread is woken once, and passes give pages back. */
static void
test_pass(void) {
	is_uint(holes_tick(arena, now), UINT64_MAX, "nothing came back to a slab: no pass is due");
	is_uint(nwakes, 0, "nor is anybody woken");
	for (unsigned i = 0; i < N; i++) {
		if (i % KEPT != 0) {
			arena_dalloc(objects[i], emap_elem(objects[i]));
		}
	}
	is_uint(nwakes, 1, "objects come back: the thread is woken once");
	is_uint(holes_tick(arena, now), 10000 * MS / 3, "the first pass is a third of the decay time "
	    "away");
	unsigned n = ticks_until_idle();
	ok(holes_npages(arena) > 0, "pages go (%zu)", holes_npages(arena));
	ok(n > 1 && n < 10000, "then nothing is due (after %u calls)", n);
	now += MS;
	is_uint(holes_tick(arena, now), UINT64_MAX, "nor at a call before the next could begin");
	now += 10000 * MS;
	is_uint(holes_tick(arena, now), UINT64_MAX, "nor at a late one");
	is_uint(nwakes, 1, "nobody was woken meanwhile");
}

/* All ways in which objects come back to slabs. */
static void
test_ways(void) {
	void *mixed[2 * 20];
	arena_dalloc(objects[0], emap_elem(objects[0]));
	is_uint(nwakes, 2, "one object wakes again");
	is_uint(holes_tick(arena, now), 10000 * MS / 3, "a pass is made at once, and one is to come");
	arena_dalloc(objects[KEPT], emap_elem(objects[KEPT]));
	is_uint(nwakes, 2, "none does before that");
	ok(ticks_until_idle() > 1, "which has a next one too");
	for (unsigned i = 0; i < 20; i++) {
		mixed[2 * i] = objects[(i + 2) * KEPT];
		mixed[2 * i + 1] = others[i];
	}
	arena_small_return(sz_s2i(usize), mixed, ARRAY_LEN(mixed), NULL);
	is_uint(nwakes, 3, "objects in a batch with those of another arena");
	ticks_until_idle();
	for (unsigned i = 0; i < 20; i++) {
		mixed[i] = objects[(i + 22) * KEPT];
	}
	arena_small_return(sz_s2i(usize), mixed, 20, other);
	is_uint(holes_tick(arena, now), UINT64_MAX, "what is in a stock has not come back");
	arena_trim(arena, true);
	ok(holes_tick(arena, now) != UINT64_MAX, "what leaves it has");
	ticks_until_idle();
	arena_decay_ms_set(arena, true, -1);
	arena_dalloc(objects[42 * KEPT], emap_elem(objects[42 * KEPT]));
	is_uint(holes_tick(arena, now), UINT64_MAX, "never, with a decay time of -1");
	arena_decay_ms_set(arena, true, 3000);
	is_uint(holes_tick(arena, now), 1000 * MS, "but with another one");
	holes_make_all(arena);
	is_uint(holes_tick(arena, now), UINT64_MAX, "unless all pages went meanwhile");
	arena_dalloc(others[99], emap_elem(others[99]));
	is_uint(holes_tick(other, now), UINT64_MAX, "a small arena is left alone");
}

/* The system gives pages back; meanwhile all that is left comes back to the slabs. */
static struct os_hooks_s hooks;
static bool has_returned;

static void
return_kept(void) {
	bool is_first = !has_returned;
	has_returned = true; /* these calls may give pages back too */
	for (unsigned i = 0; i < N && is_first; i += KEPT) {
		arena_dalloc(objects[i], emap_elem(objects[i]));
	}
}

/* How often it was asked to give back, and how many pages; it may refuse. */
static unsigned n_asked;
static size_t npages_asked;
static bool refuses;

static int
count_madvise(void *addr, size_t size, int advice) {
	if (advice == MADV_DONTNEED) {
		n_asked++;
		npages_asked += size >> LG_PAGE;
	}
	if (advice == MADV_DONTNEED && refuses) {
		errno = EINVAL;
		return -1;
	}
	return os_hooks_real.madvise(addr, size, advice);
}

/* Each run of pages is a call that is counted; and an arena that is refused asks no more. */
static void
test_calls(void) {
	unsigned ind = 0;
	is_int(arenas_create(&ind, NULL), 0, "an arena");
	arena_t *a = arenas_get(ind);
	pac_decay_t *d = &a->pac.decay_dirty;
	make(a, objects, N);
	for (unsigned i = 0; i < N; i++) {
		if (i % KEPT != 0) {
			arena_dalloc(objects[i], emap_elem(objects[i]));
		}
	}
	pac_purge(&a->pac, now, true);
	uint64_t calls = atomic_load_u64(&d->nmadvise, MO_RELAXED);
	uint64_t purged = atomic_load_u64(&d->purged, MO_RELAXED);
	hooks = os_hooks_real;
	hooks.madvise = count_madvise;
	os_hooks = &hooks;
	refuses = true;
	n_asked = 0;
	for (unsigned i = 0; i < 3; i++) {
		holes_make_all(a);
	}
	unsigned n_refused = n_asked;
	refuses = false;
	holes_make_all(a);
	ok(n_refused >= 8, "%u refusals", n_refused);
	is_uint(n_asked, n_refused, "then the system is not asked again");
	is_uint(holes_npages(a), 0, "nothing has gone");
	is_uint(atomic_load_u64(&d->nmadvise, MO_RELAXED), calls, "nor is counted");
	atomic_store_u32(&a->holes.nrefused, 0, MO_RELAXED);
	n_asked = 0;
	npages_asked = 0;
	holes_make_all(a);
	os_hooks = &os_hooks_real;
	ok(n_asked > 0 && npages_asked == holes_npages(a), "%zu pages go", npages_asked);
	is_uint(atomic_load_u64(&d->nmadvise, MO_RELAXED), calls + n_asked, "each call is counted");
	is_uint(atomic_load_u64(&d->purged, MO_RELAXED), purged + npages_asked, "and each page");
	for (unsigned i = 0; i < N; i += KEPT) {
		arena_dalloc(objects[i], emap_elem(objects[i]));
	}
}

static int
return_at_madvise(void *addr, size_t size, int advice) {
	return_kept();
	return os_hooks_real.madvise(addr, size, advice);
}

/* A slab of which pages are out as its last objects come back is deleted with the pages. */
static void
test_emptied_meanwhile(void) {
	for (unsigned is_meanwhile = 0; is_meanwhile < 2; is_meanwhile++) {
		unsigned ind = 0;
		is_int(arenas_create(&ind, NULL), 0, "an arena");
		arena_t *a = arenas_get(ind);
		make(a, objects, N);
		for (unsigned i = 0; i < N; i++) {
			if (i % KEPT != 0) {
				arena_dalloc(objects[i], emap_elem(objects[i]));
			}
		}
		has_returned = false;
		hooks = os_hooks_real;
		hooks.madvise = is_meanwhile ? return_at_madvise : os_hooks_real.madvise;
		os_hooks = &hooks;
		holes_make_all(a);
		os_hooks = &os_hooks_real;
		ok(has_returned == (is_meanwhile != 0), "as pages are given back: %u", is_meanwhile);
		return_kept();
		arena_trim(a, true);
		is_uint(pac_nactive(&a->pac), 0, "no slab is left");
	}
}

static void
body(void) {
	unsigned ind, ind2 = 0;
	if (config_hardening) {
		skip(1, "free blocks have contents");
		return;
	}
	if (arenas_create(&ind, NULL) != 0 || arenas_create(&ind2, NULL) != 0) {
		bail_out("no arena");
	}
	arena = arenas_get(ind);
	other = arenas_get(ind2);
	usize = sz_s2u(PAGE / 40);
	now = nstime_monotonic_ns();
	pac_wake_hook = count_wake;
	gate_enter(tls_get());
	make(arena, objects, N);
	make(other, others, ARRAY_LEN(others));
	nwakes = 0;
	test_pass();
	test_ways();
	test_calls();
	test_emptied_meanwhile();
	gate_exit(tls_get());
	pac_wake_hook = NULL;
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
