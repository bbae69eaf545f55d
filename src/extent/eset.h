/*
 * A set of unused extents, searched by size: a heap by address for each page class. A bitmap says
 * which classes are not empty, and two lists order the extents from the least recently added to the
 * newest: one for extents that were only parts of huge pieces (extent/piece.h) when they were
 * added, one for all others. The lock of the ecache that contains the set protects it; the counters
 * may be read without the lock. Called by ecache.c, extent.c, piece.c and pac_purge.c. join.c walks
 * through the classes; statistics read the counters.
 */
#pragma once

#include "meta/edata.h"
#include "meta/sz.h"
#include "util/fb.h"

/* The extents of one page class: at least as long as the class, shorter than the next class. */
typedef struct eset_class_s {
	ph_t heap; /* by address */
	atomic_zu_t nextents;
	atomic_zu_t nbytes;
} eset_class_t;

typedef struct eset_s {
	/* the bit of a class is set if its heap is not empty */
	fb_word_t used[FB_NWORDS(SC_NPSIZES_MAX)];
	/* each extent is in one of the two lists, the least recently added first */
	ql_t lru;
	/* extents with eset_spare() 0 when added: purging would break huge pieces; evicted last */
	ql_t lru_held;
	atomic_zu_t npages; /* of all extents */
	/* SC_NPSIZES_MAX elements, kept elsewhere because most of them are never touched */
	eset_class_t *classes;
} eset_t;

/* s and classes must be zeroed memory. */
void eset_init(eset_t *s, eset_class_t *classes);
/*
 * Size (a multiple of PAGE) and address of an extent in the set change by eset_resize() only. The
 * extent then counts as added anew. If its class stays the same, it keeps its place in the heap:
 * the old and the new range overlap, and the new one overlaps no other extent of the set, so the
 * order of addresses is the same.
 */
void eset_insert(eset_t *s, edata_t *e);
void eset_remove(eset_t *s, edata_t *e);
void eset_resize(eset_t *s, edata_t *e, char *addr, size_t size);

/*
 * Finds an extent that can hold size bytes at the given alignment. First the classes in which only
 * some extents may fit, of each at most 24 extents: the class below the request's if size is no
 * class itself, then the request's own class if the alignment is above a page. If none of these
 * extents fits: the extent with the lowest address of the smallest non-empty class in which every
 * extent fits. NULL if that class is above 2^lg_max_fit times `size` (64: no limit), or if there is
 * none; an extent that was not examined may fit all the same. The extent stays in the set.
 */
edata_t *eset_fit(const eset_t *s, size_t size, size_t alignment, unsigned lg_max_fit);

/* An extent of the largest non-empty class; NULL: the set is empty. It stays in the set. */
edata_t *eset_largest(const eset_t *s);
/*
 * The least recently added extent in `lru`, or, if `lru` is empty and may_be_held, in lru_held;
 * NULL: there is none. It stays in the set.
 */
edata_t *eset_oldest(const eset_t *s, bool may_be_held);

/*
 * The part of an extent that can be purged without breaking a huge piece (extent/piece.h) that
 * reaches beyond the extent: all but those ends that are parts of such pieces. Returns its size in
 * bytes, and sets *lead to the bytes before it. 0: there is none, and *lead may be anything. The
 * caller owns the extent, or holds the lock of the set that contains it.
 */
size_t eset_spare(const edata_t *e, size_t *lead);

static inline size_t
eset_npages(const eset_t *s) {
	return atomic_load_zu(&s->npages, MO_RELAXED);
}
