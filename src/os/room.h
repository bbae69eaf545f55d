/*
 * How much memory the process may still take before it comes near a limit.
 * Limits are memory.max of its control group and of those above (cgroup v2), RLIMIT_DATA and
 * RLIMIT_AS; "near" means that nine tenths of one are used. It reads files of /proc and /sys, so
 * callers call it rarely. No lock and no state; called by extent/ahead.
 */
#ifndef OS_ROOM_H
#define OS_ROOM_H

#include "util/compiler.h"

/* Bytes from `used` to nine tenths of a limit; 0 if they are used. */
static inline size_t
room_below(uint64_t limit, uint64_t used) {
	uint64_t top = limit - limit / 10;
	return used < top ? (size_t)(top - used) : 0;
}

/* Bytes until the nearest limit is near; SIZE_MAX if there is no limit that can be read. */
size_t room_now(void);
/*
 * The smallest limit of memory: of its control group (of version 1 too) and those above, or
 * RLIMIT_DATA or RLIMIT_AS; 0 if there is none that can be read.
 */
uint64_t room_limit(void);

#endif
