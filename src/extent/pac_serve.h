/*
 * What the background thread that serves a page cache does after a tick, and how long it may then
 * sleep. Invariant: while it sleeps, the thread whose step raises the dirty pages (pac_ndirty)
 * above wake_above wakes it; if wake_above is SIZE_MAX, or the dirty decay time is 0, none does.
 * pac_serve() takes the mutexes of both decays, of the hot extents, of the dirty cache and of the
 * descriptors, and grow_mtx; its caller is inside the gate (os/gate.h: fork waits meanwhile) and
 * holds no lock. Called by background_thread.c.
 */
#pragma once

#include "extent/pac.h"

/*
 * For the background thread of this cache, after a tick at `now` (monotonic ns). Sets is_served,
 * and makes hot extents dirty in a pass of the dirty pages. If another thread is in such a pass,
 * only sets is_served; wake_above stays as it is. Returns the nanoseconds until the next tick is
 * useful, those of 100 ms if another thread is in such a pass; UINT64_MAX: no tick is before more
 * pages become unused.
 *
 * If the thread may sleep for more than 100 ms and the dirty decay time is above 0, pac_wake_hook
 * is called once: when 1 MiB more is dirty than now (pac_ndirty: hot extents and the rest of a huge
 * piece too) or, if no dirty page will become due for purging, when one page more is. With a dirty
 * decay time of 0 each release purges by itself and wakes nobody, so at most 1 s is returned, after
 * which the thread looks for muzzy pages and holes.
 */
uint64_t pac_serve(pac_t *pac, uint64_t now);
/*
 * The thread ends, or does not exist in a forked child: heartbeats of other threads
 * (thread/thread_event.h) tick the cache again. Takes no lock; need not be inside the gate.
 */
void pac_unserve(pac_t *pac);
