/*
 * Freed samples that a thread keeps; tcache_spare.h has the contract.
 * Invariant: a place whose slot is s > 0 holds a region of class s - 1; the list `recs` has nrecs
 * members. Locks: none here; recs_free() and arena_dalloc() take their own. The owner of the cache
 * calls, from imalloc.c and tcache.c; a forked child flushes the spares of threads that do not
 * exist there (tcache.c).
 */
#include "thread/tcache_spare.h"

#include "arena/arenas.h"

cassert((TCACHE_NSPARES & (TCACHE_NSPARES - 1)) == 0);

static tcache_spare_t *
spare_of(tcache_spares_t *sp, unsigned slot) {
	assert(slot > 0);
	return &sp->at[slot % TCACHE_NSPARES];
}

void *
tcache_spare_take(tcache_spares_t *sp, unsigned slot, sample_rec_t **rec) {
	tcache_spare_t *s = spare_of(sp, slot);
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
tcache_spare_try_put(tcache_spares_t *sp, const edata_t *e, void *ptr, sample_rec_t *rec) {
	unsigned slot = e->szind + 1u;
	assert(!e->is_slab || slab_rec(e, ptr) == rec);
	assert(rec->tctx == NULL && rec->link == NULL && rec->req_size != TCACHE_REC_IS_SPARE);
	tcache_spare_t *s = spare_of(sp, slot);
	/* Suitable are only regions of the hidden arena that has the samples of automatic arenas. */
	if (s->slot != 0 || !e->is_slab || e->arena_ind != ARENA_HIDDEN(0)) {
		return false;
	}
	*s = (tcache_spare_t){ptr, rec, slot};
	rec->req_size = TCACHE_REC_IS_SPARE;
	return true;
}

void
tcache_spare_flush(tcache_spares_t *sp) {
	while (sp->nrecs > 0) {
		recs_free(tcache_rec_take(sp), 1);
	}
	for (unsigned i = 0; i < TCACHE_NSPARES; i++) {
		tcache_spare_t *s = &sp->at[i];
		if (s->slot != 0) {
			s->slot = 0;
			arena_dalloc(s->ptr, emap_elem_any(s->ptr)); /* sets req_size to 0 */
		}
	}
}
