/*
 * Keeps the cost of samples below a share of the time that threads work (prof_budget.h).
 *
 * Invariant: the sums belong to one window, which begins anew with each decision, after WINDOW_NS
 * of work at the latest, and when the budget is set; one thread at a time decides
 * (budget.is_deciding). Locks: none; prof_sample_scale() has its own. Called by prof.c at boot,
 * samples and heartbeats, by ctl_prof.c and prof_session.c to set and read the budget, and by
 * prof_request.c to read it.
 */
#include "prof/trigger/prof_budget.h"

#include "meta/sc.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "prof/sites/prof_sample.h"
#include "util/assert.h"

/* One of so many samples is measured: two looks at the clock cost a good part of a sample. */
#define MEASURE_EVERY 8u
/*
 * What cannot be measured where a sample is recorded, in ns. SAMPLE_NS: the slow path that led
 * there, the object's own place, and its free. PAGE_NS, for each 4 KiB of a large object: as for
 * one that comes fresh from the page cache or the kernel; charged wherever the object comes from.
 */
#define SAMPLE_NS 300
#define PAGE_NS 500
/*
 * RECORD_NS: the learned time to record a sample, before one was measured. A measurement counts as
 * at most the learned time, an eighth of it and RECORD_RISE_NS together.
 */
#define RECORD_NS 500
#define RECORD_RISE_NS 100
/* Longer times between two heartbeats of a thread count as so long: it may have slept. */
#define WORK_MAX_NS (NSTIME_PER_SEC / 100)
/*
 * The least time of work that a decision assumes, because the coarse clock of heartbeats advances
 * in steps, of this length where the kernel has 250 ticks a second.
 */
#define TICK_NS (NSTIME_PER_SEC / 250)
/* Samples in the window, at least, before the interval doubles; time of work before it halves. */
#define SAMPLES_MIN 32u
#define WINDOW_NS (NSTIME_PER_SEC / 10)
/* The interval halves if the cost is below 1/SPARE of the budget; the cost then about doubles. */
#define SPARE 4u

EARLY_DATA fxp_t opt_prof_budget;
EARLY_DATA atomic_u32_t prof_budget_percent;

static struct {
	atomic_b_t is_deciding;   /* held by the one thread that changes the interval */
	atomic_u64_t record_ns;   /* time to record a sample, learned; 0: RECORD_NS */
	atomic_u64_t nmeasured;   /* samples since the start, measured or not, for MEASURE_EVERY */
	/* Of the window. */
	atomic_u64_t samples;     /* number of samples charged */
	atomic_u64_t cost_ns;     /* what they cost */
	atomic_u64_t work_ns;     /* time that threads worked, all together */
} budget;

static uint64_t
load(const atomic_u64_t *a) {
	return atomic_load_u64(a, MO_RELAXED);
}

static void
window_begin(void) {
	atomic_store_u64(&budget.samples, 0, MO_RELAXED);
	atomic_store_u64(&budget.cost_ns, 0, MO_RELAXED);
	atomic_store_u64(&budget.work_ns, 0, MO_RELAXED);
}

fxp_t
prof_budget_get(void) {
	return atomic_load_u32(&prof_budget_percent, MO_RELAXED);
}

int
prof_budget_set(fxp_t percent) {
	if (percent > PROF_BUDGET_MAX) {
		return EINVAL;
	}
	atomic_store_u32(&prof_budget_percent, percent, MO_RELAXED);
	window_begin();
	if (percent == 0) {
		prof_sample_scale(-64);
	}
	return 0;
}

/* ---------------------------------------------------------------- cost */

static uint64_t
record_ns(void) {
	uint64_t ns = load(&budget.record_ns);
	return ns != 0 ? ns : RECORD_NS;
}

uint64_t
prof_budget_cost(size_t usize) {
	uint64_t pages = usize > SC_SMALL_MAXCLASS ? usize >> LG_PAGE : 0;
	return record_ns() + SAMPLE_NS + pages * (PAGE_NS << LG_PAGE >> 12);
}

void
prof_budget_charge(uint64_t ns) {
	atomic_fetch_add_u64(&budget.samples, 1, MO_RELAXED);
	atomic_fetch_add_u64(&budget.cost_ns, ns, MO_RELAXED);
}

uint64_t
prof_budget_sample_begin(void) {
	bool is_measured = atomic_fetch_add_u64(&budget.nmeasured, 1, MO_RELAXED) % MEASURE_EVERY == 0;
	return is_measured ? nstime_monotonic_ns() : 0;
}

/*
 * Moves the learned time an eighth of the way to a measured one, which is limited, because a sample
 * that was interrupted took long, but costs no more than others.
 */
static void
record_learn(uint64_t ns) {
	uint64_t old = record_ns();
	uint64_t most = old + old / 8 + RECORD_RISE_NS;
	ns = ns < most ? ns : most;
	atomic_store_u64(&budget.record_ns, old - old / 8 + ns / 8 + 1, MO_RELAXED);
}

void
prof_budget_sample_end(uint64_t begun, size_t usize) {
	if (begun != 0) {
		record_learn(nstime_ns_between(begun, nstime_monotonic_ns()));
	}
	prof_budget_charge(prof_budget_cost(usize));
}

/* ---------------------------------------------------------------- decisions */

int
prof_budget_judge(fxp_t percent, uint64_t samples, uint64_t cost_ns, uint64_t work_ns) {
	uint64_t time = work_ns > TICK_NS ? work_ns : TICK_NS;
	uint64_t allowed = (uint64_t)((double)time * percent / (100.0 * FXP_INIT_INT(1)));
	if (cost_ns > allowed) {
		return samples >= SAMPLES_MIN ? 1 : 0;
	}
	return work_ns >= WINDOW_NS && cost_ns < allowed / SPARE ? -1 : 0;
}

void
prof_budget_heartbeat(uint64_t gap_ns) {
	uint64_t work = gap_ns < WORK_MAX_NS ? gap_ns : WORK_MAX_NS;
	if (work != 0) {
		work += atomic_fetch_add_u64(&budget.work_ns, work, MO_RELAXED);
	} else {
		work = load(&budget.work_ns);
	}
	int by = prof_budget_judge(prof_budget_get(), load(&budget.samples), load(&budget.cost_ns),
	    work);
	bool is_over = by != 0 || work >= WINDOW_NS;
	if (likely(!is_over) || atomic_exchange_b(&budget.is_deciding, true, MO_ACQUIRE)) {
		return;
	}
	window_begin();
	if (by != 0) {
		prof_sample_scale(by);
	}
	atomic_store_b(&budget.is_deciding, false, MO_RELEASE);
}
