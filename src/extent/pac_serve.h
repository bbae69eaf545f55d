/*
 * The background thread of a page cache: what it does after a tick, and how long it may then sleep.
 * Invariant: while it sleeps, the thread that makes more than wake_above pages unused wakes it.
 * pac_serve() takes the mutexes of the decays, one at a time; its caller is inside the gate
 * (os/gate.h: fork waits meanwhile) and holds no lock. Called by background_thread.c.
 */
#ifndef EXTENT_PAC_SERVE_H
#define EXTENT_PAC_SERVE_H

#include "extent/pac.h"

/*
 * For the background thread of this cache, after a tick at `now` (monotonic ns). Sets is_served and
 * makes hot extents dirty. Returns the nanoseconds until the next tick is useful; UINT64_MAX: not
 * before pages become unused; 100 ms if another thread is in a pass, with nothing else done. If the
 * thread may sleep for more than 100 ms and the dirty decay time is above 0, pac_wake_hook is
 * called once when 1 MiB more is dirty or hot than now, or any page more if no page will become
 * due.
 */
uint64_t pac_serve(pac_t *pac, uint64_t now);
/*
 * The thread ends, or does not exist in a forked child: heartbeats of other threads
 * (thread/thread_event.h) tick the cache again. Takes no lock; need not be inside the gate.
 */
void pac_unserve(pac_t *pac);

#endif
