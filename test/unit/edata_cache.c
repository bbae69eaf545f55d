/* meta/edata_cache.h: descriptors stay with their arena, come back, and are counted. */
#include "core.h"

#include "meta/edata_cache.h"

#include <pthread.h>

#define N 200

static edata_cache_t cache;

static void *
churn(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	edata_t *held[16] = {NULL};
	uintptr_t bad = 0;
	for (unsigned i = 0; i < 50000; i++) {
		edata_t **h = &held[core_below(&seed, 16)];
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

int
main(void) {
	static edata_t *got[N];
	base_stats_t st;
	unsigned bad = 0;
	base_t *base = base_new(NULL);
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
	is_uint(st.edata, N * sizeof(edata_t), "base counts them");
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
	is_uint(st.edata, N * sizeof(edata_t), "nothing new was made");
	for (unsigned i = 0; i < N; i++) {
		edata_cache_put(&cache, got[i]);
	}
	pthread_t t[4];
	uintptr_t all_bad = 0;
	for (uintptr_t i = 0; i < 4; i++) {
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	}
	for (unsigned i = 0; i < 4; i++) {
		void *ret;
		pthread_join(t[i], &ret);
		all_bad += (uintptr_t)ret;
	}
	is_uint(all_bad, 0, "four threads never share one");
	is_uint(atomic_load_zu(&cache.count, MO_RELAXED), N, "and all come back");
	base_delete(base);
	return done_testing();
}
