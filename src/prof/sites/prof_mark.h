/*
 * The mark: what each site held at one moment, so that a later profile can tell what it grew by
 * (prof_snap_take_delta) without the profile of that moment.
 *
 * The sums lie in the sites themselves (mark_c16, mark_est), 16 bytes in each site. There is one
 * mark; setting it again replaces it. It ends with prof.reset and with the start of a session. A
 * forked child has it as it has the samples, unless it was just being set. Called by prof_auto.c to
 * set it, and by prof_dump.c for the time.
 */
#ifndef PROF_MARK_H
#define PROF_MARK_H

#include "util/compiler.h"

/*
 * Sets the mark. Called inside the gate (os/gate.h: fork waits until no thread is inside), one
 * level deep; leaves it for a moment between two sites if a thread waits to fork. Samples that
 * other threads take meanwhile count as before the mark or as after it. A prof.reset meanwhile
 * leaves no mark. Takes the lock `pass` (prof_data.h), which is held while a profile is copied and
 * written; so the caller, prof_mark() of prof_auto.c, first takes the lock of dumps, outside the
 * gate.
 */
void prof_mark_set(void);
/* When the mark was set, in ns since 1970 (UTC); 0: there is none. */
uint64_t prof_mark_time_ns(void);

#endif /* PROF_MARK_H */
