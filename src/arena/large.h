/*
 * Large objects: each has an extent of its own, with or without an offset in its first page.
 *
 * Invariant: the descriptor of a large object knows whether it is free or handed out, see
 * arena_large_try_claim(). Only the owner of an object calls a function with it; no lock may be
 * held. Callers: arena.c, which chooses between small and large, thread caches, the slow path of
 * requests, reset and destroy.
 */
#ifndef ARENA_LARGE_H
#define ARENA_LARGE_H

#include "arena/arena_types.h"
#include "arena/large_marks.h"

/* Large objects start at varying cache lines of their first page, not all at the same one. */
extern HIDDEN bool opt_cache_oblivious;
/* The user has asked for that: so do all large objects. */
extern HIDDEN bool opt_cache_oblivious_all;
/*
 * From this size (128 KiB; with larger pages 256 KiB) up they do by default: of smaller ones the
 * page that the offset costs would be up to a quarter. In builds with safety checks all do, because
 * only those that do have marks (large_marks.h) at their ends.
 */
#define LARGE_OFFSET_MIN (config_hardening || opt_cache_oblivious_all ? SC_LARGE_MINCLASS \
    : min_zu((size_t)32 << LG_PAGE, (size_t)256 << 10))
/*
 * Objects of classes from this one on are never cached if their arena is explicit: it may be
 * destroyed while other threads' caches hold them, or have the user's hooks. Set once at boot.
 */
extern HIDDEN szind_t arena_large_explicit_min;

/* The bytes that a large object of usize bytes and usual alignment needs for its offset. */
static inline size_t
arena_large_pad(size_t usize) {
	return opt_cache_oblivious && usize >= LARGE_OFFSET_MIN ? PAGE : 0;
}

/*
 * The address at which a large object of usual alignment begins in an extent. With an offset it
 * varies over the cache lines of the first page except the first line; the golden ratio places
 * neighbours far apart. In memory of extent hooks it is the beginning of the extent.
 */
static inline char *
arena_large_start(const arena_t *a, const edata_t *e, size_t usize) {
	if (arena_large_pad(usize) == 0 || ehooks_are_custom(&a->pac.src.ehooks)) {
		return e->addr;
	}
	uint64_t mix = (((uintptr_t)e->addr >> LG_PAGE) * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
	uint64_t line = 1 + ((mix * ((PAGE >> LG_CACHELINE) - 1)) >> 32);
	return e->addr + (line << LG_CACHELINE);
}

/*
 * A large object is free or handed out; its descriptor knows which. Only the following three
 * functions change that: a free begins with arena_large_try_claim(), which returns false if the
 * object is free already, and an allocation ends with arena_large_hand_out(), which returns the
 * address of the object. In between the object belongs to a thread cache, or to its arena.
 * arena_large_unclaim() takes a claim back. A free touches the object's memory, marks included,
 * only after its claim: a thread that frees the object at the same moment may have taken access
 * away.
 */
ALWAYS_INLINE bool
arena_large_try_claim(edata_t *e) {
	/* That of an object which was freed before may be hot by now. */
	assert(!e->is_slab && (e->state == extent_state_active || e->state == extent_state_hot));
	return (atomic_fetch_or_u32(&e->u.large_is_freed, 1, MO_RELAXED) & 1) == 0;
}

ALWAYS_INLINE void
arena_large_unclaim(edata_t *e) {
	assert(atomic_load_u32(&e->u.large_is_freed, MO_RELAXED) == 1);
	atomic_store_u32(&e->u.large_is_freed, 0, MO_RELAXED);
}

ALWAYS_INLINE void *
arena_large_hand_out(edata_t *e) {
	assert(!e->is_slab && e->state == extent_state_active);
	arena_large_unclaim(e);
	if (config_hardening) {
		e->large_request = 0;
	}
	return e->u.large_start;
}

/* Whether ptr is where a large object begins that is handed out. e: of an active extent. */
static inline bool
arena_large_is_live(const void *ptr, const edata_t *e) {
	assert(!e->is_slab);
	return ptr == e->u.large_start && atomic_load_u32(&e->u.large_is_freed, MO_RELAXED) == 0;
}

/*
 * Makes a large object (usize >= SC_LARGE_MINCLASS), which is not handed out yet. NULL: there is no
 * memory. arena_large_malloc() hands it out.
 */
edata_t *arena_large_new(arena_t *a, size_t usize, size_t alignment, bool zero);
void *arena_large_malloc(arena_t *a, size_t usize, size_t alignment, bool zero);
/*
 * Makes up to n large objects in hot extents (extent/pac_hot.h), which may be a quarter longer than
 * needed, and writes their descriptors to out; they are not handed out yet. Returns their number; 0
 * if no hot extent fits. Alignment: a cache line.
 */
unsigned arena_large_reuse(arena_t *a, size_t usize, void **out, unsigned n);
/* Frees a large object; a write past its end that is detected ends the process. */
void arena_large_dalloc(edata_t *e);
/*
 * Frees n large objects that leave a thread cache, given by their descriptors; cheaper if their
 * arena and class are the same. One that is in use again by its arena, because that was reset
 * meanwhile, ends the process.
 */
void arena_large_flush(void *const *objs, unsigned n);
/* Ends the process if the bytes at an end of the object are neither the mark nor zero. */
void large_marks_check(const edata_t *e);
/*
 * Resizes in place: to usize_max, or if that fails to usize_min or, if the old size is at least
 * usize_min, not at all. 0 or ENOMEM. zero: new bytes must be zero; may_cache: also one that has
 * grown may be cached (arena_large_note_grown()).
 */
int arena_large_resize(void *ptr, edata_t *e, size_t usize_min, size_t usize_max, bool zero,
    bool may_cache);
/*
 * Moves the pages of a large object into a longer extent, without a copy; usize: its new size, a
 * multiple of PAGE. Returns its new address, and e is no more; NULL: not possible, or not worth it,
 * and nothing has changed. A sample keeps its record. zero: new bytes must be zero.
 */
void *arena_large_try_move(edata_t *e, size_t usize, bool zero);
/*
 * Called when a new object of usize bytes takes the place of one that realloc has made longer. Its
 * free passes by the thread caches then, if it is above 32 KiB, as that of an object that realloc
 * made longer where it was: the program will seldom ask for that size at once, and the next block
 * that grows needs the room, which a cached object occupies.
 */
void arena_large_note_grown(void *ptr, size_t usize);
void arena_large_count_requests(arena_t *a, szind_t szind, uint64_t nrequests, unsigned nfills,
    unsigned nflushes);

/*
 * Gives a large object a record without a count, which makes it a sample. Returns rec, also if that
 * is NULL; nothing has changed then.
 */
sample_rec_t *arena_large_make_sampled(edata_t *e, sample_rec_t *rec);
/*
 * Takes the record, which must not refer to a count any more, from an object that lives on, and
 * returns it.
 */
sample_rec_t *arena_large_end_sampled(edata_t *e);
#endif
