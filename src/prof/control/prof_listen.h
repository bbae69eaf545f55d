/*
 * Sampling for tracers that are attached to the probe otel_memory:alloc (os/probe.h).
 *
 * While a tracer is attached the process takes samples, without an option, a session or a request:
 * while prof.active is on, as during a session, these are the samples taken anyway, at their rate;
 * otherwise one for each prof_probe_interval bytes on average. When the last tracer is detached,
 * sampling for tracers ends. The process notices a change at its next heartbeat
 * (thread/thread_event.h), or in a round of the profiler's thread. Called there by prof_control.c,
 * and by prof.c in a forked child; prof_listen_follow() takes locks of other modules.
 */
#pragma once

#include "os/probe.h"
#include "util/atomic.h"

extern bool opt_prof_probes;              /* false: a tracer does not make the process sample */
extern uint64_t opt_prof_probe_interval;  /* mean bytes between samples for tracers alone */

/* Whether a tracer has come or gone since the last prof_listen_follow(). */
bool prof_listen_is_due(void);
/*
 * Switches sampling for tracers on or off, as the semaphore of the probe says; does nothing unless
 * that is due. Makes the site tables if there are none; without memory for them nothing is sampled
 * for tracers until one comes anew. Called outside the gate (os/gate.h: fork waits until no thread
 * is inside), with `inside` (os/tls.h) raised.
 */
void prof_listen_follow(void);
/* In a forked child: the next prof_listen_follow() acts if sampling differs from the semaphore. */
void prof_listen_postfork_child(void);
