/*
 * Spares: small sampled objects that a thread has freed and keeps for its next sample of the class;
 * and records of large samples, without the objects, which are cached like any others.
 *
 * All threads share the slabs of samples, and no bin of a cache holds their regions, so without
 * spares each sample would take the lock of a bin twice. There are TCACHE_NSPARES places; a class
 * uses the place of its slot (class + 1) modulo that, and a spare is never replaced by another.
 * Invariant: a spare is allocated in its slab, and its record has req_size TCACHE_REC_IS_SPARE, by
 * which free() recognises a double free. Only samples of the automatic arenas become spares; they
 * lie in one hidden arena. Spares belong to a thread's own cache (those of an explicit one stay
 * empty), whose owner alone calls these functions (imalloc.c, tcache.c), inside the gate, so there
 * is no lock; but a forked child flushes those of threads that do not exist there. Upkeep returns
 * all spares to their slabs, and frees the kept records, once in a round over the bins; so does
 * each flush of the cache.
 */
#pragma once

#include "meta/recs.h"

/* Places for spares of a cache, a power of two; most records that it keeps without an object. */
#define TCACHE_NSPARES 4
#define TCACHE_NRECS 128
/* Marks the record of a spare; it stands in req_size, where a sample has the requested size. */
#define TCACHE_REC_IS_SPARE UINT64_MAX

typedef struct {
	void *ptr;          /* the object, a region of a slab of samples */
	sample_rec_t *rec;  /* its record, one of those of that slab */
	unsigned slot;      /* of the object's class: class + 1; 0: this place is empty */
} tcache_spare_t;

/* What a cache keeps for samples. */
typedef struct {
	tcache_spare_t at[TCACHE_NSPARES];
	sample_rec_t *recs; /* at most TCACHE_NRECS without an object, chained by link */
	unsigned nrecs;
} tcache_spares_t;

/*
 * Takes the spare of class slot-1; *rec: its record, which is of no sample now (tctx NULL). Returns
 * NULL if there is none.
 */
void *tcache_spare_take(tcache_spares_t *sp, unsigned slot, sample_rec_t **rec);
/*
 * Keeps a region of e as a spare; its sample has ended and it is not a spare already. Returns false
 * if its place is taken or e is not suitable; the caller frees it.
 */
bool tcache_spare_try_put(tcache_spares_t *sp, const edata_t *e, void *ptr, sample_rec_t *rec);
/*
 * A record for a large sample, without a count or a link: one that tcache_rec_put() has kept, or a
 * new one; NULL: no memory. sp may be NULL: always a new one.
 */
ALWAYS_INLINE sample_rec_t *
tcache_rec_take(tcache_spares_t *sp) {
	if (sp == NULL || unlikely(sp->nrecs == 0)) {
		return recs_alloc(1);
	}
	sample_rec_t *rec = sp->recs;
	sp->recs = rec->link;
	sp->nrecs--;
	rec->link = NULL;
	return rec;
}

/* Keeps the record of a large sample that has ended; frees it if sp is NULL or keeps enough. */
ALWAYS_INLINE void
tcache_rec_put(tcache_spares_t *sp, sample_rec_t *rec) {
	assert(rec->tctx == NULL && rec->link == NULL);
	if (sp == NULL || unlikely(sp->nrecs == TCACHE_NRECS)) {
		recs_free(rec, 1);
		return;
	}
	rec->link = sp->recs;
	sp->recs = rec;
	sp->nrecs++;
}

/* Frees all spares to their slabs, and all kept records. */
void tcache_spare_flush(tcache_spares_t *sp);
