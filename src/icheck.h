/*
 * What a program says of a block against what the allocator knows: the size at a sized free, and that there is a block at all.
 *
 * Every slow path of a sized free looks at the size; in builds with checks (safety checks, size checks, debug) sized frees
 * have no fast path, and so each one is looked at.  What is wrong ends the process with one sentence (arena/safety.h).
 * Any thread, inside the gate or not; no lock is held or taken.
 */
#ifndef ICHECK_H
#define ICHECK_H

#include "util/compiler.h"

#define ICHECK_IS_BUILT (config_debug || config_opt_size_checks || config_opt_safety_checks)

/* ptr was allocated with this size, and alignment if it is not 0; NULL and what is no block are passed over. */
void icheck_size(const void *ptr, size_t size, size_t alignment);

/* ptr, whose size is asked for, is a block that is in use, as far as can be seen, or NULL. */
void icheck_live(const void *ptr);

#endif
