/*
 * Unwind tables of objects that were linked without .eh_frame_hdr (musl-gcc, ld --no-eh-frame-hdr):
 * nothing says where their .eh_frame is. It is found by a scan of the object's segments at its
 * first sight, and a sorted table of its functions is made, once. Finding is possible in any state
 * of the program: no lock, no allocation. Called by unwind_rows.c, unwind_step.c (is an object
 * known) and unwind.c (is a look wanted; in a forked child).
 */
#ifndef UNWIND_FRAME_SCAN_H
#define UNWIND_FRAME_SCAN_H

#include "util/compiler.h"

/*
 * Scans the loaded objects that it has not seen yet, if any were loaded since the last call. Takes
 * the loader's lock and maps memory: to be called with no lock held. Returns whether there were
 * such objects: what is known of their addresses is to be forgotten.
 */
bool frame_scan_try_look(void);

/*
 * Whether the object without .eh_frame_hdr at pc was seen. If not, a look is asked for
 * (frame_scan_is_wanted).
 */
bool frame_scan_try_know(uintptr_t pc);
bool frame_scan_is_wanted(void);

/*
 * The FDE of the last function of a scanned object that begins at or before pc, which can be read
 * with its CIE; NULL: there is none, or another object was loaded in its place and not yet seen.
 */
const unsigned char *frame_scan_find(uintptr_t pc);

/* In a forked child: the thread that was looking does not exist. */
void frame_scan_postfork_child(void);

/* Sets the numbers of objects in *dst. */
struct unwind_stats_s;
void frame_scan_stats(struct unwind_stats_s *dst);

#endif
