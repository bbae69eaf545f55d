/*
 * A set of unused extents, searched by size: a heap by address for each page class. A bitmap says
 * which classes are not empty, and two lists order the extents from the least recently added to the
 * newest: one for extents that are only parts of huge pieces (extent/piece.h), one for all others.
 * The lock of the ecache that contains the set protects it; the counters may be read without the
 * lock. Called by ecache.c, extent.c, piece.c and pac_purge.c. join.c walks through
 * the classes; statistics read the counters.
 */
#ifndef EXTENT_ESET_H
#define EXTENT_ESET_H

#include "meta/edata.h"
#include "meta/sz.h"
#include "util/fb.h"

/* The extents of one page class: of this size or longer, but shorter than the next class. */
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
	/* extents that are only parts of huge pieces, which purging would break; evicted last */
	ql_t lru_held;
	atomic_zu_t npages; /* of all extents */
	/* SC_NPSIZES_MAX elements, kept elsewhere because most of them are never touched */
	eset_class_t *classes;
} eset_t;

/* s and classes must be zeroed memory. */
void eset_init(eset_t *s, eset_class_t *classes);
/* The size of an extent must not change while it is in the set. */
void eset_insert(eset_t *s, edata_t *e);
void eset_remove(eset_t *s, edata_t *e);

/*
 * Finds an extent that can hold size bytes at the given alignment. First a few extents are examined
 * of the class below the request's (and, with an alignment above a page, of the request's own); if
 * none of these fits, it is the lowest of the smallest class in which every extent fits. A class
 * above 2^lg_max_fit times the size is not used (64: no limit). NULL if there is none. The extent
 * stays in the set.
 */
edata_t *eset_fit(const eset_t *s, size_t size, size_t alignment, unsigned lg_max_fit);

/* An extent of the largest class that has any, or NULL. It stays in the set; so do those below. */
edata_t *eset_largest(const eset_t *s);

/* The least recently added extent, parts of huge pieces last; NULL if there is none. */
edata_t *eset_oldest(const eset_t *s);
/* As eset_oldest(), but never an extent that is only parts of huge pieces. */
edata_t *eset_oldest_spare(const eset_t *s);

/*
 * The part of an extent that can be purged without breaking a huge piece (extent/piece.h) that
 * reaches beyond the extent: all but those ends that are parts of such pieces. Returns its size in
 * bytes, 0 if there is none, and sets *lead to the bytes before it.
 */
size_t eset_spare(const edata_t *e, size_t *lead);

static inline size_t
eset_npages(const eset_t *s) {
	return atomic_load_zu(&s->npages, MO_RELAXED);
}

#endif
