/*
 * prof_final_signals: a process that SIGTERM, SIGINT or SIGHUP would end writes its final profile
 * first.
 *
 * Our handler is installed only where the action is the default: during boot, but for SIGINT a
 * quarter of a second later, by the profiler's thread or at a heartbeat, because programs (python)
 * check early whether the default is set. An action that the program sets remains; if it restores
 * the default, the profiler's thread installs our handler again.
 *
 * The handler only stores the signal's number and wakes the profiler's thread. That thread writes
 * the profile, restores the default and sends the signal again, so the process still dies of it.
 * The interrupted thread waits in the handler, for a bounded time and only outside of the
 * allocator, so that no call returns EINTR to a program about to die. Without the profiler's thread
 * the handler writes the profile, unless it interrupted the allocator or a fork; then a timer sends
 * the signal again a moment later, and without a timer the process ends at once and without a
 * profile. A second signal ends the process at once. A process that the default action does not end
 * (pid 1 of a container) goes on.
 */
#ifndef PROF_SIGNAL_H
#define PROF_SIGNAL_H

#include "util/atomic.h"
#include "util/compiler.h"

extern bool opt_prof_final_signals;

/* Installs the handlers for SIGTERM and SIGHUP, if opt_prof_final_signals is set. */
void prof_signal_boot(void);
/* Whether there is something to do for prof_signal_tick(). */
bool prof_signal_is_due(void);
/*
 * Acts on a signal and installs missing handlers; called outside the gate without locks. Does not
 * return if the signal ends the process.
 */
void prof_signal_tick(void);
/*
 * Called around the final profile of exit: a signal in between waits for its end. _begin waits for
 * a profile that is being written because of a signal, and does not return if that signal is
 * deadly.
 */
void prof_signal_exit_begin(void);
void prof_signal_exit_end(void);
/* In a forked child: forgets a signal that arrived at the parent. */
void prof_signal_postfork_child(void);

/*
 * Wakes the profiler's thread; false if there is none. Called in signal handlers.
 * prof_control_wire() fills it.
 */
extern bool (*prof_signal_wake_hook)(void);

#endif /* PROF_SIGNAL_H */
