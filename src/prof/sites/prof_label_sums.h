/*
 * The live samples of a snapshot by site and label. prof_age.c adds them in its walk through the
 * records. prof_dump_label.c makes the sums and reads them when the profile is written. No locks:
 * the snapshot belongs to the thread that dumps.
 */
#pragma once

#include "prof/sites/prof_snap.h"

/*
 * Adds a live sample, by its counts, to a site's item. label: of 16 bits, not 0; a number without a
 * text counts as none. Without memory sets snap->lacks_labels; from then on does nothing. Called
 * with the pass (prof_data.h) open, inside the fork gate (os/gate.h).
 */
void prof_label_sums_add(prof_snap_t *snap, prof_item_t *item, uint32_t label,
    const prof_counts_t *sample);

/* Sorts the item's list by labels and adds up the sums of each; may be called again. */
void prof_label_sums_make(prof_item_t *item);

/* Whether the label, of 16 bits, has its bit in snap->labels, so that the profile has its text. */
static inline bool
prof_label_is_in(const prof_snap_t *snap, uint32_t label) {
	return snap->labels != NULL && (snap->labels[label / 64] >> label % 64 & 1) != 0;
}
