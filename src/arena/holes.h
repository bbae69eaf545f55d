/*
 * Holes: pages that were given back to the system inside slabs that still have regions in use.
 *
 * A slab goes back only as a whole. After a program has freed most of its small blocks at random,
 * nearly each slab still has one, but many of its pages hold none. A pass looks at the slabs with
 * free regions of each bin of which much is free (HOLES_MIN_FREE), and gives the pages back in
 * which every region is free now and was at the last pass. A pass begins every third of the decay
 * time of dirty pages, but at least 250 ms after the last one began (none begins if the time is
 * -1), and takes up to an eighth of the decay time. A page goes at the second pass that finds it
 * empty, mostly one to two thirds of the decay time after it became so, and at least a fifth, as
 * passes differ in speed. Free regions have no contents that anybody needs, except in builds with
 * canaries; there nothing is done, nor for pages that come from hooks of the user or from the slabs
 * of hpa/hpa.h.
 *
 * Between two passes no page of a slab in the ring of its bin (bin.h) is taken into use: only the
 * current slab, which is not in the ring, serves requests, and a slab that becomes the current one
 * loses its bits (holes, seen_empty). So a page that two passes found empty was empty in between.
 * Slabs with holes serve last, so that holes stay holes. Invariant: a bit of `holes` is a page that
 * was given back and whose regions are all free (or taken by a pass), of a slab that is not
 * current; nholes of its bin is the sum of them. Locks: what is in a slab is under the lock of its
 * bin, which is not held during system calls: the pass takes the regions of the pages like an
 * allocation, gives the pages back, and returns the regions. Each step of a pass enters
 * pac_pass_enter() (pac_purge.h), which excludes the decay of the arena's dirty pages; so one
 * thread at a time makes steps, and none while the arena is reset or destroyed. Callers: arenas.c
 * (ticks, mallctl) and background_thread.c, inside the gate (os/gate.h: fork waits meanwhile)
 * without a lock; inspect.c for the counts.
 */
#pragma once

#include "arena/arena.h"

/*
 * No pass, that of holes_make_all() included, looks at a bin that has fewer free bytes than this.
 * Two more limits are numbers in holes.c: no pass looks at a bin of which less than a quarter is
 * free, and a huge piece (extent/piece.h) is broken only for a bin of which at least half is free.
 */
#define HOLES_MIN_FREE (ZU(64) << 10)

/*
 * Continues the pass under way. Otherwise begins one if it is time, and (a) regions went back to
 * slabs since the last pass began, or (b) that pass left pages that may be due now. The first call
 * for an arena of which (a) or (b) is true only sets the time of the first pass. The longer the
 * last step is ago, the more slabs a call looks at. now: monotonic time in ns. Returns ns from now
 * to the next call that may be useful; UINT64_MAX: none is before more regions go back, of which
 * the background thread is told (pac_wake_hook).
 */
uint64_t holes_tick(arena_t *a, uint64_t now);
/*
 * A pass at once, whatever the decay time, without the condition that a page was empty at the last
 * pass too; like any pass only over bins of which enough is free. Waits for the pass of another
 * thread; does nothing if this thread is in one already.
 */
void holes_make_all(arena_t *a);
/* Number of pages of the arena's slabs that are given back at present; needs no lock. */
size_t holes_npages(arena_t *a);
