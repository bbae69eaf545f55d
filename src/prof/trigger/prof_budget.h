/*
 * The budget: a ceiling for what sampling costs, in percent of the time that threads work (option
 * prof_budget, node prof.budget).
 *
 * The cost of each sample is charged (added to a sum), and the time that threads work is estimated.
 * The sampling interval doubles when the cost is above the budget. It halves, but not below the
 * interval that was set, when the cost is far below the budget. What was spent above the budget is
 * a debt, which is paid off before the interval halves: otherwise a few costly samples would exceed
 * the budget in the long run. Each sample is weighed by the interval with which it was drawn, so a
 * change of the interval does not bias the estimates. No system call is made: one of 8 samples is
 * measured, by a clock that needs none, and from it the time to record a sample is learned. Every
 * sample, measured or not, is charged the learned time and a constant (SAMPLE_NS in prof_budget.c)
 * for its cost outside the recording. A thread that has had a sample is taken to work from one
 * heartbeat (thread/thread_event.h) to the next, but not for longer than 10 ms. No locks but that
 * of prof_sample.c. Called by prof.c at boot, samples and heartbeats, by ctl_prof.c, prof_session.c
 * and prof_request.c for the value.
 */
#pragma once

#include "util/atomic.h"
#include "util/compiler.h"
#include "util/fxp.h"

/* Option: percent, as a fixed-point number (util/fxp.h); 0: no ceiling. */
extern HIDDEN fxp_t opt_prof_budget;
/* The largest budget. */
#define PROF_BUDGET_MAX FXP_INIT_INT(100)

/* The budget that holds now. */
fxp_t prof_budget_get(void);
/*
 * Sets the budget and forgets the debt. Returns 0, or EINVAL above PROF_BUDGET_MAX. If percent is
 * 0, the sampling interval goes back to the interval that was set.
 */
int prof_budget_set(fxp_t percent);

/* The budget that holds now: an fxp_t, percent. Written by prof_budget_set() and _boot(). */
extern HIDDEN atomic_u32_t prof_budget_percent;
/*
 * Takes over the option; called by prof_boot_conf(). Inline, so that the start of a program does
 * not touch the page of prof_budget.c.
 */
static inline void
prof_budget_boot(void) {
	atomic_store_u32(&prof_budget_percent, opt_prof_budget, MO_RELAXED);
}
static inline bool
prof_budget_is_on(void) {
	return unlikely(atomic_load_u32(&prof_budget_percent, MO_RELAXED) != 0);
}

/*
 * Called around the recording of a sample while the budget is on. _begin returns what _end gets:
 * the monotonic time in ns, or 0 if this sample is not measured. _end charges the sample in both
 * cases, with the learned time and the constant, also if there was no memory for its count; it is
 * not called if no stack could be read.
 */
uint64_t prof_budget_sample_begin(void);
void prof_budget_sample_end(uint64_t begun);
/*
 * Called at heartbeats while the budget and prof.active are on; changes the interval if it is time.
 * gap_ns: time since the thread's last heartbeat; 0: not known.
 */
void prof_budget_heartbeat(uint64_t gap_ns);

/*
 * Charges one sample, which cost so many ns (not multiplied for samples that are not measured); for
 * tests, and for prof_budget_sample_end().
 */
void prof_budget_charge(uint64_t ns);

/*
 * The rule, as a pure function for tests: +1 to double the interval, -1 to halve it, 0 to leave it,
 * by the budget (percent), the number of samples in a window, cost_ns: their cost and the debt of
 * windows before, and work_ns: the time that threads worked in it. A window ends with a result
 * other than 0, or after 100 ms of the work of all threads together.
 */
int prof_budget_judge(fxp_t percent, uint64_t samples, uint64_t cost_ns, uint64_t work_ns);
