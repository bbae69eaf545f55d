/*
 * The handlers for pthread_atfork(), as tables in the order of the steps (jemalloc_fork.h).
 *
 * Invariant: the gate closes first and opens last, so no thread is inside the allocator while the
 * process forks; the shelter returns its pages after the gate has opened. Locks: prefork takes
 * none, because the closed gate makes all short locks free. Called by libc.
 */
#include "jemalloc_fork.h"

#include "arena/background_thread.h"
#include "ctl/ctl.h"
#include "os/gate.h"
#include "prof/prof.h"
#include "thread/shelter.h"
#include "thread/tsd.h"

static void (*const fork_before[])(void) = {
	gate_prefork,
};

static void (*const fork_parent[])(void) = {
	gate_postfork_parent,
	shelter_trim,
};

static void (*const fork_child[])(void) = {
	config_prof ? prof_postfork_child : NULL,
	ctl_postfork_child,
	background_thread_postfork_child,
	tsd_postfork_child,
	gate_postfork_child,
};

static void
fork_run(void (*const *table)(void), size_t n) {
	int saved = errno;
	for (size_t i = 0; i < n; i++) {
		if (table[i] != NULL) {
			table[i]();
		}
	}
	errno = saved;
}

void
jemalloc_prefork(void) {
	fork_run(fork_before, ARRAY_LEN(fork_before));
	assert(gate_is_closed());
}

void
jemalloc_postfork_parent(void) {
	assert(gate_is_closed());
	fork_run(fork_parent, ARRAY_LEN(fork_parent));
}

void
jemalloc_postfork_child(void) {
	assert(gate_is_closed());
	fork_run(fork_child, ARRAY_LEN(fork_child));
}
