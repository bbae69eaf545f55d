/*
 * The end of a process that misused the allocator (double free, foreign pointer, write past the
 * end): one fixed sentence, then abort. Every check of the library ends here. Any lock may be held.
 */
#ifndef ARENA_SAFETY_H
#define ARENA_SAFETY_H

#include "util/compiler.h"

/* Replaces write and abort in tests; it gets the whole line. NULL: the default. */
extern void (*safety_abort_hook)(const char *message);

/* The messages about marks and canaries that were written to. */
#define SAFETY_TAIL_IS_LOST "write behind the end of a block"
#define SAFETY_FRONT_IS_LOST "write in front of a block"

/*
 * Writes "<jemalloc>: ", `what` and a newline, and aborts; returns only if a test has set the hook.
 */
void safety_fail(const char *what) COLD;

#endif
