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

static size_t (*shed)(size_t want, bool *was_busy);
static atomic_zu_t n_sheds;

/* A try that finds the arenas busy unmaps nothing; how many do depends on the scheduler. */
static size_t
count_shed(size_t want, bool *was_busy) {
	size_t gone = shed(want, was_busy);
	atomic_fetch_add_zu(&n_sheds, gone != 0, MO_RELAXED);
	return gone;
}

static size_t
used_by_arenas(void) {
	size_t npages = 0;
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		const arena_t *a = arenas_get(i);
		npages += a == NULL ? 0 : atomic_load_zu(&a->pac.nactive, MO_RELAXED);
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

/* Without what is retained; the counters of caches and the sum of all must agree. */
static size_t
mapped_in_caches(void) {
	size_t bytes = 0;
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		const arena_t *a = arenas_get(i);
		bytes += a == NULL ? 0 : atomic_load_zu(&a->pac.mapped, MO_RELAXED);
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
	is_uint(atomic_load_zu(&room_mapped, MO_RELAXED), mapped_in_caches(),
	    "those without what is retained too");
	size_t n = atomic_load_zu(&n_sheds, MO_RELAXED);
	ok(n > 0 && n < N_THREADS * 12 * N_HELD / 100, "%zu releases unmap", n);
}

/* Growth by steps leaves no more than the bound either. */
static void
test_growth(void) {
	size_t most = 0;
	tsd_enter();
	shed(SIZE_MAX / 2, NULL);
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
static size_t left_meanwhile; /* what another thread leaves during the next call */
static unsigned n_asked;
static bool are_passes; /* threads are in passes of all arenas */

static size_t
give(size_t want, bool *was_busy) {
	size_t gone = min_zu(would_give, want);
	n_asked++;
	*was_busy |= are_passes;
	atomic_fetch_add_zu(&room_space.mapped, left_meanwhile - gone, MO_RELAXED);
	left_meanwhile = 0;
	return gone;
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
	pac_shed_hook = give;
	is_uint(asked(PAGE, 5), 1, "nothing can be unmapped: it is tried once");
	is_uint(asked(PAGE + step, 5), 0, "nor as long as not much more is unused");
	is_uint(asked(2 * PAGE + step, 5), 1, "and then once again");
	would_give = step;
	is_uint(asked(PAGE + 3 * step, 1), 4, "what gives something is asked until there is no excess");
	is_uint(asked(PAGE, 5), 1, "from the bound on");
	left_meanwhile = 2 * step;
	is_uint(asked(PAGE, 1), 3, "also for what another thread leaves meanwhile");
	would_give = 0;
	are_passes = true;
	is_uint(asked(PAGE, 5), 5, "an arena in a pass is asked again at the next release");
	are_passes = false;
	is_uint(asked(PAGE, 5), 1, "but not once no arena is");
	pac_shed_hook = count_shed;
}

/* Passes of all arenas, begun or ended by this thread. */
static void
all_passes(bool begin) {
	for (unsigned i = 0; i < arenas_narenas_total(); i++) {
		arena_t *both[] = {arenas_get(i), arenas_sampled_get(i)};
		for (unsigned k = 0; k < 2; k++) {
			if (both[k] != NULL && begin) {
				pac_pass_begin(&both[k]->pac.decay_dirty, true);
			} else if (both[k] != NULL) {
				pac_pass_end(&both[k]->pac.decay_dirty);
			}
		}
	}
}

/* What is freed while a pass is under way goes at the first release after it. */
static void
test_pass(void) {
	void *some = keep(mallocx(MIB, MALLOCX_TCACHE_NONE)); /* whole pages, of any size */
	void *big = keep(mallocx(48 * MIB, MALLOCX_TCACHE_NONE));
	room_space.max = 8 * MIB;
	all_passes(true);
	dallocx(big, MALLOCX_TCACHE_NONE);
	ok(room_space_excess(0) > 0, "nothing goes during a pass");
	all_passes(false);
	dallocx(some, MALLOCX_TCACHE_NONE);
	is_uint(room_space_excess(0), 0, "the next release makes good");
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
	test_pass();
	return done_testing();
}
