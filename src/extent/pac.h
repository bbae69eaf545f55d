/*
 * The page cache of an arena: it allocates extents of whole pages and keeps unused ones for reuse.
 * A freed extent becomes hot (kept whole, on a stack of its page class; pac_hot.h). It becomes
 * dirty instead if the stack is full, or if unused pages must be purged at once: with a decay time
 * of 0, or in a bounded cache (pac_bound) that is at its limit. When the decay (decay.h) is due,
 * pac_tick() makes hot extents dirty and purges the oldest dirty ones. Unless the muzzy decay time
 * is 0, these become muzzy first: the system may take their pages when it needs memory. Then they
 * become retained, which is address space without pages, or are unmapped. Statistics count hot
 * extents as dirty.
 *
 * A request tries, in this order:
 * 1. a hot extent of exactly its size;
 * 2. a huge slab (pac_hpa.h);
 * 3. a dirty, then a muzzy extent that fits well (opt_lg_extent_max_active_fit);
 * 4. step 3 again, after one longer hot extent was made dirty, and then after all hot ones were;
 * 5. below 1 MiB, if much is dirty (pac_has_plenty): a dirty, then a muzzy extent, however long;
 * 6. unused pieces side by side (join.h);
 * 7. retained or new address space, or for dense requests a huge piece or a populated run (piece.h,
 *    ahead.h);
 * 8. a dirty, then a muzzy extent, however long, after all hot ones and the rest of a huge piece
 *    were made dirty.
 * Callers: arena.c, arena_life.c, large.c, pac_move.c, vacant.h; pac_purge.h names its own.
 * prof_switch.c sets pac_new_maximum_hook.
 */
#pragma once

#include "extent/pac_purge.h"

/*
 * Locks: a decay's mutex is taken before any cache's and is held during a purging pass, so that one
 * thread purges at a time; pac_tick() only tries it. The mutex is released while a hook of the user
 * runs, and during passes that do other work and only keep other threads from purging
 * (pac_pass_begin(), pac_step.h); then `passer` keeps other threads out. The caller of a function
 * here is inside the gate (os/gate.h: fork waits meanwhile) and holds no lock.
 *
 * The sum of the pages in use, dirty and hot is brought back to 5/4 of the greatest number of pages
 * in use so far, unless the decay time is 0 or -1. Muzzy pages do not count. That is done only at
 * the end of a request of at least JOIN_MIN bytes (1 MiB) that no dirty or muzzy extent fitted, and
 * of each pac_alloc_new(): the oldest pages above the limit are purged. These do not become muzzy
 * first, unless the muzzy decay time is -1. A smaller request that got new pages drives out a few
 * of the oldest ones (pac_trade). A bounded cache (pac_bound) has another limit, which is enforced
 * at each allocation and release.
 */

/* Reused memory of at least this many bytes is zeroed by purging it instead of memset(). */
extern size_t opt_calloc_madvise_threshold;

/*
 * The allocation that has brought pac_mapped_all() to a new maximum calls this hook, inside the
 * gate and with no lock held; NULL if not set.
 */
extern void (*pac_new_maximum_hook)(void);

/*
 * Returns an active extent of exactly size bytes, a multiple of PAGE; NULL: there is no memory.
 * alignment: of the address, a power of two; less than PAGE is PAGE. zero: the pages must read as
 * zero. is_dense: all pages will be touched soon, so they may be populated (extent/ahead.h) or come
 * from a huge piece (extent/piece.h).
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
 * As pac_alloc() with zero false, but of retained or new address space only, and longer by `room`
 * bytes (a multiple of PAGE, or 0) if there is a place for both. The room does not count as in use.
 */
edata_t *pac_alloc_new(pac_t *pac, size_t size, size_t room, size_t alignment);
/*
 * Makes what follows the first `size` bytes of an extent of pac_alloc_new() retained; without
 * memory for a descriptor the extent keeps it, and it counts as in use.
 */
void pac_leave_room(pac_t *pac, edata_t *e, size_t size);

/*
 * As pac_alloc(), with guard pages (extent/guard.h) if the system and guard_limit allow; without
 * them if the arena has hooks of the user.
 */
edata_t *pac_alloc_guarded(pac_t *pac, size_t size, size_t alignment, bool zero);
/* Frees an active extent, guarded or not, but no slab; e belongs to the cache afterwards. */
void pac_dalloc(pac_t *pac, edata_t *e);
/*
 * Make e longer, or shorter, in place: to size bytes, a multiple of PAGE (not 0). e has no guards.
 * 0, or ENOMEM with e unchanged. zero: the added part must read as zero.
 */
int pac_expand(pac_t *pac, edata_t *e, size_t size, bool zero);
int pac_shrink(pac_t *pac, edata_t *e, size_t size);

/* Bytes that all arenas have from the system, without retained ones: the sum of `mapped`. */
size_t pac_mapped_all(void);
