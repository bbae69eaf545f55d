/*
 * meta/edata_cache.h: descriptors stay with their arena, come back, and are counted; pages of spare
 * ones are given back.
 */
#include "core.h"

#include "meta/edata_cache.h"
#include "os/pages.h"

#include <pthread.h>

#define N 200

static edata_cache_t cache;

static void *
churn(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	edata_t *held[16] = {NULL};
	uintptr_t bad = 0;
	for (unsigned i = 0; i < 50000; i++) {
		edata_t **h = &held[draw_below(&seed, 16)];
		if (*h != NULL) {
			/* Nobody else has written to it meanwhile. */
			bad += (*h)->addr != (char *)h;
			edata_cache_put(&cache, *h);
			*h = NULL;
		} else {
			*h = edata_cache_get(&cache);
			bad += wrong_if(*h == NULL) || wrong_if((*h)->arena_ind != 77);
			(*h)->addr = (char *)h;
		}
	}
	for (unsigned i = 0; i < 16; i++) {
		if (held[i] != NULL) {
			edata_cache_put(&cache, held[i]);
		}
	}
	return (void *)bad;
}

/* ------------------------------------------------------------------ giving pages back */

#define MANY 40000

static edata_t *many[MANY];

static size_t
resident(base_t *base) {
	base_stats_t st;
	base_stats_read(base, &st);
	return st.resident;
}

/* Takes all; the number of those that are not of the arena, or are there twice. */
static unsigned
take_many(edata_cache_t *c) {
	unsigned bad = 0;
	for (unsigned i = 0; i < MANY; i++) {
		many[i] = edata_cache_get(c);
		bad += wrong_if(many[i] == NULL) || wrong_if(many[i]->arena_ind != 78);
		edata_init(many[i], (char *)many[i], PAGE, true, false);
	}
	for (unsigned i = 0; i < MANY; i++) {
		bad += wrong_if(many[i]->addr != (char *)many[i]);
		many[i]->addr = (char *)PAGE;
	}
	return bad;
}

static void
put_many(edata_cache_t *c, unsigned from, unsigned step) {
	for (unsigned i = from; i < MANY; i += step) {
		if (many[i] != NULL) {
			edata_cache_put(c, many[i]);
			many[i] = NULL;
		}
	}
}

/* Looks at the clock until a pass is over. */
static void
tick(edata_cache_t *c, uint64_t now) {
	for (int i = 0; i < 100; i++) {
		edata_cache_tick(c, now, 1000);
	}
}

static void
test_purge(void) {
	static edata_cache_t c;
	base_t *base = base_new();
	size_t one = EDATA_ALIGN, kept = EDATA_KEPT * one;
	edata_cache_init(&c, base, 78);
	tick(&c, 1000);
	is_uint(take_many(&c), 0, "many are of the arena");
	tick(&c, 3000);
	is_uint(edata_cache_ns_until(&c, 3000), UINT64_MAX, "none is spare: no call is due");
	put_many(&c, 0, 1);
	size_t full = resident(base);
	tick(&c, 3999);
	tick(&c, 4000);
	is_uint(resident(base), full, "not before they were spare for a whole period");
	is_uint(edata_cache_ns_until(&c, 4000), 1000, "which ends so much later");
	tick(&c, 4999);
	is_uint(resident(base), full, "whose end counts");
	const edata_t *last = edata_of_link(ql_first(&c.spare)->prev->prev);
	tick(&c, 5000);
	ok(PAGE > 4096 || resident(base) < kept + full / 8, "then their pages go: %zu of %zu are left",
	    resident(base), full);
	is_uint(resident(base), full - c.npurged * PAGE, "each is counted");
	is_uint(atomic_load_zu(&c.count, MO_RELAXED), MANY - c.npurged * (PAGE / one),
	    "and its descriptors are not spare ones");
	ok(last->arena_ind == 78 || (!edata_is_of(last, 0) && !edata_is_of(last, 78)),
	    "one that was given back belongs to no arena");
	size_t npurged = c.npurged;
	tick(&c, 6000);
	is_uint(c.npurged, npurged, "some remain");
	is_uint(edata_cache_ns_until(&c, 6000), UINT64_MAX, "for good");
	edata_cache_purge(&c);
	ok(c.npurged >= npurged && (PAGE > 4096 || resident(base) <= full / 8 + 64 * PAGE),
	    "unless all are to go");
	is_uint(take_many(&c), 0, "all come back");
	ok(c.npurged == 0 && resident(base) <= full + EDATA_BLOCK_MAX, "nothing new is made for them");

	/* Every 64th stays in use: one in each second page of 4 KiB. */
	for (unsigned from = 1; from < 64; from++) {
		put_many(&c, from, 64);
	}
	edata_cache_purge(&c);
	unsigned bad = 0;
	for (unsigned i = 0; i < MANY; i += 64) {
		bad += wrong_if(many[i]->addr != (char *)PAGE) || wrong_if(!edata_is_of(many[i], 78));
	}
	is_uint(bad, 0, "those in use keep their pages");
	ok(PAGE > 4096 || (c.npurged > MANY / 128 && c.npurged < MANY / 64), "%zu others go",
	    c.npurged);
	tick(&c, 8000);
	tick(&c, 9000);
	is_uint(edata_cache_ns_until(&c, 9000), UINT64_MAX, "none is due for pages with some in use");
	put_many(&c, 0, 64);
	ok(PAGE > 4096 || edata_cache_ns_until(&c, 9000) == 1000, "but when more are spare");
	base_delete(base);
}

static int
no_madvise(void *addr UNUSED, size_t size UNUSED, int advice UNUSED) {
	errno = EINVAL;
	return -1;
}

/* Pages that the system does not take back stay, until a pass when it does. */
static void
test_refused(void) {
	static struct os_hooks_s hooks;
	static edata_cache_t c;
	base_t *base = base_new();
	edata_cache_init(&c, base, 78);
	is_uint(take_many(&c), 0, "from a system that takes no page back");
	put_many(&c, 0, 1);
	size_t full = resident(base);
	hooks = os_hooks_real;
	hooks.madvise = no_madvise;
	os_hooks = &hooks;
	edata_cache_purge(&c);
	ok(c.npurged == 0 && resident(base) == full, "nothing goes");
	is_uint(atomic_load_zu(&c.count, MO_RELAXED), MANY, "all are spare");
	tick(&c, 3000);
	tick(&c, 4000);
	is_uint(edata_cache_ns_until(&c, 4000), UINT64_MAX, "no call is due for that");
	os_hooks = &os_hooks_real;
	tick(&c, 5000);
	ok(PAGE > 4096 || resident(base) < full / 2, "another time it takes them");
	is_uint(take_many(&c), 0, "they come back");
	put_many(&c, 0, 1);
	edata_cache_purge(&c);
	ok(PAGE > 4096 || resident(base) < full / 2, "and all can go");
	is_uint(take_many(&c), 0, "and usable");
	base_delete(base);
}

static bool is_over;

static void *
purger(void *arg UNUSED) {
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		edata_cache_purge(&cache);
	}
	return NULL;
}

int
main(void) {
	static edata_t *got[N];
	base_stats_t st;
	unsigned bad = 0;
	base_t *base = base_new();
	edata_cache_init(&cache, base, 77);
	for (unsigned i = 0; i < N; i++) {
		got[i] = edata_cache_get(&cache);
		bad += wrong_if(got[i] == NULL)
		    || wrong_if(((uintptr_t)got[i] & (EDATA_ALIGN - 1)) != 0);
		bad += got[i]->arena_ind != 77;
		edata_init(got[i], (char *)0x10000, PAGE, true, false);
		bad += wrong_if(got[i]->arena_ind != 77)
		    || wrong_if(got[i]->state != extent_state_active);
	}
	is_uint(bad, 0, "fresh ones are aligned and belong to the arena");
	base_stats_read(base, &st);
	size_t made = st.edata;
	ok(made >= N * EDATA_ALIGN && made <= N * EDATA_ALIGN * 3 / 2, "base counts %zu bytes", made);
	is_uint(atomic_load_zu(&cache.count, MO_RELAXED), 0, "none is spare");
	for (unsigned i = 0; i < N; i++) {
		edata_cache_put(&cache, got[i]);
		bad += got[i]->state != extent_state_none;
	}
	is_uint(bad, 0, "spare ones are marked");
	is_uint(atomic_load_zu(&cache.count, MO_RELAXED), N, "all are spare");
	for (unsigned i = 0; i < N; i++) {
		bad += edata_cache_get(&cache) != got[N - 1 - i];
	}
	is_uint(bad, 0, "the last one in comes out first");
	base_stats_read(base, &st);
	is_uint(st.edata, made, "nothing new was made");
	for (unsigned i = 0; i < N; i++) {
		edata_cache_put(&cache, got[i]);
	}
	pthread_t t[4], p;
	uintptr_t all_bad = 0;
	pthread_create(&p, NULL, purger, NULL);
	for (uintptr_t i = 0; i < 4; i++) {
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	}
	for (unsigned i = 0; i < 4; i++) {
		void *ret;
		pthread_join(t[i], &ret);
		all_bad += (uintptr_t)ret;
	}
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	pthread_join(p, NULL);
	is_uint(all_bad, 0, "four threads never share one, while a fifth gives pages back");
	is_uint(atomic_load_zu(&cache.count, MO_RELAXED) + cache.npurged * (PAGE / EDATA_ALIGN), N,
	    "and all come back");
	base_delete(base);
	test_purge();
	test_refused();
	return done_testing();
}
