/*
 * Checks of arguments that the user's code passes: the size at a sized free, and that a pointer
 * whose usable size is requested is a block in use.
 *
 * Every slow path of a sized free checks the size. In builds with checks (safety checks, size
 * checks, debug) sized frees have no fast path, so each one is checked. An error ends the process
 * with one sentence (arena/safety.h; if safety_abort_hook returns, so does the check). Any thread
 * may call, inside the gate (os/gate.h) or not; no lock is held or taken. imalloc_flags.c calls
 * icheck_size(); jemalloc.c calls icheck_live() for sallocx and malloc_usable_size, irealloc.c for
 * an xallocx that cannot enter the gate, or comes from a signal handler inside it. In builds
 * without checks malloc_usable_size does not call it for small objects of classes that thread
 * caches hold.
 */
#pragma once

#include "util/compiler.h"

/*
 * Whether this is a build with checks: there no fast path bypasses the functions below, and
 * icheck_live() detects more. All builds have both functions.
 */
#define ICHECK_IS_STRICT (config_debug || config_opt_size_checks || config_opt_safety_checks)

/*
 * Ends the process unless a request of this size and alignment (bytes; 0: none) gets a block of the
 * usable size of ptr: in hardened builds (config_hardening, with canaries) that of a small block is
 * the size that was requested. Ignored: NULL, pointers that are no block, and in hardened builds
 * blocks that were requested with 0 bytes.
 */
void icheck_size(const void *ptr, size_t size, size_t alignment);

/*
 * Ends the process if ptr, whose usable size is requested, is not NULL and not a block in use, as
 * far as can be found without a lock. Only builds with checks detect pointers that are no block of
 * ours, and free small objects. All builds detect free large objects, as long as the page map has
 * their extents, and blocks of any size whose free is deferred (thread/deferred.h).
 */
void icheck_live(const void *ptr);
