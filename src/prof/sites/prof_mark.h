/*
 * The mark: what each site held at one moment, so that a later profile can tell what it grew by
 * (prof_snap_take_delta) without the profile of that moment.
 *
 * The sums lie in the sites themselves: mark_c16 (objects, in 1/65536) and mark_est (bytes). There
 * is one mark; setting it again replaces it. prof.reset and the start of a session remove it. A
 * forked child has it as it has the samples, unless it was just being set. Called by prof_auto.c to
 * set it, and by prof_dump.c for the time.
 */
#pragma once

#include "util/compiler.h"

/*
 * Sets the mark. Called inside the gate (os/gate.h: fork waits until no thread is inside), exactly
 * one level deep, because it leaves the gate for a moment between two sites if a thread waits to
 * fork. Samples and frees of other threads meanwhile count as before the mark or as after it. After
 * a prof.reset meanwhile there is no mark. Takes the lock `pass` (prof_data.h), which a dump holds
 * until its profile is written; to wait for that inside the gate would delay forks. So the caller,
 * prof_mark() of prof_auto.c, first takes the lock of dumps, outside the gate.
 */
void prof_mark_set(void);
/* When the mark was set, in ns since 1970 (UTC); 0: there is none. Takes no lock. */
uint64_t prof_mark_time_ns(void);
