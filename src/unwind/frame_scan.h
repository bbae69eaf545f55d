/*
 * Unwind tables of objects that were linked without .eh_frame_hdr (musl-gcc, ld --no-eh-frame-hdr):
 * nothing says where their .eh_frame is. When a look first finds such an object, its segments are
 * scanned for it, and a sorted table of its functions is made. Finding a function is possible in
 * any state of the program: no lock, no allocation. Called by unwind_rows.c, by unwind_step.c (is
 * an object known), by prof_backtrace.c (is a look wanted) and by unwind.c (in a forked child). An
 * FDE is the record of one function in an .eh_frame; it refers to a CIE, which holds what many
 * functions share.
 */
#ifndef UNWIND_FRAME_SCAN_H
#define UNWIND_FRAME_SCAN_H

#include "util/compiler.h"

/*
 * A look: scans the loaded objects without .eh_frame_hdr that were not seen yet, if any object was
 * loaded since the last look or the loader does not count them. Those that have no room in the list
 * (128) are left out. Takes the loader's lock and maps memory: to be called with no lock held.
 * Returns whether objects were scanned; then cached unwind rows of their addresses are to be
 * forgotten. Returns false at once while another thread scans.
 */
bool frame_scan_try_look(void);

/*
 * Whether the object at pc, which has no .eh_frame_hdr, was seen. If not, and there is room in the
 * list, frame_scan_is_wanted() is true from now until the next look begins.
 */
bool frame_scan_try_know(uintptr_t pc);
/* Whether a walk has come to such an object since the last look began. */
bool frame_scan_is_wanted(void);

/*
 * The FDE of the last function of a scanned object that begins at or before pc, which can be read
 * with its CIE; NULL: there is none, or another object was loaded in its place and not yet seen.
 */
const unsigned char *frame_scan_find(uintptr_t pc);

/* In a forked child: the thread that was looking does not exist. */
void frame_scan_postfork_child(void);

/* Sets without_hdr (objects seen) and scanned (those whose .eh_frame was found) in *dst. */
struct unwind_stats_s;
void frame_scan_stats(struct unwind_stats_s *dst);

#endif
