/*
 * An arena: small objects in bins, large ones in extents of their own, pages from one page cache.
 *
 * Each arena has pages and locks of its own; all share the page map, the pool of metadata
 * (meta/freepool.h) and the counters of the process. A thread allocates from the arena it is bound
 * to and frees to the arena that the object came from. Functions that allocate, free, count, trim
 * or set a decay time take the lock of a bin or of the page cache themselves, so they are called
 * without a lock, inside the gate (os/gate.h: fork waits meanwhile); arenas.c calls arena_new()
 * under its lock. The inline functions take none. Sampled small objects lie in hidden arenas. The
 * pieces of address space of these are marked in arena_sampled_map, so that a sized free can
 * exclude a sample by the address alone. Callers: the fast path of sized frees (imalloc.h), the
 * slow path of requests (imalloc.c, irealloc.c), thread caches (tcache.c, tcache_spare.c),
 * quarantine.c, shelter.c, icheck.c, arenas.c, arena_life.c, vacant.c, background threads, mallctl.
 */
#pragma once

#include "arena/arena_table.h"
#include "arena/arena_types.h"
#include "extent/pac.h"

/*
 * Each byte that is not 0 marks 2 MiB pieces of address space that may hold sampled objects, or
 * others that must not enter a thread cache by their size alone (those of thread/shelter.c). Bits
 * 21 to 31 of the address are the index, so that one shift finds the byte; pieces a multiple of 4
 * GiB apart share it. A byte is never cleared.
 */
#define SAMPLED_MAP_LG_PIECE 21
#define SAMPLED_MAP_SIZE (1u << (32 - SAMPLED_MAP_LG_PIECE))
extern uint8_t arena_sampled_map[SAMPLED_MAP_SIZE];

/* From now on sized frees of addresses in the range consult the page map. */
void arena_mark_slow_sized_free(const void *addr, size_t size);

/* True for NULL and in a marked piece, and in any other piece that shares a byte with these. */
static inline bool
arena_may_be_sampled(const void *ptr) {
	return arena_sampled_map[(uint32_t)(uintptr_t)ptr >> SAMPLED_MAP_LG_PIECE] != 0;
}

/*
 * Makes an arena, which is not in the table yet. Decay times are in milliseconds; hooks NULL: pages
 * of the system. Returns NULL if there is no memory.
 */
arena_t *arena_new(unsigned ind, bool is_auto, ssize_t dirty_ms, ssize_t muzzy_ms,
    ehooks_table_t *hooks);
/* Sets the name that a new arena has until arenas.c or the user sets another. */
void arena_name_default(arena_t *a);

/*
 * Takes up to n regions of class szind into out, at least one unless there is no memory. Returns
 * the number. nrequests and nfills are added to the class's counters.
 */
unsigned arena_small_fill(arena_t *a, szind_t szind, unsigned shard, void **out, unsigned n,
    uint64_t nrequests, unsigned nfills);
/*
 * Returns n regions of class szind, of any arenas, to their slabs; ptrs need not be in any order.
 * An address that is no taken region of that class ends the process. from: the arena of the thread
 * cache that they leave as its surplus, or NULL. Surplus goes into the stocks (stock.h) of its bins
 * while there is room and the arena's dirty decay time is not 0; not that of the only thread of the
 * bins' own arena, because no other thread would take it. A double free into a stock is detected
 * later, if at all, except in debug builds and those with safety checks (stock.h).
 */
void arena_small_return(szind_t szind, void **ptrs, unsigned n, const arena_t *from);
/*
 * Returns regions of stocks to their slabs, and deletes empty slabs, also current ones. Without all
 * only those that were not used since the last trim; and an explicit or hidden arena is not trimmed
 * while any thread is in a pass of its dirty pages (extent/pac_step.h); with all the call waits for
 * the end of another thread's pass of such an arena.
 */
void arena_trim(arena_t *a, bool all);
/* Frees the slabs of a chain, linked by heap.next, that have become empty and left their bins. */
void arena_slabs_delete(edata_t *empty);
/*
 * arena_trim() if 250 ms have passed since the last call of this function that trimmed. now:
 * monotonic ns. Returns ns from now to the next call that is useful; UINT64_MAX: there is nothing
 * to trim.
 */
uint64_t arena_trim_tick(arena_t *a, uint64_t now);
/* Adds the requests and flushes of a thread cache to the counters of a class. */
void arena_small_count_requests(arena_t *a, szind_t szind, unsigned shard, uint64_t nrequests,
    unsigned nflushes);

/*
 * Allocates one object without a thread cache. usize: from sz_s2u or sz_sa2u; alignment 0: the
 * natural one; nrequests: 1, or 0 if the request is counted elsewhere. zero: the object must read
 * as zero. Returns NULL if there is no memory.
 */
void *arena_malloc(arena_t *a, size_t usize, size_t alignment, bool zero, unsigned nrequests);
/*
 * Frees one object past the thread caches. elem: its page-map element. The caller has claimed a
 * large object (arena_large_try_claim) and has ended a sample (tctx of its record is NULL).
 */
void arena_dalloc(void *ptr, uint64_t elem);

/* Returns the record of a sampled object, NULL for any other object. */
static inline sample_rec_t *
arena_sample_rec(const void *ptr, uint64_t elem) {
	if ((elem & ELEM_SAMPLED) == 0) {
		return NULL;
	}
	const edata_t *e = elem_edata(elem);
	return (elem & ELEM_SLAB) != 0 ? slab_rec(e, ptr) : e->recs;
}

/*
 * Bytes of the region or of the large object at ptr, which is active; its usable size, but for
 * canaries: see arena_usable().
 */
static inline size_t
arena_usize(uint64_t elem) {
	const edata_t *e = elem_edata(elem);
	return (elem & ELEM_SLAB) != 0 ? sz_i2s(e->szind) : e->u.large_usize;
}

/* What the program may use of an active object; with canaries 0 if ptr is none. */
static inline size_t
arena_usable(const void *ptr, uint64_t elem) {
	const edata_t *e = elem_edata(elem);
	size_t usize = arena_usize(elem);
	return !config_hardening ? usize
	    : (elem & ELEM_SLAB) != 0 ? canary_size(ptr, usize, e) : canary_large_size(e);
}

/*
 * Makes an object in use, of usize bytes, one that serves a request of size bytes: puts its
 * canaries, if it has any. Returns ptr.
 */
ALWAYS_INLINE void *
arena_guard(void *ptr, size_t usize, size_t size) {
	if (config_hardening && size <= SC_SMALL_MAXCLASS) {
		if (usize < SC_LARGE_MINCLASS) {
			canary_put(ptr, usize, size);
		} else {
			canary_put_large(emap_edata(ptr), size);
		}
	}
	return ptr;
}

/*
 * Decay time of dirty or muzzy pages in ms; 0: purge at once; -1: never. If the time of dirty pages
 * is 0 then, the arena is trimmed too. 0, or EINVAL if ms is below -1 or above DECAY_MS_MAX.
 */
int arena_decay_ms_set(arena_t *a, bool is_dirty, ssize_t ms);
ssize_t arena_decay_ms_get(const arena_t *a, bool is_dirty);
/* Bytes of address space that suffice for an object and its alignment; below usize: overflow. */
size_t arena_need(size_t usize, size_t alignment);
