/*
 * A set of unused extents, searched by size: a heap by address for each page class.
 * A bitmap says which classes are not empty, and a list orders the extents from the least recently
 * added to the newest. The owner's lock protects it (it is part of an ecache); the counters may be
 * read without the lock.
 */
#ifndef EXTENT_ESET_H
#define EXTENT_ESET_H

#include "meta/edata.h"
#include "meta/sz.h"
#include "util/fb.h"

/* The extents of one page class. */
typedef struct eset_class_s {
	ph_t heap;
	atomic_zu_t nextents;
	atomic_zu_t nbytes;
} eset_class_t;

/* The bit of a class is set if its heap is not empty; lru and lru_held link all extents. */
typedef struct eset_s {
	fb_word_t used[FB_NWORDS(SC_NPSIZES_MAX)];
	ql_t lru;
	/* the same for extents that are only parts of huge pieces, which would be broken */
	ql_t lru_held;
	atomic_zu_t npages;
	/* SC_NPSIZES_MAX elements, kept elsewhere because most of them are never touched */
	eset_class_t *classes;
} eset_t;

/* s and classes must be zeroed memory. */
void eset_init(eset_t *s, eset_class_t *classes);
/* The size of an extent must not change while it is in the set. */
void eset_insert(eset_t *s, edata_t *e);
void eset_remove(eset_t *s, edata_t *e);

/*
 * Finds an extent that can hold size bytes at the given alignment: from the smallest class that has
 * one, the lowest address. An extent larger than 2^lg_max_fit times the size is not used (64: no
 * limit). NULL if there is none. The extent stays in the set.
 */
edata_t *eset_fit(const eset_t *s, size_t size, size_t alignment, unsigned lg_max_fit);

/* An extent of the largest class that has any, or NULL. */
edata_t *eset_largest(const eset_t *s);

/* The least recently added extent, parts of huge pieces last; NULL if there is none. */
edata_t *eset_oldest(const eset_t *s);
/* The same without parts of huge pieces. */
edata_t *eset_oldest_spare(const eset_t *s);

/*
 * The part of an extent that can be given back without breaking a huge piece (extent/piece.h): all
 * but those ends that are parts of pieces. Returns its size in bytes, and in *lead the bytes before
 * it; 0: there is none.
 */
size_t eset_spare(const edata_t *e, size_t *lead);

static inline size_t
eset_npages(const eset_t *s) {
	return atomic_load_zu(&s->npages, MO_RELAXED);
}

#endif
