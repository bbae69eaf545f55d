/*
 * experimental.hooks.thread_event: who is called when, in which thread, with what; what is refused.
 */
#include <pthread.h>

#include "ctl.h"

#define NODE "experimental.hooks.thread_event"

struct event {
	void (*f)(bool is_alloc, uint64_t allocated, uint64_t deallocated);
	uint64_t interval;
	bool alloc_only;
};

static __thread unsigned n_alloc, n_free, n_only, n_wrong;
static __thread uint64_t last_alloc, last_free;

static void
on_both(bool is_alloc, uint64_t allocated, uint64_t deallocated) {
	uint64_t *last = is_alloc ? &last_alloc : &last_free;
	uint64_t now = is_alloc ? allocated : deallocated;

	free(keep(malloc(3000)));	/* it may */
	if (is_alloc)
		n_alloc++;
	else
		n_free++;
	if (*last != 0 && now - *last < (1u << 20))
		n_wrong++;
	*last = now;
}

static void
on_alloc(bool is_alloc, uint64_t allocated, uint64_t deallocated) {
	(void)allocated;
	(void)deallocated;
	n_only++;
	if (!is_alloc)
		n_wrong++;
}

static void
on_nothing(bool is_alloc, uint64_t allocated, uint64_t deallocated) {
	(void)is_alloc;
	(void)allocated;
	(void)deallocated;
}

static int
add(void (*f)(bool, uint64_t, uint64_t), uint64_t interval, bool alloc_only) {
	struct event e;

	memset(&e, 0, sizeof(e));
	e.f = f;
	e.interval = interval;
	e.alloc_only = alloc_only;
	return mallctl(NODE, NULL, NULL, &e, sizeof(e));
}

static void *
work(void *arg) {
	(void)arg;
	for (int i = 0; i < 33000; i++)
		free(keep(malloc(1000)));	/* 1024 each: 32 intervals and more */
	ok(n_alloc >= 30 && n_alloc <= 33, "called once for each MiB allocated (%u)", n_alloc);
	ok(n_free >= 29 && n_free <= 33, "and freed (%u)", n_free);
	ok(n_only >= 14 && n_only <= 17, "each interval its own (%u)", n_only);
	is_uint(n_wrong, 0, "never before the interval is over");
	return NULL;
}

/*
 * Blocks of one size, however large: between two calls lie the interval, 64 KiB of each class (that
 * of on_both too), 64 KiB, and a block.
 */
static void *
large_work(void *arg) {
	static const size_t sizes[] = {4000, 14336, 65536, 1 << 18, 1 << 20, 4000000, 5000000};

	(void)arg;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned n = (unsigned)((64u << 20) / sizes[i]);
		unsigned least = (unsigned)((64u << 20) / ((1u << 20) + 3 * 65536 + sizes[i]));

		n_alloc = 0;
		for (unsigned k = 0; k < n; k++)
			free(keep(malloc(sizes[i])));
		ok(n_alloc + 2 >= least, "%u blocks of %zu bytes: %u calls", n, sizes[i], n_alloc);
	}
	is_uint(n_wrong, 0, "never before the interval is over");
	return NULL;
}

int
main(void) {
	struct event e = {on_both, 1, false};
	pthread_t t;
	size_t len = sizeof(e);

	is_int(mallctl(NODE, NULL, NULL, NULL, 0), EINVAL, "nothing");
	is_int(mallctl(NODE, NULL, NULL, &e, sizeof(e) - 1), EINVAL, "a wrong length");
	is_int(mallctl(NODE, &e, &len, &e, sizeof(e)), EPERM, "it cannot be read");
	is_int(add(NULL, 1, false), EINVAL, "no function");
	is_int(add(on_both, 0, false), EINVAL, "no interval");
	is_int(add(on_both, 1u << 20, false), 0, "one");
	is_int(add(on_both, 1u << 20, false), 0, "the same again");
	is_int(add(on_alloc, 2u << 20, true), 0, "another");
	if (pthread_create(&t, NULL, work, NULL) != 0 || pthread_join(t, NULL) != 0)
		bail_out("no thread");
	work(NULL);
	if (pthread_create(&t, NULL, large_work, NULL) != 0 || pthread_join(t, NULL) != 0)
		bail_out("no thread");
	is_int(add(on_nothing, 1, false), 0, "a third");
	is_int(add(on_nothing, 2, false), 0, "a fourth: they were two so far");
	is_int(add(on_nothing, 3, false), EINVAL, "there are four places");
	is_int(add(on_both, 1u << 20, false), 0, "one that is there is no news");
	is_int(add(on_both, 1u << 20, true), EINVAL, "of allocations only is another one");
	is_int(add(on_alloc, 1u << 20, false), EINVAL, "as is one with another function");
	return done_testing();
}
