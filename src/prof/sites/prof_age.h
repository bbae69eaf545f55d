/*
 * Adds to a snapshot how old the live samples of each site are, which labels they have and what
 * they pin (prof_frag.h), from the records of samples (meta/recs.h).
 */
#ifndef PROF_AGE_H
#define PROF_AGE_H

#include "prof/sites/prof_ages.h"
#include "prof/sites/prof_frag.h"

/*
 * Walks through all records. Called after prof_snap_take() and as that is: inside the gate, one
 * level deep. `now` is by the clock of the records; frag has just been read, and gets the charges.
 * ENOMEM: the snapshot has no ages.
 */
int prof_age_take(prof_snap_t *snap, uint64_t now, prof_frag_t *frag);

/* The estimated bytes of a site's item in each column; false: nothing of it has an age. */
bool prof_age_read(const prof_item_t *item, uint64_t columns[PROF_AGES]);

/*
 * The estimated bytes of freed samples of a site by their age at the free; false: there are none.
 * Needs the pass.
 */
bool prof_life_read(const prof_site_t *site, uint64_t columns[PROF_AGES]);

#endif /* PROF_AGE_H */
