/*
 * The memory of the profiler's records of sampled objects (sample_rec_t), which a dump walks.
 *
 * Records lie in blocks: one block holds the records of a slab of samples, or many records of large
 * objects. Records are recycled, but a block never becomes anything else. So a walker may read a
 * record at any time without a lock; one that is not in use has no count (tctx NULL). Blocks come
 * from the memory of the profiler's tables (meta/region.h), which other programs can read
 * (meta/image.h), until records have a quarter of the bytes of the box, the file in which those
 * tables may lie (without a box: of the smallest one). Later blocks come from meta_alloc().
 * Callers: slab.c, large.c, arenas.c, imalloc.c, irealloc.c, tcache_spare.c (records), prof.c
 * (samples), prof_age.c (the walk).
 */
#pragma once

#include "meta/edata.h"

/*
 * What a walker knows of a block; it is never freed. `bytes` is the second word, as in all objects
 * of the memory of the tables.
 */
typedef struct recs_block_s recs_block_t;
struct recs_block_s {
	const recs_block_t *next;
	uint64_t bytes;      /* of this struct */
	uint64_t n;          /* records in the block */
	const sample_rec_t *recs;
};

/*
 * Returns n records in a row (n > 0, at most 1 MiB of them), without a count or a link; NULL if
 * there is no memory. Other fields may have old values.
 */
sample_rec_t *recs_alloc(uint32_t n);
/* n is what was passed to recs_alloc(). No record has a count or a link; r may be NULL. */
void recs_free(sample_rec_t *r, uint32_t n);

/*
 * The newest block in the memory of the tables, or of those elsewhere; the older ones follow by
 * `next`. NULL: there is none. Blocks that are made later come in front of the one that is
 * returned.
 */
const recs_block_t *recs_blocks(bool is_in_region);

/*
 * Makes the record that of a sample: count is a prof_cnt_t, the others are fields of sample_rec_t.
 * The count is stored last, so a walker that sees it sees these fields, or those of a later sample
 * in the same record: what a dump sums of them (ages) may be of the one for the other.
 */
ALWAYS_INLINE void
recs_begin(sample_rec_t *rec, void *count, uint64_t weight, uint64_t time_ns, uint64_t sized) {
	__atomic_store_n(&rec->weight, weight, MO_RELAXED);
	__atomic_store_n(&rec->time_ns, time_ns, MO_RELAXED);
	__atomic_store_n(&rec->sized, sized, MO_RELAXED);
	__atomic_store_n(&rec->tctx, count, MO_RELEASE);
}

/* Ends the sample; called before its count is lowered. The other fields stay as they are. */
ALWAYS_INLINE void
recs_end(sample_rec_t *rec) {
	__atomic_store_n(&rec->tctx, NULL, MO_RELAXED);
}

/* The count of the record's sample; NULL: it is of none. For walkers. */
ALWAYS_INLINE void *
recs_count(const sample_rec_t *rec) {
	return __atomic_load_n(&rec->tctx, MO_ACQUIRE);
}
