/*
 * Starts the profiler: makes the site tables, then the modules above them, in two steps
 * (prof_start.h).
 *
 * Invariant: prof_is_booted() becomes true last in the first step, when all that samples need
 * exists; the second step switches sampling on. Locks: none of its own; the first step runs under
 * the lock of boot, or in the one thread that is starting a session. Called by jemalloc_init.c at
 * boot and by prof_session.c.
 */
#include "prof/control/prof_start.h"

#include "os/gate.h"
#include "prof/file/prof_course.h"
#include "prof/file/prof_log.h"
#include "prof/file/prof_recent.h"
#include "prof/file/prof_sys.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_sample.h"
#include "prof/sites/prof_switch.h"
#include "prof/trigger/prof_auto.h"

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
	prof_sample_rate_set(prof_sample_configured());
	prof_switch_ready(prof_gdump_due);
	prof_course_begin();
	gate_exit(t);
	t->inside--;
}
