/*
 * The course: figures of the heap, told once a second to readers outside, as the newest ones in the
 * root and as one line of its ring (meta/image.h). So a process that is killed leaves its last
 * hour.
 */
#ifndef PROF_COURSE_H
#define PROF_COURSE_H

#include "util/compiler.h"

/*
 * Tells the figures if a second has passed since they were told last; now_ns is the monotonic time.
 * is_by_thread: the caller is the profiler's own thread, which reads files too, for rss and limit,
 * if there is a black box; else no system call is made for this. Enters the gate.
 */
void prof_course_tick(uint64_t now_ns, bool is_by_thread);
/* Tells the figures at once, without a line and without reading files: a session begins. */
void prof_course_begin(void);
/* In a forked child: the thread that was telling does not exist. */
void prof_course_postfork_child(void);

#endif /* PROF_COURSE_H */
