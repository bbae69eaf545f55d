/*
 * Sampling for tracers, whose coming and going is played by writing the semaphore as the kernel
 * does: what rate holds, alone and beside a session, and that nothing is left behind.
 */
#include "core.h"
#include "dir.h"

#include "prof/control/prof_listen.h"
#include "prof/control/prof_session.h"
#include "prof/sites/prof_sample.h"
#include "prof/sites/prof_switch.h"
#include "thread/thread_event.h"
#include "unwind/unwind.h"
#include "unwind/unwind_backend.h"

const char *malloc_conf = "prof_probe_interval:4096,prof_thread:false,prof_prefix:listen";

/* Allocates 4 MiB in small objects, so that heartbeats see what changed. */
static void
work(void) {
	for (int i = 0; i < 4096; i++) {
		void *volatile p = malloc(1000);
		free(p);
	}
}

static uint64_t
interval(void) {
	return atomic_load_u64(&thread_event_sample_interval, MO_RELAXED);
}

#if CONFIG_PROF_PROBES

static const char *why;

static void
tracers(uint16_t n) {
	otel_memory_alloc_semaphore = n;
	work();
}

static uint64_t
nsamples(void) {
	struct unwind_stats_s st;
	unwind_stats_read(&st);
	return st.samples;
}

/* Whether malloc() takes samples: 100 objects of 64 KiB at a mean of 4 KiB are nearly all. */
static bool
are_sampled(void) {
	uint64_t before = nsamples();
	for (int i = 0; i < 100; i++) {
		void *volatile p = malloc(65536);
		free(p);
	}
	return nsamples() - before > 90;
}

static void
test_alone(void) {
	work();
	ok(!prof_is_booted() && interval() == 0, "nothing samples");
	tracers(1);
	ok(prof_switch_has_listener() && prof_switch_is_ready(), "a tracer starts the profiler");
	ok(!prof_switch_is_active(), "prof.active stays off");
	ok(prof_switch_begun_ns() != 0, "the time of the counts begins");
	is_int(interval(), 4096, "at prof_probe_interval");
	ok(are_sampled(), "objects are sampled");
	tracers(2);
	is_int(interval(), 4096, "a second tracer changes nothing");
	tracers(0);
	ok(!prof_switch_has_listener(), "without tracers");
	is_int(interval(), 0, "nothing is sampled");
	ok(!are_sampled(), "really");
}

static void
test_beside_session(void) {
	tracers(1);
	is_int(prof_session_start("sample_interval:8192,final:false", &why, NULL), 0,
	    "a session: %s", why);
	is_int(interval(), 8192, "has its own rate, a tracer or not");
	tracers(0);
	is_int(interval(), 8192, "which stays when the tracer goes");
	tracers(1);
	is_int(interval(), 8192, "and when it comes back");
	prof_active_set(false);
	is_int(interval(), 4096, "a paused session leaves the tracer its rate");
	ok(are_sampled(), "and its samples");
	prof_active_set(true);
	is_int(prof_session_stop(0, NULL), 0, "the session writes its profile");
	is_int(interval(), 4096, "after the session the tracer's rate holds");
	tracers(0);
	is_int(interval(), 0, "and none after both");
}

static void
test_switched_off(void) {
	opt_prof_probes = false;
	tracers(1);
	ok(!prof_switch_has_listener() && interval() == 0, "prof_probes:false: nothing is sampled");
	opt_prof_probes = true;
	work();
	ok(prof_switch_has_listener(), "true again: sampled");
	tracers(0);
}

static void
test_often(void) {
	unsigned bad = 0;
	for (int i = 0; i < 100; i++) {
		tracers(1);
		bad += wrong_if(interval() != 4096);
		tracers(0);
		bad += wrong_if(interval() != 0);
	}
	is_int(bad, 0, "100 tracers come and go");
}

int
main(void) {
	dir_enter();
	test_alone();
	test_beside_session();
	test_switched_off();
	test_often();
	is_int(files_in(dir), 1, "which is here");
	dir_leave();
	return done_testing();
}

#else

int
main(void) {
	work();
	ok(!prof_listen_is_due(), "without probes no tracer is ever there");
	is_int(interval(), 0, "nothing is sampled");
	return done_testing();
}

#endif
