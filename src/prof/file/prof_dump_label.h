/*
 * The lines of a profile about labels: "# label ID TEXT" for each label that live samples have,
 * with bytes other than printable ASCII, and backslashes, as \xNN; and
 * "# labeled SITE ID:OBJECTS:BYTES ..." for each site with labeled live samples, in the same units
 * as the numbers of the site's own line. SITE is the number of the site in the profile, from 1 on.
 * Called by prof_dump.c, which holds the lock prof_dump.
 */
#ifndef PROF_DUMP_LABEL_H
#define PROF_DUMP_LABEL_H

#include "prof/file/prof_write.h"
#include "prof/sites/prof_snap.h"

/* Bytes for two numbers of at most 20 digits and the ": " between them. */
#define PROF_PAIR_TEXT 48
/*
 * Bytes for a number of 20 digits. A number is copied with this fixed length, so a pair has as many
 * more bytes behind its text that may be read.
 */
#define PROF_NUMBER_TEXT 24

/* The text "OBJECTS: BYTES" and the counts that it was made from; len 0: nothing is stored. */
typedef struct {
	prof_counts_t counts;
	uint64_t objs;        /* the two numbers as they are printed */
	uint64_t bytes;
	char text[PROF_PAIR_TEXT + PROF_NUMBER_TEXT];
	uint32_t len;         /* of the text, which has no NUL */
	uint32_t bytes_at;    /* where the second number begins in `text` */
} prof_pair_text_t;

/*
 * Writes the lines "# label". False: no live sample has a label, or there was no memory for all
 * labels, which a line then says; in both cases prof_dump_label_sums() is not to be called.
 */
bool prof_dump_label_texts(prof_writer_t *w, const prof_snap_t *snap);

/*
 * Writes the sums by label of a site that has labels (item->labels is not 0), and the line end,
 * behind "# labeled SITE"; `pair` has the numbers of the site's own line. is_raw: as sampled, not
 * estimated. May sort the item's list of labels, though `item` is const.
 */
void prof_dump_label_sums(prof_writer_t *w, const prof_item_t *item, const prof_pair_text_t *pair,
    bool is_raw);

#endif /* PROF_DUMP_LABEL_H */
