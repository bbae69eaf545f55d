/*
 * How much memory the process may still take before it comes near a limit.
 * Limits are memory.max of a container (cgroup v2), RLIMIT_DATA and RLIMIT_AS; "near" means that
 * nine tenths of one are used. What is used is known from the start of the process and from what
 * the allocator has taken since: files are read at the start only, because a program may forbid
 * that afterwards. So a limit that changes later, and memory of other processes of the container,
 * are not seen; nor is the limit of a group that is not the root of what the process sees, because
 * asking the system which group that is would cost each start 30 us. No lock; called by pac (what
 * is taken) and extent/ahead.
 */
#ifndef OS_ROOM_H
#define OS_ROOM_H

#include "util/atomic.h"
#include "util/compiler.h"

/* Bytes that all arenas have from the system, without retained address space. */
extern HIDDEN atomic_zu_t room_mapped;

/* Bytes from `used` to nine tenths of a limit; 0 if they are used. */
static inline size_t
room_below(uint64_t limit, uint64_t used) {
	uint64_t top = limit - limit / 10;
	return used < top ? (size_t)(top - used) : 0;
}

/* Reads the limits and what is used of them. */
void room_boot(void);
/* Bytes until the nearest limit is near; SIZE_MAX if there is none, or before room_boot(). */
size_t room_now(void);
/*
 * The smallest limit of memory, read now from files: of its control group (of version 1 too) and
 * those above, or RLIMIT_DATA or RLIMIT_AS; 0 if there is none that can be read.
 */
uint64_t room_limit(void);

#endif
