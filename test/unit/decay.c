/*
 * extent/decay.h: the curve, against a recomputation from the definition, with a time of our own.
 */
#include "core.h"

#include "extent/decay.h"

static decay_t d;

#define MS UINT64_C(1000000)

static void
start(ssize_t ms, uint64_t now) {
	memset(&d, 0, sizeof(d));
	decay_init(&d, "decay", WITNESS_RANK_OMIT, ms, now);
}

/* Polynomial of the curve, in floating point. */
static double
curve(double x) {
	return x <= 0 ? 0 : x >= 1 ? 1 : x * x * x * (x * (6 * x - 15) + 10);
}

/* 10000 pages fall idle at once; how many may stay, epoch by epoch. */
static void
test_curve(void) {
	uint64_t t0 = 123456789, epoch = 10000 * MS / SMOOTHSTEP_NSTEPS;
	size_t last = 10000;
	unsigned bad = 0, rises = 0;
	start(10000, t0);
	ok(!decay_is_due(&d, t0) && !decay_is_due(&d, t0 + epoch - 1),
	    "not due within the first epoch");
	ok(decay_is_due(&d, t0 + epoch), "due at its end");
	for (unsigned i = 1; i <= SMOOTHSTEP_NSTEPS + 5; i++) {
		decay_advance_locked(&d, t0 + i * epoch, 10000);
		size_t limit = decay_limit_locked(&d);
		double want = 10000 * curve(1 - (double)(i - 1) / SMOOTHSTEP_NSTEPS);
		bad += wrong_if((double)limit > want + 1) || wrong_if((double)limit < want - 2);
		rises += limit > last;
		last = limit;
	}
	is_uint(bad, 0, "the limit follows the curve at each epoch");
	is_uint(rises, 0, "and never rises");
	is_uint(last, 0, "in the end nothing may stay");
}

static void
test_all_gone_after(ssize_t ms) {
	uint64_t t0 = 5000000000, epoch = (uint64_t)ms * MS / SMOOTHSTEP_NSTEPS;
	start(ms, t0);
	decay_advance_locked(&d, t0 + epoch, 777);
	size_t first = decay_limit_locked(&d);
	decay_advance_locked(&d, t0 + epoch + (uint64_t)ms * MS / 2, 777);
	size_t half = decay_limit_locked(&d);
	decay_advance_locked(&d, t0 + epoch + (uint64_t)ms * MS, 777);
	ok(first == 777 && half > 777 * 4 / 10 && half < 777 * 6 / 10,
	    "%zd ms: %zu at first, %zu at half time", ms, first, half);
	is_uint(decay_limit_locked(&d), 0, "%zd ms: 0 after the decay time", ms);
}

/* When the next look is worth while: never too late for step pages, and not much too early. */
static void
test_until(void) {
	uint64_t t0 = 777000000, ms = 10000, epoch = ms * MS / SMOOTHSTEP_NSTEPS;
	unsigned late = 0, early = 0, looks = 0;
	start((ssize_t)ms, t0);
	is_uint(decay_ns_until_locked(&d, t0, 0, 100), UINT64_MAX, "nothing unused: never");
	uint64_t fresh = decay_ns_until_locked(&d, t0, 5000, 100);
	ok(fresh > 2 * epoch && fresh < SMOOTHSTEP_NSTEPS * epoch / 2 && fresh % epoch == 0,
	    "pages not counted yet: they begin at the end of the epoch");
	is_uint(decay_ns_until_locked(&d, t0 + epoch / 2, 5000, 100), fresh - epoch / 2,
	    "from the epoch's start");
	is_uint(decay_ns_until_locked(&d, t0 + 3 * epoch, 5000, 100), fresh - epoch,
	    "or of the one in which they will be counted");
	uint64_t now = t0 + 2 * epoch, born = now;
	size_t left = 5000;
	decay_advance_locked(&d, now, left);
	for (; left > 0 && looks < 1000; looks++) {
		uint64_t ns = decay_ns_until_locked(&d, now, left, 100);
		early += ns < epoch / 2;
		now += ns;
		decay_advance_locked(&d, now, left);
		size_t limit = decay_limit_locked(&d);
		late += limit + 100 > left && limit > 0;
		left = min_zu(left, limit);
		decay_purged_locked(&d, left);
	}
	is_uint(late, 0, "each look finds a hundred due, or all");
	is_uint(early, 0, "no look within half an epoch");
	ok(looks >= 20 && looks <= 51, "%u looks for 5000 pages", looks);
	ok(now - born <= ms * MS && now - born > ms * MS * 9 / 10,
	    "all are gone when the time is over, not before");
	decay_set_locked(&d, -1, now);
	is_uint(decay_ns_until_locked(&d, now, 5000, 100), UINT64_MAX, "-1: never");
	decay_set_locked(&d, 0, now);
	is_uint(decay_ns_until_locked(&d, now, 5000, 100), 0, "0: at once");
	decay_set_locked(&d, DECAY_MS_MAX, now);
	decay_advance_locked(&d, now + atomic_load_u64(&d.epoch_ns, MO_RELAXED), 10);
	ok(decay_ns_until_locked(&d, now, 10, 10) > UINT64_MAX / 2, "the longest time does not wrap");
}

/* `step` pages are due at the advance that decay_ns_until_locked() names, not at the one before. */
static bool
is_exact(uint64_t now, size_t npages, size_t step) {
	uint64_t epoch = atomic_load_u64(&d.epoch_ns, MO_RELAXED);
	uint64_t at = now + decay_ns_until_locked(&d, now, npages, step);
	decay_t copy = d;
	while (now < at) {
		now = atomic_load_u64(&d.epoch_start, MO_RELAXED) + epoch;
		decay_advance_locked(&d, now, npages);
		if ((decay_limit_locked(&d) <= npages - min_zu(step, npages)) != (now == at)) {
			return false;
		}
	}
	d = copy;
	return now == at;
}

/* Old pages are due soon, when new ones have come too, and when some are used again. */
static void
test_until_mixed(void) {
	uint64_t epoch = 2000 * MS / SMOOTHSTEP_NSTEPS, now = 0, seed = 11;
	unsigned bad = 0, soon = 0;
	size_t npages = 0;
	start(2000, now);
	for (unsigned i = 0; i < 1000; i++) {
		size_t taken = min_zu(npages, (size_t)draw_below(&seed, 300));
		npages = npages - taken + (size_t)draw_below(&seed, 600);
		now += draw_below(&seed, epoch);
		size_t seen = npages + (size_t)draw_below(&seed, 300);
		size_t asked = seen > 150 ? seen - 150 : 0; /* some have come, or some are gone */
		bad += asked > 0 && !decay_is_due(&d, now) && !is_exact(now, asked, 40);
		soon += asked > d.npages_seen && decay_ns_until_locked(&d, now, asked, 40) < epoch;
		if (decay_is_due(&d, now)) {
			decay_advance_locked(&d, now, npages);
			npages = min_zu(npages, decay_limit_locked(&d));
			decay_purged_locked(&d, npages);
		}
	}
	is_uint(bad, 0, "pages come and go: the answer is when they are due, not an epoch later");
	ok(soon > 0, "old ones at the end of this epoch, though there are new ones (%u times)", soon);
}

/* Pages that come later stay longer: the limit is the sum over the epochs. */
static void
test_sum(void) {
	uint64_t now = 0, epoch = 2000 * MS / SMOOTHSTEP_NSTEPS, seed = 3;
	double came[1000] = {0};
	unsigned bad = 0;
	size_t npages = 0;
	start(2000, now);
	for (unsigned i = 1; i < 1000; i++) {
		/* Sometimes several epochs go by without a look; what came is seen at the end of them. */
		i += draw_below(&seed, 10) == 0 ? (unsigned)draw_below(&seed, 7) : 0;
		if (i >= 1000) {
			break;
		}
		size_t fresh = draw_below(&seed, 50);
		npages += fresh;
		came[i] = (double)fresh;
		now = i * epoch + draw_below(&seed, epoch);
		decay_advance_locked(&d, now, npages);
		double want = 0;
		for (unsigned j = i >= SMOOTHSTEP_NSTEPS ? i - SMOOTHSTEP_NSTEPS + 1 : 0; j <= i; j++) {
			want += came[j] * curve(1 - (double)(i - j) / SMOOTHSTEP_NSTEPS);
		}
		size_t limit = decay_limit_locked(&d);
		bad += wrong_if((double)limit > want + 1) || wrong_if((double)limit < want - 2);
		if (limit < npages) {
			npages = limit; /* purged */
			decay_purged_locked(&d, npages);
		}
	}
	is_uint(bad, 0, "a thousand epochs of random arrivals with purging");
}

/*
 * A program that takes and returns some pages all the time: the limit stays below the most that was
 * unused, and what is unused no more after a peak goes when the decay time is over.
 */
static void
test_to_and_fro(void) {
	uint64_t epoch = 2000 * MS / SMOOTHSTEP_NSTEPS, seed = 5;
	unsigned above = 0, long_after = 0;
	start(2000, 0);
	for (unsigned i = 1; i < 2000; i++) {
		size_t npages = i == 1000 ? 50000 : 1000 + (size_t)draw_below(&seed, 1000);
		decay_advance_locked(&d, i * epoch, npages);
		size_t limit = decay_limit_locked(&d);
		above += limit > (i < 1000 ? 2000 : 50000);
		long_after += i > 1000 + SMOOTHSTEP_NSTEPS && limit > 2000;
	}
	is_uint(above, 0, "pages that come and go: the limit is never above the most that was unused");
	is_uint(long_after, 0, "nor above what was unused within the decay time, after a peak");
}

/*
 * A program that takes up to 10000 unused pages and returns so many, again and again, within a
 * tenth of the decay time: these are never unused for long, so few are purged. The 500 that it
 * never takes go.
 */
static void
test_in_use_again(void) {
	uint64_t epoch = 2000 * MS / SMOOTHSTEP_NSTEPS;
	size_t unused = 500, purged = 0;
	start(2000, 0);
	for (unsigned i = 1; i < 2000; i++) {
		if (i % 10 == 0) {
			unused = i % 20 != 0 ? unused + 10000 : unused - min_zu(unused, 10000);
		}
		decay_advance_locked(&d, i * epoch, unused);
		size_t limit = decay_limit_locked(&d);
		if (unused > limit) {
			purged += unused - limit;
			unused = limit;
			decay_purged_locked(&d, unused);
		}
	}
	ok(purged >= 500 && purged < 2500, "%zu pages are purged, the old ones and few others", purged);
}

static void
test_special(void) {
	start(-1, 0);
	ok(!decay_is_due(&d, UINT64_MAX), "-1: never due");
	start(0, 0);
	ok(!decay_is_due(&d, UINT64_MAX), "0: no epochs, the owner purges at once");
	start(1000, 1000 * MS);
	ok(!decay_is_due(&d, 0), "a clock that goes back makes nothing due");
	ok(decay_is_due(&d, 2000 * MS), "but later it is");
	decay_advance_locked(&d, 1000000 * MS, 50);
	is_uint(decay_limit_locked(&d), 50, "a long sleep: the newest pages stay a while");
	ok(!decay_is_due(&d, 1000000 * MS) && decay_is_due(&d, 1000005 * MS),
	    "and time goes on from there");
	decay_advance_locked(&d, 1000005 * MS, 20);
	decay_set_locked(&d, 500, 1000010 * MS);
	is_int(decay_ms(&d), 500, "another decay time");
	is_uint(decay_limit_locked(&d), 0, "starts with an empty history");
	ok(!decay_is_due(&d, 1000012 * MS) && decay_is_due(&d, 1000013 * MS), "and its own epochs");
	start(DECAY_MS_MAX, 7);
	ok(atomic_load_u64(&d.epoch_ns, MO_RELAXED) > 0 && !decay_is_due(&d, UINT64_MAX / 1000),
	    "the longest decay time works");
	start(1000, 0);
	decay_advance_locked(&d, 1000 * MS, SIZE_MAX);
	ok(decay_limit_locked(&d) >= UINT32_MAX - 1, "more pages than can be counted do not wrap");
	ok(decay_ms_is_valid(-1) && decay_ms_is_valid(0) && decay_ms_is_valid(DECAY_MS_MAX),
	    "valid times");
	ok(!decay_ms_is_valid(-2) && !decay_ms_is_valid(DECAY_MS_MAX + 1), "others");
}

int
main(void) {
	test_curve();
	test_all_gone_after(1);
	test_all_gone_after(50);
	test_all_gone_after(10000);
	test_all_gone_after(86400000);
	test_until();
	test_until_mixed();
	test_sum();
	test_to_and_fro();
	test_in_use_again();
	test_special();
	return done_testing();
}
