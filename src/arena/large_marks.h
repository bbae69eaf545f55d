/*
 * The marks of a large object: fixed patterns in front of it and behind it, where its extent has
 * room, by which a write outside of the object is detected when the object returns to its arena or
 * is resized in place; in builds with safety checks at each free and realloc.
 *
 * With cache_oblivious an object from LARGE_OFFSET_MIN up begins at a cache line of its first page
 * other than the first line, and so ends inside a page of its extent: there is room on both sides.
 * Objects that end at a page boundary have no marks. These are smaller ones (in builds with safety
 * checks LARGE_OFFSET_MIN is the smallest large size), all with cache_oblivious:false, guarded
 * ones, those with an alignment above a cache line, and those in memory of the user's extent hooks.
 * Marks are written when the object is made or resized, and stay while the extent is hot (free, and
 * kept as it is for reuse) or the object is in a thread cache. To save touching fresh pages, they
 * are not written to those of objects below LARGE_MARKS_FRESH, nor (without safety checks) to the
 * last page of an object from LARGE_SPARSE_MIN up: there the bytes are zero, as they are after the
 * user has discarded the page, and zero is accepted. The owner of the object calls these functions,
 * from large.c, imalloc.c, imalloc.h and thread/shelter; no lock is needed.
 */
#pragma once

#include "arena/canary.h"
#include "meta/edata.h"
#include "os/pages.h"

/* A mark is this word, repeated. */
#define LARGE_MARK_WORD UINT64_C(0xb3d9a7c5b3d9a7c5)
#define LARGE_MARK_WORDS 2u
#define LARGE_MARK_BYTES (LARGE_MARK_WORDS * sizeof(uint64_t))
cassert(LARGE_MARK_BYTES <= CACHELINE);
/*
 * From this size (128 KiB) up the marks of a fresh object are written, which touches two of its 33
 * or more pages (of 4 KiB).
 */
#define LARGE_MARKS_FRESH ((size_t)128 << 10)
/* From this size (512 KiB) up a fresh object is often used in part; its last page is left alone. */
#define LARGE_SPARSE_MIN ((size_t)512 << 10)

/* Whether a fresh object of usize bytes, if it has marks, gets only the one in front of it. */
ALWAYS_INLINE bool
large_may_be_sparse(size_t usize) {
	return !config_hardening && usize >= LARGE_SPARSE_MIN;
}

/* The address behind the object, where one mark is. */
ALWAYS_INLINE uint64_t *
large_tail(const edata_t *e) {
	return (uint64_t *)(void *)(e->u.large_start + e->u.large_usize);
}

/* The address of the mark in front of the object. */
ALWAYS_INLINE uint64_t *
large_front(const edata_t *e) {
	return (uint64_t *)(void *)(e->u.large_start - LARGE_MARK_BYTES);
}

/* Whether there is room for marks: an object is whole pages long, so at both ends or at none. */
ALWAYS_INLINE bool
large_has_marks(const edata_t *e) {
	return ((uintptr_t)large_tail(e) & PAGE_MASK) != 0;
}

ALWAYS_INLINE void
large_mark_put(uint64_t *mark) {
	mark[0] = LARGE_MARK_WORD;
	mark[1] = LARGE_MARK_WORD;
}

/* Whether both words of a mark are this word. */
ALWAYS_INLINE bool
large_mark_is(const uint64_t *mark, uint64_t word) {
	return ((mark[0] ^ word) | (mark[1] ^ word)) == 0;
}

/* Whether marks and canaries are right or absent. If false, large_marks_check() decides. */
ALWAYS_INLINE bool
large_is_marked(const edata_t *e) {
	if (!canary_is_large_intact(e)) {
		return false;
	}
	return !large_has_marks(e) || (likely(large_mark_is(large_tail(e), LARGE_MARK_WORD))
	    && likely(large_mark_is(large_front(e), LARGE_MARK_WORD)));
}

ALWAYS_INLINE void
large_marks_put(const edata_t *e) {
	if (large_has_marks(e)) {
		large_mark_put(large_front(e));
		large_mark_put(large_tail(e));
	}
}
