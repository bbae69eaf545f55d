/*
 * arena/vacant.h: what arenas without threads may keep, which goes first, and the loan of what they
 * keep to a thread whose arena grows. Threads are counted here by hand, on arenas that no other
 * thread uses.
 */
#include "core.h"

#include <jemalloc/jemalloc.h>

#include "arena/arenas.h"
#include "arena/vacant.h"
#include "extent/pac_hpa.h"
#include "os/gate.h"
#include "os/sys.h"
#include "thread/thread_event.h"
#include "thread/tsd.h"

#include <pthread.h>

const char *malloc_conf = "narenas:8,populate:false";

#define MIB ((size_t)1 << 20)
#define NARENAS 4u

static arena_t *arena[NARENAS];

static size_t
unused(unsigned i) {
	return pac_nidle(&arena[i]->pac) << LG_PAGE;
}

static size_t
unused_in_all(void) {
	size_t sum = 0;
	for (unsigned i = 0; i < NARENAS; i++) {
		sum += unused(i);
	}
	return sum;
}

/*
 * Makes so many bytes unused in an arena, in extents of 64 KiB that do not join. The releases run
 * no decay meanwhile.
 */
static void
make_unused(unsigned i, size_t bytes) {
	static edata_t *e[8192];
	size_t part = MIB / 16, n = 2 * bytes / part;
	void (*saved)(void) = pac_rise_hook;
	pac_rise_hook = NULL;
	for (size_t k = 0; k < n; k++) {
		e[k] = pac_alloc(&arena[i]->pac, part, PAGE, false);
	}
	for (size_t k = 0; k < n; k += 2) {
		pac_dalloc(&arena[i]->pac, e[k]);
	}
	for (size_t k = 1; k < n; k += 2) {
		pac_dalloc(&arena[i]->pac, e[k]);
	}
	pac_purge_oldest(&arena[i]->pac, bytes >> LG_PAGE);
	pac_rise_hook = saved;
	is_uint(unused(i), bytes, "%zu MiB are unused in an arena", bytes / MIB);
}

/* Nothing is unused, and no arena was ever left. */
static void
start(void) {
	for (unsigned i = 0; i < NARENAS; i++) {
		arena_decay_ms_set(arena[i], true, 10000);
		arenas_decay(arena[i], true);
		atomic_store_u64(&arena[i]->left, 0, MO_RELAXED);
	}
}

static void
leave(unsigned i) {
	vacant_thread_bound(arena[i]);
	vacant_thread_left(arena[i]);
}

static void
keep_limit(bool is_idle) {
	arenas_keep_limit(is_idle);
}

static void
test_limit(void) {
	is_uint(vacant_limit(0), 16 * MIB, "16 MiB may always stay");
	is_uint(vacant_limit(128 * MIB), 16 * MIB, "up to 128 MiB in use");
	is_uint(vacant_limit(1024 * MIB), 128 * MIB, "an eighth of what is in use");
}

static void
test_below(void) {
	start();
	make_unused(1, 8 * MIB);
	make_unused(2, 7 * MIB);
	leave(1);
	leave(2);
	keep_limit(false);
	is_uint(unused_in_all(), 15 * MIB, "below the limit nothing goes");
	make_unused(3, 100 * MIB);
	keep_limit(false);
	is_uint(unused(3), 100 * MIB, "an arena that nobody has left is not meant");
	is_uint(unused(1) + unused(2), 15 * MIB, "and does not count");
	vacant_thread_bound(arena[3]);
	keep_limit(false);
	is_uint(unused_in_all(), 115 * MIB, "nor one with a thread");
	vacant_thread_left(arena[3]);
	keep_limit(false);
	is_uint(unused(1) + unused(2), 0, "when it leaves, those that were left before go first");
	is_uint(unused(3), 16 * MIB, "and the rest is cut to the limit");
}

static void
test_order(void) {
	start();
	for (unsigned i = 0; i < NARENAS; i++) {
		make_unused(i, 6 * MIB);
	}
	leave(2);
	leave(0);
	leave(3);
	leave(1);
	keep_limit(false);
	is_uint(unused(2), 0, "the arena that was left first loses all");
	is_uint(unused(0), 4 * MIB, "the next one a part");
	is_uint(unused(3) + unused(1), 12 * MIB, "the others nothing");
	leave(0);
	make_unused(2, 6 * MIB);
	keep_limit(false);
	is_uint(unused(2), 0, "the number of the last leave counts");
	is_uint(unused(0), 4 * MIB, "which a later one renews");
}

/* Pages in use anywhere raise the limit. */
static void
test_used(void) {
	start();
	edata_t *e = pac_alloc(&arena[0]->pac, 800 * MIB, PAGE, false);
	make_unused(1, 99 * MIB);
	leave(1);
	keep_limit(false);
	is_uint(unused(1), 99 * MIB, "an eighth of 800 MiB stays");
	make_unused(1, 200 * MIB);
	keep_limit(false);
	size_t most = vacant_limit(800 * MIB);
	ok(unused(1) >= most && unused(1) <= most + MIB, "no more: %zu", unused(1));
	pac_dalloc(&arena[0]->pac, e);
}

static void
test_decay_times(void) {
	start();
	make_unused(1, 20 * MIB);
	make_unused(2, 20 * MIB);
	arena_decay_ms_set(arena[1], true, -1);
	leave(1);
	leave(2);
	keep_limit(false);
	is_uint(unused(1), 20 * MIB, "where pages never go they stay");
	is_uint(unused(2), 16 * MIB, "and do not count");
}

/* What frees have left in stocks goes too. */
static void
test_stocks(void) {
	static void *p[1000];
	szind_t szind = sz_s2i(14336);
	start();
	make_unused(1, 16 * MIB);
	leave(1);
	unsigned n = arena_small_fill(arena[2], szind, 0, p, ARRAY_LEN(p), 0, 0);
	arena_small_return(szind, p, n, arena[0]);
	ok(atomic_load_zu(&arena[2]->pac.nactive, MO_RELAXED) > 0, "%u objects, some in a stock", n);
	leave(2);
	keep_limit(false);
	is_uint(atomic_load_zu(&arena[2]->pac.nactive, MO_RELAXED), 0, "no stock keeps pages in use");
	ok(unused(1) + unused(2) <= 16 * MIB, "and the limit is kept");
}

static void
test_idle(void) {
	start();
	arenas_decay(arenas_get(0), true);
	make_unused(1, 12 * MIB);
	make_unused(2, 12 * MIB);
	vacant_thread_bound(arena[1]);
	leave(2);
	keep_limit(false);
	is_uint(unused_in_all(), 24 * MIB, "an arena with a thread does not count");
	keep_limit(true);
	is_uint(unused(2), 4 * MIB, "but in an idle process; the vacant one goes first");
	make_unused(1, 40 * MIB);
	keep_limit(true);
	is_uint(unused(2), 0, "and then");
	is_uint(unused(1), 16 * MIB, "that with a thread");
	vacant_thread_left(arena[1]);
}

static arena_t *
try_bind(const arena_t *from) {
	return vacant_try_bind(from, arenas_narenas_auto());
}

static void
test_loan(void) {
	const arena_t *own = tls_get()->tsd->arena;
	start();
	ok(try_bind(own) == NULL, "no vacant arena has unused pages");
	make_unused(1, MIB - MIB / 16);
	leave(1);
	ok(try_bind(own) == NULL, "too few");
	make_unused(2, MIB);
	make_unused(3, 2 * MIB);
	leave(2);
	ok(try_bind(own) == arena[2], "one has enough; none of an arena with a thread");
	is_uint(atomic_load_u32(&arena[2]->nthreads, MO_RELAXED), 1, "it has a thread now");
	leave(3);
	ok(try_bind(own) == arena[3], "of the next one");
	make_unused(1, 3 * MIB);
	vacant_thread_left(arena[2]);
	ok(try_bind(own) == arena[1], "the fullest");
	ok(try_bind(arena[2]) == NULL, "not its own");
	vacant_thread_left(arena[1]);
	vacant_thread_left(arena[3]);
}

static void *
grow(void *arg) {
	static void *p[64];
	unsigned first, last, *to = arg;
	size_t len = sizeof(first);
	free(keep(malloc(1)));
	first = tls_get()->tsd->arena->ind;
	if (to[1] != 0) {
		mallctl("thread.arena", &first, &len, NULL, 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = keep(malloc(100000));
	}
	last = tls_get()->tsd->arena->ind;
	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		free(p[i]);
	}
	to[0] = first == last ? 0 : last;
	return NULL;
}

/* The index of the arena to which a thread that grows is moved; 0: it is not. */
static unsigned
grow_in_thread(bool has_asked) {
	pthread_t t;
	unsigned to[2] = {0, has_asked};
	gate_exit(tls_get());
	pthread_create(&t, NULL, grow, to);
	pthread_join(t, NULL);
	gate_enter(tls_get());
	return to[0];
}

/* The first arena by index without a thread is the new thread's; another one has more unused. */
static void
test_borrow(void) {
	start();
	is_uint(grow_in_thread(false), 0, "a thread that grows stays where there is nothing to lend");
	start();
	leave(3);
	make_unused(3, 10 * MIB);
	is_uint(grow_in_thread(true), 0, "and if it has asked for its arena");
	arenas_decay(arena[0], true);
	is_uint(grow_in_thread(false), arena[3]->ind, "otherwise it moves to the one that lends");
	is_uint(atomic_load_u32(&arena[3]->nthreads, MO_RELAXED), 0, "and leaves it at its end");
}

static void *
sleeper(void *arg) {
	int *phase = arg;
	for (unsigned i = 0; i < 20; i++) {
		free(keep(malloc(100000)));
	}
	__atomic_store_n(phase, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(phase, __ATOMIC_SEQ_CST) == 1) {
		usleep(1000);
	}
	return NULL;
}

static uint64_t clock_ns;

static uint64_t
read_clock(void) {
	return clock_ns;
}

static void
test_last_awake(void) {
	tsd_t *tsd = tls_get()->tsd;
	pthread_t t;
	int phase = 0;
	clock_ns = nstime_monotonic_ns() + UINT64_C(3600000000000);
	nstime_now_hook = read_clock;
	ok(thread_event_try_end_last(tsd, 1), "the only thread is the last one");
	gate_exit(tls_get());
	pthread_create(&t, NULL, sleeper, &phase);
	while (__atomic_load_n(&phase, __ATOMIC_SEQ_CST) == 0) {
		usleep(1000);
	}
	gate_enter(tls_get());
	ok(!thread_event_try_end_last(tsd, 2), "not while another one had a heartbeat just now");
	clock_ns += UINT64_C(900000000);
	ok(!thread_event_try_end_last(tsd, 2), "nor for a second");
	clock_ns += UINT64_C(300000000);
	ok(thread_event_try_end_last(tsd, 2), "then it is");
	ok(!thread_event_try_end_last(tsd, 65), "but not of very many");
	gate_exit(tls_get());
	phase = 2;
	pthread_join(t, NULL);
	gate_enter(tls_get());
	nstime_now_hook = NULL;
}

static edata_t *late[64]; /* in use until another thread ends during the first purge */
static bool has_other_ended;

/* A thread that ends: what it had becomes unused, and it skips the arena that is being purged. */
static void *
end_meanwhile(void *arg) {
	void (*saved)(void) = pac_rise_hook;
	pac_rise_hook = NULL;
	gate_enter(tls_get());
	for (unsigned i = 0; i < ARRAY_LEN(late); i++) {
		pac_dalloc(&arena[1]->pac, late[i]);
	}
	keep_limit(false);
	gate_exit(tls_get());
	pac_rise_hook = saved;
	return arg;
}

static int
end_other(void *addr, size_t size, int advice) {
	pthread_t t;
	if (!has_other_ended) {
		has_other_ended = true;
		pthread_create(&t, NULL, end_meanwhile, NULL);
		pthread_join(t, NULL);
		ok(unused(1) >= ARRAY_LEN(late) * MIB, "a thread that ends during a purge skips the arena");
	}
	return os_hooks_real.madvise(addr, size, advice);
}

/* The limit holds also for what becomes unused while another thread purges. */
static void
test_meanwhile(void) {
	struct os_hooks_s hooks = os_hooks_real;
	start();
	for (unsigned i = 0; i < ARRAY_LEN(late); i++) {
		late[i] = pac_alloc(&arena[1]->pac, MIB, PAGE, false);
	}
	make_unused(1, 40 * MIB);
	leave(1);
	hooks.madvise = end_other;
	os_hooks = &hooks;
	keep_limit(false);
	os_hooks = &os_hooks_real;
	ok(has_other_ended, "something was purged");
	is_uint(unused(1), 16 * MIB, "whoever purged looks again");
}

static void
body(void) {
	free(keep(malloc(1)));
	gate_enter(tls_get());
	for (unsigned i = 0; i < NARENAS; i++) {
		arena[i] = arenas_get_or_init(i + 1);
	}
	test_limit();
	test_loan();
	test_below();
	test_order();
	test_used();
	test_decay_times();
	test_stocks();
	test_idle();
	test_borrow();
	test_last_awake();
	test_meanwhile();
	gate_exit(tls_get());
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
