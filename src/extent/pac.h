/*
 * The page cache of an arena: it allocates extents of whole pages and keeps unused ones for reuse.
 * A freed extent becomes hot (kept whole, on a stack of its page class; pac_hot.h); or dirty, if
 * the stack is full or it may not be kept and is purged soon (decay time 0, bound). When the decay
 * (decay.h) is due, pac_tick() makes hot extents dirty and purges the oldest dirty ones: these
 * become muzzy (only with a muzzy decay time; the system may take their pages when it needs
 * memory), then retained, which is address space without pages, or are unmapped. Statistics count
 * hot extents as dirty.
 *
 * A request tries, in this order: a hot extent of exactly its size; a huge slab (pac_hpa.h); a
 * dirty, then a muzzy extent that fits well; such a one after a longer hot extent was made dirty,
 * then after all were; for a request below 1 MiB, if much is dirty (pac_has_plenty), any longer
 * dirty or muzzy extent; adjacent pieces (join.h); retained or new address space (for dense
 * requests a huge piece or a populated run, piece.h, ahead.h); any longer extent. Callers: arena.c,
 * arena_life.c, large.c, pac_move.c, vacant.h; pac_purge.h names its own.
 */
#ifndef EXTENT_PAC_H
#define EXTENT_PAC_H

#include "extent/pac_purge.h"

/*
 * Locks: a decay's mutex is taken before any cache's and is held during a purging pass, so that one
 * thread purges at a time; pac_tick() only tries it. While a hook of the user runs, and in passes
 * that only keep others from purging (pac_step.h), the mutex is released, and `passer` keeps other
 * threads out. The caller of a function here is inside the gate (os/gate.h: fork waits meanwhile)
 * and holds no lock.
 *
 * The number of pages in use, dirty or hot is limited to 5/4 of the greatest number in use so far,
 * unless the decay time is 0 or -1: dirty pages above the limit are purged, the oldest first, after
 * a request of at least JOIN_MIN bytes (1 MiB) that no dirty or muzzy extent fitted, and after
 * pac_alloc_new(). These become retained at once (muzzy only with a muzzy decay time of -1). A
 * bounded cache (pac_bound) limits its unused pages at every allocation and release.
 */

/* Reused memory of at least this many bytes is zeroed by purging it instead of memset(). */
extern size_t opt_calloc_madvise_threshold;

/*
 * Called inside the gate, with no lock held, by the allocation that has brought pac_mapped_all() to
 * a new maximum; NULL if not set.
 */
extern void (*pac_new_maximum_hook)(void);

/*
 * Returns an active extent of exactly size bytes, a multiple of PAGE; NULL: there is no memory.
 * zero: the pages must read as zero. is_dense: all pages will be touched soon, so they may be
 * populated (extent/ahead.h) or come from a huge piece (extent/piece.h).
 */
edata_t *pac_alloc_as(pac_t *pac, size_t size, size_t alignment, bool zero, bool is_dense);

static inline edata_t *
pac_alloc(pac_t *pac, size_t size, size_t alignment, bool zero) {
	return pac_alloc_as(pac, size, alignment, zero, false);
}

static inline edata_t *
pac_alloc_dense(pac_t *pac, size_t size) {
	return pac_alloc_as(pac, size, PAGE, false, true);
}

/*
 * As pac_alloc() with zero false, but of retained or new address space only. If possible, `room`
 * more bytes of address space follow, retained, so that the extent can grow in place.
 */
edata_t *pac_alloc_new(pac_t *pac, size_t size, size_t room, size_t alignment);

/*
 * As pac_alloc(), with guard pages (extent/guard.h) if the system and guard_limit allow; without
 * them if the arena has hooks of the user.
 */
edata_t *pac_alloc_guarded(pac_t *pac, size_t size, size_t alignment, bool zero);
/* Frees an active extent, guarded or not, but no slab; e belongs to the cache afterwards. */
void pac_dalloc(pac_t *pac, edata_t *e);
/*
 * Change the size in place to another one of size bytes, a multiple of PAGE; not of a guarded
 * extent. 0, or ENOMEM with e unchanged. zero: the new part must read as zero.
 */
int pac_expand(pac_t *pac, edata_t *e, size_t size, bool zero);
int pac_shrink(pac_t *pac, edata_t *e, size_t size);

/* Bytes that all arenas have from the system, without retained ones: the sum of `mapped`. */
size_t pac_mapped_all(void);

#endif
