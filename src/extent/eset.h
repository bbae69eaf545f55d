/*
 * A set of unused extents: one heap by address for each page class, a bitmap of the classes that have
 * any, and a list from the least recently added to the newest.
 * No lock of its own; the counters may be read without it.
 */
#ifndef EXTENT_ESET_H
#define EXTENT_ESET_H

#include "meta/edata.h"
#include "meta/sz.h"
#include "util/fb.h"

typedef struct eset_class_s {
	ph_t heap;
	atomic_zu_t nextents;
	atomic_zu_t nbytes;
} eset_class_t;

typedef struct eset_s {
	fb_word_t used[FB_NWORDS(SC_NPSIZES_MAX)];
	ql_t lru;
	atomic_zu_t npages;
	eset_class_t *classes; /* SC_NPSIZES_MAX; elsewhere, because most of them are never touched */
} eset_t;

/* Both in zeroed memory. */
void eset_init(eset_t *s, eset_class_t *classes);
void eset_insert(eset_t *s, edata_t *e);
void eset_remove(eset_t *s, edata_t *e);

/*
 * An extent that can hold size bytes at the given alignment: of the smallest class that has one,
 * the lowest address.  lg_max_fit: an extent more than 2^lg_max_fit times the size is left alone
 * (64: no limit).  NULL: none.
 */
edata_t *eset_fit(const eset_t *s, size_t size, size_t alignment, unsigned lg_max_fit);

/* Least recently added, or NULL. */
edata_t *eset_oldest(const eset_t *s);

static inline size_t
eset_npages(const eset_t *s) {
	return atomic_load_zu(&s->npages, MO_RELAXED);
}

#endif
