/* When triggers fire: each row with a clock, a heap and a pen of the test's own. */
#include "test.h"

#include "os/nstime.h"
#include "prof_keep.h"
#include "prof_trigger.h"

#define MS NSTIME_PER_MSEC
#define K ((uint64_t)1024)
#define M (K * K)

static struct {
	uint64_t now;
	bool is_on;
	uint64_t live;
	unsigned reads;
	unsigned dumps[prof_kind_n];
	uint64_t value[prof_kind_n];
	char metric[32];
	int err;
} w;

static uint64_t
fake_now(void)
{
	return w.now;
}

static bool
fake_is_on(void)
{
	return w.is_on;
}

static uint64_t
fake_read(prof_metric_t metric)
{
	w.reads++;
	return metric == prof_metric_rss ? w.live * 2 : w.live;
}

static int
fake_dump(prof_kind_t kind, const char *metric, uint64_t value)
{
	if (w.err == 0) {
		w.dumps[kind]++;
		w.value[kind] = value;
		snprintf(w.metric, sizeof(w.metric), "%s", metric);
	}
	return w.err;
}

static const prof_trigger_hooks_t fake = {fake_now, fake_is_on, fake_read, fake_dump};

static void
start(void)
{
	memset(&w, 0, sizeof(w));
	w.now = 1000000 * MS;
	w.is_on = true;
	for (unsigned i = 0; i < prof_threshold_n; i++)
		prof_threshold_set((prof_threshold_t)i, 0);
	prof_threshold_metric_set(prof_metric_allocated);
	for (unsigned i = 0; i < prof_kind_n; i++)
		prof_keep_release((prof_kind_t)i);
	prof_keep_set(prof_keep_min_gap_ms, 0);
	prof_trigger_restart();
}

static void
test_alloc(void)
{
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
test_gap(void)
{
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
test_large(void)
{
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
grow(uint64_t from, uint64_t to)
{
	for (w.live = from; w.live < to; w.live += 64 * K, w.now += MS)
		prof_trigger_heartbeat(64 * K);
}

static void
test_highwater(void)
{
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
test_churn(void)
{
	start();
	prof_threshold_set(prof_threshold_highwater, 100 * M);
	w.live = 50 * M;
	for (unsigned i = 0; i < 16000; i++)
		prof_trigger_heartbeat(64 * K);
	ok(w.reads <= 21, "1000 MiB allocated and freed at half the mark: %u looks", w.reads);
	is_uint(w.dumps[prof_kind_highwater], 0, "none of them a crossing");
}

static void
test_highwater_gap(void)
{
	uint64_t before = prof_keep_suppressed();

	start();
	prof_keep_set(prof_keep_min_gap_ms, 1000);
	prof_threshold_set(prof_threshold_highwater, M);
	prof_threshold_set(prof_threshold_highwater_step, M);
	for (w.live = M; w.live <= 10 * M; w.live += M, w.now += MS)
		prof_trigger_heartbeat(M);
	is_uint(w.dumps[prof_kind_highwater], 1, "ten steps in ten milliseconds: one");
	is_uint(prof_keep_suppressed() - before, 9, "nine left out");
	w.live = 10 * M;
	w.now += 1000 * MS;
	prof_trigger_heartbeat(64 * K);
	is_uint(w.dumps[prof_kind_highwater], 2, "still as high when the gap is over: written");
	is_uint(w.value[prof_kind_highwater], 10 * M, "with the level of now");
}

static void
test_metric(void)
{
	prof_metric_t m;

	start();
	is_int(prof_metric_by_name("rss", 3, &m), 0, "a metric by name");
	is_uint(m, prof_metric_rss, "the right one");
	is_int(prof_metric_by_name("rs", 2, &m), EINVAL, "a piece of a name");
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
test_busy(void)
{
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
test_timer(void)
{
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

int
main(void)
{
	prof_trigger_hooks = &fake;
	test_alloc();
	test_gap();
	test_large();
	test_highwater();
	test_churn();
	test_highwater_gap();
	test_metric();
	test_busy();
	test_timer();
	return done_testing();
}
