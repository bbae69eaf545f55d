/*
 * The huge slabs of a shard that have free pages and pages in use, found by a request.
 * They lie in lists, one for each level of fullness (a sixteenth of the slab each) and each page
 * class of the longest free run. A request takes the fullest level that has a run of its length,
 * and there the shortest such run: so slabs that are nearly empty become empty, and long runs stay
 * whole. Invariant: a slab's level and class are those of its counts at the time it was put in. The
 * lock of the shard protects the set. Called by hpa.
 */
#ifndef HPA_HSET_H
#define HPA_HSET_H

#include "hpa/hslab.h"

#define HSET_LEVELS 16u
/* Page classes up to the length of a slab. */
#define HSET_CLASSES 32u

typedef struct hset_s {
	uint32_t classes[HSET_LEVELS]; /* bit set: the list of that class is not empty */
	ql_t lists[HSET_LEVELS][HSET_CLASSES];
} hset_t;

void hset_init(hset_t *set);
/* The slab is neither full nor empty, and is not in the set. */
void hset_insert(hset_t *set, hslab_t *s);
/* Nothing happens if the slab is not in the set. */
void hset_remove(hset_t *set, hslab_t *s);
/* The slab from which n pages are to be taken; NULL: none has such a run. */
hslab_t *hset_fit(const hset_t *set, unsigned n);

#endif
