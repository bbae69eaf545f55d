/*
 * Guard pages: one before an extent and one behind it that nobody may touch, so that who runs over its end is stopped by
 * the instruction that does it.
 *
 * An extent is taken larger by its guards and then made smaller by them.  They belong to no extent and the page map does
 * not know them, so nobody finds or joins what lies beyond.  Before the extent goes to a cache it takes them in
 * again: what lies unused has no guards, and is cut and joined like any other.
 * Each extent with guards may cost the process four mappings, of which the system gives a limited number: guard_limit.
 * Where the system refuses one there is none, and that is no error.
 * Pages of the system only, of extents that are active: their owner's.  No lock.
 */
#ifndef EXTENT_GUARD_H
#define EXTENT_GUARD_H

#include "meta/edata.h"
#include "os/pages.h"

/* Every so many-th slab, or large extent, of an arena is guarded; 0: none. */
extern size_t opt_san_guard_small;
extern size_t opt_san_guard_large;

/* Extents that may have guards at the same time, about. */
extern HIDDEN unsigned guard_limit;

/* After the options were read. */
int guard_boot(void);

/* Counts an extent; whether it is an nth one. */
ALWAYS_INLINE bool
guard_is_due(atomic_u64_t *count, size_t nth) {
	return unlikely(nth != 0) && atomic_fetch_add_u64(count, 1, MO_RELAXED) % nth == nth - 1;
}

/* Fewer than guard_limit have any. */
bool guard_is_allowed(void);

/* Bytes of the guards around an extent of this alignment: a larger one than a page leaves no room for one before it. */
static inline size_t
guard_bytes(size_t alignment) {
	return alignment > PAGE ? PAGE : 2 * PAGE;
}

/* The outermost pages of e, guard_bytes() in all, become guards: e is what lies between, for its owner to enter in the page map. */
void guard_on(edata_t *e, size_t bytes);
/* e takes its guards in again; returns by how many bytes it is longer now. What the system keeps shut is given up. */
size_t guard_off(edata_t *e);

#endif
