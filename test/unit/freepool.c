/* meta/freepool.h: recycled memory, under one and many threads. */
#include "core.h"

#include "meta/base.h"
#include "meta/freepool.h"

#include <pthread.h>

static void
test_sizes(void) {
	unsigned bad = 0, n_sizes = 0;
	size_t last = 0;
	for (size_t size = 1; size <= 70000; size++) {
		size_t good = meta_good_size(size);
		bad += wrong_if(good < size) || wrong_if(good % 16 != 0)
		    || wrong_if(meta_good_size(good) != good);
		/* At most half as much again, beyond the first class. */
		bad += size > 16 && size <= 32768 && good > size + size / 2 + 8;
		n_sizes += good != last;
		last = good;
	}
	is_uint(bad, 0, "good sizes hold the request, waste little, and are their own good size");
	ok(n_sizes > 20 && n_sizes < 50, "%u of them", n_sizes);
	ok(meta_alloc(SIZE_MAX) == NULL, "NULL for the largest number");
	meta_free(NULL, 100);
	pass("freeing NULL does nothing");
}

#define N_PIECES 500

struct piece {
	char *p;
	size_t size;
	unsigned char fill;
};

/* Random pieces come and go; returns the number of errors. */
static unsigned
churn(uint64_t seed, unsigned rounds) {
	static __thread struct piece held[N_PIECES];
	unsigned bad = 0;
	memset(held, 0, sizeof(held));
	for (unsigned i = 0; i < rounds; i++) {
		struct piece *h = &held[draw_below(&seed, N_PIECES)];
		if (h->p != NULL) {
			bad += !is_filled(h->p, h->fill, h->size);
			meta_free(h->p, h->size);
			h->p = NULL;
			continue;
		}
		h->size = 1 + draw_below(&seed, i % 100 == 0 ? 100000 : 2000);
		h->fill = (unsigned char)(1 + draw_below(&seed, 255));
		h->p = meta_alloc(h->size);
		size_t align = meta_good_size(h->size) >= 64 ? 64 : 16;
		bad += wrong_if(h->p == NULL) || wrong_if(((uintptr_t)h->p & (align - 1)) != 0)
		    || wrong_if(!is_filled(h->p, 0, h->size));
		memset(h->p, h->fill, h->size);
	}
	for (unsigned i = 0; i < N_PIECES; i++) {
		meta_free(held[i].p, held[i].size);
	}
	return bad;
}

static void
test_churn(void) {
	size_t in_use = meta_in_use(), mapped = meta_mapped();
	is_uint(churn(1, 20000), 0, "20000 pieces: zeroed, aligned, content kept");
	is_uint(meta_in_use(), in_use, "all counted back");
	is_uint(meta_mapped(), mapped, "mapped ones too");
	base_stats_t before, after;
	base_stats_read(base_b0(), &before);
	for (uint64_t seed = 1; seed <= 5; seed++) {
		churn(1, 20000);
	}
	base_stats_read(base_b0(), &after);
	is_uint(after.allocated, before.allocated, "the same again takes nothing new from base");
}

static void *
churn_thread(void *arg) {
	return (void *)(uintptr_t)churn((uintptr_t)arg, 20000);
}

static void
test_threads(void) {
	pthread_t t[4];
	uintptr_t bad = 0;
	size_t mapped = meta_mapped();
	for (uintptr_t i = 0; i < 4; i++) {
		pthread_create(&t[i], NULL, churn_thread, (void *)(i + 100));
	}
	for (unsigned i = 0; i < 4; i++) {
		void *ret;
		pthread_join(t[i], &ret);
		bad += (uintptr_t)ret;
	}
	is_uint(bad, 0, "four threads at once");
	is_uint(meta_mapped(), mapped, "no mapping is lost");
}

static void
body(void) {
	test_sizes();
	test_churn();
	test_threads();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
