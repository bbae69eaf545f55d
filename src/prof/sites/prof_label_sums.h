/*
 * The live samples of a snapshot by site and label. Adding is the work of the walk through the
 * records (prof_age.c); the sums are made when the profile is written.
 */
#ifndef PROF_LABEL_SUMS_H
#define PROF_LABEL_SUMS_H

#include "prof/sites/prof_snap.h"

/*
 * Adds samples to a site's item. A number without a text counts as no label. Without memory the
 * snapshot lacks labels. Called with the pass open.
 */
void prof_label_sums_add(prof_snap_t *snap, prof_item_t *item, uint32_t label,
    const prof_counts_t *counts);

/* Makes the item's list one of ascending labels, each once. Of one that is in order already too. */
void prof_label_sums_make(prof_item_t *item);

static inline bool
prof_label_is_in(const prof_snap_t *snap, uint32_t label) {
	return snap->labels != NULL && (snap->labels[label / 64] >> label % 64 & 1) != 0;
}

#endif /* PROF_LABEL_SUMS_H */
