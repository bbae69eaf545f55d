/*
 * The extended interface: mallocx, rallocx, xallocx, sallocx, dallocx, sdallocx, nallocx
 * with every kind of flag, and the macros of the public header.
 */
#include "ctl.h"
#include <malloc.h>
#include <pthread.h>

static const int constant_flags = MALLOCX_ALIGN(64) | MALLOCX_ZERO;
_Static_assert(MALLOCX_ALIGN(1) == 0, "constant expression");
_Static_assert(MALLOCX_ALIGN(16) == 4, "constant expression");
_Static_assert(MALLOCX_ALIGN((size_t)1 << 40) == 40, "constant expression");
_Static_assert(MALLOCX_LG_ALIGN(12) == 12, "constant expression");
_Static_assert(MALLOCX_ZERO == 0x40, "value");
_Static_assert(MALLOCX_TCACHE_NONE == 0x100, "value");
_Static_assert(MALLOCX_TCACHE(3) == 5 << 8, "value");
_Static_assert(MALLOCX_ARENA(2) == 3 << 20, "value");
_Static_assert(MALLCTL_ARENAS_ALL == 4096 && MALLCTL_ARENAS_DESTROYED == 4097, "values");

static void
test_macros(void) {
	size_t odd = hide(24);

	is_int(constant_flags, 6 | 0x40, "flags in a static initialiser");
	is_int(MALLOCX_ALIGN(3), 2, "MALLOCX_ALIGN(3) means 4");
	is_int(MALLOCX_ALIGN(odd), 5, "MALLOCX_ALIGN(24) means 32");
	is_int(MALLOCX_ALIGN(hide(4096)), 12, "MALLOCX_ALIGN of a variable");
}

static void
test_flags(void) {
	static const int tcache[] = {0, MALLOCX_TCACHE_NONE};
	size_t bad = 0;

	for (int lg = 0; lg <= 22; lg++) {
		for (size_t size = 1; size < (size_t)3 << 20; size = size * 2 + 3) {
			for (int t = 0; t < 2; t++) {
				int flags = MALLOCX_LG_ALIGN(lg) | MALLOCX_ZERO | tcache[t];
				size_t want = nallocx(size, flags);
				unsigned char *p = keep(mallocx(size, flags));

				if (p == NULL || ((uintptr_t)p & (((uintptr_t)1 << lg) - 1)) != 0
				    || malloc_usable_size(p) != want || sallocx(p, flags) != want
				    || want < size || !is_filled(p, 0, want)) {
					diag("size %zu flags %#x: %p, usable %zu, nallocx %zu", size,
					    flags, (void *)p, p ? malloc_usable_size(p) : 0, want);
					bad++;
					continue;
				}
				memset(p, 0x77, want);
				if (size & 1)
					sdallocx(p, size, flags);
				else
					dallocx(p, tcache[t]);
			}
		}
	}
	is_uint(bad, 0, "aligned and zeroed, nallocx foretells the usable size");
}

static void
test_failures(void) {
	void *p;

	errno = 0;
	ok(keep(mallocx(hide(SIZE_MAX), 0)) == NULL, "mallocx(SIZE_MAX)");
	ok(keep(mallocx(hide(CLASS_MAX + 1), 0)) == NULL, "mallocx above the largest class");
	ok(keep(mallocx(hide(CLASS_MAX), 0)) == NULL, "mallocx of the largest class");
	ok(keep(mallocx(hide((size_t)1 << 60), MALLOCX_LG_ALIGN(62))) == NULL, "a huge alignment");
	is_uint(nallocx(hide(SIZE_MAX - 1000), MALLOCX_ALIGN(4096)), 0,
	    "nallocx near SIZE_MAX is 0");
	p = keep(mallocx(100, 0));
	memset(p, 'k', 100);
	ok(keep(rallocx(keep(p), hide(SIZE_MAX), 0)) == NULL && is_filled(p, 'k', 100),
	    "rallocx too large keeps the block");
	is_uint(xallocx(p, hide(SIZE_MAX), 0, 0), malloc_usable_size(p),
	    "xallocx too large gives the old size");
	dallocx(p, 0);
	p = keep(mallocx(hide(8), MALLOCX_ARENA(4000) | MALLOCX_TCACHE_NONE));
	ok(p == NULL, "an arena that does not exist");
}

static void
test_rallocx(void) {
	static const size_t sizes[] = { 1, 50, 200, 3000, 14000, 20000, 70000, 1 << 20, 5 << 20,
	    100, 9 << 20, 8, 4096, 40000 };
	unsigned char *p = keep(mallocx(1, MALLOCX_ZERO));
	size_t old = malloc_usable_size(p);
	bool kept = true, zeroed = true, aligned = true;

	memset(p, 0xab, old);
	for (int round = 0; round < 20; round++) {
		size_t n = sizeof(sizes) / sizeof(sizes[0]);

		for (size_t i = 0; i < n; i++) {
			size_t size = sizes[i] + (size_t)round * 13;
			size_t usable;

			p = keep(rallocx(p, size, MALLOCX_ZERO | MALLOCX_ALIGN(128)));
			if (p == NULL) {
				fail("rallocx(%zu)", size);
				return;
			}
			usable = malloc_usable_size(p);
			aligned = aligned && ((uintptr_t)p & 127) == 0;
			kept = kept && is_filled(p, 0xab, old < size ? old : size);
			if (usable > old && !is_filled(p + old, 0, usable - old)) {
				diag("round %d: %zu grows to %zu (%zu)", round, old, size, usable);
				zeroed = false;
			}
			memset(p, 0xab, usable);
			old = usable;
		}
	}
	ok(kept, "rallocx keeps the contents");
	ok(zeroed, "MALLOCX_ZERO zeroes what is beyond the old usable size");
	ok(aligned, "and alignment holds");
	dallocx(p, 0);
}

static void
test_xallocx(void) {
	size_t page = ctl_size("arenas.page");
	char *p = keep(mallocx(100, 0));
	size_t got;

	got = xallocx(p, 105, 0, 0);
	is_uint(got, canary_bytes() != 0 ? 105 : 112, "xallocx within a small class");
	is_uint(xallocx(p, 4000, 0, 0), got, "a small block does not grow in place");
	is_uint(xallocx(p, 1, 0, 0), got, "nor shrink");
	is_uint(xallocx(p, 112, 5000, 0), 112, "extra is optional");
	dallocx(p, 0);
	p = keep(mallocx(16 * page, 0));
	memset(p, 3, 16 * page);
	got = xallocx(p, 8 * page, 0, 0);
	ok(got >= 8 * page && got <= 16 * page && got == malloc_usable_size(p),
	    "a large block may shrink in place to %zu", got);
	is_uint(got, 8 * page, "and it does");
	ok(is_filled(p, 3, got), "contents kept");
	memset(p, 0x5c, got);
	got = xallocx(p, 8 * page, 4 * page, MALLOCX_ZERO);
	ok(got >= 8 * page && got <= 12 * page && got == malloc_usable_size(p),
	    "growing in place with extra gives %zu", got);
	ok(is_filled(p, 0x5c, 8 * page) && is_filled(p + 8 * page, 0, got - 8 * page),
	    "what is new is zero");
	got = xallocx(p, 8 * page, hide(SIZE_MAX - 8 * page), 0);
	ok(got == malloc_usable_size(p) && got >= 8 * page, "a huge extra is clamped");
	dallocx(p, 0);
}

/* A block that is not as aligned as the flags ask for is left as it is, whatever room there is. */
static void
test_xallocx_alignment(void) {
	unsigned ngrown = 0, nshrunk = 0, nfitting = 0;

	for (unsigned i = 0; i < 64; i++) {
		char *p = keep(mallocx(1 << 20, 0));
		size_t align = (size_t)1 << __builtin_ctzl((uintptr_t)p), old = sallocx(p, 0);

		ngrown += xallocx(p, 2 << 20, 0, MALLOCX_ALIGN(align * 2)) != old;
		nshrunk += xallocx(p, 1 << 19, 0, MALLOCX_ALIGN(align * 2)) != old;
		nfitting += xallocx(p, 1 << 19, 0, MALLOCX_ALIGN(align)) == (1 << 19);
		dallocx(p, 0);
	}
	is_uint(ngrown + nshrunk, 0, "xallocx of 64 blocks that are less aligned than asked for");
	ok(nfitting > 0, "of those that are aligned %u shrink", nfitting);
}

static void
test_explicit_caches(void) {
	unsigned id[4], again;
	size_t len = sizeof(unsigned);
	void *p, *q;

	for (int i = 0; i < 4; i++)
		is_int(mallctl("tcache.create", &id[i], &len, NULL, 0), 0, "tcache.create");
	ok(id[0] != id[1] && id[1] != id[2] && id[2] != id[3], "their ids differ");
	p = keep(mallocx(64, MALLOCX_TCACHE(id[0])));
	dallocx(p, MALLOCX_TCACHE(id[0]));
	q = keep(mallocx(64, MALLOCX_TCACHE(id[0])));
	ok(p == q, "a cache gives back what was put in last");
	dallocx(q, MALLOCX_TCACHE(id[1]));
	p = keep(mallocx(64, MALLOCX_TCACHE(id[1])));
	ok(p == q, "blocks move between caches");
	dallocx(p, MALLOCX_TCACHE(id[1]));
	is_int(ctl_write("tcache.flush", id[1]), 0, "tcache.flush");
	p = keep(mallocx(64, MALLOCX_TCACHE(id[1])));
	ok(p != NULL, "a flushed cache works");
	dallocx(p, MALLOCX_TCACHE_NONE);
	is_int(ctl_write("tcache.destroy", id[2]), 0, "tcache.destroy");
	is_int(mallctl("tcache.create", &again, &len, NULL, 0), 0, "tcache.create once more");
	is_uint(again, id[2], "the id is used again");
	for (int i = 0; i < 4; i++)
		is_int(ctl_write("tcache.destroy", id[i]), 0, "tcache.destroy");
	is_int(mallctl("tcache.create", NULL, NULL, NULL, 0), EINVAL,
	    "create without a place for the id");
	is_int(mallctl("tcache.create", &again, &len, &again, sizeof(again)), EPERM,
	    "create does not take a value");
	is_int(mallctl("tcache.flush", NULL, NULL, NULL, 0), EINVAL, "flush without an id");
	is_int(mallctl("tcache.destroy", &again, &len, &again, sizeof(again)), EPERM,
	    "destroy gives nothing");
}

/* ------------------------------------------------------------------ an arena and a cache */

static extent_hooks_t *usual;
static unsigned hook_calls;

static void *
counting_alloc(extent_hooks_t *hooks, void *at, size_t size, size_t alignment, bool *zero,
    bool *commit, unsigned arena) {
	hook_calls++;
	return usual->alloc(hooks, at, size, alignment, zero, commit, arena);
}

static unsigned
arena_with_hooks(void) {
	static extent_hooks_t hooks;
	extent_hooks_t *mine = &hooks;
	size_t len = sizeof(usual);
	unsigned arena = 0;

	mallctl("arena.0.extent_hooks", &usual, &len, NULL, 0);
	hooks = *usual;
	hooks.alloc = counting_alloc;
	len = sizeof(arena);
	is_int(mallctl("arenas.create", &arena, &len, &mine, sizeof(mine)), 0,
	    "arenas.create with hooks");
	return arena;
}

static unsigned
arena_of(void *p) {
	unsigned arena = 0;
	size_t len = sizeof(arena);

	mallctl("arenas.lookup", &arena, &len, &p, sizeof(p));
	return arena;
}

#define IN_ARENA 2000

/* How many of IN_ARENA blocks are of the arena; they are freed by the flags. */
static unsigned
count_in_arena(size_t size, int flags, unsigned arena) {
	static void *p[IN_ARENA];
	unsigned n = 0;

	for (int i = 0; i < IN_ARENA; i++) {
		p[i] = keep(mallocx(size, flags));
		n += arena_of(p[i]) == arena;
	}
	for (int i = 0; i < IN_ARENA; i++)
		sdallocx(p[i], size, flags);
	return n;
}

static size_t
arena_stat(unsigned arena, const char *what) {
	char name[64];

	ctl_epoch();
	return ctl_size(ctl_name(name, "stats.arenas.%u.%s.allocated", arena, what));
}

/* An empty bin of the cache is filled from the arena that is asked for, small and large. */
static void
test_arena_and_cache(void) {
	size_t large = ctl_size("arenas.lextent.0.size");
	/* Above 32 KiB a cache takes blocks only once it has seen the class used again. */
	bool is_cached = large <= ctl_size("arenas.tcache_max") && large <= 32768;
	const size_t sizes[] = {8, 100, 4096, large - 10, large + 10};
	unsigned arena = arena_with_hooks(), id;
	size_t len = sizeof(id);
	int flags;
	void *p, *q;

	is_int(mallctl("tcache.create", &id, &len, NULL, 0), 0, "tcache.create");
	flags = (int)(MALLOCX_ARENA(arena) | MALLOCX_TCACHE(id));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		is_uint(count_in_arena(sizes[i], flags, arena), IN_ARENA,
		    "all of size %zu are of the arena", sizes[i]);
	ok(hook_calls > 0, "its hooks were called (%u times)", hook_calls);
	if (ctl_bool("config.stats")) {
		ok(arena_stat(arena, "small") > 0 && (arena_stat(arena, "large") > 0) == is_cached,
		    "and its statistics tell what the cache holds");
	}
	is_int(ctl_write("tcache.flush", id), 0, "tcache.flush");
	is_uint(ctl_bool("config.stats") ? arena_stat(arena, "small") + arena_stat(arena, "large") : 0,
	    0, "what is flushed goes back to the arena");
	p = keep(mallocx(100, MALLOCX_TCACHE(id)));
	is_uint(arena_of(p), ctl_unsigned("thread.arena"), "without an arena the cache is filled from "
	    "its own");
	q = keep(mallocx(100, flags));
	is_uint(arena_of(q), arena_of(p), "what the cache holds may be another arena's");
	dallocx(q, flags);
	p = keep(rallocx(p, 5000, flags));
	is_uint(arena_of(p), arena, "rallocx moves into the arena");
	size_t there = xallocx(p, 5001, 0, flags);
	is_uint(there, sallocx(p, 0), "xallocx leaves it there");
	p = keep(rallocx(p, 60000, flags));
	is_uint(arena_of(p), arena, "rallocx of what no cache holds");
	ok(keep(rallocx(p, 60001, (int)(MALLOCX_ARENA(4000) | MALLOCX_TCACHE(id)))) == NULL,
	    "rallocx from an arena that does not exist");
	ok(keep(mallocx(100, (int)(MALLOCX_ARENA(4000) | MALLOCX_TCACHE(id)))) == NULL,
	    "mallocx from one, whatever the cache holds");
	sdallocx(p, 60000, flags);
	is_int(ctl_write("tcache.destroy", id), 0, "tcache.destroy");
	is_uint(ctl_bool("config.stats") ? arena_stat(arena, "small") + arena_stat(arena, "large") : 0,
	    0, "nothing is left in the arena");
}

static void *
churn(void *arg) {
	unsigned cache = *(unsigned *)arg;
	uint64_t seed = cache;
	void *live[64] = {NULL};

	for (int i = 0; i < 20000; i++) {
		int at = (int)(test_random(&seed) % 64);

		dallocx(live[at] ? live[at] : keep(mallocx(8, 0)), MALLOCX_TCACHE(cache));
		live[at] = mallocx(1 + test_random(&seed) % 40000, MALLOCX_TCACHE(cache));
		*(char *)live[at] = 1;
	}
	for (int i = 0; i < 64; i++) {
		if (live[i] != NULL)
			dallocx(live[i], MALLOCX_TCACHE(cache));
	}
	return NULL;
}

static void
test_caches_of_threads(void) {
	pthread_t t[4];
	unsigned id[4];
	size_t len = sizeof(unsigned);

	for (int i = 0; i < 4; i++) {
		mallctl("tcache.create", &id[i], &len, NULL, 0);
		pthread_create(&t[i], NULL, churn, &id[i]);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		ctl_write("tcache.destroy", id[i]);
	}
	pass("four threads with explicit caches");
}

/*
 * A thread cache holds blocks of whole classes, also above 32 KiB, where other blocks end at a
 * page: what a request gets, zeroes and counts is the block that it has.
 */
static void
test_cached_large(void) {
	size_t max = 1 << 20;
	char *p;

	is_int(ctl_write("thread.tcache.max", max), 0, "blocks up to 1 MiB are cached");
	for (int i = 0; i < 3; i++) {
		uint64_t before = ctl_u64("thread.allocated");

		p = keep(mallocx(57345, i == 2 ? MALLOCX_ZERO : 0));
		is_uint(ctl_u64("thread.allocated") - before, sallocx(p, 0),
		    "what is counted is what is there");
		if (i < 2)
			memset(p, 1, sallocx(p, 0));
		else
			ok(is_filled(p, 0, sallocx(p, 0)), "all %zu bytes are zero", sallocx(p, 0));
		dallocx(p, 0);
	}
}

int
main(void) {
	test_macros();
	test_flags();
	test_failures();
	test_rallocx();
	test_xallocx();
	test_xallocx_alignment();
	test_explicit_caches();
	test_arena_and_cache();
	test_caches_of_threads();
	test_cached_large();
	return done_testing();
}
