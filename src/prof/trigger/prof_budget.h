/*
 * The budget: a ceiling for what sampling costs, in percent of the time that threads work (option
 * prof_budget, node prof.budget).
 *
 * What samples cost is charged, the time that threads work is counted, and the sampling interval
 * doubles when the cost is above the budget and halves, down to the one that was set, when it is
 * far below. What samples have cost above the budget is paid off before the interval halves, so
 * that also few dear samples keep to the budget in the long run. Each sample has the weight of its
 * own interval, so estimates stay right. No system call is made for it: of every 8 samples the time
 * of one is measured, by a clock that needs none; what cannot be measured there has a constant
 * (prof_budget.c); and a thread is taken to work from one heartbeat (thread/thread_event.h) to the
 * next, but not for longer than 10 ms. No locks. Called by prof.c at samples and heartbeats, by
 * ctl_prof.c, prof_session.c and prof_request.c for the value.
 */
#ifndef PROF_BUDGET_H
#define PROF_BUDGET_H

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
 * Returns 0, or EINVAL above PROF_BUDGET_MAX. If percent is 0, the sampling interval becomes the
 * one that was set.
 */
int prof_budget_set(fxp_t percent);

/* The budget as a word, for the inline functions below; prof_budget_set() changes it. */
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
 * the monotonic time in ns, or 0 if this sample is not measured.
 */
uint64_t prof_budget_sample_begin(void);
void prof_budget_sample_end(uint64_t begun);
/*
 * Called at heartbeats while the budget and prof.active are on; changes the interval if it is time.
 * gap_ns: time since the thread's last heartbeat; 0: not known.
 */
void prof_budget_heartbeat(uint64_t gap_ns);

/* Charges a sample of so many ns; for tests, and for prof_budget_sample_end(). */
void prof_budget_charge(uint64_t ns);

/*
 * The rule, as a pure function for tests: +1 to double the interval, -1 to halve it, 0 to leave it,
 * from the number of samples in a window (prof_budget.c), their cost with the debt of windows
 * before, and the time of work.
 */
int prof_budget_judge(fxp_t percent, uint64_t samples, uint64_t cost_ns, uint64_t work_ns);

#endif /* PROF_BUDGET_H */
