/*
 * thread/tcache_set.h: caches by hand up to the limit, settings changed while objects are cached;
 * the byte counts stay exact through all of it.
 */
#include "ctl.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "arena/inspect.h"
#include "arena/arenas.h"
#include "meta/base.h"
#include "thread/tcache_set.h"

static tsd_t *tsd;
static uint64_t live; /* bytes that this thread has in use, by its own count */

static uint64_t
net(void) {
	tsd_enter();
	uint64_t n = tsd_allocated(tsd) - tsd_deallocated(tsd);
	tsd_leave();
	return n;
}

static void
fill_and_empty(size_t size) {
	void *p[100];
	for (unsigned i = 0; i < 100; i++) {
		p[i] = keep(malloc(size));
	}
	for (unsigned i = 0; i < 100; i++) {
		free(p[i]);
	}
}

static size_t
cached_bytes(void) {
	tsd_enter();
	size_t n = tsd->tcache == NULL ? 0 : tcache_cached_bytes(tsd->tcache);
	tsd_leave();
	return n;
}

static size_t
ncached_max(size_t size) {
	size_t n = 12345;
	return tcache_ncached_max_get(tsd, size, &n) == 0 ? n : 99999;
}

static int
limit_set(size_t from, size_t to, size_t n) {
	tsd_enter();
	int err = tcache_ncached_max_set(tsd, from, to, n);
	tsd_leave();
	return err;
}

static void
test_limits(void) {
	fill_and_empty(100);
	ok(cached_bytes() > 0, "something is cached");
	size_t was = ncached_max(100), beside = ncached_max(200), usize = canary_usize(100, 0);
	is_uint(was, tcache_ncached_max_default(sz_s2i(100)), "the limit of a class");
	is_int(limit_set(97, usize, 5), 0, "another one");
	is_uint(ncached_max(100), 5, "is there");
	is_uint(ncached_max(200), beside, "only there");
	is_uint(net(), live, "nothing is lost by the change");
	fill_and_empty(100);
	ok(cached_bytes() <= 5 * usize + 100, "no more than five are cached (%zu bytes)",
	    cached_bytes());
	is_int(limit_set(100, usize, 0), 0, "a limit of 0");
	fill_and_empty(100);
	is_uint(ncached_max(100), 0, "is there");
	is_uint(net(), live, "use goes on and is counted");
	is_int(limit_set(100, 100, SIZE_MAX), 0, "a limit without end");
	is_uint(ncached_max(100), TCACHE_NCACHED_LIMIT, "is cut");
	fill_and_empty(200);
	uint64_t held = cached_bytes();
	is_int(limit_set(200, 97, 5), 0, "bounds exchanged");
	is_int(limit_set(TCACHE_MAX_LIMIT + 1, SIZE_MAX, 5), 0, "a range beyond all caches");
	ok(held > 0 && cached_bytes() == held, "set nothing: the cache is not even made anew");
	size_t n;
	is_int(tcache_ncached_max_get(tsd, TCACHE_MAX_LIMIT + 1, &n), EINVAL,
	    "beyond the largest possible");
	is_uint(ncached_max(TCACHE_MAX_LIMIT), 0, "the largest possible is not cached");
	is_int(limit_set(100, 100, was), 0, "back");
}

static void
test_max(void) {
	unsigned bad = 0;
	static const size_t maxima[] = {0, 8, 100, 4096, 20000, 32768, 100000, 8388608, SIZE_MAX, 5000,
	    32768};
	for (unsigned i = 0; i < sizeof(maxima) / sizeof(maxima[0]); i++) {
		size_t max = sz_i2s(sz_s2i(maxima[i] > TCACHE_MAX_LIMIT ? TCACHE_MAX_LIMIT : maxima[i]));
		tsd_enter();
		bad += wrong_if(tcache_max_set(tsd, maxima[i]) != 0)
		    || wrong_if(tsd->tcache_max != max);
		tsd_leave();
		/* Larger ones have no slots of their own by default. */
		for (size_t size = 8; size < TCACHE_GRANT_ABOVE; size += size / 3 + 1) {
			fill_and_empty(size);
			bad += sz_s2u(size) > max ? ncached_max(size) != 0 : ncached_max(size) == 0;
		}
		if (max < 32768) {
			bad += cached_bytes() > 250 * max * 30;
		}
		if (net() != live) {
			diag("max %zu: %llu bytes in use", max, (unsigned long long)net());
			bad++;
		}
	}
	is_uint(bad, 0, "eleven maxima in a row: what is cached, and what is counted");
}

static void
test_switch(void) {
	unsigned bad = 0;
	for (unsigned i = 0; i < 20; i++) {
		fill_and_empty(64);
		tsd_enter();
		bad += tcache_enabled_set(tsd, i % 2 != 0) != 0;
		bad += (tsd->tcache != NULL) != (i % 2 != 0);
		tsd_leave();
		fill_and_empty(64);
		bad += net() != live;
		bad += i % 2 == 0 && cached_bytes() != 0;
	}
	is_uint(bad, 0, "switched off and on twenty times");
	tsd_enter();
	tcache_enabled_set(tsd, false);
	is_int(tcache_ncached_max_set(tsd, 8, 8, 3), ENOENT, "no cache, no limits");
	is_int(tcache_max_set(tsd, 1000), 0, "its maximum can be set before");
	is_int(tcache_enabled_set(tsd, true), 0, "on again");
	is_uint(tsd->tcache_max, 1024, "with that maximum");
	is_int(tcache_max_set(tsd, tcache_max_default), 0, "back");
	tsd_leave();
}

static uint64_t
curregs(szind_t szind) {
	static arena_stats_t stats;
	tsd_enter();
	memset(&stats, 0, sizeof(stats));
	arena_stats_merge(tsd->arena, &stats);
	tsd_leave();
	return stats.bins[szind].curregs;
}

static void
test_by_hand(void) {
	unsigned id, bad = 0;
	tsd_enter();
	is_int(tcaches_create(tsd, &id), 0, "a cache by hand");
	ok(tcaches_get(id) != NULL, "is found");
	ok(tcaches_get(id + 1) == NULL && tcaches_get(4094) == NULL
	    && tcaches_get(UINT_MAX) == NULL, "others are not");
	is_int(tcaches_flush(tsd, id + 1), EFAULT, "nor flushed");
	is_int(tcaches_destroy(tsd, id + 1), EFAULT, "nor destroyed");
	is_int(tcaches_destroy(tsd, UINT_MAX), EFAULT, "nor a wild one");
	is_int(tcaches_create(NULL, &(unsigned){0}), EFAULT, "a thread without memory gets none");
	tsd_leave();
	size_t usize = canary_usize(320, 0);
	szind_t ind = sz_s2i(usize);
	void *p = keep(mallocx(320, MALLOCX_TCACHE(id)));
	uint64_t before = curregs(ind);
	for (unsigned i = 0; i < 30; i++) {
		dallocx(p, MALLOCX_TCACHE(id));
		void *q = keep(mallocx(320, MALLOCX_TCACHE(id)));
		bad += q != p;
		p = q;
	}
	is_uint(bad, 0, "what was freed into it comes out of it");
	is_uint(net(), live + usize, "and is counted");
	dallocx(p, MALLOCX_TCACHE(id));
	is_uint(curregs(ind), before, "to the arena it is in use");
	tsd_enter();
	is_int(tcaches_flush(tsd, id), 0, "flushed");
	tsd_leave();
	ok(curregs(ind) < before, "it is not");
	p = keep(mallocx(320, MALLOCX_TCACHE(id)));
	tsd_enter();
	is_int(tcaches_destroy(tsd, id), 0, "destroyed");
	is_int(tcaches_destroy(tsd, id), EFAULT, "once");
	tsd_leave();
	dallocx(p, MALLOCX_TCACHE(id));
	p = keep(mallocx(320, MALLOCX_TCACHE(id)));
	ok(p != NULL, "its number serves without a cache");
	dallocx(p, MALLOCX_TCACHE_NONE);
	is_uint(net(), live, "all counted");
}

static void
test_ids(void) {
	static bool is_used[5000];
	unsigned id, n = 0, bad = 0;
	tsd_enter();
	while (tcaches_create(tsd, &id) == 0 && n < 5000) {
		bad += wrong_if(id >= 4094) || wrong_if(is_used[id]);
		is_used[id] = true;
		n++;
	}
	is_uint(bad, 0, "ids are different and below the limit");
	is_uint(n, 4094, "4094 caches, no more");
	for (unsigned i = 1000; i < 1200; i++) {
		bad += tcaches_destroy(tsd, i) != 0;
		is_used[i] = false;
	}
	for (unsigned i = 0; i < 200; i++) {
		bad += wrong_if(tcaches_create(tsd, &id) != 0) || wrong_if(is_used[id]);
		is_used[id] = true;
	}
	is_uint(bad, 0, "ids given back are given out again");
	is_int(tcaches_create(tsd, &id), EFAULT, "then it is full again");
	for (unsigned i = 0; i < 4094; i++) {
		bad += tcaches_destroy(tsd, i) != 0;
	}
	is_uint(bad, 0, "all destroyed");
	tsd_leave();
	is_uint(net(), live, "and nothing was lost");
}

/* A maximum lifts no limit that a call has set. */
static void
test_max_and_limits(void) {
	size_t was = ncached_max(64);
	tsd_enter();
	is_int(tcache_ncached_max_set(tsd, 64, 64, 0), 0, "64 bytes: not cached");
	tcache_max_set(tsd, 16384);
	is_uint(ncached_max(20480), 0, "a lower maximum closes what is above");
	tcache_max_set(tsd, 32768);
	is_uint(ncached_max(64), 0, "a higher one leaves the limit that was set");
	is_uint(ncached_max(20480), tcache_ncached_max_default(sz_s2i(20480)), "and opens the rest");
	tcache_ncached_max_set(tsd, 64, 64, was);
	tcache_max_set(tsd, tcache_max_default);
	is_uint(ncached_max(64), was, "back");
	tsd_leave();
}

static bool
refuse_all(void) {
	return true;
}

/* Without memory for another cache nothing changes. */
static void
test_no_memory(void) {
	static unsigned ids[4094];
	unsigned n = 0;
	tsd_enter();
	base_fault_hook = refuse_all;
	while (n < 4094 && tcaches_create(tsd, &ids[n]) == 0) {
		n++; /* takes what earlier caches have left */
	}
	is_int(tcache_max_set(tsd, 4096), EAGAIN, "no memory for a cache");
	is_uint(tsd->tcache_max, tcache_max_default, "the maximum is what it was");
	is_int(tcache_ncached_max_set(tsd, 64, 64, 0), EAGAIN, "nor for other limits");
	ok(ncached_max(64) != 0, "they are what they were");
	base_fault_hook = NULL;
	while (n > 0) {
		tcaches_destroy(tsd, ids[--n]);
	}
	tsd_leave();
}

/* A thread for whose cache there was no memory yet. */
static void
test_not_made(void) {
	tsd_enter();
	tcache_enabled_set(tsd, false);
	tsd->is_cached = true;
	is_int(tcache_enabled_set(tsd, false), 0, "switched off before it was made");
	tsd_make_cache(tsd);
	ok(tsd->tcache == NULL, "it is not made");
	tsd->is_cached = true;
	is_int(tcache_max_set(tsd, 1024), 0, "a maximum before it is made");
	tsd_make_cache(tsd);
	ok(ncached_max(1024) != 0 && ncached_max(2048) == 0, "is that of the cache");
	tcache_max_set(tsd, tcache_max_default);
	tsd_leave();
}

#if defined(__x86_64__)

#define TRAP_FLAG 0x100

static struct {
	unsigned steps;
	unsigned open; /* steps with an open fast path */
	unsigned bad;  /* of these, such that a handler which allocates would get no free object */
} seen;

/* Whether a pop from any bin of the open fast path gets what its stack holds. */
static bool
can_pop(const struct tls_s *t) {
	const tcache_t *tc = (const tcache_t *)((const char *)t->cache
	    - align_up(sizeof(tcache_t), CACHELINE));
	if (t->cache != tc->bins || tc->arena == NULL) {
		return false; /* one that is being deleted is in no list */
	}
	for (unsigned s = 1; s < tc->nslots; s++) {
		const cache_bin_t *b = &tc->bins[s];
		const tcache_cold_t *c = &tc->cold[s];
		if (b->head != b->empty && (b->head < c->slots || b->head >= c->slots + c->nslots
		    || b->empty < b->head || b->empty > c->slots + c->nslots)) {
			return false;
		}
	}
	return true;
}

static void
on_step(int sig UNUSED, siginfo_t *info UNUSED, void *context) {
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const struct tls_s *t = tls_get();
	seen.steps++;
	if (t->tsd == NULL) {
		regs[REG_EFL] &= ~(greg_t)TRAP_FLAG; /* the thread has no cache any more */
	} else if (t->cache != (const void *)tls_boot_cache) {
		seen.open++;
		seen.bad += !can_pop(t);
	}
}

#define STEPS(bits) \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" bits ", (%%rsp)\n\tpopfq\n\t" \
	    "lea 128(%%rsp), %%rsp" ::: "memory", "cc")

/* Grows, fills and flushes stacks, replaces the cache, and ends with it. */
static void *
step_through(void *arg UNUSED) {
	static __thread void *p[40];
	tsd_t *mine = tsd_enter();
	tsd_leave();
	STEPS("orq $0x100");
	for (unsigned i = 0; i < 40; i++) {
		p[i] = keep(malloc(20000));
	}
	for (unsigned i = 0; i < 40; i++) {
		free(p[i]);
	}
	tsd_enter();
	tcache_max_set(mine, 32768);
	tcache_enabled_set(mine, false);
	tcache_enabled_set(mine, true);
	tsd_leave();
	free(keep(malloc(20000)));
	return NULL;
}

static void
test_steps(void) {
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	pthread_t thread;
	if (config_debug) {
		skip(2, "no fast path in this build");
		return;
	}
	sigaction(SIGTRAP, &action, NULL);
	pthread_create(&thread, NULL, step_through, NULL);
	pthread_join(thread, NULL);
	ok(seen.steps > 1000 && seen.open > 100, "%u steps, %u of them with a fast path", seen.steps,
	    seen.open);
	is_uint(seen.bad, 0, "at each of these a handler may allocate");
}

#else

static void
test_steps(void) {
	skip(2, "no single steps");
}

#endif

int
main(void) {
	free(keep(malloc(1)));
	tsd = tsd_enter();
	tsd_leave();
	live = net();
	test_limits();
	test_max();
	test_switch();
	test_max_and_limits();
	test_no_memory();
	test_not_made();
	test_by_hand();
	test_ids();
	test_steps();
	return done_testing();
}
