/*
 * The bound of address space without use (os/room.h, extent/pac.c) in random use of the public
 * functions by several threads: the counts agree with the extents, the bound holds after each
 * release and each mapping, and few releases unmap anything.
 */
#include "core.h"

#include <jemalloc/jemalloc.h>

#include "arena/arenas.h"
#include "os/gate.h"
#include "os/room.h"
#include "thread/tsd.h"

#include <pthread.h>

const char *malloc_conf = "narenas:4,populate:false,dirty_decay_ms:-1";

#define MIB ((size_t)1 << 20)
#define MAX (64 * MIB)
#define N_HELD 3000
#define N_THREADS 3

static size_t (*shed)(size_t want);
static atomic_zu_t n_sheds;

static size_t
count_shed(size_t want) {
	atomic_fetch_add_zu(&n_sheds, 1, MO_RELAXED);
	return shed(want);
}

static size_t
used_by_arenas(void) {
	size_t npages = 0;
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		const arena_t *a = arenas_get(i), *hidden = arenas_sampled_get(i);
		npages += a == NULL ? 0 : atomic_load_zu(&a->pac.nactive, MO_RELAXED);
		npages += hidden == NULL ? 0 : atomic_load_zu(&hidden->pac.nactive, MO_RELAXED);
	}
	return npages << LG_PAGE;
}

static size_t
mapped_by_arenas(void) {
	size_t bytes = 0;
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		arena_t *a = arenas_get(i);
		bytes += a == NULL ? 0 : atomic_load_zu(&a->pac.mapped, MO_RELAXED)
		    + (ecache_npages(&a->pac.retained) << LG_PAGE);
	}
	return bytes;
}

/* Sizes of all kinds; those above 1 MiB are few. */
static size_t
some_size(uint64_t *seed) {
	size_t lg = 3 + test_random(seed) % (test_random(seed) % 16 == 0 ? 20 : 15);
	return ((size_t)1 << lg) + test_random(seed) % ((size_t)1 << lg);
}

/* The highest excess that was seen after a call; all is held, then nearly nothing, in turn. */
static void *
churn(void *arg) {
	static __thread void *held[N_HELD];
	uint64_t seed = *(uint64_t *)arg;
	size_t most = 0;
	for (unsigned round = 0; round < 12; round++) {
		for (unsigned i = 0; i < N_HELD; i++) {
			free(held[i]);
			held[i] = round % 2 == 0 ? keep(malloc(some_size(&seed))) : NULL;
			most = max_zu(most, room_space_excess(0));
		}
	}
	*(uint64_t *)arg = most;
	return NULL;
}

static void
test_bound(void) {
	pthread_t t[N_THREADS];
	uint64_t arg[N_THREADS];
	size_t most = 0;
	for (unsigned i = 0; i < N_THREADS; i++) {
		arg[i] = i + 1;
		pthread_create(&t[i], NULL, churn, &arg[i]);
	}
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_join(t[i], NULL);
		most = max_zu(most, arg[i]);
	}
	/* Between a release and what it unmaps the others may be seen above the bound. */
	ok(most <= N_THREADS * MAX, "at most %zu bytes above the bound at any time", most);
	is_uint(room_space_excess(0), 0, "none in the end");
	is_uint(atomic_load_zu(&room_space.used, MO_RELAXED), used_by_arenas(),
	    "the bytes in use are counted");
	is_uint(atomic_load_zu(&room_space.mapped, MO_RELAXED), mapped_by_arenas(),
	    "and those that are mapped");
	size_t n = atomic_load_zu(&n_sheds, MO_RELAXED);
	ok(n > 0 && n < N_THREADS * 12 * N_HELD / 200, "%zu releases unmap", n);
}

/* Growth by steps leaves no more than the bound either. */
static void
test_growth(void) {
	size_t most = 0;
	tsd_enter();
	shed(SIZE_MAX / 2);
	tsd_leave();
	room_space.max = 2 * MIB;
	for (unsigned i = 0; i < 4000; i++) {
		void *p = keep(mallocx(100000, MALLOCX_TCACHE_NONE));
		most = max_zu(most, room_space_excess(0));
		memset(p, 1, 8);
	}
	is_uint(most, 0, "no step of growth exceeds the bound");
}

static size_t would_give;
static unsigned n_asked;

static size_t
give_nothing(size_t want) {
	n_asked++;
	return would_give < want ? would_give : want;
}

/* How often one of n releases asks for what is `excess` bytes above the bound to be unmapped. */
static unsigned
asked(size_t excess, unsigned n) {
	size_t used = atomic_load_zu(&room_space.used, MO_RELAXED);
	size_t mapped = atomic_load_zu(&room_space.mapped, MO_RELAXED);
	n_asked = 0;
	atomic_store_zu(&room_space.mapped, used + room_space.max + excess, MO_RELAXED);
	for (unsigned i = 0; i < n; i++) {
		pac_shed_slow();
	}
	atomic_store_zu(&room_space.mapped, mapped, MO_RELAXED);
	return n_asked;
}

/* What cannot be unmapped now is not tried at each release. */
static void
test_stuck(void) {
	size_t step = room_space.max / 8;
	pac_shed_hook = give_nothing;
	is_uint(asked(PAGE, 5), 1, "nothing can be unmapped: it is tried once");
	is_uint(asked(PAGE + step, 5), 0, "nor as long as not much more is unused");
	is_uint(asked(2 * PAGE + step, 5), 1, "and then once again");
	would_give = PAGE;
	is_uint(asked(2 * PAGE + 3 * step, 5), 5, "what gives something is asked each time");
	is_uint(asked(PAGE, 5), 5, "from the bound on");
	would_give = 0;
	pac_shed_hook = count_shed;
}

int
main(void) {
	free(keep(malloc(1)));
	room_space.max = MAX;
	atomic_store_zu(&room_space.used, used_by_arenas(), MO_RELAXED);
	is_uint(atomic_load_zu(&room_space.mapped, MO_RELAXED), mapped_by_arenas(), "mapped by boot");
	shed = pac_shed_hook;
	pac_shed_hook = count_shed;
	test_bound();
	test_growth();
	test_stuck();
	return done_testing();
}
