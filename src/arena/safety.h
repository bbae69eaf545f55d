/*
 * The end of a process that misused the allocator: one fixed sentence, then abort.
 */
#ifndef ARENA_SAFETY_H
#define ARENA_SAFETY_H

#include "util/compiler.h"

/* Replaces the abort (tests); NULL: the default. Gets the whole line. */
extern void (*safety_abort_hook)(const char *message);

/* Writes "<jemalloc>: " what "\n" and aborts. */
void safety_fail(const char *what) COLD;

#endif
