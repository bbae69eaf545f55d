/*
 * thread/tcache_spare.c by the public functions: a freed sample serves the next one of its class,
 * zeroed where that is asked for; upkeep and flush give it back; a second free is noticed, by
 * another thread too; counters stay exact. Large samples, which pass through the cache like other
 * objects.
 */
#include "ctl.h"

#include <pthread.h>

#include "arena/arenas.h"
#include "os/gate.h"
#include "thread/tcache.h"
#include "thread/tsd.h"

const char *malloc_conf = "abort_conf:false,prof:true,lg_prof_sample:0,junk:false";

/* Not inlined: gcc 12 takes the address of a TLS variable for null where it checks pointers. */
static NOINLINE tcache_t *
my_cache(void) {
	gate_enter(tls_get());
	tsd_t *tsd = tsd_fetch_in_gate(tls_get());
	gate_exit(tls_get());
	return tsd->tcache;
}

static unsigned
spares(void) {
	unsigned n = 0;
	for (unsigned i = 0; i < TCACHE_NSPARES; i++)
		n += my_cache()->spares.at[i].slot != 0;
	return n;
}

static bool
is_sampled(const void *p) {
	return (emap_elem_any(p) & ELEM_SAMPLED) != 0;
}

static void
flush(void) {
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
}

static void
test_reuse(void) {
	char *p = keep(malloc(100));
	ok(is_sampled(p), "each object is a sample");
	memset(p, 0x77, 100);
	flush();
	is_uint(spares(), 0, "no spare at first");
	free(p);
	is_uint(spares(), 1, "a freed sample is kept");
	char *q = keep(calloc(1, 100));
	ok(q == p && is_sampled(q), "and serves the next one");
	is_uint(spares(), 0, "once");
	unsigned sum = 0;
	for (unsigned i = 0; i < 100; i++)
		sum += (unsigned char)q[i];
	is_uint(sum, 0, "zeroed for calloc");
	char *r = keep(malloc(100));
	ok(r != q, "two live samples are two regions");
	free(q);
	free(r);
	is_uint(spares(), 1, "one of a class is kept");
	void *other = keep(malloc(3000));
	ok(other != q && malloc_usable_size(other) >= 3000, "another class does not take it");
	free(other);
	void *direct = keep(mallocx(100, MALLOCX_TCACHE_NONE));
	ok(direct != q, "nor does a request past the cache");
	dallocx(direct, MALLOCX_TCACHE_NONE);
	flush();
	is_uint(spares(), 0, "a flush gives all back");
}

static void
test_manual_arena(void) {
	unsigned ind;
	size_t len = sizeof(ind);
	mallctl("arenas.create", &ind, &len, NULL, 0);
	void *p = keep(mallocx(100, MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE));
	ok(is_sampled(p), "sample of an arena made by hand");
	dallocx(p, 0);
	is_uint(spares(), 0, "is not kept: the arena may be reset");
	free(keep(malloc(100)));
	void *q = keep(mallocx(100, MALLOCX_ARENA(ind)));
	ok(emap_edata(q)->arena_ind == ARENA_HIDDEN(ind), "and gets no spare of others");
	dallocx(q, 0);
	flush();
}

static void
test_counters(size_t size) {
	uint64_t before[2], after[2];
	size_t len = sizeof(uint64_t);
	size_t usize = canary_usize(size, 0);
	mallctl("thread.allocated", &before[0], &len, NULL, 0);
	mallctl("thread.deallocated", &before[1], &len, NULL, 0);
	for (unsigned i = 0; i < 1000; i++)
		free(keep(malloc(size)));
	mallctl("thread.allocated", &after[0], &len, NULL, 0);
	mallctl("thread.deallocated", &after[1], &len, NULL, 0);
	is_uint(after[0] - before[0], 1000 * usize, "%zu bytes: allocated is exact", size);
	is_uint(after[1] - before[1], 1000 * usize, "deallocated is exact");
}

/* A large sample leaves the cache, and returns to it, as an object that is none. */
static void
test_large(void) {
	size_t size = 5 * ctl_size("arenas.page"), live;
	bool off = false, on = true;
	flush();
	char *p = keep(malloc(size));
	ok(is_sampled(p), "a large object is a sample");
	memset(p, 0x77, size);
	live = (size_t)ctl_u64("stats.allocated");
	free(p);
	ok(!is_sampled(p), "until it is freed");
	ctl_write("prof.active", off);
	char *q = keep(malloc(size));
	ok(q == p && !is_sampled(q), "the cache serves the next object with it");
	free(q);
	ctl_write("prof.active", on);
	q = keep(calloc(1, size));
	ok(is_sampled(q), "which may be a sample again");
	unsigned sum = 0;
	for (size_t i = 0; i < size; i++)
		sum += (unsigned char)q[i];
	is_uint(sum, 0, "zeroed for calloc");
	is_uint((size_t)ctl_u64("stats.allocated"), live, "as many bytes are allocated");
	free(q);
	flush();
}

static void
test_upkeep(void) {
	free(keep(malloc(100)));
	is_uint(spares(), 1, "a spare");
	for (unsigned i = 0; i < 4000 && spares() > 0; i++)
		free(keep(malloc(4 << 20)));
	is_uint(spares(), 0, "that nobody wants goes back");
}

static void
crime_twice(void *arg) {
	void *p = keep(malloc(100));
	(void)arg;
	free(p);
	free(keep(p));
}

static void *
free_it(void *arg) {
	free(arg);
	return NULL;
}

static void
crime_from_afar(void *arg) {
	void *p = keep(malloc(100));
	pthread_t t;
	(void)arg;
	free(p);
	pthread_create(&t, NULL, free_it, p);
	pthread_join(t, NULL);
}

static void
crime_inside(void *arg) {
	char *p = keep(malloc(100));
	(void)arg;
	free(keep(p + 16));
}

static void
test_crimes(void) {
	dies(SIGABRT, "<jemalloc>: ", crime_twice, NULL, "freed twice: noticed");
	dies(SIGABRT, "<jemalloc>: ", crime_from_afar, NULL, "again by another thread: noticed");
	dies(SIGABRT, "<jemalloc>: ", crime_inside, NULL, "a pointer into it: noticed");
}

int
main(void) {
	free(keep(malloc(100)));
	if (!config_prof)
		plan_skip_all("no profiler");
	test_reuse();
	test_manual_arena();
	test_counters(100);
	test_counters(5 * ctl_size("arenas.page"));
	test_large();
	test_upkeep();
	test_crimes();
	return done_testing();
}
