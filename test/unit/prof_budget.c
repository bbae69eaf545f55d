/* The rule of the budget, and what it makes of a rate of allocation that jumps. */
#include "test.h"

#include "os/gate.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_sample.h"
#include "prof/trigger/prof_budget.h"

#define MS UINT64_C(1000000)

static void
test_rule(void) {
	const fxp_t one = FXP_INIT_INT(1);

	is_int(prof_budget_judge(one, 100, 1 * MS + 1, 100 * MS), 1, "above one percent: double");
	is_int(prof_budget_judge(one, 100, 1 * MS, 100 * MS), 0, "at one percent: go on");
	is_int(prof_budget_judge(one, 31, 90 * MS, 99 * MS), 0, "too few samples to tell");
	is_int(prof_budget_judge(one, 32, 90 * MS, 99 * MS), 1, "enough");
	is_int(prof_budget_judge(one, 1, 90 * MS, 100 * MS), 1, "after a tenth of a second one is");
	is_int(prof_budget_judge(one, 0, 90 * MS, 100 * MS), 0, "a debt alone: go on");
	is_int(prof_budget_judge(one, 100, MS / 4 - 1, 100 * MS), -1, "below a quarter: halve");
	is_int(prof_budget_judge(one, 100, MS / 4, 100 * MS), 0, "a quarter: go on");
	is_int(prof_budget_judge(one, 0, 0, 100 * MS), -1, "nothing at all: halve");
	is_int(prof_budget_judge(one, 100, 0, 99 * MS), 0, "but not before a tenth of a second");
	is_int(prof_budget_judge(one, 100, 40001, 0), 1, "no time has passed: as in one tick");
	is_int(prof_budget_judge(one, 100, 40000, 0), 0, "of the clock");
	is_int(prof_budget_judge(one / 2, 100, 1 * MS, 100 * MS), 1, "half a percent");
	is_int(prof_budget_judge(PROF_BUDGET_MAX, 100, 100 * MS, 100 * MS), 0, "all of it");
}

/* The ns that samples cost in a ms of a program that allocates `rate` bytes in it. */
static uint64_t
one_ms(uint64_t rate, uint64_t cost) {
	static uint64_t left;
	uint64_t spent = 0;

	/* A heartbeat each 64 KiB; one of them sees the clock move. */
	for (uint64_t bytes = 0; bytes < rate; bytes += 65536) {
		left += 65536;
		while (left >= prof_sample_rate()) {
			left -= prof_sample_rate();
			prof_budget_charge(cost);
			spent += cost;
		}
		prof_budget_heartbeat(bytes == 0 ? 1 * MS : 0);
	}
	return spent;
}

static uint64_t
span(unsigned ms, uint64_t rate, uint64_t cost) {
	uint64_t spent = 0;

	for (unsigned i = 0; i < ms; i++)
		spent += one_ms(rate, cost);
	return spent;
}

static void
test_jump(void) {
	prof_sample_rate_set(65536);
	is_int(prof_budget_set(FXP_INIT_INT(1)), 0, "one percent");
	span(2000, 64 << 10, 2000);
	is_uint(prof_sample_rate(), 65536, "a sample in a millisecond: the interval that was set");
	uint64_t jump = span(2000, 64 << 20, 2000);
	uint64_t after = span(2000, 64 << 20, 2000);

	ok(jump < 2000 * MS / 100 * 2, "a thousand times as much: two seconds cost %llu us",
	    (unsigned long long)(jump / 1000));
	ok(after <= 2000 * MS / 100, "from then on under the ceiling: %llu us",
	    (unsigned long long)(after / 1000));
	ok(after >= 2000 * MS / 100 / 16, "and not far under it");
	ok(prof_sample_rate() > 65536 && prof_sample_base() == 65536, "with a larger interval");
	span(20000, 64 << 10, 2000);
	is_uint(prof_sample_rate(), 65536, "it was a burst: back to what was set");
}

/*
 * What the samples of so many tenths of a second of work cost, in which the program makes ten
 * objects of `size` bytes each; of an object the sample costs `cost` ns.
 */
static uint64_t
tenths(unsigned n, uint64_t size, uint64_t cost) {
	static uint64_t left;
	uint64_t spent = 0;

	for (unsigned i = 0; i < 10 * n; i++) {
		left += size;
		if (left >= prof_sample_rate()) {
			left %= prof_sample_rate();
			prof_budget_charge(cost);
			spent += cost;
		}
		prof_budget_heartbeat(10 * MS);
	}
	return spent;
}

/* Samples of which few in a window already cost more than the budget. */
static void
test_dear(void) {
	prof_sample_rate_set(1 << 19);
	is_int(prof_budget_set(FXP_INIT_INT(1)), 0, "one percent");
	tenths(1000, 100 << 20, 6 * MS);
	uint64_t spent = tenths(10000, 100 << 20, 6 * MS);

	ok(spent <= 1000 * MS / 100 * 1000 * 11 / 10, "1000 s of work: samples of 6 ms cost %llu ms",
	    (unsigned long long)(spent / MS));
	ok(spent >= 1000 * MS / 100 * 1000 / 4, "and not far less than may be");
	tenths(700, 0, 0);
	is_uint(prof_sample_rate(), 1 << 19, "a debt is paid after a minute at most");
}

static void
test_scale(void) {
	prof_sample_rate_set(1000);
	prof_sample_scale(3);
	is_uint(prof_sample_rate(), 8000, "three doublings");
	is_uint(prof_sample_base(), 1000, "what was set stays");
	prof_sample_scale(-1);
	is_uint(prof_sample_rate(), 4000, "one back");
	prof_sample_scale(-9);
	is_uint(prof_sample_rate(), 1000, "never below");
	prof_sample_scale(99);
	is_uint(prof_sample_rate(), UINT64_C(1000) << 20, "nor beyond a million times");
	prof_sample_rate_set(UINT64_C(1) << 39);
	prof_sample_scale(4);
	is_uint(prof_sample_rate(), UINT64_C(1) << 40, "nor beyond a tebibyte");
	prof_sample_rate_set(UINT64_C(1) << 50);
	prof_sample_scale(4);
	is_uint(prof_sample_rate(), UINT64_C(1) << 50, "unless that was set");
	prof_sample_rate_set(1);
	prof_sample_scale(3);
	is_uint(prof_sample_rate(), 8, "and every allocation at first");
	prof_sample_rate_set(2000);
	is_uint(prof_sample_rate(), 2000, "a new setting begins anew");
	prof_sample_scale(2);
	is_int(prof_budget_set(0), 0, "no budget");
	is_uint(prof_sample_rate(), 2000, "is what was set");
	is_int(prof_budget_set(PROF_BUDGET_MAX + 1), EINVAL, "more than 100 percent");
}

int
main(void) {
	free(keep(malloc(1)));
	gate_enter(tls_get());
	if (prof_data_boot() != 0)
		bail_out("boot");
	gate_exit(tls_get());
	test_rule();
	test_scale();
	test_jump();
	test_dear();
	return done_testing();
}
