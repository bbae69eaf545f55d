/*
 * The lines of a profile about labels: "# label ID TEXT" for each that live samples have, and
 * "# labeled SITE ID:OBJECTS:BYTES ...", in the numbers of the sites' own lines.
 */
#ifndef PROF_DUMP_LABEL_H
#define PROF_DUMP_LABEL_H

#include "prof/file/prof_write.h"
#include "prof/sites/prof_snap.h"

/* Room for two numbers of at most 20 digits and the text between them. */
#define PROF_PAIR_TEXT 48
/* Room for a number of 20 digits, and bytes behind the last pair's text that may be read. */
#define PROF_NUMBER_TEXT 24

/* "OBJECTS: BYTES", and the counts that it was made from; a slot of length 0 is free. */
typedef struct {
	prof_counts_t counts;
	uint64_t objs;
	uint64_t bytes;
	char text[PROF_PAIR_TEXT + PROF_NUMBER_TEXT];
	uint32_t len;
	uint32_t bytes_at;    /* where the second number begins in `text` */
} prof_pair_text_t;

/* Writes the texts. False: no live sample has a label, or the labels of some sites are lacking. */
bool prof_dump_label_texts(prof_writer_t *w, const prof_snap_t *snap);

/*
 * Writes the sums of a site, which has some, behind its number; `pair` is what its line has.
 * is_raw: as sampled, not estimated.
 */
void prof_dump_label_sums(prof_writer_t *w, const prof_item_t *item, const prof_pair_text_t *pair,
    bool is_raw);

#endif /* PROF_DUMP_LABEL_H */
