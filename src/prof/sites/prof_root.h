/*
 * The root of the site tables as other programs read them (meta/image.h): its constant part, and
 * what the profiler's modules store in it, each by an atomic store, when it changes. No locks.
 * Called by prof_data.c when the profiler boots, by prof.c in a forked child, by prof_backtrace.c
 * and prof_course.c for the unwinder's name, and by prof_sample.c, prof_switch.c, prof_session.c,
 * prof_course.c, prof_dump.c, prof_box.c, prof_control.c and prof_request.c for the root itself.
 */
#pragma once

#include "meta/image.h"
#include "util/compiler.h"

/*
 * Fills in the root, its version last, and returns it; called before the first site is made. NULL
 * without memory.
 */
image_root_t *prof_root_boot(void);
/* The root; NULL before prof_root_boot(). */
image_root_t *prof_root(void);
/* In a forked child: stores its pid, 0 if not known, as the tables are its own now. */
void prof_root_postfork_child(void);

/*
 * Stores the name of the unwinder in use, cut to 15 bytes and not atomically: a reader may see
 * parts of two names. Nothing before prof_root_boot(). prof_course.c stores the counters of its
 * walks itself.
 */
void prof_root_unwinder_set(const char *name);
