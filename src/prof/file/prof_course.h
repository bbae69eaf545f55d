/*
 * The course: figures of the heap, stored once a second for readers outside the process. The newest
 * figures are in the root of the tables that these readers see (meta/image.h); some of them are
 * stored as a line of the root's ring too, which has the last 3600 lines: an hour, or more if there
 * were seconds without a call. No lock of its own: a thread that finds another one storing does
 * nothing. Called by prof.c, prof_control.c, prof_start.c, prof_session.c and prof_box.c.
 */
#pragma once

#include "util/compiler.h"

/*
 * Stores the figures and a line, if a second has passed since the last line; now_ns is the
 * monotonic time. is_by_thread: the caller is the profiler's own thread (prof_control.h), which
 * also makes the system calls for rss, limit and faults if there is a black box. Otherwise it makes
 * none but those for memory, which a new block of lines may need. Enters the fork gate (os/gate.h).
 */
void prof_course_tick(uint64_t now_ns, bool is_by_thread);
/*
 * Stores the figures at once, without a line and without those that cost system calls: sampling, a
 * session or a black box begins. Enters the gate.
 */
void prof_course_begin(void);
/* In a forked child: lets threads store again, as one that was storing does not exist here. */
void prof_course_postfork_child(void);
