/*
 * The memory of the process's control group and its limit, for the high-water threshold by cgroup
 * (prof/trigger/prof_trigger.c) and for what a profile says of it (prof/file/prof_dump.c); prof.c
 * calls the handler of fork. Most of these functions read files, which a filter of system calls may
 * forbid; so they are called only for what the user has asked for: the watch of a threshold, a
 * dump, a request. Lock-free; errno is preserved.
 */
#ifndef OS_ROOM_GROUP_H
#define OS_ROOM_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Looks for the control group, of version 1 or 2, that counts: of the process's group and those
 * above it the one whose limit of memory is least, or if none has a limit the lowest whose use can
 * be read. Returns whether there is one; false also while another thread searches. The first call
 * decides, also if the process is moved to another group later.
 */
bool room_group_look(void);
/* Whether such a group has been found; reads nothing. */
bool room_group_is_known(void);
/*
 * Bytes that this group uses, and its limit in bytes, read at the call; 0: not known, or no limit.
 * They call room_group_look().
 */
uint64_t room_group_current(void);
uint64_t room_group_limit(void);
/* In a forked child: forgets a search that a thread of the parent had not ended. */
void room_group_postfork_child(void);
/* For tests: the next look finds the group anew. */
void room_group_forget(void);
/* The memory of the machine in bytes; 0: not known. */
uint64_t room_machine(void);

#endif
