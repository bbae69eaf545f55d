/*
 * Keeps the cost of samples below a share of the time that threads work (prof_budget.h).
 *
 * Invariant: the sums belong to one window, which begins anew with each decision, after WINDOW_NS
 * of work at the latest, and when the budget is set. What a window cost above the budget is a debt,
 * part of the cost of the next one, so that the interval does not halve before it is paid: else a
 * few costly samples, each followed by windows without one, would exceed the budget in the long
 * run. What other threads add while a window begins may be lost. One thread at a time decides
 * (budget.is_deciding). Locks: none; prof_sample_scale() has its own. Called by prof.c at boot,
 * samples and heartbeats, by ctl_prof.c and prof_session.c to set and read the budget, and by
 * prof_request.c to read it.
 */
#include "prof/trigger/prof_budget.h"

#include "os/nstime.h"
#include "prof/sites/prof_sample.h"

/* One of so many samples is measured: two looks at the clock cost a good part of a sample. */
#define MEASURE_EVERY 8u
/*
 * What cannot be measured where a sample is recorded, in ns: the slow path that led there, taking a
 * small object from a slab of samples, and the free. A large object comes from where it would come
 * from without the sample, so its pages cost nothing more.
 */
#define SAMPLE_NS 300
/*
 * RECORD_NS: the learned time to record a sample, before one was measured. A measurement counts as
 * at most the learned time, an eighth of it and RECORD_RISE_NS together.
 */
#define RECORD_NS 500
#define RECORD_RISE_NS 100
/* Longer times (ns) between two heartbeats of a thread count as so long: it may have slept. */
#define WORK_MAX_NS (NSTIME_PER_SEC / 100)
/*
 * The least time of work (ns) that a decision assumes, because the coarse clock of heartbeats
 * advances in steps, of this length where the kernel has 250 ticks a second.
 */
#define TICK_NS (NSTIME_PER_SEC / 250)
/*
 * The interval doubles after at least SAMPLES_MIN samples of the window, or at its end, after
 * WINDOW_NS of work, if there was a sample; it halves at the end only.
 */
#define SAMPLES_MIN 32u
#define WINDOW_NS (NSTIME_PER_SEC / 10)
/* A debt is at most what the budget allows in so much time of work: then it is paid. */
#define DEBT_MAX_NS (60 * NSTIME_PER_SEC)
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
	atomic_u64_t cost_ns;     /* what they cost, and the debt of the windows before */
	atomic_u64_t work_ns;     /* time that threads worked, all together */
} budget;

static uint64_t
load(const atomic_u64_t *a) {
	return atomic_load_u64(a, MO_RELAXED);
}

static void
window_begin(uint64_t debt) {
	atomic_store_u64(&budget.samples, 0, MO_RELAXED);
	atomic_store_u64(&budget.cost_ns, debt, MO_RELAXED);
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
	window_begin(0);
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
prof_budget_sample_end(uint64_t begun) {
	if (begun != 0) {
		record_learn(nstime_ns_between(begun, nstime_monotonic_ns()));
	}
	prof_budget_charge(record_ns() + SAMPLE_NS);
}

/* ---------------------------------------------------------------- decisions */

/* What samples may cost in so much time of work. */
static uint64_t
allowed_ns(fxp_t percent, uint64_t work_ns) {
	uint64_t time = work_ns > TICK_NS ? work_ns : TICK_NS;
	return (uint64_t)((double)time * percent / (100.0 * FXP_INIT_INT(1)));
}

int
prof_budget_judge(fxp_t percent, uint64_t samples, uint64_t cost_ns, uint64_t work_ns) {
	uint64_t allowed = allowed_ns(percent, work_ns);
	if (cost_ns > allowed) {
		/* A debt alone, without samples, is paid off by the time of work. */
		return samples >= (work_ns < WINDOW_NS ? SAMPLES_MIN : 1) ? 1 : 0;
	}
	return work_ns >= WINDOW_NS && cost_ns < allowed / SPARE ? -1 : 0;
}

/* What a window leaves to the next one to pay. */
static uint64_t
debt_ns(fxp_t percent, uint64_t cost_ns, uint64_t work_ns) {
	uint64_t allowed = allowed_ns(percent, work_ns);
	uint64_t debt = cost_ns > allowed ? cost_ns - allowed : 0;
	uint64_t most = allowed_ns(percent, DEBT_MAX_NS);
	return debt < most ? debt : most;
}

void
prof_budget_heartbeat(uint64_t gap_ns) {
	uint64_t work = gap_ns < WORK_MAX_NS ? gap_ns : WORK_MAX_NS;
	if (work != 0) {
		work += atomic_fetch_add_u64(&budget.work_ns, work, MO_RELAXED);
	} else {
		work = load(&budget.work_ns);
	}
	fxp_t percent = prof_budget_get();
	uint64_t cost = load(&budget.cost_ns);
	int by = prof_budget_judge(percent, load(&budget.samples), cost, work);
	bool is_over = by != 0 || work >= WINDOW_NS;
	if (likely(!is_over) || atomic_exchange_b(&budget.is_deciding, true, MO_ACQUIRE)) {
		return;
	}
	window_begin(debt_ns(percent, cost, work));
	if (by != 0) {
		prof_sample_scale(by);
		if (prof_budget_get() == 0) { /* set meanwhile; then nobody decides any more */
			prof_sample_scale(-64);
		}
	}
	atomic_store_b(&budget.is_deciding, false, MO_RELEASE);
}
