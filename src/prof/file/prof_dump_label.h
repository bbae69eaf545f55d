/*
 * The lines of a profile about labels: "# label ID TEXT" for each that live samples have, and
 * "# labeled SITE ID:OBJECTS:BYTES ...", in the numbers of the sites' own lines.
 */
#ifndef PROF_DUMP_LABEL_H
#define PROF_DUMP_LABEL_H

#include "prof/file/prof_write.h"
#include "prof/sites/prof_snap.h"

/* rate and is_raw as those of all counts of the profile; nothing if no live sample has a label. */
void prof_dump_labels(prof_writer_t *w, const prof_snap_t *snap, uint64_t rate, bool is_raw);

#endif /* PROF_DUMP_LABEL_H */
