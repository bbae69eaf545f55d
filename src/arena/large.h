/*
 * Large objects: each has an extent of its own, with or without an offset in its first page.
 *
 * Invariant: the descriptor of a large object says whether the object is free or handed out
 * (arena_large_try_claim()). Only the owner of an object calls a function with it, but for
 * arena_large_try_claim() and arena_large_is_live(); no lock may be held. The inline functions are
 * also called outside the gate (os/gate.h: fork waits meanwhile), those of large.c that allocate,
 * free or resize only inside. Callers: arena.c, which chooses between small and large, arenas.c,
 * arena_life.c, shut.c, tcache.c, imalloc.c, imalloc.h (fast path), irealloc.c and icheck.c;
 * conf_table.c and tcache_limits.c set the variables.
 */
#pragma once

#include "arena/arena_types.h"
#include "arena/large_marks.h"
#include "meta/emap.h"
#include "os/mutex.h"

/* Large objects start at varying cache lines of their first page, not all at the same one. */
extern HIDDEN bool opt_cache_oblivious;
/* The user has set that option: it holds for large objects of all sizes. */
extern HIDDEN bool opt_cache_oblivious_all;
/*
 * By default cache_oblivious holds from this size (128 KiB; with larger pages 256 KiB) up: the page
 * that the offset costs is a quarter of the smallest large object. In builds with safety checks it
 * holds for all sizes, because only objects with an offset have marks (large_marks.h) at their
 * ends.
 */
#define LARGE_OFFSET_MIN (config_hardening || opt_cache_oblivious_all ? SC_LARGE_MINCLASS \
    : min_zu((size_t)32 << LG_PAGE, (size_t)256 << 10))
/*
 * Objects of classes from this one on never enter a thread cache if their arena is explicit (it may
 * be destroyed while other threads' caches hold them, or have the user's hooks) or if realloc made
 * them longer. Set once at boot (tcache_limits.c): the first class above 32 KiB, or SC_NSIZES if
 * the options limit the caches, so that this rule is off.
 */
extern HIDDEN szind_t arena_large_explicit_min;

/* Bytes that an object of usize bytes needs for an offset, if aligned to a cache line or less. */
static inline size_t
arena_large_pad(size_t usize) {
	return opt_cache_oblivious && usize >= LARGE_OFFSET_MIN ? PAGE : 0;
}

/*
 * The address at which a large object that needs the alignment of a cache line begins in an extent.
 * With an offset it varies over the cache lines of the first page except the first line; the golden
 * ratio places neighbours far apart. In memory of the user's hooks it is the start of the extent.
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
 * A large object is free or handed out; large_is_freed in its descriptor says which. A new object
 * is free. An allocation ends with arena_large_hand_out(), which returns the address of the object.
 * A free by the program begins with arena_large_try_claim(), which returns false if the object is
 * free already; arena_large_unclaim() takes such a claim back. While it is free, the object belongs
 * to a thread cache, to the ring of shut.h or to its arena. A free touches the object's memory,
 * marks included, only after its claim: a thread that frees the object at the same moment may have
 * taken access away (shut.h). (A reset frees objects without a claim, by arena_large_dalloc().)
 */
ALWAYS_INLINE bool
arena_large_try_claim(edata_t *e) {
	/* If this is a double free, the extent may be hot by now. */
	assert(!e->is_slab && (e->state == extent_state_active || e->state == extent_state_hot));
	if (likely(mutex_is_single_threaded())) {
		/* Nobody else can claim it meanwhile; the locked operation costs a third of a pair. */
		if (atomic_load_u32(&e->u.large_is_freed, MO_RELAXED) != 0) {
			return false;
		}
		atomic_store_u32(&e->u.large_is_freed, 1, MO_RELAXED);
		return true;
	}
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
 * Makes a large object (usize >= SC_LARGE_MINCLASS, rounded up to pages), which is not handed out
 * yet. alignment: in bytes; 0: that of a cache line; zero: its bytes must read as zero. NULL: no
 * memory, or usize is too large. arena_large_malloc() hands it out.
 */
edata_t *arena_large_new(arena_t *a, size_t usize, size_t alignment, bool zero);
void *arena_large_malloc(arena_t *a, size_t usize, size_t alignment, bool zero);
/*
 * Makes up to n large objects, at most 32, in hot extents (extent/pac_hot.h), which may be up to a
 * quarter longer than needed, and writes their descriptors to out; they are not handed out yet.
 * Returns their number; 0: no hot extent fits, large extents are guarded, or the arena is bounded.
 * Their alignment is that of a cache line; they hold old bytes.
 */
unsigned arena_large_reuse(arena_t *a, size_t usize, void **out, unsigned n);
/*
 * Frees a large object, past the thread caches, and its record if it has one. A lost mark or canary
 * ends the process.
 */
void arena_large_dalloc(edata_t *e);
/*
 * Frees n large objects that leave a thread cache, given by their descriptors; cheaper if their
 * arena and class are the same. One whose extent is no freed object any more, because its arena was
 * reset meanwhile, ends the process.
 */
void arena_large_flush(void *const *objs, unsigned n);
/*
 * Ends the process if the bytes at an end of the object are neither the mark nor zero (not written
 * yet, or the page was discarded), or if its canaries are lost.
 */
void large_marks_check(const edata_t *e);
/*
 * Resizes in place: to usize_max, or if growing that far fails, to usize_min, or not at all if the
 * old size is at least usize_min. An object longer than usize_max is shortened to it; if that
 * fails, the result is ENOMEM. 0, or ENOMEM with nothing changed. A guarded object keeps its size.
 * zero: new bytes must be zero. may_cache: an object that grows may still enter a thread cache;
 * else the rule of arena_large_note_grown() holds.
 */
int arena_large_resize(edata_t *e, size_t usize_min, size_t usize_max, bool zero, bool may_cache);
/*
 * Moves the pages of a large object into a longer extent; if they are several mappings, less than
 * half of them is copied. usize: its new size, a multiple of PAGE. Returns its new address, and e
 * is no more; NULL: not possible, or not worth it, and nothing has changed. A sample keeps its
 * record. zero: new bytes must be zero.
 */
void *arena_large_try_move(edata_t *e, size_t usize, bool zero);
/*
 * Called when realloc has made an object longer by copying it to a new one, ptr, of usize bytes. If
 * its class is arena_large_explicit_min or above, no thread cache takes it when it is freed: the
 * program will seldom ask for that size at once, and the next block that grows needs the room,
 * which a cached object would occupy. The same holds for one made longer in place (may_cache false)
 * or by a move of its pages.
 */
void arena_large_note_grown(void *ptr, size_t usize);
/* Adds to the counters of a large class, and to those of all large classes (fills, flushes). */
void arena_large_count_requests(arena_t *a, szind_t szind, uint64_t nrequests, unsigned nfills,
    unsigned nflushes);

/*
 * Gives a large object a record (with tctx NULL: the profiler counts it later), which makes it a
 * sample. Returns rec, also if that is NULL; nothing has changed then.
 */
ALWAYS_INLINE sample_rec_t *
arena_large_make_sampled(edata_t *e, sample_rec_t *rec) {
	assert(!e->is_slab && e->recs == NULL);
	if (likely(rec != NULL)) {
		assert(rec->tctx == NULL && rec->link == NULL);
		__atomic_store_n(&rec->slab, 0, MO_RELAXED); /* a dump may read it (prof_age.c) */
		e->recs = rec;
		e->is_sampled = true;
		emap_set_sampled(e);
	}
	return rec;
}

/* Takes the record, whose tctx must be NULL again, from an object that lives on, and returns it. */
ALWAYS_INLINE sample_rec_t *
arena_large_end_sampled(edata_t *e) {
	sample_rec_t *rec = e->recs;
	assert(!e->is_slab && rec != NULL && rec->tctx == NULL);
	e->recs = NULL;
	e->is_sampled = false;
	emap_set_sampled(e);
	return rec;
}
