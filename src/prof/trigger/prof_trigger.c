/*
 * Writes automatic profiles when a threshold is reached: allocated bytes, a large request, live
 * memory, time (prof_trigger.h).
 *
 * Threads add their bytes at heartbeats. Live memory (metric `allocated`) is read only if an upper
 * bound reaches the level of the next crossing (highwater_next()), and for at most 1/READ_SHARE of
 * the time. Invariant: each crossing is handled by exactly one thread, the one whose
 * compare-and-swap succeeds; no thread waits for another. A profile that came due while another was
 * written stays pending, by kind, and is retried at the next heartbeat or by the profiler's thread;
 * one of highwater is found due again at the next read. Locks: `prof_trigger`, short, inside the
 * gate (os/gate.h: fork waits until no thread is inside), for changes of the settings and of
 * whether there is something pending; none is held while a profile is written. Called by prof.c at
 * boot, heartbeats and after fork, by imalloc.c for large requests, by the profiler's thread
 * (prof_control.c) for the timer, highwater and what is pending, by ctl_prof.c, prof_session.c and
 * prof_request.c for settings, and by prof_auto.c for its kinds.
 */
#include "prof/trigger/prof_trigger.h"

#include "os/gate.h"
#include "os/mutex.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/room_group.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/sites/prof_figures.h"
#include "prof/sites/prof_switch.h"
#include "thread/recall.h"
#include "thread/tcache.h"
#include "thread/thread_event.h"

/* Minimum time in ns between two reads of a metric other than `allocated`. */
#define METRIC_GAP_NS (NSTIME_PER_SEC / 10)
/*
 * Reading the metric `allocated` takes at most 1/READ_SHARE of the time; unused time is saved up
 * to READ_CREDIT_MAX ns and may be spent at once.
 */
#define READ_SHARE 50
#define READ_CREDIT_MAX ((int64_t)NSTIME_PER_SEC / 50)
/* The estimated cost of a read rises by at most an eighth and this many ns at a time. */
#define LOOK_RISE_NS 500
/* What timer_tick() returns if there is no timer. */
#define TIMER_NEVER UINT64_MAX

uint64_t opt_prof_thresholds[prof_threshold_n];
prof_metric_t opt_prof_highwater_metric = prof_metric_allocated;
uint32_t opt_prof_highwater_percent[2];
atomic_zu_t prof_trigger_large_min = {SIZE_MAX};
EARLY_DATA void (*prof_trigger_changed_hook)(void);
EARLY_DATA bool (*prof_trigger_has_thread_hook)(void);

const char *const prof_metric_names[] = {"allocated", "active", "resident", "rss", "cgroup",
	NULL};
const char *const prof_threshold_names[] = {
	"alloc", "large", "highwater", "highwater_step", "time_ms", NULL
};
static_assert(ARRAY_LEN(prof_threshold_names) == prof_threshold_n + 1, "a name each");

static struct {
	/*
	 * held while is_armed, prof_trigger_large_min, tcache_slow_min and its bit of
	 * thread_event_waiting are derived from the settings and published
	 */
	mutex_t mtx;
	atomic_u64_t thresholds[prof_threshold_n];
	atomic_u32_t metric;         /* a prof_metric_t */
	atomic_b_t is_armed;         /* heartbeats have something to do */
	atomic_b_t has_pending;      /* some element of pending may be set */
	atomic_u64_t pending[prof_kind_n]; /* value to report, by kind; 0: no profile is pending */
	/* bytes allocated, while is_on(), since the alloc trigger came due last: below its threshold */
	atomic_u64_t alloc_bytes;
	/* The trigger highwater: the metric reaches highwater_next(mark); levels are in bytes. */
	/* the metric at the last read; prof_trigger_rearm() sets the start value */
	atomic_u64_t base;
	atomic_u64_t since;          /* bytes allocated since that read began */
	atomic_u64_t next_look_ns;   /* monotonic time before which the metric is not read */
	/* this and the next two are of the metric `allocated`, for the thread that holds is_looking */
	uint64_t last_look_ns;       /* monotonic time at which the last read ended */
	int64_t credit;              /* ns that may be spent on reads; below 0: must be earned first */
	uint64_t look_ns;            /* estimated cost of one read in ns */
	atomic_b_t is_looking;       /* held by the one thread that reads the metric */
	atomic_u64_t mark;           /* level of the last profile; 0: none since the last rearm */
	atomic_u64_t seen;           /* level of the last crossing, also if no profile was written */
	/* The timer. */
	/* monotonic time of the last firing; 0: the next timer_tick() begins the period */
	atomic_u64_t timer_last_ns;
} trig = {.mtx = MUTEX_INITIALIZER("prof_trigger", WITNESS_RANK_PROF_MISC)};

static uint64_t
load(const atomic_u64_t *a) {
	return atomic_load_u64(a, MO_RELAXED);
}

static void
store(atomic_u64_t *a, uint64_t v) {
	atomic_store_u64(a, v, MO_RELAXED);
}

/* ---------------------------------------------------------------- hooks of the library */

static bool
real_is_on(void) {
	return prof_switch_is_ready() && prof_switch_is_active() && !prof_sys_prefix_is_empty();
}

/* The metric in bytes, 0 if it cannot be read; inside the gate. */
static uint64_t
figure(prof_metric_t metric) {
	assert(gate_is_entered(tls_get()));
	switch (metric) {
	case prof_metric_allocated:
		return prof_figures_live();
	case prof_metric_active:
		return prof_figures_active();
	case prof_metric_rss:
		return prof_sys_rss(NULL);
	case prof_metric_cgroup:
		return room_group_current();
	default:
		return prof_figures_resident();
	}
}

static uint64_t
real_read(prof_metric_t metric) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	uint64_t value = figure(metric);
	gate_exit(t);
	return value;
}

static int
real_dump(prof_kind_t kind, const char *metric, uint64_t value) {
	prof_dump_t d = {.kind = kind, .metric = metric, .metric_value = value};
	return prof_dump(&d);
}

bool
prof_trigger_is_kept_off(void) {
	return prof_dump_is_busy() && !prof_trigger_has_thread_hook();
}

const prof_trigger_hooks_t prof_trigger_hooks_real = {
	.now_ns = nstime_monotonic_ns,
	.is_on = real_is_on,
	.read = real_read,
	.dump = real_dump,
};
const prof_trigger_hooks_t *prof_trigger_hooks = &prof_trigger_hooks_real;

/* ---------------------------------------------------------------- thresholds */

/*
 * Makes requests of at least `min` bytes take the slow path. strict: single large requests or exact
 * bytes matter, so no large request passes without a heartbeat (thread_event_wait_set).
 */
static void
watch_from(size_t min, bool strict) {
	mutex_assert_owner(&trig.mtx);
	bool is_changed = thread_event_wait_set(THREAD_EVENT_FOR_PROF, strict);
	if (is_changed || atomic_load_zu(&tcache_slow_min, MO_RELAXED) != min) {
		atomic_store_zu(&tcache_slow_min, min, MO_SEQ_CST);
		recall_all(RECALL_SETTINGS);
	}
}

/*
 * Derives is_armed and what the allocator compares with from the settings, and publishes them under
 * one hold of the lock, so that of two changes the later one holds. Called at boot, after each
 * change of a threshold, and when the first profile becomes pending or the last one was written.
 */
static void
trigger_arm(void) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	mutex_lock(&trig.mtx);
	bool armed = load(&trig.thresholds[prof_threshold_alloc]) != 0
	    || load(&trig.thresholds[prof_threshold_highwater]) != 0
	    || load(&trig.thresholds[prof_threshold_time_ms]) != 0
	    || atomic_load_b(&trig.has_pending, MO_RELAXED);
	uint64_t large = load(&trig.thresholds[prof_threshold_large]);
	size_t min = large == 0 ? SIZE_MAX : (size_t)large;
	atomic_store_zu(&prof_trigger_large_min, min, MO_RELAXED);
	/* Before arming: a thread that becomes strict forgets the bytes that it has not reported. */
	watch_from(min, armed || large != 0 || opt_lg_prof_interval >= 0);
	atomic_store_b(&trig.is_armed, armed, MO_SEQ_CST);
	if (!armed && atomic_load_b(&trig.has_pending, MO_SEQ_CST)) {
		atomic_store_b(&trig.is_armed, true, MO_RELAXED); /* keep_pending() still saw it armed */
	}
	mutex_unlock(&trig.mtx);
	if (armed || large != 0) {
		prof_keep_prepare();
	}
	gate_exit(t);
}

uint64_t
prof_threshold_get(prof_threshold_t t) {
	assert(t < prof_threshold_n);
	return load(&trig.thresholds[t]);
}

void
prof_threshold_set(prof_threshold_t t, uint64_t value) {
	assert(t < prof_threshold_n);
	store(&trig.thresholds[t], value);
	switch (t) {
	case prof_threshold_alloc:
		store(&trig.alloc_bytes, 0);
		break;
	case prof_threshold_highwater:
		prof_trigger_rearm();
		break;
	case prof_threshold_time_ms:
		store(&trig.timer_last_ns, 0);
		break;
	default:
		break;
	}
	trigger_arm();
	prof_trigger_changed_hook();
}

prof_metric_t
prof_threshold_metric_get(void) {
	return (prof_metric_t)atomic_load_u32(&trig.metric, MO_RELAXED);
}

void
prof_threshold_metric_set(prof_metric_t metric) {
	assert(metric < prof_metric_n);
	atomic_store_u32(&trig.metric, metric, MO_RELAXED);
	prof_trigger_rearm(); /* a level of one metric means nothing for another */
}

bool
prof_metric_is_there(prof_metric_t metric, const char **why) {
	*why = "highwater_metric: cgroup: this process is in no control group whose memory it can read";
	return metric != prof_metric_cgroup || room_group_look();
}

int
prof_threshold_of_percent(prof_metric_t metric, uint32_t percent, uint64_t *bytes,
    const char **why) {
	assert(percent > 0 && percent <= 100);
	*why = "percent are of the limit of highwater_metric:cgroup or, with rss, of the machine";
	if (metric != prof_metric_cgroup && metric != prof_metric_rss) {
		return EINVAL;
	}
	uint64_t whole = metric == prof_metric_cgroup ? room_group_limit() : room_machine();
	if (whole == 0) {
		*why = metric == prof_metric_cgroup ? "the control group of this process has no limit of "
		    "memory that it can read, so there are no percent of it"
		    : "the memory of the machine is not known";
		return EINVAL;
	}
	*bytes = whole / 100 * percent + whole % 100 * percent / 100;
	return 0;
}

/*
 * Replaces options given in percent by bytes, or by 0 with a message; prints a message if the
 * metric cannot be read.
 */
static void
percent_boot(void) {
	const char *why = "";
	for (unsigned i = 0; i < ARRAY_LEN(opt_prof_highwater_percent); i++) {
		uint32_t percent = opt_prof_highwater_percent[i];
		uint64_t *bytes = &opt_prof_thresholds[prof_threshold_highwater + i];
		if (percent != 0 && prof_threshold_of_percent(opt_prof_highwater_metric, percent, bytes,
		    &why) != 0) {
			*bytes = 0;
			malloc_printf("<jemalloc>: Invalid conf value: %s:%u%%: %s\n", i == 0
			    ? "prof_threshold_highwater" : "prof_highwater_step", percent, why);
		}
	}
	if (!prof_metric_is_there(opt_prof_highwater_metric, &why)) {
		malloc_printf("<jemalloc>: prof_%s\n", why);
	}
}

void
prof_trigger_rearm(void) {
	store(&trig.mark, 0);
	store(&trig.seen, 0);
	/* The upper bound starts at its maximum, so that the first look reads the true value. */
	store(&trig.base, UINT64_MAX / 2);
	store(&trig.next_look_ns, 0);
}

void
prof_trigger_restart(void) {
	store(&trig.alloc_bytes, 0);
	store(&trig.timer_last_ns, 0);
	for (unsigned i = 0; i < prof_kind_n; i++) {
		store(&trig.pending[i], 0);
	}
	prof_trigger_rearm();
}

void
prof_trigger_boot(void) {
	assert(opt_prof_highwater_metric < prof_metric_n);
	percent_boot();
	atomic_store_u32(&trig.metric, opt_prof_highwater_metric, MO_RELAXED);
	for (unsigned i = 0; i < prof_threshold_n; i++) {
		store(&trig.thresholds[i], opt_prof_thresholds[i]);
	}
	prof_trigger_rearm();
	trigger_arm();
}

void
prof_trigger_postfork_child(void) {
	atomic_store_b(&trig.is_looking, false, MO_RELAXED);
	prof_trigger_restart();
}

/* ---------------------------------------------------------------- firing */

/* Writes the profile after prof_keep_try_turn() has permitted it; gives the turn back on EBUSY. */
static int
trigger_dump(const prof_keep_turn_t *turn, const char *metric, uint64_t value) {
	assert(turn->kind < prof_kind_n);
	int err = prof_trigger_hooks->dump(turn->kind, metric, value);
	if (err == EBUSY) {
		prof_keep_release(turn);
	}
	return err;
}

/*
 * Writes the profile if the switches and prof_keep permit it. Returns 0, EBUSY (another dump runs,
 * try again), EAGAIN (left out; counted as suppressed unless prof.active is false or the prefix is
 * empty), or the errno of the failed write.
 */
static int
fire(prof_kind_t kind, const char *metric, uint64_t value) {
	assert(kind < prof_kind_n);
	if (!prof_trigger_hooks->is_on()) {
		return EAGAIN;
	}
	prof_keep_turn_t turn;
	if (!prof_keep_try_turn(kind, prof_trigger_hooks->now_ns(), &turn)) {
		prof_keep_suppress();
		return EAGAIN;
	}
	return trigger_dump(&turn, metric, value);
}

/* What a profile of this kind names as its metric; NULL: nothing. */
static const char *
kind_metric(prof_kind_t kind) {
	if (kind == prof_kind_highwater) {
		return prof_metric_names[prof_threshold_metric_get()];
	}
	return kind == prof_kind_timer ? "time_ms"
	    : kind == prof_kind_alloc || kind == prof_kind_large ? prof_kind_name(kind) : NULL;
}

/*
 * Leaves the profile pending, for the next heartbeat of any thread or for the profiler's thread;
 * value (> 0) is what it reports, in bytes or ms, if it names a metric. This happens often while
 * another profile is written, and then takes a lock only the first time.
 */
static void
keep_pending(prof_kind_t kind, uint64_t value) {
	assert(kind < prof_kind_n);
	assert(value != 0);
	prof_keep_overlap(); /* before fire_pending() can see the value */
	atomic_store_u64(&trig.pending[kind], value, MO_RELEASE);
	atomic_store_b(&trig.has_pending, true, MO_SEQ_CST);
	if (!atomic_load_b(&trig.is_armed, MO_SEQ_CST)) {
		trigger_arm();
	}
}

void
prof_trigger_due(prof_kind_t kind, uint64_t value) {
	if (fire(kind, kind_metric(kind), value) == EBUSY) {
		keep_pending(kind, value);
	}
}

/* Writes what is pending. Of several threads that come at once one does so. */
static void
fire_pending(void) {
	if (likely(!atomic_load_b(&trig.has_pending, MO_RELAXED))
	    || !atomic_exchange_b(&trig.has_pending, false, MO_ACQUIRE)) {
		return;
	}
	for (unsigned kind = 0; kind < prof_kind_n; kind++) {
		uint64_t value = atomic_exchange_u64(&trig.pending[kind], 0, MO_ACQUIRE);
		if (value != 0) {
			prof_keep_overlap_retry();
			prof_trigger_due((prof_kind_t)kind, value);
		}
	}
	if (!atomic_load_b(&trig.has_pending, MO_RELAXED)) {
		trigger_arm();
	}
}

/* ---------------------------------------------------------------- bytes, large requests */

/* Adds a thread's bytes; the thread by whose bytes the threshold is reached writes the profile. */
static void
alloc_heartbeat(uint64_t bytes) {
	uint64_t threshold = load(&trig.thresholds[prof_threshold_alloc]);
	if (threshold != 0 && prof_trigger_hooks->is_on()) {
		uint64_t sum = atomic_sum_try_reach(&trig.alloc_bytes, bytes, threshold);
		if (sum != 0) {
			prof_trigger_due(prof_kind_alloc, sum);
		}
	}
}

void
prof_trigger_large(size_t size) {
	uint64_t threshold = load(&trig.thresholds[prof_threshold_large]);
	assert(tls_get()->inside <= 1 && tls_get()->gate_depth <= 1);
	if (threshold != 0 && size >= threshold) {
		prof_trigger_due(prof_kind_large, size);
	}
}

/* ---------------------------------------------------------------- high water */

/* The level from which on there is a crossing, if the last profile was at `mark` (0: none was). */
static uint64_t
highwater_next(uint64_t mark) {
	uint64_t threshold = load(&trig.thresholds[prof_threshold_highwater]);
	uint64_t step = load(&trig.thresholds[prof_threshold_highwater_step]);
	if (threshold == 0) {
		return UINT64_MAX; /* was switched off meanwhile */
	}
	if (mark == 0) {
		return threshold;
	}
	step = step != 0 ? step : threshold / 8 + 1;
	return mark > UINT64_MAX - step ? UINT64_MAX : mark + step;
}

/*
 * Sets the mark and writes the profile of a crossing. The mark is set before the profile can be
 * seen: if who sees it rearms the trigger, the mark must not be set after that. While another
 * profile is written, sets the mark back, so that the next read finds the crossing again.
 */
static void
highwater_dump(const prof_keep_turn_t *turn, uint64_t mark, uint64_t level) {
	assert(level > mark);
	if (!atomic_cas_strong_u64(&trig.mark, &mark, level, MO_RELAXED, MO_RELAXED)) {
		prof_keep_release(turn); /* rearmed meanwhile, so the next heartbeat reads again */
		return;
	}
	store(&trig.seen, level);
	if (trigger_dump(turn, kind_metric(prof_kind_highwater), level) == EBUSY) {
		atomic_cas_strong_u64(&trig.mark, &level, mark, MO_RELAXED, MO_RELAXED);
	}
}

/*
 * Writes a profile because the metric, now `level`, has reached highwater_next(mark), or counts it
 * as suppressed; needs is_looking.
 */
static void
highwater_crossed(uint64_t mark, uint64_t level) {
	assert(atomic_load_b(&trig.is_looking, MO_RELAXED));
	prof_keep_turn_t turn;
	if (prof_keep_try_turn(prof_kind_highwater, prof_trigger_hooks->now_ns(), &turn)) {
		highwater_dump(&turn, mark, level);
	} else if (level >= highwater_next(load(&trig.seen))) {
		/*
		 * Counted once for each step. If the level is still as high when the gap is over, its
		 * profile is written.
		 */
		store(&trig.seen, level);
		prof_keep_suppress();
	}
}

/*
 * Updates the estimated cost of a read. A read that took long because the thread was preempted cost
 * no more than others, so one read raises the estimate by a bounded amount.
 */
static void
look_learn(uint64_t ns) {
	uint64_t most = trig.look_ns + trig.look_ns / 8 + LOOK_RISE_NS;
	trig.look_ns = ns < most ? ns : most;
}

/*
 * Charges a read that lasted from `now` to `end` to the credit, and returns the monotonic time in
 * ns before which there is no other read; 0: there may be one at once. Needs is_looking.
 */
static uint64_t
look_paid(uint64_t now, uint64_t end) {
	assert(atomic_load_b(&trig.is_looking, MO_RELAXED));
	look_learn(nstime_ns_between(now, end));
	uint64_t earned = nstime_ns_between(trig.last_look_ns, now) / READ_SHARE;
	trig.credit += earned > (uint64_t)READ_CREDIT_MAX ? READ_CREDIT_MAX : (int64_t)earned;
	trig.credit = trig.credit > READ_CREDIT_MAX ? READ_CREDIT_MAX : trig.credit;
	trig.credit -= (int64_t)trig.look_ns;
	trig.last_look_ns = end;
	return trig.credit >= 0 ? 0 : end + (uint64_t)-trig.credit * READ_SHARE;
}

/* Reads the metric, stores the new upper bound, and handles a crossing; needs is_looking. */
static void
highwater_look(prof_metric_t metric, uint64_t now) {
	assert(metric < prof_metric_n);
	uint64_t since = load(&trig.since);
	uint64_t level = prof_trigger_hooks->read(metric);
	store(&trig.next_look_ns, metric == prof_metric_allocated
	    ? look_paid(now, prof_trigger_hooks->now_ns()) : now + METRIC_GAP_NS);
	store(&trig.base, level);
	atomic_fetch_sub_u64(&trig.since, since, MO_RELAXED);
	uint64_t mark = load(&trig.mark);
	if (level >= highwater_next(mark)) {
		highwater_crossed(mark, level);
	}
}

/* Adds a thread's bytes to the upper bound, and reads the metric if that is needed and allowed. */
static void
highwater_heartbeat(uint64_t bytes) {
	if (load(&trig.thresholds[prof_threshold_highwater]) == 0) {
		return;
	}
	prof_metric_t metric = prof_threshold_metric_get();
	uint64_t bound = load(&trig.base) + bytes
	    + atomic_fetch_add_u64(&trig.since, bytes, MO_RELAXED);
	if (metric == prof_metric_allocated && bound < highwater_next(load(&trig.mark))) {
		return;
	}
	uint64_t now = prof_trigger_hooks->now_ns();
	if (now < load(&trig.next_look_ns) || !prof_trigger_hooks->is_on()
	    || atomic_exchange_b(&trig.is_looking, true, MO_ACQUIRE)) {
		return;
	}
	highwater_look(metric, now);
	atomic_store_b(&trig.is_looking, false, MO_RELEASE);
}

/* ---------------------------------------------------------------- time */

/* Fires the timer if it is due; returns the ns until it is due next, or TIMER_NEVER. */
static uint64_t
timer_tick(void) {
	uint64_t ms = load(&trig.thresholds[prof_threshold_time_ms]);
	if (ms == 0 || !prof_trigger_hooks->is_on()) {
		store(&trig.timer_last_ns, 0);
		return TIMER_NEVER;
	}
	uint64_t period = ms > UINT64_MAX / NSTIME_PER_MSEC / 2 ? UINT64_MAX / 2
	    : ms * NSTIME_PER_MSEC;
	assert(period > 0);
	uint64_t now = prof_trigger_hooks->now_ns();
	uint64_t last = load(&trig.timer_last_ns);
	if (last == 0 || now < last) {
		store(&trig.timer_last_ns, now);
		return period;
	}
	if (now - last < period) {
		return period - (now - last);
	}
	if (atomic_cas_strong_u64(&trig.timer_last_ns, &last, now, MO_RELAXED, MO_RELAXED)) {
		prof_trigger_due(prof_kind_timer, (now - last) / NSTIME_PER_MSEC);
	}
	return period;
}

/* ---------------------------------------------------------------- heartbeat and timer */

void
prof_trigger_heartbeat(uint64_t bytes) {
	if (likely(!atomic_load_b(&trig.is_armed, MO_RELAXED))) {
		return;
	}
	fire_pending();
	alloc_heartbeat(bytes);
	highwater_heartbeat(bytes);
	if (unlikely(load(&trig.thresholds[prof_threshold_time_ms]) != 0)
	    && !prof_trigger_has_thread_hook()) {
		timer_tick();
	}
}

uint64_t
prof_trigger_tick(void) {
	fire_pending();
	highwater_heartbeat(0);
	return timer_tick();
}

bool
prof_trigger_wants_thread(void) {
	return load(&trig.thresholds[prof_threshold_time_ms]) != 0 && (opt_prof || prof_is_booted());
}
