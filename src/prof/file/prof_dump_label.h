/*
 * The lines of a profile about labels: "# label ID TEXT" for each label that live samples have, in
 * which a backslash, and each byte that is not printable ASCII, is written as \xNN; and
 * "# labeled SITE ID:OBJECTS:BYTES ..." for each site with labeled live samples, in the same units
 * as the numbers of the site's own line. SITE is the number of the site in the profile, from 1 on.
 * Called by prof_dump.c, which holds the lock prof_dump.
 */
#pragma once

#include "prof/file/prof_write.h"
#include "prof/sites/prof_snap.h"

/* Numbers as a profile prints them, in its units, and the counts that they stand for. */
typedef struct {
	prof_counts_t counts;
	uint64_t objs;
	uint64_t bytes;
} prof_pair_t;

/*
 * Writes the lines "# label". False: no live sample has a label, or memory was missing for some
 * label; then one line says so, and no label is written. In both cases prof_dump_label_sums() must
 * not be called.
 */
bool prof_dump_label_texts(prof_writer_t *w, const prof_snap_t *snap);

/*
 * Writes the sums by label of a site that has labels (item->labels is not NULL), and the line end,
 * behind "# labeled SITE"; `pair` has the numbers of the site's own line. is_raw: as sampled, not
 * estimated. Sorts the list of the labels, which only this dump uses, though `item` is const.
 */
void prof_dump_label_sums(prof_writer_t *w, const prof_item_t *item, const prof_pair_t *pair,
    bool is_raw);
