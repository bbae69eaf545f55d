/*
 * The huge slabs of a shard that have both free pages and pages in use, searched by run length.
 * They lie in lists, one for each level of fullness (sixteenths of the slab in use) and each page
 * class of the longest free run. A request takes the fullest level that has a long enough class,
 * there the smallest such class, and of it the slab that was put in first: so slabs that are nearly
 * empty become empty, and long runs stay whole. If the request is between two classes, the first
 * slab of the lower one may be long enough, too. Invariant: a slab is removed before its counts
 * change and inserted afterwards, so its level and class are right. The lock of the shard protects
 * the set. Called by hpa.c.
 */
#pragma once

#include "hpa/hslab.h"

#define HSET_LEVELS 16u
/* At least the number of page classes up to the length of a slab. */
#define HSET_CLASSES 32u

typedef struct hset_s {
	uint32_t classes[HSET_LEVELS]; /* bit set: the list of that page class is not empty */
	/* by fullness (used pages * 16 / pages of a slab) and page class of the longest free run */
	ql_t lists[HSET_LEVELS][HSET_CLASSES];
} hset_t;

void hset_init(hset_t *set);
/* The slab is neither full nor empty, and is not in the set. */
void hset_insert(hset_t *set, hslab_t *s);
/* Removes the slab from the set, or else from the empty list; it may be on neither. */
void hset_remove(hset_t *set, hslab_t *s);
/* The slab from which n pages (1 or more) are to be taken; NULL: none looked at has such a run. */
hslab_t *hset_fit(const hset_t *set, unsigned n);
