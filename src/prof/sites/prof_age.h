/*
 * Adds to a snapshot how old the live samples of each site are, which labels they have and what
 * they pin (prof_frag.h), from the records of samples (meta/recs.h). Reads these ages, and those
 * that freed samples reached. Called by prof_dump.c, with the pass open; takes no lock.
 */
#pragma once

#include "prof/sites/prof_ages.h"
#include "prof/sites/prof_frag.h"

/*
 * Walks through all records. Called after prof_snap_take(), in the same state: with the pass open,
 * inside the gate (os/gate.h: fork waits until no thread is inside), one level deep; leaves the
 * gate for a moment if a thread waits to fork. `now` is prof_log_clock(), in ns. frag was read by
 * prof_frag_read() just before; its classes get the charges. 0, or ENOMEM: the snapshot has no ages
 * (has_ages is false), and labels and charges are incomplete. Missing memory for labels alone is no
 * error (lacks_labels).
 */
int prof_age_take(prof_snap_t *snap, uint64_t now, prof_frag_t *frag);

/*
 * columns become the estimated bytes of a site's item in each column of ages (prof_ages.h); false:
 * no sample of the site has an age, and all are 0. May be called outside the gate, as the next one.
 */
bool prof_age_read(const prof_item_t *item, uint64_t columns[PROF_AGES]);

/*
 * columns become the estimated bytes of those samples of a site that were taken since the last
 * reset and freed, by their age at the free; false: all are 0. Only counts made with prof_accum
 * have them. Needs the pass.
 */
bool prof_life_read(const prof_site_t *site, uint64_t columns[PROF_AGES]);
