/*
 * The handlers for pthread_atfork() (jemalloc_fork.h). Most steps of the child are in the table
 * fork_child, in the order in which they run.
 *
 * Invariant: no thread is inside the gate (os/gate.h) while the process forks, so all short locks
 * are free in the child. There are three exceptions: the fork of a signal handler that interrupted
 * its thread inside, because that fork must not wait for other threads; the fork of a handler that
 * interrupted another fork while that waited for threads inside; and a fork whose closed gate a
 * thread has entered after it had waited for seconds (gate_enter()). The child of such a fork is
 * lost (gate_is_lost()): it runs no step of the table. Other locks, which may be held for long, are
 * held outside the gate; steps of the table make them new in the child.
 *
 * The region (meta/region.h) is the memory of the profiler's tables. They may lie in a file, the
 * box; that is shared memory, so each child gets a copy. The shelter (thread/shelter.h) is the
 * memory of threads that the closed gate keeps out; at the end the parent returns pages that it
 * does not need, also if the gate is still closed by another fork. Locks: prefork holds none when
 * it returns. Called by the C library in fork(); jemalloc_init.c registers the handlers.
 */
#include "jemalloc_fork.h"

#include "arena/background_thread.h"
#include "ctl/ctl.h"
#include "meta/region.h"
#include "os/gate.h"
#include "os/thread.h"
#include "prof/prof.h"
#include "thread/shelter.h"
#include "thread/tsd.h"

/* The steps of a child that is not lost, in this order; NULL: not in this build. */
static void (*const fork_child[])(void) = {
	os_threads_in_child,
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
	/* If this does not open the gate, another fork may be under way, which needs the only copy. */
	if (gate_opens_next()) {
		region_postfork_parent();
	}
	tsd_postfork_parent();
	gate_postfork_parent();
	shelter_trim();
}

void
jemalloc_postfork_child(void) {
	/* True with a box, and while another thread is about to open one. */
	bool is_watched = gate_is_watched();
	sigset_t old;
	if (is_watched) {
		/* The gate opens before the box is left: a handler would take this for a silent child. */
		os_thread_block_all_signals(&old);
	}
	gate_postfork_child();
	/* In a lost child too, so that it does not write into the box of its parent. */
	region_postfork_child();
	if (is_watched) {
		os_thread_restore_signals(&old);
	}
	for (size_t i = 0; i < ARRAY_LEN(fork_child) && !gate_is_lost(); i++) {
		if (fork_child[i] != NULL) {
			fork_child[i]();
		}
	}
}
