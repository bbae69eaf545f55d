/* When triggers fire: each row with a clock, a heap and a pen of the test's own. */
#include "test.h"

#include <pthread.h>
#include <sched.h>

#include "os/nstime.h"
#include "os/tls.h"
#include "prof/file/prof_keep.h"
#include "prof/trigger/prof_trigger.h"
#include "util/atomic.h"

#define MS NSTIME_PER_MSEC
#define K ((uint64_t)1024)
#define M (K * K)

static struct {
	uint64_t now;
	bool is_on;
	bool has_thread;
	uint64_t live;
	unsigned reads;
	unsigned dumps[prof_kind_n];
	uint64_t value[prof_kind_n];
	char metric[32];
	int err;
} w;

static uint64_t
fake_now(void) {
	return w.now;
}

static bool
fake_is_on(void) {
	return w.is_on;
}

static uint64_t
fake_read(prof_metric_t metric) {
	w.reads++;
	return metric == prof_metric_rss ? w.live * 2 : w.live;
}

static int
fake_dump(prof_kind_t kind, const char *metric, uint64_t value) {
	if (w.err == 0) {
		w.dumps[kind]++;
		w.value[kind] = value;
		snprintf(w.metric, sizeof(w.metric), "%s", metric == NULL ? "none" : metric);
	}
	return w.err;
}

static bool
fake_has_thread(void) {
	return w.has_thread;
}

static const prof_trigger_hooks_t fake = {fake_now, fake_is_on, fake_read, fake_dump};

/* All that a test before had written is long ago. */
static uint64_t latest;

static void
start(void) {
	latest += 1000000 * MS;
	memset(&w, 0, sizeof(w));
	w.now = latest;
	w.is_on = true;
	for (unsigned i = 0; i < prof_threshold_n; i++)
		prof_threshold_set((prof_threshold_t)i, 0);
	prof_threshold_metric_set(prof_metric_allocated);
	prof_keep_set(prof_keep_min_gap_ms, 0);
	prof_trigger_restart();
}

static void
test_alloc(void) {
	start();
	prof_trigger_heartbeat(10 * M);
	is_uint(w.dumps[prof_kind_alloc], 0, "no threshold: nothing");
	prof_threshold_set(prof_threshold_alloc, M);
	for (unsigned i = 0; i < 64; i++) {
		prof_trigger_heartbeat(64 * K);
		ok(w.dumps[prof_kind_alloc] == (i + 1) / 16, "after %u KiB", (i + 1) * 64);
	}
	is_uint(w.value[prof_kind_alloc], M, "the value is told");
	is_str(w.metric, "alloc", "and what it is");
	prof_trigger_heartbeat(5 * M + 1);
	is_uint(w.dumps[prof_kind_alloc], 5, "several at once are one");
	w.is_on = false;
	prof_trigger_heartbeat(20 * M);
	is_uint(w.dumps[prof_kind_alloc], 5, "not while profiling is off");
}

static void
test_gap(void) {
	uint64_t before = prof_keep_suppressed();

	start();
	prof_keep_set(prof_keep_min_gap_ms, 1000);
	prof_threshold_set(prof_threshold_alloc, M);
	for (unsigned i = 0; i < 5000; i++, w.now += MS)
		prof_trigger_heartbeat(M);
	is_uint(w.dumps[prof_kind_alloc], 5, "a storm of 5 seconds: one a second");
	is_uint(prof_keep_suppressed() - before, 4995, "the rest is counted");
}

static void
test_large(void) {
	start();
	is_uint(prof_trigger_large_bytes(), SIZE_MAX, "off: no request is large");
	prof_threshold_set(prof_threshold_large, M);
	is_uint(prof_trigger_large_bytes(), M, "what the allocator compares with");
	prof_trigger_large(M - 1);
	is_uint(w.dumps[prof_kind_large], 0, "one byte less");
	prof_trigger_large(M);
	is_uint(w.dumps[prof_kind_large], 1, "just as large");
	is_uint(w.value[prof_kind_large], M, "the size is told");
}

static void
grow(uint64_t from, uint64_t to) {
	for (w.live = from; w.live < to; w.live += 64 * K, w.now += MS)
		prof_trigger_heartbeat(64 * K);
}

static void
test_highwater(void) {
	start();
	prof_threshold_set(prof_threshold_highwater, 8 * M);
	grow(0, 8 * M);
	is_uint(w.dumps[prof_kind_highwater], 0, "below");
	grow(8 * M, 8 * M + 64 * K);
	is_uint(w.dumps[prof_kind_highwater], 1, "reached");
	is_uint(w.value[prof_kind_highwater], 8 * M, "at the right place");
	grow(8 * M, 9 * M);
	is_uint(w.dumps[prof_kind_highwater], 1, "not yet an eighth more");
	grow(9 * M, 9 * M + 128 * K);
	is_uint(w.dumps[prof_kind_highwater], 2, "an eighth more");
	grow(0, 9 * M);
	is_uint(w.dumps[prof_kind_highwater], 2, "the mark does not fall by itself");
	prof_trigger_rearm();
	grow(7 * M, 9 * M);
	is_uint(w.dumps[prof_kind_highwater], 3, "rearmed: the next crossing counts");
	prof_threshold_set(prof_threshold_highwater_step, 4 * M);
	grow(9 * M, 12 * M);
	is_uint(w.dumps[prof_kind_highwater], 3, "a step of 4 MiB");
	grow(12 * M, 12 * M + 64 * K);
	is_uint(w.dumps[prof_kind_highwater], 4, "its end");
}

/* Churn below the mark: live memory is looked at seldom. */
static void
test_churn(void) {
	start();
	prof_threshold_set(prof_threshold_highwater, 100 * M);
	w.live = 50 * M;
	for (unsigned i = 0; i < 16000; i++)
		prof_trigger_heartbeat(64 * K);
	ok(w.reads <= 21, "1000 MiB allocated and freed at half the mark: %u looks", w.reads);
	is_uint(w.dumps[prof_kind_highwater], 0, "none of them a crossing");
}

/* A read that takes 100 us. */
static uint64_t
slow_read(prof_metric_t metric) {
	w.now += MS / 10;
	return fake_read(metric);
}

/* Just below the mark each heartbeat wants to look: a fiftieth of the time is spent on it. */
static void
test_share(void) {
	const prof_trigger_hooks_t slow = {fake_now, fake_is_on, slow_read, fake_dump};

	start();
	prof_threshold_set(prof_threshold_highwater, 100 * M);
	w.live = 100 * M - 1;
	prof_trigger_hooks = &slow;
	while (w.now < latest + 10000 * MS) {
		w.now += MS / 10;
		prof_trigger_heartbeat(64 * K);
	}
	prof_trigger_hooks = &fake;
	/* 2000, those of 20 ms that were saved, and some until the cost of a look is known. */
	ok(w.reads >= 2000 && w.reads <= 2400, "10 s just below the mark: %u looks", w.reads);
}

static void
test_highwater_gap(void) {
	uint64_t before = prof_keep_suppressed();

	start();
	prof_keep_set(prof_keep_min_gap_ms, 1000);
	prof_threshold_set(prof_threshold_highwater, M);
	prof_threshold_set(prof_threshold_highwater_step, M);
	for (w.live = M; w.live <= 10 * M; w.live += M, w.now += MS)
		prof_trigger_heartbeat(M);
	is_uint(w.dumps[prof_kind_highwater], 1, "ten steps in ten milliseconds: one");
	is_uint(prof_keep_suppressed() - before, 9, "nine left out");
	w.live = 5 * M;
	w.now += 1000 * MS;
	prof_trigger_heartbeat(64 * K);
	is_uint(w.dumps[prof_kind_highwater], 2, "still above the mark when the gap is over: written");
	is_uint(w.value[prof_kind_highwater], 5 * M, "with the level of now");
	before = prof_keep_suppressed();
	w.live = 6 * M;
	w.now += MS;
	prof_trigger_heartbeat(M);
	is_uint(prof_keep_suppressed() - before, 1, "a step above that one, too early: counted");
}

static void
test_metric(void) {
	start();
	prof_threshold_metric_set(prof_metric_rss);
	prof_threshold_set(prof_threshold_highwater, 4 * M);
	w.live = M;
	for (unsigned i = 0; i < 1000; i++, w.now += MS)
		prof_trigger_heartbeat(K);
	is_uint(w.reads, 10, "rss is read ten times a second");
	w.live = 2 * M;
	w.now += 100 * MS;
	prof_trigger_heartbeat(0);
	is_uint(w.dumps[prof_kind_highwater], 1, "and fires without an allocation");
	is_str(w.metric, "rss", "its name is told");
	is_uint(w.value[prof_kind_highwater], 4 * M, "and its value");
}

static void
test_busy(void) {
	start();
	prof_threshold_set(prof_threshold_large, M);
	w.err = EBUSY;
	prof_trigger_large(M + 5);
	w.err = 0;
	prof_threshold_set(prof_threshold_alloc, 0);
	prof_trigger_heartbeat(1);
	is_uint(w.dumps[prof_kind_large], 1, "another dump ran: made up for at the next heartbeat");
	is_uint(w.value[prof_kind_large], M + 5, "with its value");
	prof_trigger_heartbeat(1);
	is_uint(w.dumps[prof_kind_large], 1, "once");
	w.err = ENOSPC;
	prof_trigger_large(M);
	w.err = 0;
	prof_trigger_heartbeat(1);
	is_uint(w.dumps[prof_kind_large], 1, "a failed one is not tried again");
}

static void
test_timer(void) {
	start();
	ok(prof_trigger_tick() == UINT64_MAX, "no timer");
	prof_threshold_set(prof_threshold_time_ms, 5000);
	is_uint(prof_trigger_tick(), 5000 * MS, "begins now");
	w.now += 4000 * MS;
	is_uint(prof_trigger_tick(), 1000 * MS, "a second is left");
	w.now += 1500 * MS;
	is_uint(prof_trigger_tick(), 5000 * MS, "fires and begins anew");
	is_uint(w.dumps[prof_kind_timer], 1, "one");
	is_uint(w.value[prof_kind_timer], 5500, "with the milliseconds");
	w.is_on = false;
	ok(prof_trigger_tick() == UINT64_MAX, "not while profiling is off");
}

/* Kinds that jemalloc has too: no threshold is set, and a heartbeat writes what is pending. */
static void
test_pending_by_others(void) {
	const prof_kind_t kinds[] = {prof_kind_interval, prof_kind_gdump};

	start();
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++) {
		prof_kind_t k = kinds[i];
		uint64_t overlapped = prof_keep_overlapped();
		w.err = EBUSY;
		prof_trigger_due(k, 1);
		prof_trigger_due(k, 1);
		prof_trigger_heartbeat(0);
		is_uint(w.dumps[k], 0, "%s: another dump runs", prof_kind_name(k));
		is_uint(prof_keep_overlapped(), overlapped + 2, "both are counted");
		w.err = 0;
		prof_trigger_heartbeat(0);
		is_uint(w.dumps[k], 1, "both are one dump");
		is_str(w.metric, "none", "which names no metric");
		is_uint(prof_keep_overlapped(), overlapped + 1, "the one merged into it stays counted");
		prof_trigger_heartbeat(0);
		is_uint(w.dumps[k], 1, "once");
	}
}

static void
test_timer_by_heartbeat(void) {
	start();
	prof_threshold_set(prof_threshold_time_ms, 1000);
	prof_trigger_heartbeat(0);
	w.now += 999 * MS;
	prof_trigger_heartbeat(0);
	is_uint(w.dumps[prof_kind_timer], 0, "no thread of the profiler: a heartbeat looks, too soon");
	w.now += MS;
	prof_trigger_heartbeat(0);
	is_uint(w.dumps[prof_kind_timer], 1, "due");
	prof_trigger_heartbeat(0);
	is_uint(w.dumps[prof_kind_timer], 1, "once");
	w.has_thread = true;
	w.now += 5000 * MS;
	prof_trigger_heartbeat(0);
	is_uint(w.dumps[prof_kind_timer], 1, "with the thread it is the thread's");
	w.now -= 100000 * MS;
	prof_trigger_tick();
	w.now += 999 * MS;
	prof_trigger_tick();
	is_uint(w.dumps[prof_kind_timer], 1, "a clock that went back: begins anew");
	w.now += MS;
	prof_trigger_tick();
	is_uint(w.dumps[prof_kind_timer], 2, "and goes on");
}

static int
rearming_dump(prof_kind_t kind, const char *metric, uint64_t value) {
	prof_trigger_rearm();
	return fake_dump(kind, metric, value);
}

static uint64_t
read_and_switch_off(prof_metric_t metric) {
	prof_threshold_set(prof_threshold_highwater, 0);
	return fake_read(metric);
}

/* What another thread does in the middle of a look or a dump. */
static void
test_highwater_meanwhile(void) {
	const prof_trigger_hooks_t rearming = {fake_now, fake_is_on, fake_read, rearming_dump};
	const prof_trigger_hooks_t leaving = {fake_now, fake_is_on, read_and_switch_off,
	    fake_dump};

	start();
	prof_threshold_set(prof_threshold_highwater, M);
	w.live = 2 * M;
	prof_trigger_hooks = &rearming;
	prof_trigger_heartbeat(64 * K);
	is_uint(w.dumps[prof_kind_highwater], 1, "rearmed as soon as the file is there");
	prof_trigger_hooks = &fake;
	prof_trigger_heartbeat(64 * K);
	is_uint(w.dumps[prof_kind_highwater], 2, "is not lost: it counts again");
	prof_trigger_heartbeat(64 * K);
	is_uint(w.dumps[prof_kind_highwater], 2, "once");
	start();
	prof_threshold_set(prof_threshold_highwater, M);
	w.live = 2 * M;
	prof_trigger_hooks = &leaving;
	prof_trigger_heartbeat(64 * K);
	prof_trigger_hooks = &fake;
	is_uint(w.dumps[prof_kind_highwater], 0, "switched off during the look: nothing");
	start();
	prof_threshold_set(prof_threshold_highwater, M);
	w.live = 2 * M;
	w.err = EBUSY;
	prof_trigger_heartbeat(64 * K);
	w.err = 0;
	prof_trigger_heartbeat(64 * K);
	is_uint(w.dumps[prof_kind_highwater], 1, "another dump ran: made up for");
	is_uint(w.value[prof_kind_highwater], 2 * M, "as the first");
}

/* Two threads set thresholds at once: what is published belongs to what is set. */
static void *
set_often(void *arg) {
	prof_threshold_t which = (prof_threshold_t)(uintptr_t)arg;

	for (unsigned i = 0; i < 20000; i++)
		prof_threshold_set(which, i % 2 == 0 ? M : 0);
	prof_threshold_set(which, M);
	return NULL;
}

static void
test_setters(void) {
	pthread_t t[3];
	static const prof_threshold_t which[] = {
		prof_threshold_alloc, prof_threshold_large, prof_threshold_large
	};
	unsigned bad = 0;

	for (unsigned round = 0; round < 5; round++) {
		start();
		for (unsigned i = 0; i < 3; i++)
			pthread_create(&t[i], NULL, set_often, (void *)(uintptr_t)which[i]);
		for (unsigned i = 0; i < 3; i++)
			pthread_join(t[i], NULL);
		prof_trigger_heartbeat(M);
		bad += wrong_if(w.dumps[prof_kind_alloc] != 1)
		    || wrong_if(prof_trigger_large_bytes() != M);
		prof_threshold_set(prof_threshold_large, 0);
		bad += prof_trigger_large_bytes() != SIZE_MAX;
	}
	is_uint(bad, 0, "after a race of setters what is set is what holds");
}

/* Firing by many at once: every byte is told once, and the guard lets one of a gap through. */
enum { n_firing = 6, n_beats = 20000 };
static struct {
	atomic_u64_t now;
	atomic_u64_t dumps[prof_kind_n];
	atomic_u64_t consumed;
	atomic_u64_t live;
	atomic_u64_t nbeats;
	atomic_b_t is_writing;
	atomic_u32_t is_over;
	bool wants_all;             /* kinds; else, until enough was left out */
	uint64_t enough_suppressed;
} fires;

static bool
has_fired(prof_kind_t kind) {
	return atomic_load_u64(&fires.dumps[kind], MO_RELAXED) > 0;
}

static bool
have_all_fired(void) {
	return has_fired(prof_kind_highwater) && has_fired(prof_kind_large)
	    && has_fired(prof_kind_timer);
}

static bool
is_enough(void) {
	return fires.wants_all ? have_all_fired() : prof_keep_suppressed() > fires.enough_suppressed;
}

static uint64_t
fires_now(void) {
	return atomic_fetch_add_u64(&fires.now, NSTIME_PER_MSEC / 10, MO_RELAXED);
}

static bool
fires_on(void) {
	return true;
}

static uint64_t
fires_read(prof_metric_t metric) {
	(void)metric;
	return atomic_load_u64(&fires.live, MO_RELAXED);
}

static int
fires_dump(prof_kind_t kind, const char *metric, uint64_t value) {
	(void)metric;
	if (atomic_exchange_b(&fires.is_writing, true, MO_ACQUIRE))
		return EBUSY;
	atomic_fetch_add_u64(&fires.dumps[kind], 1, MO_RELAXED);
	if (kind == prof_kind_alloc)
		atomic_fetch_add_u64(&fires.consumed, value - value % M, MO_RELAXED);
	sched_yield();
	atomic_store_b(&fires.is_writing, false, MO_RELEASE);
	return 0;
}

static bool
fires_thread(void) {
	return false;
}

static void *
fire(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	unsigned i;

	/*
	 * Longer where nobody has meddled yet, without which there is no timer, or while one who writes
	 * has lost the processor.
	 */
	for (i = 0; i < n_beats || (i < 1000 * n_beats && !is_enough()); i++) {
		atomic_fetch_add_u64(&fires.live, 4 * K, MO_RELAXED);
		prof_trigger_heartbeat(64 * K);
		if (test_random(&seed) % 16 == 0)
			prof_trigger_large(8 * M);
	}
	atomic_fetch_add_u64(&fires.nbeats, i, MO_RELAXED);
	return NULL;
}

static void *
meddle(void *arg) {
	(void)arg;
	for (unsigned i = 0; atomic_load_u32(&fires.is_over, MO_RELAXED) == 0; i++) {
		prof_trigger_rearm();
		prof_threshold_set(prof_threshold_highwater_step, M + i);
		prof_threshold_set(prof_threshold_time_ms, i % 2);
		prof_threshold_metric_set(i % 3 == 0 ? prof_metric_rss : prof_metric_allocated);
		sched_yield();
	}
	return NULL;
}

/* How long it took, by the clock of the test. */
static uint64_t
fire_all(uint64_t gap) {
	const prof_trigger_hooks_t hooks = {fires_now, fires_on, fires_read, fires_dump};
	pthread_t t[n_firing + 1];

	start();
	memset(&fires, 0, sizeof(fires));
	fires.wants_all = gap == 0;
	fires.enough_suppressed = prof_keep_suppressed() + 1000;
	uint64_t begin = latest;
	atomic_store_u64(&fires.now, begin, MO_RELAXED);
	prof_keep_set(prof_keep_min_gap_ms, gap);
	prof_threshold_set(prof_threshold_alloc, M);
	prof_threshold_set(prof_threshold_large, M);
	prof_threshold_set(prof_threshold_highwater, M);
	prof_trigger_hooks = &hooks;
	prof_trigger_has_thread_hook = fires_thread;
	for (uintptr_t i = 0; i < n_firing; i++)
		pthread_create(&t[i], NULL, fire, (void *)(i + 1));
	pthread_create(&t[n_firing], NULL, meddle, NULL);
	for (unsigned i = 0; i < n_firing; i++)
		pthread_join(t[i], NULL);
	atomic_store_u32(&fires.is_over, 1, MO_RELAXED);
	pthread_join(t[n_firing], NULL);
	prof_trigger_heartbeat(1); /* what is pending */
	prof_trigger_hooks = &fake;
	prof_trigger_has_thread_hook = fake_has_thread;
	latest = atomic_load_u64(&fires.now, MO_RELAXED);
	return latest - begin;
}

static void
test_fire_all(void) {
	uint64_t before;

	fire_all(0);
	uint64_t consumed = atomic_load_u64(&fires.consumed, MO_RELAXED);
	uint64_t total = atomic_load_u64(&fires.nbeats, MO_RELAXED) * 64 * K;
	ok(consumed <= total, "%llu of %llu bytes were told, none twice", (unsigned long long)consumed,
	    (unsigned long long)total);
	ok(have_all_fired(), "all kinds fire");
	before = prof_keep_suppressed();
	uint64_t gaps = fire_all(1000) / (1000 * MS) + 1;
	for (unsigned k = prof_kind_alloc; k <= prof_kind_timer; k++) {
		uint64_t n = atomic_load_u64(&fires.dumps[k], MO_RELAXED);
		ok(n <= gaps, "%s: %llu in %llu gaps", prof_kind_name((prof_kind_t)k),
		    (unsigned long long)n, (unsigned long long)gaps);
	}
	ok(prof_keep_suppressed() - before > 1000, "what was left out is counted: %llu",
	    (unsigned long long)(prof_keep_suppressed() - before));
}

int
main(void) {
	if (!config_prof) {
		plan_skip_all("built without the profiler");
	}
	prof_trigger_hooks = &fake;
	prof_trigger_has_thread_hook = fake_has_thread;
	test_alloc();
	test_gap();
	test_large();
	test_highwater();
	test_churn();
	test_share();
	test_highwater_gap();
	test_metric();
	test_busy();
	test_timer();
	test_pending_by_others();
	test_timer_by_heartbeat();
	test_highwater_meanwhile();
	test_setters();
	test_fire_all();
	return done_testing();
}
