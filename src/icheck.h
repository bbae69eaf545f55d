/*
 * Checks of arguments that the user's code passes: the size at a sized free, and that a pointer
 * whose usable size is requested is a block in use.
 *
 * Every slow path of a sized free checks the size. In builds with checks (safety checks, size
 * checks, debug) sized frees have no fast path, so each one is checked. An error ends the process
 * with one sentence (arena/safety.h; if safety_abort_hook returns, so does the check). Any thread
 * may call, inside the gate or not; no lock is held or taken. Called by imalloc_flags.c
 * (icheck_size), jemalloc.c and, for xallocx at a closed gate, irealloc.c (icheck_live).
 */
#ifndef ICHECK_H
#define ICHECK_H

#include "util/compiler.h"

/* Whether this is a build with checks. */
#define ICHECK_IS_BUILT (config_debug || config_opt_size_checks || config_opt_safety_checks)

/*
 * Ends the process unless a request of this size and alignment (bytes; 0: none) gets a block of the
 * usable size of ptr. Ignored: NULL, pointers that are no block, and in hardened builds (those with
 * canaries) blocks of 0 bytes.
 */
void icheck_size(const void *ptr, size_t size, size_t alignment);

/*
 * Ends the process if ptr, whose usable size is requested, is not NULL and not a block in use, as
 * far as can be found without a lock. Only builds with checks detect pointers that are no block of
 * ours, and small objects that are free; all builds detect those whose free is deferred.
 */
void icheck_live(const void *ptr);

#endif
