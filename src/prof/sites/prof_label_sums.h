/*
 * The live samples of a snapshot by site and label. prof_age.c adds them in its walk through the
 * records, but no sample without a label at a site where it has not yet found one with a label.
 * prof_dump_label.c makes the sums and reads them when the profile is written. No locks: the
 * snapshot belongs to the thread that dumps.
 */
#ifndef PROF_LABEL_SUMS_H
#define PROF_LABEL_SUMS_H

#include "meta/edata.h"
#include "prof/sites/prof_snap.h"

/*
 * What prof_item_t.labels of a site's item is: the address of its list of sums, or 0. While one
 * sample only was found there, and that has a label, it is instead the address of the record of the
 * sample in the low 48 bits, with bit 0 (PROF_LABELS_ONE) set, and the label in the bits from
 * PROF_LABELS_SHIFT on. So sites with one sample, which are most, need no list.
 */
#define PROF_LABELS_ONE UINT64_C(1)
#define PROF_LABELS_SHIFT 48u

/* The label of the only sample; 0: there is a list, or nothing. */
static inline uint32_t
prof_item_only_label(const prof_item_t *item) {
	return (item->labels & PROF_LABELS_ONE) != 0 ? (uint32_t)(item->labels >> PROF_LABELS_SHIFT)
	    : 0;
}

/* The item's list of sums; NULL: it has none, or an only sample. */
static inline prof_label_sum_t *
prof_item_labels(const prof_item_t *item) {
	return prof_item_only_label(item) != 0 ? NULL : (prof_label_sum_t *)(uintptr_t)item->labels;
}

/*
 * Adds the live sample of record rec, with its counts, to a site's item; is_first: it is the first
 * sample of the site, with or without a label, that is found. label: of 16 bits, 0 for none; a
 * number without a text counts as none. Without memory sets snap->lacks_labels; from then on does
 * nothing. Called with the pass (prof_data.h) open, inside the fork gate (os/gate.h).
 */
void prof_label_sums_add(prof_snap_t *snap, prof_item_t *item, uint32_t label,
    const sample_rec_t *rec, const prof_counts_t *counts, bool is_first);

/*
 * Sorts the item's list by labels and adds up the sums of each; may be called again. Not for an
 * item with an only sample, which it would drop.
 */
void prof_label_sums_make(prof_item_t *item);

/* Whether the label, of 16 bits, has its bit in snap->labels, so that the profile has its text. */
static inline bool
prof_label_is_in(const prof_snap_t *snap, uint32_t label) {
	return snap->labels != NULL && (snap->labels[label / 64] >> label % 64 & 1) != 0;
}

#endif /* PROF_LABEL_SUMS_H */
