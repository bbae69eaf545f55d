/*
 * Unwind tables of objects that were linked without .eh_frame_hdr (musl-gcc, ld --no-eh-frame-hdr):
 * nothing says where their .eh_frame is. When a look first finds such an object, its segments are
 * scanned for it, and a sorted table of its functions is made. Finding a function is possible in
 * any state of the program: no lock, no allocation. Called by module_history.c (looks), by
 * unwind_rows.c, by unwind_step.c (is an object known) and by prof_backtrace.c (is a look wanted).
 * An FDE is the record of one function in an .eh_frame; it refers to a CIE, which holds what many
 * functions share.
 */
#pragma once

#include "util/compiler.h"

struct sys_module_s;
/*
 * Begins a look at the loaded objects, by one thread at a time; frame_scan_look() is called for
 * each of them then. It adds an object without .eh_frame_hdr to the list and scans it, unless the
 * newest entry in its range is its own or the list is full (128). Maps memory. Returns whether it
 * has scanned: cached unwind rows of these addresses are to be forgotten then.
 */
void frame_scan_begin(void);
bool frame_scan_look(const struct sys_module_s *m);

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

/* Sets without_hdr (objects seen) and scanned (those whose .eh_frame was found) in *dst. */
struct unwind_stats_s;
void frame_scan_stats(struct unwind_stats_s *dst);
