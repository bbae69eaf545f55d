/*
 * thread/thread_event.h: heartbeats by bytes, and the distances to samples, drawn and counted,
 * whose law, seeds and recall are what sampling rests on.
 */
#include "core.h"

#include <math.h>
#include <pthread.h>
#include <semaphore.h>

#include "os/gate.h"
#include "os/nstime.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/tcache_budget.h"
#include "thread/tcache_set.h"
#include "thread/thread_event.h"
#include "thread/tsd.h"

static tsd_t *tsd;
/*
 * Volatile: the hooks run inside malloc, which the C library declares to change nothing of its
 * caller's.
 */
static volatile uint64_t n_beats, beat_bytes, bad_beats;

static void
on_beat(tsd_t *who, uint64_t bytes) {
	n_beats++;
	beat_bytes += bytes;
	bad_beats += wrong_if(who != tsd) || wrong_if(tls_get()->inside == 0)
	    || wrong_if(tls_get()->gate_depth == 0);
	/* Allocation in here must not beat again; outside the gate, as everything of the program's. */
	uint32_t depth = gate_leave_all(tls_get());
	free(keep(malloc(200000)));
	free(keep(malloc(100)));
	gate_reenter(tls_get(), depth);
}

static thread_event_hook_t *const hooks[] = {on_beat, NULL};

static void
test_heartbeat(const char *what, size_t size, unsigned n, uint64_t most_apart) {
	thread_event_hook_t *const *saved = thread_event_hooks;
	tsd_enter();
	uint64_t before = tsd_allocated(tsd);
	tsd->event_bytes = 0;
	tsd_leave();
	n_beats = beat_bytes = bad_beats = 0;
	thread_event_hooks = hooks;
	for (unsigned i = 0; i < n; i++) {
		free(keep(malloc(size)));
	}
	thread_event_hooks = saved;
	tsd_enter();
	uint64_t bytes = tsd_allocated(tsd) - before;
	tsd_leave();
	/* What the hook itself allocates comes on top. */
	uint64_t own = bytes - n_beats * (sz_s2u(200000) + canary_usize(100, 0));
	is_uint(own, n * canary_usize(size, 0), "%s: all counted", what);
	is_uint(bad_beats, 0, "%s: in the gate, events off", what);
	ok(n_beats >= own / most_apart - 2, "%s: %llu beats in %llu bytes", what,
	    (unsigned long long)n_beats, (unsigned long long)own);
	ok(beat_bytes <= bytes + 65536 && beat_bytes + 4 * most_apart >= own,
	    "%s: they are told of %llu bytes", what, (unsigned long long)beat_bytes);
}

/* ------------------------------------------------------------------ pace */

/* At most so many bytes apart are heartbeats just after a recall; each one may be farther. */
#define PACE_NEAR (16 * THREAD_EVENT_BYTES_MIN)

static volatile uint64_t clock_ns;

static uint64_t
clock_of_test(void) {
	return clock_ns;
}

/* Starts past all that the clock showed so far. */
static void
clock_start(void) {
	clock_ns = max_zu(clock_ns, nstime_monotonic_ns()) + 1000 * NSTIME_PER_SEC;
	nstime_now_hook = clock_of_test;
}

/* Seconds on end, one pair each 0.1 s; the longest time without a heartbeat, in ns. */
static uint64_t
slow_traffic(size_t size, unsigned seconds) {
	uint64_t last = clock_ns, worst = 0;
	for (unsigned i = 0; i < seconds * 10; i++) {
		n_beats = 0;
		clock_ns += 100 * 1000 * 1000;
		free(keep(malloc(size)));
		worst = clock_ns - last > worst ? clock_ns - last : worst;
		last = n_beats > 0 ? clock_ns : last;
	}
	return worst;
}

/*
 * So many bytes past the caches, in blocks of size, linked by their first words. The clock goes 12
 * ms, so that a heartbeat sees how little is unused while they are in use.
 */
static void **
take_much(size_t size, size_t bytes) {
	void **chain = NULL;
	size_t n = bytes / size;
	for (size_t i = 0; i < n; i++) {
		void **p = malloc(size);
		*p = chain;
		chain = p;
		clock_ns += i < n * 7 / 8 ? 14 * NSTIME_PER_MSEC / n : 0;
	}
	return chain;
}

static void
drop_much(void **chain) {
	while (chain != NULL) {
		void **p = chain;
		chain = *p;
		free(p);
	}
}

static void
free_much(size_t size, size_t bytes) {
	drop_much(take_much(size, bytes));
}

static void
count_beat(tsd_t *who UNUSED, uint64_t bytes UNUSED) {
	n_beats++;
}

/* 640 bytes, or a few large requests, a second: 64 KiB would take minutes. */
static void
test_pace(void) {
	static thread_event_hook_t *const counting[] = {count_beat, NULL};
	static const size_t sizes[] = {64, 8192, 30000, 100000, 64};
	thread_event_hook_t *const *saved = thread_event_hooks;
	clock_start();
	thread_event_hooks = counting;
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		for (unsigned k = 0; k < 40000; k++) {
			free(keep(malloc(sizes[i])));
		}
		is_uint(tsd->beat_bytes, THREAD_EVENT_BYTES, "%zu bytes: a fast thread has its heartbeats "
		    "apart", sizes[i]);
		bool is_small = i % 2 == 0;
		free_much(is_small ? 2000 : 1 << 20, (30 << 20) + (is_small ? 0 : TCACHE_BUDGET_MIN));
		ok(tsd->beat_bytes <= PACE_NEAR, "no longer when it has freed much");
		uint64_t first = slow_traffic(sizes[i], 4), then = slow_traffic(sizes[i], 60);
		ok(first <= (uint64_t)2500 * 1000 * 1000, "it gets slow: %llu ms until the first",
		    (unsigned long long)first / 1000000);
		ok(then <= (uint64_t)500 * 1000 * 1000, "then %llu ms at most",
		    (unsigned long long)then / 1000000);
	}
	thread_event_hooks = saved;
	nstime_now_hook = NULL;
}

static void
be_fast(void) {
	for (unsigned k = 0; k < 40000; k++) {
		free(keep(malloc(64)));
	}
	is_uint(tsd->beat_bytes, THREAD_EVENT_BYTES, "a fast thread has its heartbeats apart");
}

static void
set_cached(bool is_cached) {
	tsd_enter();
	is_int(tcache_enabled_set(tsd, is_cached), 0, "cache %s", is_cached ? "on" : "off");
	tsd_leave();
}

/*
 * How much is freed is not the matter, but by how much more than was allocated; and whichever way
 * it goes.
 */
static void
test_pace_by_net_use(void) {
	static void *live[200];
	unsigned n_near = 0;
	clock_start();
	be_fast();
	for (unsigned k = 0; k < 20000; k++) {
		void **at = &live[k * 7 % ARRAY_LEN(live)];
		free(*at);
		*at = keep(malloc(10000 + k * 7919 % 90000));
		n_near += tsd->beat_bytes < THREAD_EVENT_BYTES;
	}
	ok(n_near <= 1000, "a gigabyte in exchange for another: heartbeats stay apart, but for %u of "
	    "20000 steps", n_near);
	for (unsigned k = 0; k < ARRAY_LEN(live); k++) {
		free(live[k]);
	}
	be_fast();
	set_cached(false);
	free_much(2000, 30 << 20);
	ok(tsd->beat_bytes <= PACE_NEAR, "small objects past the cache: no longer apart when "
	    "it has freed much");
	set_cached(true);
	be_fast();
	nstime_now_hook = NULL;
}

/* ------------------------------------------------------------------ pace of the others */

#define EVENT_WAIT_NS ((uint64_t)60 * 1000 * 1000)

static void *
thread_down(void *bytes) {
	free_much(2000, (size_t)(uintptr_t)bytes);
	return NULL;
}

/* A thread that comes down by so many bytes, and ends. */
static void
others_down(size_t bytes, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		pthread_t t;
		pthread_create(&t, NULL, thread_down, (void *)(uintptr_t)bytes);
		pthread_join(t, NULL);
	}
}

static sem_t has_some, may_free, is_down, may_end;

static void *
thread_down_and_stay(void *bytes) {
	void **chain = take_much(2000, (size_t)(uintptr_t)bytes);
	sem_post(&has_some);
	sem_wait(&may_free);
	drop_much(chain);
	sem_post(&is_down);
	sem_wait(&may_end);
	return NULL;
}

static void *
thread_pace(void *arg) {
	free(keep(malloc(64)));
	*(uint64_t *)arg = tls_get()->tsd->beat_bytes;
	return NULL;
}

static uint64_t
pace_of_new(void) {
	pthread_t t;
	uint64_t pace = 0;
	pthread_create(&t, NULL, thread_pace, &pace);
	pthread_join(t, NULL);
	return pace;
}

static void *
thread_ask_large(void *arg) {
	static const size_t sizes[] = {30000, 100000};
	void *kept[100];
	unsigned n = 0;
	while (n < ARRAY_LEN(kept) && n_beats < 3) {
		clock_ns += 50 * NSTIME_PER_MSEC;
		kept[n] = keep(malloc(sizes[n % ARRAY_LEN(sizes)]));
		n++;
	}
	*(unsigned *)arg = n;
	while (n > 0) {
		free(kept[--n]);
	}
	return NULL;
}

/* Requests of a new thread, a large one of two classes each 50 ms, until its third heartbeat. */
static unsigned
beats_of_slow_new(void) {
	static thread_event_hook_t *const counting[] = {count_beat, NULL};
	thread_event_hook_t *const *saved = thread_event_hooks;
	pthread_t t;
	unsigned n = 0;
	thread_event_hooks = counting;
	clock_start();
	n_beats = 0;
	pthread_create(&t, NULL, thread_ask_large, &n);
	pthread_join(t, NULL);
	nstime_now_hook = NULL;
	thread_event_hooks = saved;
	return n;
}

/* The pace after the next request, where a recall is seen. */
static uint64_t
pace_next(void) {
	free(keep(malloc(64)));
	return tsd->beat_bytes;
}

static struct {
	pthread_t t[100];
	unsigned n;
} staying;

/*
 * n threads have so much at one time, free it, and stay. The least pace that this one has
 * meanwhile.
 */
static uint64_t
pace_when_others_are_down(size_t bytes, unsigned n) {
	uint64_t least = THREAD_EVENT_BYTES;
	assert(n <= ARRAY_LEN(staying.t));
	sem_init(&has_some, 0, 0);
	sem_init(&may_free, 0, 0);
	sem_init(&is_down, 0, 0);
	sem_init(&may_end, 0, 0);
	staying.n = n;
	for (unsigned i = 0; i < n; i++) {
		pthread_create(&staying.t[i], NULL, thread_down_and_stay, (void *)(uintptr_t)bytes);
		sem_wait(&has_some);
	}
	for (unsigned i = 0; i < n; i++) {
		sem_post(&may_free);
		sem_wait(&is_down);
		uint64_t pace = pace_next();
		least = pace < least ? pace : least;
	}
	return least;
}

static void
others_end(void) {
	for (unsigned i = 0; i < staying.n; i++) {
		sem_post(&may_end);
	}
	for (unsigned i = 0; i < staying.n; i++) {
		pthread_join(staying.t[i], NULL);
	}
}

/* Nothing is unused, nobody has to be told of anything that was before. */
static void
settle(void) {
	for (unsigned i = 0; i < 4; i++) {
		clock_ns += 10 * NSTIME_PER_SEC;
		be_fast();
	}
}

static void
test_pace_of_others(void) {
	static thread_event_hook_t *const counting[] = {count_beat, NULL};
	thread_event_hook_t *const *saved = thread_event_hooks;
	clock_start();
	settle();
	others_down(20 << 20, 1);
	ok(pace_next() <= PACE_NEAR, "another thread came down by 20 MiB: this one is told");
	thread_event_hooks = counting;
	uint64_t worst = slow_traffic(64, 10);
	thread_event_hooks = saved;
	ok(worst <= (uint64_t)500 * 1000 * 1000, "and gets slow: %llu ms until a heartbeat at most",
	    (unsigned long long)worst / 1000000);
	is_uint(pace_of_new(), THREAD_EVENT_BYTES_MIN, "a new one begins as it is");
	settle();
	others_down(20 << 20, 1);
	be_fast();
	is_uint(pace_when_others_are_down(20 << 20, 2), THREAD_EVENT_BYTES,
	    "at the same time once more: not told");
	clock_ns += EVENT_WAIT_NS;
	uint64_t least = THREAD_EVENT_BYTES;
	for (unsigned i = 0; i < 5000; i++) {
		least = pace_next() < least ? tsd->beat_bytes : least;
	}
	is_uint(least, THREAD_EVENT_BYTES_MIN, "but soon, by whoever has a heartbeat then");
	others_end();
	settle();
	is_uint(pace_when_others_are_down(900 << 10, 5), THREAD_EVENT_BYTES,
	    "threads that came down by 4 MiB together: not told");
	others_end();
	settle();
	ok(pace_when_others_are_down(900 << 10, 100) <= PACE_NEAR, "and by more than 16 MiB: told");
	others_end();
	settle();
	nstime_now_hook = NULL;
}

static void
set_interval(uint64_t interval) {
	__atomic_store_n(&thread_event_sample_interval.repr, interval, __ATOMIC_SEQ_CST);
	thread_event_take_interval(tsd);
}

static void
test_draws(double mean_bytes, size_t usize) {
	unsigned n = 200000, ones = 0;
	double sum = 0, square = 0;
	double p = 1 - exp(-(double)usize / mean_bytes);
	tsd->prng = usize;
	set_interval((uint64_t)mean_bytes);
	for (unsigned i = 0; i < n; i++) {
		uint64_t k = thread_event_draw_objects(tsd, usize);
		ones += k == 1;
		sum += (double)k;
		square += (double)k * (double)k;
	}
	double mean = sum / n, var = square / n - mean * mean, want_var = (1 - p) / (p * p);
	double dev = sqrt(want_var / n) + 1e-9;
	ok(fabs(mean - 1 / p) < 5 * dev, "usize %zu: mean %.3f, expected %.3f", usize, mean, 1 / p);
	ok(fabs(var - want_var) < want_var * 0.05 + 1e-3, "variance %.2f, expected %.2f", var,
	    want_var);
	ok(fabs(ones - n * p) < 5 * sqrt(n * p * (1 - p)) + 1, "at once: %u, expected %.0f", ones,
	    n * p);
	/* Past the cache: the same probability for each request. */
	unsigned samples = 0;
	tsd->sample_gap = thread_event_draw_bytes(tsd);
	for (unsigned i = 0; i < n; i++) {
		samples += thread_event_count_to_sample(tsd, usize);
	}
	ok(fabs(samples - n * p) < 5 * sqrt(n * p * (1 - p)) + 2,
	    "past the cache: %u samples, expected %.0f", samples, n * p);
}

/* ------------------------------------------------------------------ the law of the gaps */

#define CELLS 64

/* Chi-square of n values in equally likely cells, as a normal variate (Wilson and Hilferty). */
static double
chi(const unsigned *cell, double n) {
	double sum = 0, free = CELLS - 1;
	for (unsigned i = 0; i < CELLS; i++) {
		sum += (cell[i] - n / CELLS) * (cell[i] - n / CELLS) / (n / CELLS);
	}
	return (cbrt(sum / free) - (1 - 2 / (9 * free))) / sqrt(2 / (9 * free));
}

/* The cell of a gap drawn from the exponential with the mean; uniform, whatever the mean. */
static unsigned
cell_of(uint64_t gap, double mean) {
	return (unsigned)(-expm1(-((double)gap + 0.5) / mean) * CELLS);
}

#define N_GAPS (1u << 20)

/* Seeds are given, so that this comes out the same each time. */
static void
test_law(uint64_t seed) {
	static double u[N_GAPS];
	static unsigned cells[CELLS], pairs[CELLS];
	const double mean = 1e7;
	double sum = 0;
	memset(cells, 0, sizeof(cells));
	memset(pairs, 0, sizeof(pairs));
	tsd->prng = seed;
	set_interval((uint64_t)mean);
	for (unsigned i = 0; i < N_GAPS; i++) {
		uint64_t gap = thread_event_draw_bytes(tsd);
		cells[cell_of(gap, mean)]++;
		u[i] = -expm1(-((double)gap + 0.5) / mean) - 0.5;
		sum += u[i];
	}
	ok(fabs(chi(cells, N_GAPS)) < 4, "gaps are exponential: chi-square at %.2f sigma",
	    chi(cells, N_GAPS));
	ok(fabs(sum / sqrt(N_GAPS / 12.0)) < 4, "their mean is off by %.2f sigma",
	    sum / sqrt(N_GAPS / 12.0));
	double worst = 0;
	for (unsigned lag = 1; lag <= 16; lag++) {
		double r = 0;
		for (unsigned i = lag; i < N_GAPS; i++) {
			r += u[i] * u[i - lag];
		}
		worst = fmax(worst, fabs(r) * 12 / sqrt(N_GAPS));
	}
	ok(worst < 4.5, "no correlation at lags 1 to 16: worst %.2f sigma", worst);
	for (unsigned i = 0; i + 1 < N_GAPS; i += 2) {
		pairs[(unsigned)((u[i] + 0.5) * 8) * 8 + (unsigned)((u[i + 1] + 0.5) * 8)]++;
	}
	ok(fabs(chi(pairs, N_GAPS / 2)) < 4, "pairs of gaps: chi-square at %.2f sigma",
	    chi(pairs, N_GAPS / 2));
}

/* --------------------------------------------------------------- seeds of threads and processes */

#define N_THREADS 256
#define N_DRAWS 256

static double thread_u[N_THREADS][N_DRAWS];

static void *
thread_draw(void *arg) {
	double *u = arg;
	free(keep(malloc(1)));
	tsd_t *mine = tsd_enter();
	for (unsigned i = 0; i < N_DRAWS; i++) {
		u[i] = -expm1(-((double)thread_event_draw_bytes(mine) + 0.5) / 1e7) - 0.5;
	}
	tsd_leave();
	return NULL;
}

/* What successive threads draw is as good as one sequence; random seeds, so the limits are wide. */
static void
test_threads(void) {
	double next = 0, sum = 0, worst = 0;
	set_interval(10000000);
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_t t;
		pthread_create(&t, NULL, thread_draw, thread_u[i]);
		pthread_join(t, NULL);
	}
	set_interval(0);
	for (unsigned i = 0; i < N_THREADS; i++) {
		for (unsigned k = 0; k < N_DRAWS; k++) {
			sum += thread_u[i][k];
			next += i > 0 ? thread_u[i][k] * thread_u[i - 1][k] : 0;
		}
		for (unsigned j = 0; j < i; j++) {
			double r = 0;
			for (unsigned k = 0; k < N_DRAWS; k++) {
				r += thread_u[i][k] * thread_u[j][k];
			}
			worst = fmax(worst, fabs(r) * 12 / sqrt(N_DRAWS));
		}
	}
	const double n = N_THREADS * N_DRAWS;
	ok(fabs(sum / sqrt(n / 12)) < 6, "gaps of %d threads: mean off by %.2f sigma", N_THREADS,
	    sum / sqrt(n / 12));
	ok(fabs(next * 12 / sqrt(n)) < 6, "a thread and the next one: correlation %.2f sigma",
	    next * 12 / sqrt(n));
	ok(worst < 7.5, "any two of them: worst correlation %.2f sigma", worst);
}

#define N_DRAWN 3

/* What this thread has drawn, what it draws next, and what a new thread draws. */
static void
draw(uint64_t drawn[N_DRAWN]) {
	static double u[N_DRAWS];
	pthread_t t;
	free(keep(malloc(1)));
	drawn[0] = tsd->sample_gap;
	drawn[1] = thread_event_draw_bytes(tsd);
	pthread_create(&t, NULL, thread_draw, u);
	pthread_join(t, NULL);
	memcpy(&drawn[2], u, sizeof(u[0]));
}

static void
draw_in_child(uint64_t drawn[N_DRAWN]) {
	int fd[2];
	if (pipe(fd) != 0) {
		bail_out("pipe");
	}
	pid_t pid = fork();
	if (pid == 0) {
		draw(drawn);
		_exit(write(fd[1], drawn, N_DRAWN * sizeof(*drawn)) < 0);
	}
	close(fd[1]);
	if (read(fd[0], drawn, N_DRAWN * sizeof(*drawn)) != N_DRAWN * sizeof(*drawn)) {
		bail_out("no answer from a child");
	}
	close(fd[0]);
	waitpid(pid, NULL, 0);
}

/* A child draws anew: from its first request on, and for each of its new threads. */
static void
test_forks(void) {
	enum { N = 9 };
	uint64_t drawn[N][N_DRAWN];
	unsigned same = 0;
	set_interval(10000000);
	for (unsigned i = 0; i < N - 1; i++) {
		draw_in_child(drawn[i]);
	}
	draw(drawn[N - 1]);
	set_interval(0);
	for (unsigned i = 0; i < N; i++) {
		for (unsigned k = 0; k < i * N_DRAWN; k++) {
			same += drawn[i][k % N_DRAWN] == drawn[k / N_DRAWN][k % N_DRAWN];
		}
	}
	is_uint(same, 0, "%d children and their parent: each has gaps of its own", N - 1);
}

/* ----------------------------------------------------------- a recall at the end of a countdown */

/* The fast path has counted a request to the end; the recall comes before the slow path looks. */
static void
test_recall_at_end(void) {
	set_interval(4096);
	tsd_enter();
	tsd_leave();
	tcache_t *tc = tsd->tcache;
	unsigned slot = sz_s2i(64) + 1;
	tsd_enter();
	tc->bins[slot].countdown = 0;
	tc->cold[slot].window = 1;
	tc->cold[slot].to_sample = 0;
	tsd_leave();
	__atomic_store_n(&thread_event_sample_interval.repr, 1 << 20, __ATOMIC_SEQ_CST);
	recall_all(RECALL_SETTINGS);
	tsd_t *t = tsd_enter();
	ok(t == tsd && tsd->sample_interval == 4096, "the old interval holds to the end of the "
	    "request");
	ok(tcache_count_to_sample(tsd, tc, slot), "the sample that was drawn is taken");
	tsd_leave();
	ok(tls_cache_is_boot(tls_get()), "the recall is still there");
	tsd_enter();
	is_uint(tsd->sample_interval, 1 << 20, "and is followed at the next");
	tsd->tls->inside++;
	__atomic_store_n(&thread_event_sample_interval.repr, 1 << 10, __ATOMIC_SEQ_CST);
	recall_all(RECALL_SETTINGS);
	tsd_fetch_in_gate(tls_get());
	is_uint(tsd->sample_interval, 1 << 20, "not by a nested request");
	tsd->tls->inside--;
	tsd_leave();
	tsd_enter();
	is_uint(tsd->sample_interval, 1 << 10, "but by the one after it");
	tsd_leave();
	set_interval(0);
	recall_all(RECALL_SETTINGS);
}

static void
test_special(void) {
	set_interval(0);
	ok(thread_event_draw_objects(tsd, 8) == UINT64_MAX
	    && thread_event_draw_bytes(tsd) == UINT64_MAX, "interval 0: never");
	ok(!thread_event_count_to_sample(tsd, SC_LARGE_MAXCLASS) && tsd->sample_gap == UINT64_MAX,
	    "not even the largest, and the gap stays");
	set_interval(1);
	unsigned bad = 0;
	for (unsigned i = 0; i < 1000; i++) {
		bad += wrong_if(thread_event_draw_objects(tsd, 8) != 1)
		    || wrong_if(!thread_event_count_to_sample(tsd, 8));
	}
	is_uint(bad, 0, "interval 1: each one");
	set_interval(UINT64_MAX / 2);
	for (unsigned i = 0; i < 1000; i++) {
		bad += thread_event_draw_objects(tsd, 8) < 1000;
	}
	is_uint(bad, 0, "a huge interval does not wrap");
	set_interval(0);
}

/* However few the requests past the cache are: a heartbeat comes after so many bytes. */
static void
test_direct_bytes(void) {
	const uint64_t size = THREAD_EVENT_DIRECT_BYTES / 8;
	unsigned n = 0;
	tsd_enter();
	tsd->event_bytes = 0;
	tsd->n_direct = THREAD_EVENT_REQUESTS;
	while (n < 100 && thread_event_try_pass(tsd, size)) {
		n++;
	}
	is_uint(n, 7, "large requests past the cache: a heartbeat by their bytes");
	tsd->event_bytes = 0;
	tsd->n_direct = 3;
	for (n = 0; n < 100 && thread_event_try_pass(tsd, 1); n++) { }
	is_uint(n, 3, "and by their number");
	tsd->event_bytes = 0;
	tsd_leave();
}

static void
body(void) {
	free(keep(malloc(1)));
	tsd = tsd_enter();
	tsd_leave();
	is_uint(pace_of_new(), THREAD_EVENT_FIRST, "the distance with which a thread begins");
	unsigned n = beats_of_slow_new();
	ok(n <= 30, "one that asks for a large block now and then: three heartbeats in %u of them", n);
	test_heartbeat("64 bytes", 64 - CANARY_BYTES, 20000, 65536);
	test_heartbeat("3000 bytes", 3000, 2000, THREAD_EVENT_REQUESTS * 3072);
	test_heartbeat("30000 bytes", 30000, 5000, THREAD_EVENT_REQUESTS * 32768);
	test_heartbeat("large, cached", 100 * PAGE, 5000, THREAD_EVENT_REQUESTS * sz_s2u(100 * PAGE));
	test_heartbeat("large", 5 << 20, 500, THREAD_EVENT_REQUESTS * (5 << 20));
	ok(thread_event_wait_set(THREAD_EVENT_FOR_PROF, true), "a client waits");
	ok(thread_event_wait_set(THREAD_EVENT_FOR_USER, true), "another one");
	ok(!thread_event_wait_set(THREAD_EVENT_FOR_USER, true), "which does already");
	ok(thread_event_wait_set(THREAD_EVENT_FOR_PROF, false) && thread_event_is_strict(),
	    "one is left");
	recall_all(RECALL_SETTINGS);
	test_heartbeat("30000 bytes, bytes waited for", 30000, 500, 131072);
	test_heartbeat("large, bytes waited for", 100 * PAGE, 500, 131072 + sz_s2u(100 * PAGE));
	ok(thread_event_wait_set(THREAD_EVENT_FOR_USER, false) && !thread_event_is_strict(), "none");
	recall_all(RECALL_SETTINGS);
	test_pace();
	test_pace_by_net_use();
	test_pace_of_others();
	test_draws(4096, 64);
	test_draws(4096, 8);
	test_draws(524288, 16384);
	test_draws(1000, 4096);
	test_special();
	test_law(1);
	test_law(UINT64_C(0x9e3779b97f4a7c15));
	test_threads();
	test_forks();
	test_recall_at_end();
	test_direct_bytes();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
