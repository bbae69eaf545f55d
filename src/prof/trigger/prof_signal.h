/*
 * prof_final_signals: a process that SIGTERM, SIGINT or SIGHUP would end writes its final profile
 * first.
 *
 * Our handler is installed only where the action is the default: for SIGTERM and SIGHUP during
 * boot, for SIGINT a quarter of a second later, by the profiler's thread (prof_control.h) or at a
 * heartbeat (thread/thread_event.h), because programs (python) check early whether the default is
 * set. An action that the program sets remains. If it restores the default, the profiler's thread
 * installs our handler again; without that thread, the next heartbeat that has anything to do
 * (prof_control.c) does.
 *
 * The handler stores the signal's number and wakes the profiler's thread. That thread writes the
 * profile, restores the default and sends the signal again, so the process still dies of it.
 * - A handler that interrupted code outside of the allocator waits meanwhile, for 2 s at most, so
 *   that no call returns EINTR to a program about to die. If nobody has begun to write by then, or
 *   at once if there is no thread that could, it writes the profile itself.
 * - A handler that interrupted the allocator or a fork can neither wait nor write. If there is no
 *   profiler's thread, it sets a timer that sends the signal again a moment later; if there is no
 *   timer either, the process ends at once and without a profile.
 * While a signal is acted on, any of the three that comes within a second of it is ignored as its
 * echo; a later one ends the process at once. A process that the default action does not end (pid 1
 * of a container) goes on.
 *
 * Locks: none of its own. Called by prof_control.c, and by prof.c around the profile of exit.
 */
#pragma once

#include "util/atomic.h"
#include "util/compiler.h"

/* Option prof_final_signals: the final profile is also written before such a signal. */
extern bool opt_prof_final_signals;

/* Installs the handlers for SIGTERM and SIGHUP, if the option is set. */
void prof_signal_boot(void);
/* Whether a heartbeat has something to do here: a signal came, or SIGINT was not looked at yet. */
bool prof_signal_is_due(void);
/*
 * Acts on a signal and installs missing handlers, if the option is set; called by the profiler's
 * thread in each round, or without it at heartbeats, outside the fork gate (os/gate.h), without
 * locks. Does not return if the signal ends the process.
 */
void prof_signal_tick(void);
/*
 * Called around the final profile of exit: a signal that comes in between gets no profile of its
 * own, and _end sends it again. _begin waits for a profile that a signal has caused, and does not
 * return if that signal then ends the process. If this thread is writing it (the dump hook calls
 * exit()), that signal is forgotten. After _end a signal gets no profile.
 */
void prof_signal_exit_begin(void);
void prof_signal_exit_end(void);
/* In a forked child: forgets a signal that arrived at the parent. */
void prof_signal_postfork_child(void);

/*
 * Wakes the profiler's thread; false if there is none. Called in the signal handler.
 * prof_control_wire() sets it.
 */
extern bool (*prof_signal_wake_hook)(void);
