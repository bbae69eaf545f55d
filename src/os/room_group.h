/*
 * The memory of the process's control group and its limit, for the high-water threshold by cgroup
 * (prof/trigger/prof_trigger) and what a profile says of it. Files are read when someone asks, and
 * only then; who asks must be the profiler's thread, a heartbeat that looks at the clock, or a
 * request.
 */
#ifndef OS_ROOM_GROUP_H
#define OS_ROOM_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The control group of the process, or the one above it whose limit of memory is least, of version
 * 1 or 2: found at the first call, and then the same, also if the process is moved. Whether there
 * is one whose memory can be read.
 */
bool room_group_look(void);
/* Whether such a group has been found; reads nothing. */
bool room_group_is_known(void);
/* Its bytes and its limit, read now; 0: not known, or no limit. */
uint64_t room_group_current(void);
uint64_t room_group_limit(void);
/* The next look finds it anew, for tests. */
void room_group_forget(void);
/* The memory of the machine in bytes; 0: not known. */
uint64_t room_machine(void);

#endif
