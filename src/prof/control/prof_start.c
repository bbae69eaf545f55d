/*
 * Starts the profiler: makes the site tables, then the modules above them, in two steps
 * (prof_start.h).
 *
 * Invariant: prof_is_booted() becomes true last in the first step, when all that samples need
 * exists; the second step switches sampling on. Locks: `prof_start`, taken inside the fork gate
 * (os/gate.h), lets one thread take both steps after boot; at boot the steps run under the lock of
 * boot. Called by jemalloc_init.c at boot; after boot by prof_session.c and prof_listen.c.
 */
#include "prof/control/prof_start.h"

#include "os/gate.h"
#include "os/mutex.h"
#include "prof/file/prof_course.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_log.h"
#include "prof/file/prof_recent.h"
#include "prof/file/prof_sys.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_sample.h"
#include "prof/sites/prof_switch.h"
#include "prof/trigger/prof_auto.h"

static mutex_t start_mtx = MUTEX_INITIALIZER("prof_start", WITNESS_RANK_PROF_START);

int
prof_boot(void) {
	if (prof_is_booted()) {
		return 0;
	}
	int err = prof_data_boot();
	if (err != 0) {
		return err;
	}
	if (!opt_prof) {
		prof_sys_prefix_set(opt_prof_prefix); /* with opt_prof, prof_boot_conf() has done it */
	}
	prof_recent_boot();
	prof_switch_boot();
	return 0;
}

void
prof_boot_late(void) {
	if (!prof_is_booted() || prof_switch_is_ready()) {
		return;
	}
	struct tls_s *t = tls_get();
	t->inside++;
	gate_enter(t);
	if (opt_prof_log) {
		prof_log_start(NULL);
	}
	prof_dump_reserve();
	prof_sample_rate_set(prof_sample_configured());
	prof_switch_set_ready(prof_gdump_due);
	prof_course_begin();
	gate_exit(t);
	t->inside--;
}

int
prof_start_now(void) {
	assert(gate_is_entered(tls_get()) && tls_get()->inside > 0);
	if (prof_switch_is_ready()) {
		return 0;
	}
	mutex_lock(&start_mtx);
	bool was_booted = prof_is_booted();
	int err = prof_boot();
	if (err == 0 && !was_booted) {
		prof_active_set(false);
	}
	prof_boot_late();
	mutex_unlock(&start_mtx);
	return err;
}
