/*
 * The program's own functions that the profiler calls (experimental.hooks.prof_*).  One of each, for
 * the whole process; NULL: none.  They are called outside of all locks with the thread marked as
 * inside, so what they allocate is not sampled.
 */
#ifndef PROF_HOOK_H
#define PROF_HOOK_H

#include "prof.h"

void prof_hook_backtrace(void **vec, unsigned *len, unsigned max);
void prof_hook_dump(const char *filename);

#endif /* PROF_HOOK_H */
