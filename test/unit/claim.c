/*
 * thread/claim.h: what the caches of idle threads hold is taken over, while their owners are at any
 * place of a pop or push, come back, or end; and use by several threads whose caches are claimed
 * all the time.
 */
#include "ctl.h"

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include "arena/arenas.h"
#include "os/gate.h"
#include "scarce.h"
#include "thread/claim.h"
#include "thread/quarantine.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/tcache_budget.h"
#include "thread/tsd.h"
#include "thread/thread_event.h"

#define SMALL 512
#define LARGE ((size_t)128 << 10)
#define N 64

const char *malloc_conf = "narenas:2,populate:false,dss:disabled";

static pthread_barrier_t turn;
static cache_bin_t *bin;
static struct tls_s *its;
static void *popped, *pushed;

static void
wait_turn(void) {
	pthread_barrier_wait(&turn);
}

static size_t
claim_now(void) {
	tsd_enter();
	size_t bytes = claim_idle_caches();
	tsd_leave();
	return bytes;
}

/* All and nothing again and again, so that large objects are cached too. */
static void
swing(size_t size) {
	static __thread void *p[N];
	for (unsigned r = 0; r < 6; r++) {
		for (unsigned i = 0; i < N; i++) {
			p[i] = keep(malloc(size));
		}
		for (unsigned i = 0; i < N; i++) {
			free(p[i]);
		}
	}
}

static unsigned
cached(const tcache_t *tc, size_t size) {
	unsigned s = sz_s2i(canary_usize(size, 0)) + 1;
	const tcache_cold_t *c = &tc->cold[s];
	return (unsigned)(c->slots + c->nslots - tc->bins[s].head);
}

static void
fill(void) {
	swing(SMALL);
	swing(LARGE);
	its = tls_get();
	__atomic_store_n(&its->beat, 0, __ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------------ an owner that is away */

static void *
away(void *arg) {
	(void)arg;
	fill();
	/* It was refused slots, and waits for some. */
	its->tsd->tcache->is_refused = its->tsd->tcache->is_waiting = tcache_budget_try_wait(1);
	wait_turn();
	wait_turn();
	is_uint(tsd_enter()->claim.repr, CLAIM_NONE, "the owner settles the claim when it is back");
	tsd_leave();
	tcache_t *tc = its->tsd->tcache;
	is_uint(atomic_load_zu(&tc->taken, MO_RELAXED), 0, "nothing is noted as taken any more");
	ok(cached(tc, SMALL) == 1 && cached(tc, LARGE) <= 1, "the top of each stack is left");
	is_uint(tsd_allocated(tsd_enter()) - tsd_deallocated(its->tsd), 0,
	    "allocated and deallocated bytes agree");
	tsd_leave();
	swing(SMALL);
	swing(LARGE);
	ok(cached(tc, SMALL) > 1, "the cache serves again");
	return NULL;
}

static void
test_away(void) {
	pthread_t t;
	pthread_create(&t, NULL, away, NULL);
	wait_turn();
	tcache_t *tc = its->tsd->tcache;
	size_t before = tcache_cached_bytes(tc), used = ctl_size("stats.allocated");
	ok(tc->is_waiting, "its cache waits for slots");
	size_t bytes = claim_now();
	ok(!tc->is_waiting && !tc->is_refused, "one that is claimed waits no more");
	ok(bytes >= (N - 1) * SMALL && (config_hardening || bytes >= N / 2 * LARGE),
	    "%zu bytes of a cache with %zu are taken", bytes, before);
	is_uint(tcache_cached_bytes(tc), before - bytes, "statistics say what is left");
	is_uint(atomic_load_u32(&its->tsd->claim, MO_RELAXED), CLAIM_TAKEN, "it is noted");
	is_uint(claim_now(), 0, "a second time there is nothing");
	ctl_epoch();
	ok(ctl_size("stats.allocated") < used + bytes, "the objects are back in their arenas");
	wait_turn();
	pthread_join(t, NULL);
}

/* A thread that has left the gate amid a call, as around a hook, goes on with its cache there. */
static void *
amid(void *arg) {
	(void)arg;
	fill();
	tsd_t *tsd = tsd_enter();
	unsigned before = cached(tsd->tcache, SMALL);
	uint32_t depth = gate_leave_all(its);
	wait_turn();
	wait_turn();
	free(keep(malloc(LARGE * 100))); /* in and out of the gate meanwhile */
	__atomic_store_n(&its->beat, 0, __ATOMIC_SEQ_CST);
	wait_turn();
	wait_turn();
	gate_reenter(its, depth);
	is_uint(cached(tsd->tcache, SMALL), before, "its objects are in its cache");
	tsd_leave();
	wait_turn();
	wait_turn();
	return NULL;
}

static void
test_amid(void) {
	pthread_t t;
	pthread_create(&t, NULL, amid, NULL);
	for (unsigned i = 0; i < 2; i++) {
		wait_turn();
		is_uint(claim_now(), 0, "the cache of a thread that has left amid a call is not taken");
		wait_turn();
	}
	wait_turn();
	__atomic_store_n(&its->beat, 0, __ATOMIC_SEQ_CST);
	ok(claim_now() > 0, "it is when the call is over");
	wait_turn();
	pthread_join(t, NULL);
}

/* A thread that ends without another call of malloc. */
static void *
ending(void *arg) {
	(void)arg;
	fill();
	wait_turn();
	wait_turn();
	return NULL;
}

static void
test_ending(void) {
	pthread_t t;
	pthread_create(&t, NULL, ending, NULL);
	wait_turn();
	ok(claim_now() > 0, "a cache whose owner will end");
	wait_turn();
	pthread_join(t, NULL);
	pass("and it has ended");
}

/* The child of a fork ends the data of a thread whose cache was taken in the parent. */
static void
test_forked(void) {
	pthread_t t;
	int status = -1;
	pthread_create(&t, NULL, ending, NULL);
	wait_turn();
	ok(claim_now() > 0, "a cache is taken before a fork");
	size_t taken = atomic_load_zu(&its->tsd->tcache->taken, MO_RELAXED);
	pid_t pid = fork();
	if (pid == 0) {
		size_t before, after;
		ctl_epoch();
		before = ctl_size("stats.allocated");
		tsd_enter();
		while (tsd_try_end_absent()) {}
		tsd_leave();
		ctl_epoch();
		after = ctl_size("stats.allocated");
		_exit(taken > 0 && before - after < taken ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "the child returns only what is left");
	wait_turn();
	pthread_join(t, NULL);
}

/* ------------------------------------------------------------------ when the system refuses */

/* The request for which a cache is claimed, and not only the next one, is served from it. */
static void
test_refused(void) {
	static void *all[1 << 16];
	unsigned n = 0;
	pthread_t t;
	pthread_create(&t, NULL, ending, NULL);
	wait_turn();
	scarce_begin();
	while (atomic_load_u32(&its->tsd->claim, MO_RELAXED) != CLAIM_TAKEN && n < ARRAY_LEN(all)) {
		all[n++] = keep(malloc(LARGE));
	}
	os_hooks = &os_hooks_real;
	/* With checks no large objects are cached, and the small ones are too few. */
	ok(n < ARRAY_LEN(all) && (config_hardening || all[n - 1] != NULL), "request %u is served by "
	    "the cache of an idle thread", n);
	ok(n < 2 || all[n - 2] != NULL, "and none was refused before");
	while (n > 0) {
		free(all[--n]);
	}
	wait_turn();
	pthread_join(t, NULL);
}

/* ------------------------------------------------------------------ who is not claimed */

/* A clock that stands, so that no time passes between a heartbeat and a look at it. */
static uint64_t now_ns;

static uint64_t
stopped_clock(void) {
	return now_ns;
}

static void *
inside(void *arg) {
	fill();
	if (arg == NULL) {
		__atomic_store_n(&its->beat, (uint32_t)(nstime_monotonic_ns() >> 20), __ATOMIC_SEQ_CST);
	} else {
		tsd_enter();
	}
	wait_turn();
	wait_turn();
	if (arg != NULL) {
		tsd_leave();
	}
	wait_turn();
	wait_turn();
	return NULL;
}

static void
test_not_claimed(void) {
	pthread_t t;
	now_ns = nstime_monotonic_ns();
	nstime_now_hook = stopped_clock;
	pthread_create(&t, NULL, inside, NULL);
	wait_turn();
	is_uint(claim_now(), 0, "a thread that had a heartbeat just now is left alone");
	nstime_now_hook = NULL;
	wait_turn();
	wait_turn();
	wait_turn();
	pthread_join(t, NULL);
	pthread_create(&t, NULL, inside, &turn);
	wait_turn();
	is_uint(claim_now(), 0, "one inside the gate too");
	is_uint(atomic_load_u32(&its->tsd->claim, MO_RELAXED), CLAIM_NONE, "its claim is withdrawn");
	wait_turn();
	wait_turn();
	ok(claim_now() > 0, "not when it is outside");
	wait_turn();
	pthread_join(t, NULL);
}

/* The owner has handled the recall and opened its fast path: objects are not taken any more. */
static pthread_barrier_t idler_turn;

static void *
idler(void *arg) {
	fill();
	pthread_barrier_wait(&idler_turn);
	pthread_barrier_wait(&idler_turn);
	return arg;
}

static void *
back_at_once(void *arg) {
	(void)arg;
	fill();
	wait_turn();
	wait_turn();
	__atomic_fetch_and(&its->recall, ~(uint32_t)RECALL_CLAIM, __ATOMIC_SEQ_CST);
	wait_turn();
	wait_turn();
	return NULL;
}

static void
test_back_at_once(void) {
	pthread_t idle, t;
	uint32_t none = CLAIM_NONE;
	pthread_create(&idle, NULL, idler, NULL);
	pthread_barrier_wait(&idler_turn);
	pthread_create(&t, NULL, back_at_once, NULL);
	wait_turn();
	atomic_cas_strong_u32(&its->tsd->claim, &none, CLAIM_ANNOUNCED, MO_SEQ_CST, MO_RELAXED);
	wait_turn();
	wait_turn();
	/* The idle thread is announced; the walk comes to the other one first, which is newer. */
	ok(claim_now() > 0, "of two caches that of the idle thread is taken");
	is_uint(atomic_load_zu(&its->tsd->tcache->taken, MO_RELAXED), 0,
	    "not that of a thread that has opened its fast path again");
	is_uint(atomic_load_u32(&its->tsd->claim, MO_RELAXED), CLAIM_NONE, "its claim is withdrawn");
	wait_turn();
	pthread_join(t, NULL);
	pthread_barrier_wait(&idler_turn);
	pthread_join(idle, NULL);
}

/* ------------------------------------------------------------------ rounds at heartbeats */

static size_t
step(uint64_t ms) {
	static uint64_t now;
	now = (now == 0 ? nstime_monotonic_coarse_ns() : now) + ms * NSTIME_PER_MSEC;
	tsd_enter();
	size_t bytes = claim_step(now);
	tsd_leave();
	return bytes;
}

/* A thread that fills its cache, sleeps, and then uses the cache again. */
typedef struct {
	pthread_t id;
	pthread_barrier_t turn;
	bool keeps_grants; /* before it sleeps */
	struct tls_s *tls;
} sleeper_t;

static void *
asleep(void *arg) {
	sleeper_t *me = arg;
	fill();
	me->tls = tls_get();
	if (!me->keeps_grants) {
		tcache_return_grants(tsd_enter(), me->tls->tsd->tcache);
		tsd_leave();
	}
	pthread_barrier_wait(&me->turn);
	pthread_barrier_wait(&me->turn);
	swing(LARGE);
	ok(config_hardening || me->tls->tsd->tcache->granted > 0, "it is back and gets grants again");
	return NULL;
}

/* Starts the thread, and waits until it sleeps. */
static void
sleeper_begin(sleeper_t *who) {
	pthread_barrier_init(&who->turn, NULL, 2);
	pthread_create(&who->id, NULL, asleep, who);
	pthread_barrier_wait(&who->turn);
}

/* Wakes the thread, and waits for its end. */
static void
sleeper_end(sleeper_t *who) {
	pthread_barrier_wait(&who->turn);
	pthread_join(who->id, NULL);
	pthread_barrier_destroy(&who->turn);
}

static uint32_t
claim_of(const sleeper_t *who) {
	return atomic_load_u32(&who->tls->tsd->claim, MO_RELAXED);
}

/*
 * Of the caches of idle threads those with grants are taken, one by one, 20 ms after all were
 * announced; then nothing happens for a second.
 */
static void
test_steps(void) {
	const uint64_t round = CLAIM_ROUND_NS / NSTIME_PER_MSEC, wait = CLAIM_WAIT_NS / NSTIME_PER_MSEC;
	sleeper_t who[3] = {{.keeps_grants = true}, {.keeps_grants = false}, {.keeps_grants = true}};
	unsigned n = 0;
	for (unsigned i = 0; i < 3; i++) {
		sleeper_begin(&who[i]);
	}
	size_t sum = tcache_budget_sum();
	step(round);
	for (unsigned i = 0; i < 3; i++) {
		n += claim_of(&who[i]) == CLAIM_ANNOUNCED;
	}
	is_uint(n, config_hardening ? n : 3, "a round announces the claims of all idle threads");
	is_uint(step(wait - 1), 0, "nothing is taken at once");
	size_t one = step(1), two = step(0);
	ok((one > 0 && two > 0) || config_hardening, "then a cache a step: %zu, %zu bytes", one, two);
	is_uint(step(0), 0, "and no third one");
	is_uint(claim_of(&who[1]), CLAIM_NONE, "that of the thread without grants is left alone");
	ok(tcache_budget_sum() < sum || config_hardening, "the budget has the grants back");
	is_uint(step(round - 1), 0, "nothing for a second");
	is_uint(claim_of(&who[1]), CLAIM_NONE, "and nothing is announced");
	for (unsigned i = 0; i < 3; i++) {
		sleeper_end(&who[i]);
	}
}

/* Without heartbeats of other threads a background thread makes the steps. */
static void
test_background(void) {
	sleeper_t who = {.keeps_grants = true};
	bool on = true, off = false;
	is_int(ctl_write("background_thread", on), 0, "background threads");
	sleeper_begin(&who);
	unsigned n = 0;
	for (; n < 3000 && claim_of(&who) != CLAIM_TAKEN; n++) {
		usleep(10 * 1000);
	}
	ok(n < 3000 || config_hardening, "take the cache of a thread when all are idle");
	is_int(ctl_write("background_thread", off), 0, "no background threads");
	sleeper_end(&who);
	step(5 * CLAIM_ROUND_NS / NSTIME_PER_MSEC); /* ends the round */
}

/* The clock stops the claimant, while it announces claims, until another request was refused. */
static pthread_barrier_t busy;
static __thread bool is_slow;

static uint64_t
slow_clock(void) {
	if (is_slow) {
		is_slow = false;
		pthread_barrier_wait(&busy);
		usleep(5000);
	}
	return now_ns;
}

static void *
slow_step(void *arg) {
	is_slow = true;
	step(2 * CLAIM_ROUND_NS / NSTIME_PER_MSEC);
	return arg;
}

/* A refused request does not fail because another thread is just taking what would serve it. */
static void
test_second_claimant(void) {
	sleeper_t who = {.keeps_grants = true};
	pthread_t t;
	if (config_hardening) {
		return; /* no grants, so no thread claims at heartbeats */
	}
	sleeper_begin(&who);
	now_ns = nstime_monotonic_ns() + 3 * CLAIM_ROUND_NS;
	pthread_barrier_init(&busy, NULL, 2);
	nstime_now_hook = slow_clock;
	pthread_create(&t, NULL, slow_step, NULL);
	pthread_barrier_wait(&busy);
	ok(claim_now() > 0, "a second claimant waits for the first");
	pthread_join(t, NULL);
	nstime_now_hook = NULL;
	sleeper_end(&who);
}

/* Comes back for a moment after each claim, and is idle again. */
static void *
returns(void *arg) {
	fill();
	for (unsigned i = 0; i < 3; i++) {
		wait_turn();
		wait_turn();
		tsd_enter();
		tsd_leave();
		__atomic_store_n(&its->beat, 0, __ATOMIC_SEQ_CST);
	}
	wait_turn();
	wait_turn();
	return arg;
}

/* Claims for a refused request, inside the gate; the state of the other thread. */
static uint32_t
refuse(void) {
	wait_turn();
	tsd_enter();
	claim_for_refused();
	tsd_leave();
	uint32_t state = atomic_load_u32(&its->tsd->claim, MO_RELAXED);
	wait_turn();
	return state;
}

/* Requests that are refused one after the other do not wait for claims each time. */
static void
test_vain(void) {
	pthread_t t;
	now_ns = nstime_monotonic_ns() + NSTIME_PER_SEC;
	nstime_now_hook = stopped_clock;
	pthread_create(&t, NULL, returns, NULL);
	is_uint(refuse(), CLAIM_TAKEN, "a refused request claims");
	is_uint(refuse(), CLAIM_TAKEN, "and so does the next one, which gets nothing");
	is_uint(refuse(), CLAIM_NONE, "then none does");
	now_ns += CLAIM_VAIN_NS;
	is_uint(refuse(), CLAIM_TAKEN, "for some time");
	nstime_now_hook = NULL;
	pthread_join(t, NULL);
}

/* ------------------------------------------------------------------ what the owner sees */

#define N_HANDED 4096
static void *handed[N_HANDED];

/* The first call asks for the size of blocks, of which some were in its own cache. */
static void *
asker(void *arg) {
	size_t wrong = 0;
	bool off = false;
	fill();
	wait_turn();
	wait_turn();
	for (unsigned i = 0; i < N_HANDED; i++) {
		wrong += malloc_usable_size(handed[i]) < SMALL;
	}
	is_uint(wrong, 0, "sizes of blocks that were taken from the cache");
	is_int(ctl_write("thread.tcache.enabled", off), 0, "no cache");
	__atomic_store_n(&its->beat, 0, __ATOMIC_SEQ_CST);
	wait_turn();
	wait_turn();
	return arg;
}

static void
test_asked(void) {
	pthread_t t;
	pthread_create(&t, NULL, asker, NULL);
	wait_turn();
	ok(claim_now() > 0, "a cache is taken");
	for (unsigned i = 0; i < N_HANDED; i++) {
		handed[i] = malloc(SMALL);
	}
	wait_turn();
	wait_turn();
	is_uint(claim_now(), 0, "a thread without a cache has nothing");
	is_uint(atomic_load_u32(&its->tsd->claim, MO_RELAXED), CLAIM_TAKEN, "and is not claimed again");
	wait_turn();
	pthread_join(t, NULL);
	for (unsigned i = 0; i < N_HANDED; i++) {
		free(handed[i]);
	}
}

/* A thread whose cache has blocks of an arena with hooks of the user only. */
static void *
hooked(void *arg) {
	ctl_write("thread.arena", *(unsigned *)arg);
	return ending(NULL);
}

/* No hook is called while the owner may wait. */
static void
test_hooked(void) {
	pthread_t t;
	static extent_hooks_t own;
	extent_hooks_t *system = NULL, *hooks = &own;
	unsigned ind = 0;
	size_t size = sizeof(system), ind_size = sizeof(ind);
	mallctl("arena.0.extent_hooks", &system, &size, NULL, 0);
	own = *system;
	is_int(mallctl("arenas.create", &ind, &ind_size, &hooks, sizeof(hooks)), 0, "an arena");
	pthread_create(&t, NULL, hooked, &ind);
	wait_turn();
	is_uint(claim_now(), 0, "what has hooks is left in the cache");
	wait_turn();
	pthread_join(t, NULL);
}

/* The heartbeats of this thread make the steps. */
static void
test_heartbeats(void) {
	sleeper_t who = {.keeps_grants = true};
	sleeper_begin(&who);
	now_ns = nstime_monotonic_ns() + 60 * NSTIME_PER_SEC; /* later than steps of other tests */
	nstime_now_hook = stopped_clock;
	unsigned n = 0;
	for (; n < 200 && claim_of(&who) != CLAIM_TAKEN; n++) {
		now_ns += 50 * NSTIME_PER_MSEC;
		for (unsigned i = 0; i < 256; i++) {
			free(keep(malloc(1024)));
		}
	}
	ok(n < 200 || config_hardening, "a cache is taken by heartbeats: %u ms", n * 50);
	nstime_now_hook = NULL;
	sleeper_end(&who);
}

/* ------------------------------------------------------------------ within a pop, a push */

/* The steps of cache_bin_try_pop() and cache_bin_try_push(), with a claim in between. */
static void *
within(void *arg) {
	bool is_pop = arg != NULL;
	void *own = keep(malloc(SMALL));
	fill();
	bin = &its->tsd->tcache->bins[sz_s2i(canary_usize(SMALL, 0)) + 1];
	void **head = bin->head;
	if (!is_pop) {
		canary_end(own, bin->size);
		*--head = own;
	}
	wait_turn();
	wait_turn();
	if (is_pop) {
		bin->countdown--;
		cache_bin_set_head(bin, head + 1);
		popped = canary_put(*head, bin->size, SMALL);
	} else {
		cache_bin_set_head(bin, head);
		pushed = own;
	}
	/* The next operations are whole. */
	unsigned n = 0;
	void *p[2 * N];
	for (unsigned i = 0; i < 2 * N; i++) {
		p[i] = keep(malloc(SMALL));
		n += p[i] == popped && is_pop;
		memset(p[i], 0x33, SMALL);
	}
	is_uint(n, 0, "an object that was popped meanwhile is not handed out again");
	if (is_pop) {
		memset(popped, 0x44, SMALL);
	}
	wait_turn();
	wait_turn();
	/* In hardened builds a look may have taken what was freed last. */
	unsigned bad = 0, n_pushed = !is_pop && quarantine_has(its->tsd, pushed);
	for (unsigned i = 0; i < 2 * N; i++) {
		bad += !is_filled(p[i], 0x33, SMALL);
		n_pushed += p[i] == pushed && !is_pop;
		free(p[i]);
	}
	is_uint(bad, 0, "objects of both threads are different ones");
	if (is_pop) {
		ok(is_filled(popped, 0x44, SMALL), "the popped one too");
		free(popped);
		free(own);
	} else {
		is_uint(n_pushed, 1, "one that was pushed meanwhile is not lost");
	}
	return NULL;
}

static void
test_within(bool is_pop) {
	pthread_t t;
	void *p[4 * N];
	unsigned same = 0;
	pthread_create(&t, NULL, within, is_pop ? &turn : NULL);
	wait_turn();
	ok(claim_now() > 0, "a claim within a %s", is_pop ? "pop" : "push");
	wait_turn();
	wait_turn();
	for (unsigned i = 0; i < 4 * N; i++) {
		p[i] = keep(malloc(SMALL));
		same += p[i] == popped;
		memset(p[i], 0x55, SMALL);
	}
	is_uint(same, 0, "nor does another thread get it");
	wait_turn();
	pthread_join(t, NULL);
	for (unsigned i = 0; i < 4 * N; i++) {
		free(p[i]);
	}
}

/* ------------------------------------------------------------------ all the time */

#define N_THREADS 3
#define N_HELD 400

static atomic_b_t is_over;

static void *
churn(void *arg) {
	struct { unsigned char *p; size_t size; } held[N_HELD] = {{NULL, 0}};
	uint64_t seed = (uintptr_t)arg, bad = 0;
	while (!atomic_load_b(&is_over, MO_RELAXED)) {
		__atomic_store_n(&tls_get()->beat, 0, __ATOMIC_SEQ_CST);
		usleep((unsigned)(test_random(&seed) % 4000)); /* so that it is away now and then */
		for (uint64_t n = test_random(&seed) % 2000; n > 0; n--) {
			__atomic_store_n(&tls_get()->beat, 0, __ATOMIC_RELAXED);
			unsigned k = (unsigned)(test_random(&seed) % N_HELD);
			if (held[k].p != NULL) {
				bad += held[k].p[0] != (k & 0xff)
				    || held[k].p[held[k].size - 1] != (k & 0xff);
			}
			free(held[k].p);
			held[k].size = 1 + test_random(&seed) % (test_random(&seed) % 50 == 0 ? 200000 : 400);
			held[k].p = keep(malloc(held[k].size));
			held[k].p[0] = held[k].p[held[k].size - 1] = (unsigned char)k;
		}
	}
	for (unsigned k = 0; k < N_HELD; k++) {
		free(held[k].p);
	}
	return (void *)(uintptr_t)bad;
}

static void
test_churn(void) {
	pthread_t t[N_THREADS];
	unsigned bad = 0, n = 0;
	for (uintptr_t i = 0; i < N_THREADS; i++) {
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	}
	while (n < test_rounds(200, 5000)) {
		n += claim_now() > 0;
	}
	atomic_store_b(&is_over, true, MO_RELAXED);
	for (unsigned i = 0; i < N_THREADS; i++) {
		void *result;
		pthread_join(t[i], &result);
		bad += (unsigned)(uintptr_t)result;
	}
	is_uint(bad, 0, "%u claims against %u threads in use: no object is handed out twice", n,
	    N_THREADS);
}

int
main(void) {
	free(keep(malloc(1)));
	pthread_barrier_init(&turn, NULL, 2);
	pthread_barrier_init(&idler_turn, NULL, 2);
	test_away();
	test_amid();
	test_ending();
	test_refused();
	test_forked();
	test_not_claimed();
	test_back_at_once();
	test_background();
	test_steps();
	test_second_claimant();
	test_vain();
	test_within(true);
	test_within(false);
	test_churn();
	test_hooked();
	test_asked();
	test_heartbeats();
	return done_testing();
}
