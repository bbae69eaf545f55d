/*
 * The root of the site tables as other programs read them (meta/image.h): its constant part, and
 * what the profiler's modules tell it when it changes.
 */
#ifndef PROF_ROOT_H
#define PROF_ROOT_H

#include "meta/image.h"
#include "util/compiler.h"

/* Fills in the root, version last; NULL without memory. Called once, before the first site. */
image_root_t *prof_root_boot(void);
/* The root; NULL before prof_root_boot(). */
image_root_t *prof_root(void);
/* In a forked child: the tables are this process's now. */
void prof_root_postfork_child(void);

/* Tell the root of a change; nothing before prof_root_boot(). */
void prof_root_rate_set(uint64_t rate);
void prof_root_session_set(uint64_t session, uint64_t start_ns);
void prof_root_accum_set(bool on);
/* The name of the method in use; the numbers that the root has of it are told by prof_course.c. */
void prof_root_unwinder_set(const char *name);

#endif /* PROF_ROOT_H */
