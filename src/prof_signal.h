/*
 * prof_final_signals: a program that SIGTERM, SIGINT or SIGHUP would end writes its final profile first.
 *
 * Only where the action of the signal is the default one does a handler of ours take its place: while
 * the library boots, but for SIGINT, where programs (python) look in their first moments whether the
 * default stands there; that one is taken a quarter of a second later, by the profiler's thread or at
 * a heartbeat.  What the program sets, then or later, stands; what it sets back to the default the
 * profiler's thread takes again.
 *
 * The handler itself only leaves the signal's number and wakes the profiler's thread, which writes,
 * puts the default back and sends the signal again: the process still dies of it.  The interrupted thread
 * waits in the handler, a bounded time and only outside of the allocator, so that no call returns
 * EINTR to a program about to die.  Without that thread the handler writes, if it has interrupted
 * neither the allocator nor a fork; else a timer sends the signal again a moment later, and where no
 * timer can be had, the process ends at once, without a profile.  A second signal ends the process at
 * once.  A process that its default action does not end (the first of a container) goes on.
 */
#ifndef PROF_SIGNAL_H
#define PROF_SIGNAL_H

#include "util/atomic.h"
#include "util/compiler.h"

extern bool opt_prof_final_signals;

void prof_signal_boot(void);
/* There is something to do for prof_signal_tick(). */
bool prof_signal_is_due(void);
/* At a safe place: outside the gate, no lock held.  Does not return where the signal is deadly. */
void prof_signal_tick(void);
/*
 * Around the final profile of exit: a signal meanwhile waits for its end.  _begin waits for a profile
 * that is being written for a signal, and then does not return where that is deadly.
 */
void prof_signal_exit_begin(void);
void prof_signal_exit_end(void);
void prof_signal_postfork_child(void);

/* The profiler's thread looks at once; false: there is none.  Filled by prof_control. */
extern bool (*const prof_signal_wake)(void);

#endif /* PROF_SIGNAL_H */
