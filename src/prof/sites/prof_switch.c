/*
 * The switches of the profiler as atomic words, the sampling rate, and prof_reset().
 *
 * Invariant: from prof_switch_set_ready() on, whenever the lock `prof_switch` (switches.mtx) is
 * free, the interval that prof_sample.c publishes (or that it publishes none) and
 * pac_new_maximum_hook follow from the switches: a switch and what follows from it change under one
 * hold of the lock, inside the fork gate (os/gate.h). The rate changes under prof_sample.c's own
 * lock. Setters enter the gate; their callers mostly are inside already and may hold locks of lower
 * rank. Readers take no lock. Set by ctl_prof.c, prof_session.c, prof_start.c and, for tracers,
 * prof_listen.c; read by most of the profiler, stats.c and ctl.
 */
#include "prof/sites/prof_switch.h"

#include "extent/pac.h"
#include "os/gate.h"
#include "os/nstime.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_sample.h"
#include "util/bits.h"

atomic_b_t prof_switch_active;
/* prof_switch_active or switches.listener_interval, as switches_apply_locked() found them last */
atomic_b_t prof_switch_wants_samples;

/*
 * All fields and the two words above change only under mtx; after a change switches_apply_locked()
 * publishes the result before mtx is released. Exception: prof_switch_boot(), before is_booted is
 * true. Under mtx the locks of prof_sample.c are taken.
 */
static struct {
	mutex_t mtx;
	atomic_b_t is_booted;
	atomic_b_t is_ready;
	atomic_b_t thread_active_init; /* thread.prof.active of threads that get a record from now on */
	atomic_b_t gdump;              /* prof.gdump */
	atomic_u64_t listener_interval; /* bytes between samples for a tracer; 0: none is attached */
	/* pac_new_maximum_hook while gdump is on; NULL before prof_switch_set_ready() */
	void (*gdump_due)(void);
} switches = {.mtx = MUTEX_INITIALIZER("prof_switch", WITNESS_RANK_PROF_MISC)};

EARLY_DATA void (*prof_switch_changed_hook)(void);

bool
prof_is_booted(void) {
	return atomic_load_b(&switches.is_booted, MO_ACQUIRE);
}

bool
prof_switch_is_ready(void) {
	return atomic_load_b(&switches.is_ready, MO_ACQUIRE);
}

uint64_t
prof_switch_begun_ns(void) {
	return __atomic_load_n(&prof_root()->begun_ns, MO_RELAXED);
}

/*
 * Sets sampling and pac's hook according to the switches, and notes when counting begins. After
 * prof_sample_switch(false) prof_sample.c publishes the rate of the tracer, if there is one.
 */
static void
switches_apply_locked(void) {
	mutex_assert_owner(&switches.mtx);
	bool ready = prof_switch_is_ready();
	assert(prof_is_booted() && (!ready || switches.gdump_due != NULL));
	bool gdump = ready && atomic_load_b(&switches.gdump, MO_RELAXED);
	bool wants = prof_switch_is_active() || prof_switch_has_listener();
	atomic_store_b(&prof_switch_wants_samples, wants, MO_RELAXED);
	if (ready && wants && prof_switch_begun_ns() == 0) {
		__atomic_store_n(&prof_root()->begun_ns, nstime_monotonic_ns(), MO_RELAXED);
	}
	prof_sample_switch(ready && prof_switch_is_active(),
	    atomic_load_u64(&switches.listener_interval, MO_RELAXED));
	__atomic_store_n(&pac_new_maximum_hook, gdump ? switches.gdump_due : NULL, MO_RELEASE);
}

void
prof_switch_boot(void) {
	assert(!prof_is_booted() && !prof_switch_is_ready());
	atomic_store_b(&prof_switch_active, opt_prof_active, MO_RELAXED);
	atomic_store_b(&switches.thread_active_init, opt_prof_thread_active_init, MO_RELAXED);
	atomic_store_b(&switches.gdump, opt_prof_gdump, MO_RELAXED);
	atomic_store_b(&switches.is_booted, true, MO_RELEASE);
}

void
prof_switch_set_ready(void (*gdump_due)(void)) {
	gate_lock(&switches.mtx);
	switches.gdump_due = gdump_due;
	atomic_store_b(&switches.is_ready, true, MO_RELEASE);
	switches_apply_locked();
	gate_unlock(&switches.mtx);
	prof_switch_changed_hook();
}

/* ---------------------------------------------------------------- tracers */

bool
prof_switch_has_listener(void) {
	return atomic_load_u64(&switches.listener_interval, MO_RELAXED) != 0;
}

void
prof_switch_listener_set(uint64_t interval) {
	assert(prof_switch_is_ready());
	gate_lock(&switches.mtx);
	atomic_store_u64(&switches.listener_interval, interval, MO_RELAXED);
	switches_apply_locked();
	gate_unlock(&switches.mtx);
}

/* ---------------------------------------------------------------- prof.active and the like */

/* Sets one switch and publishes the result. 0, or ENOENT if the profiler is not booted. */
static int
switch_set(atomic_b_t *s, bool on) {
	if (!prof_is_booted()) {
		return ENOENT;
	}
	/* Without the lock the slower of two setters could publish an outdated state. */
	gate_lock(&switches.mtx);
	if (atomic_exchange_b(s, on, MO_ACQ_REL) != on) {
		switches_apply_locked();
	}
	gate_unlock(&switches.mtx);
	prof_switch_changed_hook();
	return 0;
}

int
prof_active_set(bool active) {
	int err = switch_set(&prof_switch_active, active);
	return active ? err : 0;
}

bool
prof_thread_active_init_get(void) {
	return atomic_load_b(&switches.thread_active_init, MO_RELAXED);
}

int
prof_thread_active_init_set(bool active) {
	return switch_set(&switches.thread_active_init, active);
}

bool
prof_gdump_get(void) {
	return atomic_load_b(&switches.gdump, MO_RELAXED);
}

int
prof_gdump_set(bool active) {
	return switch_set(&switches.gdump, active);
}

/* ---------------------------------------------------------------- rates */

uint64_t
prof_interval_get(void) {
	assert(opt_lg_prof_interval >= -1 && opt_lg_prof_interval < 64);
	return prof_is_booted() && opt_lg_prof_interval >= 0 ? UINT64_C(1) << opt_lg_prof_interval : 0;
}

size_t
prof_sample_interval_get(void) {
	return (size_t)prof_sample_rate();
}

size_t
prof_lg_sample_get(void) {
	size_t rate = prof_sample_interval_get();
	return rate == 0 ? 0 : lg_floor_zu(rate);
}

int
prof_sample_interval_set(size_t bytes) {
	if (!prof_is_booted()) {
		return ENOENT;
	}
	if (bytes == 0) {
		return EINVAL;
	}
	prof_sample_rate_set(bytes);
	return 0;
}

int
prof_reset(size_t lg_sample) {
	if (!prof_is_booted()) {
		return ENOENT;
	}
	if (lg_sample != SIZE_MAX) {
		prof_sample_rate_set(UINT64_C(1) << min_zu(lg_sample, 63));
	}
	/* After the new rate, so that hardly any sample of the old one is counted after the reset. */
	gate_enter(tls_get());
	prof_data_reset();
	if (prof_switch_begun_ns() != 0) {
		__atomic_store_n(&prof_root()->begun_ns, nstime_monotonic_ns(), MO_RELAXED);
	}
	gate_exit(tls_get());
	return 0;
}
