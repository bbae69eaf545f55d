/*
 * Ends the process with one line after misuse of the allocator (double free, foreign pointer, write
 * past the end), or after a failure that must not return to the program (operator new without
 * memory or handler, zero_realloc:abort). The line goes where malloc_write() sends it: to stderr or
 * the user's malloc_message. Takes no lock, so callers may hold any; a hook must not wait for one.
 * Callers: bin, large, canary, imalloc.c, icheck.c, quarantine and shelter for misuse; cxx.c and
 * jemalloc.c for such a failure.
 */
#pragma once

#include "util/compiler.h"

/*
 * Called instead of write and abort, with the whole line ("<jemalloc>: ", the message, a newline):
 * set by the node experimental.hooks.safety_check_abort and by tests. NULL: the default.
 */
extern void (*safety_abort_hook)(const char *message);

/* Messages: a mark or canary behind a block, or in front of one, was overwritten. */
#define SAFETY_TAIL_IS_LOST "write behind the end of a block"
#define SAFETY_FRONT_IS_LOST "write in front of a block"

/*
 * Writes "<jemalloc>: ", `what` and a newline, at most 127 bytes in all, and aborts. Returns only
 * if the hook is set and returns; then the caller goes on as well as it can, mostly without the
 * free, but the heap may be corrupt.
 */
void safety_fail(const char *what) COLD;
