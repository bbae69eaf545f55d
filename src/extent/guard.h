/*
 * Guard pages: pages without access before and behind an extent, so that an overrun faults at once
 * (an extent with an alignment above a page has only the one behind). pac.c allocates an extent
 * that is larger by the guards; guard_on() then cuts them off. Guards belong to no extent and are
 * not in the page map, so no extent is joined across them. When the extent is freed, the guards
 * become part of it again (one that the system does not open is unmapped). So unused extents have
 * no guards, and are cut and joined as usual. A guarded extent may cost the process four mappings.
 * The system limits the number of mappings, so guard_limit bounds the number of guarded extents. If
 * the system refuses a guard, which is not an error, the page counts as one, but stays accessible.
 * Extents with hooks of the user get no guards. An extent that gets or loses guards is active, and
 * its owner calls; there is no lock. pac.c makes and removes guards; arena.c and large.c choose
 * every n-th slab or large extent (guard_count_extent); jemalloc_init.c calls guard_boot().
 */
#pragma once

#include "meta/edata.h"
#include "os/pages.h"

/* Every n-th slab, or large extent, of an arena is guarded, if guard_limit allows; 0: none. */
extern size_t opt_san_guard_small;
extern size_t opt_san_guard_large;

/*
 * The most extents of the process that have guards at one time; a few more when several threads
 * allocate at once.
 */
extern HIDDEN unsigned guard_limit;

/*
 * Sets guard_limit from the system's limit of mappings, if guards are on; called after the options
 * were read. Returns 0.
 */
int guard_boot(void);

/* Counts an extent, unless nth is 0 (no guards); true if it is an nth one. */
ALWAYS_INLINE bool
guard_count_extent(atomic_u64_t *count, size_t nth) {
	return unlikely(nth != 0) && atomic_fetch_add_u64(count, 1, MO_RELAXED) % nth == nth - 1;
}

/* Whether fewer than guard_limit extents have guards; pac_alloc_guarded() asks. */
bool guard_is_allowed(void);

/*
 * Bytes of the guards of an extent of this alignment. If the alignment is larger than a page, there
 * is no guard before the extent, because its begin must stay aligned.
 */
static inline size_t
guard_bytes(size_t alignment) {
	return alignment > PAGE ? PAGE : 2 * PAGE;
}

/*
 * Makes the outermost pages of e guards: a page at its end, and with 2 * PAGE one at its begin too;
 * bytes: guard_bytes(). e, which is longer, is reduced to the rest; its owner then enters it in the
 * page map.
 */
void guard_on(edata_t *e, size_t bytes);
/*
 * Makes the guards of e accessible and part of e again; e is not in the page map afterwards.
 * Returns the bytes by which e is longer now. A guard that the system does not open is unmapped
 * instead.
 */
size_t guard_off(edata_t *e);
