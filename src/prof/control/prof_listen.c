/*
 * Follows the semaphore of the probe otel_memory:alloc, a word that the kernel makes nonzero while
 * a tracer is attached (prof_listen.h).
 *
 * Invariant: listen_seen is the state that prof_listen_follow() read last. It is stored before that
 * state is acted on. Two threads may be in the function at once. If the older state is stored last,
 * the next heartbeat finds a difference and acts again. If the older state is acted on last, its
 * thread stores it again, so that the next heartbeat finds a difference in this case too. Locks:
 * none of its own; prof_start_now(), prof_switch_listener_set() and prof_backtrace_prepare() take
 * theirs. Called by prof_control.c at heartbeats (thread/thread_event.h) and in the profiler's
 * thread, and by prof.c in a forked child.
 */
#include "prof/control/prof_listen.h"

#include "os/gate.h"
#include "prof/control/prof_start.h"
#include "prof/sites/prof_backtrace.h"
#include "prof/sites/prof_switch.h"

bool opt_prof_probes = true;
uint64_t opt_prof_probe_interval = UINT64_C(1) << 19;

static atomic_b_t listen_seen; /* a tracer was attached when prof_listen_follow() looked last */

bool
prof_listen_is_due(void) {
	return config_prof_probes && opt_prof_probes
	    && probe_alloc_is_attached() != atomic_load_b(&listen_seen, MO_RELAXED);
}

void
prof_listen_follow(void) {
	if (!prof_listen_is_due()) {
		return;
	}
	struct tls_s *t = tls_get();
	bool is_attached = probe_alloc_is_attached();
	assert(t->inside > 0 && !gate_is_entered(t));
	atomic_store_b(&listen_seen, is_attached, MO_RELAXED);
	if (is_attached) {
		/* First, because while this runs in one thread prof_backtrace() fails in all others. */
		prof_backtrace_prepare();
	}
	gate_enter(t);
	/* Without memory to start, that is tried again when a tracer comes anew, or in a child. */
	bool is_ready = is_attached ? prof_start_now() == 0 : prof_switch_is_ready();
	if (is_ready) {
		prof_switch_listener_set(is_attached ? opt_prof_probe_interval : 0);
	}
	/* Another thread may have acted on a newer state before this one: the next one acts again. */
	if (probe_alloc_is_attached() != is_attached) {
		atomic_store_b(&listen_seen, is_attached, MO_RELAXED);
	}
	gate_exit(t);
}

/* A thread of the parent may have stored a state and not acted on it: stores how sampling is. */
void
prof_listen_postfork_child(void) {
	if (atomic_load_b(&listen_seen, MO_RELAXED) != prof_switch_has_listener()) {
		atomic_store_b(&listen_seen, prof_switch_has_listener(), MO_RELAXED);
	}
}
