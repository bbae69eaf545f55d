/*
 * The handlers for pthread_atfork() (jemalloc_fork.h); most steps of the child are a table in their
 * order.
 *
 * Invariant: no thread is inside the gate while the process forks, so all short locks are free in
 * the child. The child of a fork that does not wait for that (from a signal handler inside), or
 * whose closed gate a thread has entered nevertheless, is lost (gate_is_lost()), and the table is
 * left out there. The box is the profiler's tables in a file; a child gets a copy of it. In the
 * parent the shelter returns its pages after the gate has opened. Locks: prefork keeps none. Called
 * by the C library in fork(); jemalloc_init.c registers the handlers.
 */
#include "jemalloc_fork.h"

#include "arena/background_thread.h"
#include "ctl/ctl.h"
#include "meta/region.h"
#include "os/gate.h"
#include "prof/prof.h"
#include "thread/shelter.h"
#include "thread/tsd.h"

/* The steps of a child that is not lost, in this order; NULL: not in this build. */
static void (*const fork_child[])(void) = {
	config_prof ? prof_postfork_child : NULL,
	ctl_postfork_child,
	background_thread_postfork_child,
	tsd_postfork_child,
};

void
jemalloc_prefork(void) {
	gate_prefork();
	region_prefork();
	assert(gate_is_closed() || gate_is_entered(tls_get()));
}

void
jemalloc_postfork_parent(void) {
	if (gate_opens_next()) { /* else another fork, which goes on, still needs its copy of the box */
		region_postfork_parent();
	}
	tsd_postfork_parent();
	gate_postfork_parent();
	shelter_trim();
}

void
jemalloc_postfork_child(void) {
	int saved = errno;
	gate_postfork_child();
	/* In a lost child too: it must not write into its parent's box (meta/region.h). */
	region_postfork_child();
	for (size_t i = 0; i < ARRAY_LEN(fork_child) && !gate_is_lost(); i++) {
		if (fork_child[i] != NULL) {
			fork_child[i]();
		}
	}
	errno = saved;
}
