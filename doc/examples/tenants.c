/*
 * A server with four tenants. Its threads say for whom they work (jemalloc/jemalloc_prof.h), and a profile tells what
 * each tenant holds: jeprof top --by label. Prints what each one really holds.
 */
#include <jemalloc/jemalloc_prof.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TENANTS 4
#define WORKERS 4

static const char *const names[TENANTS] = {"acme", "globex", "initech", "umbrella"};
static const size_t share[TENANTS] = {40, 30, 20, 10}; /* percent */
static uint32_t labels[TENANTS];
static void *kept[WORKERS];
static size_t quota; /* bytes that a worker keeps for all tenants */

struct worker {
	pthread_t id;
	unsigned seed;
	size_t held[TENANTS], objects[TENANTS];
};

static unsigned
next(struct worker *w) {
	w->seed = w->seed * 1664525u + 1013904223u;
	return w->seed >> 8;
}

/* What a request leaves behind is linked, so that it is not lost. */
static void *
keep(struct worker *w, void *list, size_t size, unsigned tenant) {
	void **p = malloc(size);
	*p = list;
	w->held[tenant] += size;
	w->objects[tenant]++;
	return p;
}

__attribute__((noinline)) static void *
open_session(struct worker *w, void *list, unsigned tenant) {
	return keep(w, list, 200 + next(w) % 2000, tenant);
}

__attribute__((noinline)) static void *
cache_page(struct worker *w, void *list, unsigned tenant) {
	return keep(w, list, 4000 + next(w) % 30000, tenant);
}

static void *
work(void *arg) {
	static __thread void *list;
	struct worker *w = arg;
	for (unsigned n = 0, full = 0; full < TENANTS; n++) {
		unsigned tenant = n % TENANTS;
		if (w->held[tenant] >= quota / 100 * share[tenant]) {
			full++; /* in a row */
			continue;
		}
		full = 0;
		uint32_t before = jemalloc_prof_label_switch(labels[tenant]);
		char *volatile answer = malloc(1000 + next(w) % 9000);
		list = next(w) % 8 != 0 ? open_session(w, list, tenant) : cache_page(w, list, tenant);
		free(answer);
		jemalloc_prof_label_switch(before);
	}
	return list;
}

/* usage: tenants [MEGABYTES [SECONDS]] */
int
main(int argc, char **argv) {
	static struct worker workers[WORKERS];
	quota = ((size_t)(argc > 1 ? atoi(argv[1]) : 100) << 20) / WORKERS;
	for (unsigned i = 0; i < TENANTS; i++) {
		labels[i] = jemalloc_prof_label_intern(names[i]);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].seed = i + 1;
		pthread_create(&workers[i].id, NULL, work, &workers[i]);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		pthread_join(workers[i].id, &kept[i]);
	}
	for (unsigned i = 0; i < TENANTS; i++) {
		size_t bytes = 0, objects = 0;
		for (unsigned k = 0; k < WORKERS; k++) {
			bytes += workers[k].held[i];
			objects += workers[k].objects[i];
		}
		printf("%s %zu bytes in %zu\n", names[i], bytes, objects);
	}
	fflush(stdout);
	sleep(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
	return 0;
}
