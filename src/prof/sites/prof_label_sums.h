/*
 * The live samples of a snapshot by site and label. Adding is the work of the walk through the
 * records (prof_age.c); the sums are made when the profile is written.
 */
#ifndef PROF_LABEL_SUMS_H
#define PROF_LABEL_SUMS_H

#include "meta/edata.h"
#include "prof/sites/prof_snap.h"

/*
 * A site's item has in `labels` the address of its list; while all that was found there is one
 * sample, with a label, it has that of the sample's record instead, bit 0, and above 48 bits the
 * label. So sites with one sample, which are most, need no list.
 */
#define PROF_LABELS_ONE UINT64_C(1)
#define PROF_LABELS_SHIFT 48u

/* The label of the only sample; 0: there is a list, or nothing. */
static inline uint32_t
prof_item_only_label(const prof_item_t *item) {
	return (item->labels & PROF_LABELS_ONE) != 0 ? (uint32_t)(item->labels >> PROF_LABELS_SHIFT)
	    : 0;
}

static inline prof_label_sum_t *
prof_item_labels(const prof_item_t *item) {
	return prof_item_only_label(item) != 0 ? NULL : (prof_label_sum_t *)(uintptr_t)item->labels;
}

/*
 * Adds a sample to a site's item, of which it is the first that is found, or not. label: 0 for
 * none; a number without a text is none too. Without memory the snapshot lacks labels. Called with
 * the pass open.
 */
void prof_label_sums_add(prof_snap_t *snap, prof_item_t *item, uint32_t label,
    const sample_rec_t *rec, const prof_counts_t *counts, bool is_first);

/* Makes the item's list one of ascending labels, each once. Of one that is in order already too. */
void prof_label_sums_make(prof_item_t *item);

static inline bool
prof_label_is_in(const prof_snap_t *snap, uint32_t label) {
	return snap->labels != NULL && (snap->labels[label / 64] >> label % 64 & 1) != 0;
}

#endif /* PROF_LABEL_SUMS_H */
