/*
 * Starts the profiler, at boot with prof:true, else when the first session begins or a tracer
 * comes. Called by jemalloc_init.c under the lock of boot, and by prof_session.c and prof_listen.c,
 * where the lock `prof_start` lets one thread at a time do it.
 */
#pragma once

/*
 * The first step: makes the site tables, and what records samples, and without prof:true stores the
 * prefix of the option; does nothing if the tables exist. 0 or ENOMEM, and then nothing is made.
 * Called with one of the two locks.
 */
int prof_boot(void);
/*
 * The second step: starts the log of prof_log:true, and lets sampling begin. Called with one of the
 * two locks and no other, when the allocator can serve requests. Does nothing before the first step
 * or if the second one was taken.
 */
void prof_boot_late(void);

/*
 * Both steps, as prof:true,prof_active:false would have taken them at boot, if that has not
 * happened yet. Called inside the gate (os/gate.h: fork waits until no thread is inside), with
 * `inside` (os/tls.h) raised. 0 or ENOMEM.
 */
int prof_start_now(void);
