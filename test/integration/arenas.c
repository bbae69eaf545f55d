/*
 * Arenas: created, bound to a thread, named in a flag; what they hold is counted in them
 * and nowhere else.
 */
#include "ctl.h"
#include <malloc.h>
#include <pthread.h>

static size_t
arena_size(unsigned arena, const char *what) {
	char name[128];

	return ctl_size(ctl_name(name, "stats.arenas.%u.%s", arena, what));
}

static unsigned
create(void) {
	unsigned arena = UINT_MAX;
	size_t len = sizeof(arena);

	if (mallctl("arenas.create", &arena, &len, NULL, 0) != 0)
		bail_out("arenas.create");
	return arena;
}

static unsigned
owner(void *p) {
	unsigned arena = UINT_MAX;
	size_t len = sizeof(arena);

	return mallctl("arenas.lookup", &arena, &len, &p, sizeof(p)) == 0 ? arena : UINT_MAX;
}

static void
test_create(void) {
	unsigned before = ctl_unsigned("arenas.narenas");
	unsigned a = create(), b = create(), v = 0;
	size_t len = sizeof(v);
	char name[64];

	ok(a >= ctl_unsigned("opt.narenas") && b == a + 1, "two new arenas, %u and %u", a, b);
	is_uint(ctl_unsigned("arenas.narenas"), before + 2, "arenas.narenas counts them");
	ok(ctl_bool(ctl_name(name, "arena.%u.initialized", a)), "initialized");
	is_int(mallctl("arenas.create", NULL, NULL, NULL, 0), EINVAL, "no place for the index");
	is_int(mallctl("arenas.create", &v, NULL, NULL, 0), EINVAL, "no length");
	len = 8;
	is_int(mallctl("arenas.create", &v, &len, NULL, 0), EINVAL, "a wrong length");
	is_uint(ctl_unsigned("arenas.narenas"), before + 2, "none was made");
	ok(!ctl_exists(ctl_name(name, "stats.arenas.%u.pactive", b + 50)),
	    "an arena that does not exist has no statistics");
}

static void
test_flag(void) {
	unsigned a = create();
	int flags = MALLOCX_ARENA(a) | MALLOCX_TCACHE_NONE;
	unsigned wrong = 0;
	void *p[100];
	size_t sum = 0;

	for (int i = 0; i < 100; i++) {
		p[i] = keep(mallocx((size_t)(i * i * 7 + 1), flags));
		memset(p[i], 1, (size_t)(i * i * 7 + 1));
		sum += counted_size(p[i]);
		wrong += owner(p[i]) != a;
	}
	is_uint(wrong, 0, "MALLOCX_ARENA takes blocks from that arena");
	ctl_epoch();
	is_uint(arena_size(a, "small.allocated") + arena_size(a, "large.allocated"), sum,
	    "they are counted there, exactly");
	for (int i = 0; i < 100; i++) {
		p[i] = keep(rallocx(p[i], (size_t)(i * 1000 + 1), flags));
		wrong += owner(p[i]) != a;
	}
	is_uint(wrong, 0, "rallocx stays in the arena of the flag");
	for (int i = 0; i < 100; i++)
		dallocx(p[i], MALLOCX_TCACHE_NONE);
	ctl_epoch();
	is_uint(arena_size(a, "small.allocated") + arena_size(a, "large.allocated"), 0,
	    "and gone after the frees");
}

static void
test_aligned(void) {
	unsigned a = create();
	int flags = MALLOCX_ARENA(a) | MALLOCX_TCACHE_NONE | MALLOCX_ZERO;
	unsigned bad = 0;

	for (int lg = 3; lg < 22; lg++) {
		char *p = keep(mallocx(100, flags | MALLOCX_LG_ALIGN(lg)));

		bad += wrong_if(p == NULL) || wrong_if(((uintptr_t)p & (((uintptr_t)1 << lg) - 1)) != 0)
		    || wrong_if(owner(p) != a) || wrong_if(!is_filled(p, 0, 100));
		dallocx(p, MALLOCX_TCACHE_NONE);
	}
	is_uint(bad, 0, "aligned and zeroed blocks of an arena");
}

static unsigned
bound_to(unsigned arena) {
	char name[64];

	return ctl_unsigned(ctl_name(name, "stats.arenas.%u.nthreads", arena));
}

static void *
bound_thread(void *arg) {
	unsigned *a = arg;
	unsigned old = 0, now = 0;
	size_t len = sizeof(unsigned);
	void *p;

	if (mallctl("thread.arena", &old, &len, a, sizeof(*a)) != 0)
		return (void *)1;
	if (mallctl("thread.arena", &now, &len, NULL, 0) != 0 || now != *a || old == *a)
		return (void *)2;
	for (int i = 0; i < 1000; i++) {
		p = keep(malloc((size_t)(i * 13 + 1)));
		if (owner(p) != *a)
			return (void *)3;
		free(p);
	}
	p = keep(malloc(2 << 20));
	if (owner(p) != *a)
		return (void *)4;
	free(p);
	ctl_epoch();
	return (void *)(uintptr_t)(bound_to(*a) != 1 ? 5 : 0);
}

static void
test_bound(void) {
	unsigned a = create(), wild = 4000;
	void *result;
	pthread_t t;

	pthread_create(&t, NULL, bound_thread, &a);
	pthread_join(t, &result);
	is_int((uintptr_t)result, 0, "a thread bound to an arena allocates there");
	ctl_epoch();
	is_uint(bound_to(a), 0,
	    "it is not counted there any more");
	is_int(ctl_write("thread.arena", wild), EFAULT, "an arena that does not exist");
	wild = UINT_MAX;
	is_int(ctl_write("thread.arena", wild), EFAULT, "nor 2^32 - 1");
}

static void
test_cross_free(void) {
	unsigned a = create(), b = create();
	void *p[500];

	for (int i = 0; i < 500; i++)
		p[i] = keep(mallocx(200, MALLOCX_ARENA(i % 2 ? a : b) | MALLOCX_TCACHE_NONE));
	for (int i = 0; i < 500; i++)
		free(p[i]);
	ctl_void("thread.tcache.flush");
	ctl_epoch();
	is_uint(arena_size(a, "small.allocated") + arena_size(b, "small.allocated"), 0,
	    "blocks find their arena again through another's cache");
}

static void
test_lookup(void) {
	unsigned v;
	size_t len = sizeof(v);
	int here = 0;
	void *p = &here;

	is_int(mallctl("arenas.lookup", &v, &len, &p, sizeof(p)), EINVAL,
	    "arenas.lookup of an address of the stack");
	p = NULL;
	is_int(mallctl("arenas.lookup", &v, &len, &p, sizeof(p)), EINVAL, "of NULL");
	p = (void *)UINTPTR_MAX;
	is_int(mallctl("arenas.lookup", &v, &len, &p, sizeof(p)), EINVAL, "of the last address");
	p = (void *)((uintptr_t)1 << 60);
	is_int(mallctl("arenas.lookup", &v, &len, &p, sizeof(p)), EINVAL, "of no address");
	is_int(mallctl("arenas.lookup", &v, &len, &p, 4), EINVAL, "a wrong length");
	void *beside = keep(mallocx(64, MALLOCX_TCACHE_NONE));
	p = keep(mallocx(64, MALLOCX_TCACHE_NONE));
	dallocx(p, MALLOCX_TCACHE_NONE);
	is_int(mallctl("arenas.lookup", &v, &len, &p, sizeof(p)), 0, "freed, in a slab");
	dallocx(beside, MALLOCX_TCACHE_NONE);
}

static void
test_tcache_enabled(void) {
	bool on = ctl_bool("thread.tcache.enabled"), off = false, old = false;
	size_t len = sizeof(old);
	void *p = keep(malloc(100));

	if (!ctl_bool("opt.tcache")) {
		skip(7, "no thread caches by option");
		free(p);
		return;
	}
	ok(on, "the thread cache is on");
	is_int(mallctl("thread.tcache.enabled", &old, &len, &off, sizeof(off)), 0, "switch it off");
	ok(old && !ctl_bool("thread.tcache.enabled"), "it was on and is off");
	is_int(ctl_void("thread.tcache.flush"), EFAULT, "nothing to flush: EFAULT");
	free(p);
	for (int i = 0; i < 1000; i++)
		free(keep(malloc((size_t)i * 20)));
	p = keep(malloc(100));
	is_int(ctl_write("thread.tcache.enabled", on), 0, "switch it on");
	free(p);
	is_int(ctl_void("thread.tcache.flush"), 0, "flush");
	is_int(ctl_void("thread.idle"), 0, "thread.idle");
}

int
main(void) {
	test_create();
	test_flag();
	test_aligned();
	test_bound();
	test_cross_free();
	test_lookup();
	test_tcache_enabled();
	return done_testing();
}
