/*
 * Hands out records of samples from blocks that stay for good (recs.h). Freed records are kept in
 * one list for each size class, chained by the link of the first; single ones, of large objects,
 * are cut from larger blocks.
 *
 * Invariant: each block is in one of the two lists that begin in the root of the profiler's tables
 * (region_root()), from its first use on; a record that is not handed out has no count. Locks:
 * `recs` for the free lists, under which no other lock is taken; a list of blocks grows by
 * compare-and-swap. Called by slab.c, large.c, arenas.c, imalloc.c, irealloc.c, tcache_spare.c and
 * prof.c; walked by prof_age.c.
 */
#include "meta/recs.h"

#include "meta/freepool.h"
#include "meta/meta_class.h"
#include "meta/region.h"
#include "os/mutex.h"
#include "os/witness.h"
#include "util/bits.h"

/* log2 of the largest class in bytes: the records of one slab. */
#define RECS_LG_MAX 20u
/* Bytes of a block of single records: a size class. */
#define SINGLES_SIZE ((size_t)4 << 10)

cassert(offsetof(recs_block_t, bytes) == sizeof(uint64_t));

static struct {
	mutex_t mtx;
	sample_rec_t *freed[META_NCLASSES(RECS_LG_MAX)]; /* free records by class, chained by link */
	atomic_zu_t in_region;   /* bytes of records in the region */
} recs = {.mtx = MUTEX_INITIALIZER("recs", WITNESS_RANK_LEAF)};

/* ---------------------------------------------------------------- blocks */

/*
 * Whether the region may have another block of so many bytes. Records have a quarter of the bytes
 * of the box, or without one of the smallest box.
 */
static bool
may_use_region(size_t bytes) {
	return atomic_load_zu(&recs.in_region, MO_RELAXED) + bytes <= region_box_part(4);
}

/* Memory for so many bytes of records, in the region or elsewhere, with its descriptor; or NULL. */
static recs_block_t *
block_make(size_t bytes, bool is_in_region) {
	void *r = is_in_region ? region_alloc(bytes) : meta_alloc(bytes);
	size_t size = sizeof(recs_block_t);
	recs_block_t *b = r == NULL ? NULL : is_in_region ? region_alloc(size) : meta_alloc(size);
	if (b != NULL) {
		b->recs = r;
		b->n = bytes / sizeof(sample_rec_t);
		b->bytes = size;
	} else if (is_in_region) {
		region_free(r, bytes);
	} else {
		meta_free(r, bytes);
	}
	return b;
}

/* The records of a new block, which is on its list; bytes is a class's. NULL: no memory. */
static sample_rec_t *
block_new(size_t bytes) {
	image_root_t *root = region_root();
	if (root == NULL) {
		return NULL;
	}
	recs_block_t *b = may_use_region(bytes) ? block_make(bytes, true) : NULL;
	uint64_t *list = &root->records;
	if (b != NULL) {
		atomic_fetch_add_zu(&recs.in_region, bytes, MO_RELAXED);
	} else {
		b = block_make(bytes, false);
		list = &root->records_elsewhere;
	}
	if (b == NULL) {
		return NULL;
	}
	region_list_push(list, b);
	return (sample_rec_t *)(uintptr_t)b->recs;
}

const recs_block_t *
recs_blocks(bool is_in_region) {
	const image_root_t *root = region_root();
	return root == NULL ? NULL : (const recs_block_t *)(uintptr_t)__atomic_load_n(is_in_region
	    ? &root->records : &root->records_elsewhere, MO_ACQUIRE);
}

/* ---------------------------------------------------------------- records */

static sample_rec_t *
freed_take(unsigned c) {
	mutex_lock(&recs.mtx);
	sample_rec_t *r = recs.freed[c];
	if (r != NULL) {
		recs.freed[c] = r->link;
		r->link = NULL;
	}
	mutex_unlock(&recs.mtx);
	return r;
}

static void
freed_put(unsigned c, sample_rec_t *r) {
	mutex_lock(&recs.mtx);
	r->link = recs.freed[c];
	recs.freed[c] = r;
	mutex_unlock(&recs.mtx);
}

static void
recs_check(const sample_rec_t *r, uint32_t n) {
	for (uint32_t i = 0; config_debug && i < n; i++) {
		assert(r[i].tctx == NULL && r[i].link == NULL);
	}
}

/* Makes a block of single records and returns one; the others go to the free list of class c. */
static sample_rec_t *
singles_new(unsigned c) {
	sample_rec_t *r = block_new(SINGLES_SIZE);
	for (unsigned i = SINGLES_SIZE / sizeof(*r) - 1; r != NULL && i > 0; i--) {
		freed_put(c, &r[i]);
	}
	return r;
}

sample_rec_t *
recs_alloc(uint32_t n) {
	assert(n > 0 && n * sizeof(sample_rec_t) <= (size_t)1 << RECS_LG_MAX);
	unsigned c = meta_class(n * sizeof(sample_rec_t));
	sample_rec_t *r = freed_take(c);
	if (r == NULL) {
		r = n == 1 ? singles_new(c) : block_new(meta_class_size(c));
	}
	recs_check(r, r == NULL ? 0 : n);
	return r;
}

void
recs_free(sample_rec_t *r, uint32_t n) {
	if (r != NULL) {
		recs_check(r, n);
		freed_put(meta_class(n * sizeof(*r)), r);
	}
}
