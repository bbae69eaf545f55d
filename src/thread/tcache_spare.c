/*
 * Spares: small sampled objects that a thread has freed and keeps for its next sample of the class;
 * and records of large ones, without the objects, which are like any others.
 *
 * All threads share the slabs of samples, and no bin of a cache holds their regions, so without
 * spares each sample would take the lock of a bin twice. A cache has TCACHE_NSPARES places; a class
 * uses the place of its slot modulo that, and a spare is never replaced by another. Invariant: a
 * spare is allocated in its slab, and its record has req_size TCACHE_REC_IS_SPARE, by which free()
 * recognises a double free. Only regions of the hidden arena of the automatic arenas become spares.
 * Only the owner of the cache calls these functions (imalloc.c, tcache.c), so there is no lock.
 * Upkeep returns all spares to their slabs once in a round over the bins.
 */
#include "arena/arenas.h"
#include "meta/recs.h"
#include "thread/tcache.h"

cassert((TCACHE_NSPARES & (TCACHE_NSPARES - 1)) == 0);

static tcache_spare_t *
spare_of(tcache_t *tc, unsigned slot) {
	assert(slot > 0 && tc->is_auto);
	return &tc->spares[slot % TCACHE_NSPARES];
}

void *
tcache_spare_take(tcache_t *tc, unsigned slot, sample_rec_t **rec) {
	tcache_spare_t *s = spare_of(tc, slot);
	if (s->slot != slot) {
		return NULL;
	}
	assert(s->ptr != NULL && s->rec->req_size == TCACHE_REC_IS_SPARE && s->rec->tctx == NULL);
	assert(slab_rec(emap_edata(s->ptr), s->ptr) == s->rec);
	s->slot = 0;
	s->rec->req_size = 0;
	*rec = s->rec;
	return s->ptr;
}

bool
tcache_spare_try_put(tcache_t *tc, const edata_t *e, void *ptr, sample_rec_t *rec) {
	unsigned slot = e->szind + 1u;
	assert(!e->is_slab || slab_rec(e, ptr) == rec);
	assert(rec->tctx == NULL && rec->link == NULL && rec->req_size != TCACHE_REC_IS_SPARE);
	tcache_spare_t *s = spare_of(tc, slot);
	if (s->slot != 0 || !e->is_slab || e->arena_ind != ARENA_HIDDEN(0)) {
		return false;
	}
	*s = (tcache_spare_t){ptr, rec, slot};
	rec->req_size = TCACHE_REC_IS_SPARE;
	return true;
}

sample_rec_t *
tcache_rec_take(tcache_t *tc) {
	if (tc == NULL || tc->nrecs == 0) {
		return recs_alloc(1);
	}
	sample_rec_t *rec = tc->recs;
	tc->recs = rec->link;
	tc->nrecs--;
	rec->link = NULL;
	return rec;
}

void
tcache_rec_put(tcache_t *tc, sample_rec_t *rec) {
	assert(rec->tctx == NULL && rec->link == NULL);
	if (tc == NULL || tc->nrecs == TCACHE_NRECS) {
		recs_free(rec, 1);
		return;
	}
	rec->link = tc->recs;
	tc->recs = rec;
	tc->nrecs++;
}

void
tcache_spare_flush(tcache_t *tc) {
	while (tc->nrecs > 0) {
		recs_free(tcache_rec_take(tc), 1);
	}
	for (unsigned i = 0; i < TCACHE_NSPARES; i++) {
		tcache_spare_t *s = &tc->spares[i];
		if (s->slot != 0) {
			s->slot = 0;
			arena_dalloc(s->ptr, emap_elem_any(s->ptr));
		}
	}
}
