/*
 * The memory of the process's control group and its limit, for the high-water threshold by cgroup
 * (prof/trigger/prof_trigger.c), for what a profile says of it (prof/file/prof_dump.c), and for the
 * limit that readers outside are told (prof/file/prof_course.c); prof.c calls the handler of fork.
 * Most of these functions read files, which a filter of system calls may
 * forbid; so they are called only for what the user has asked for: the watch of a threshold, a
 * dump, a request. Lock-free; errno is preserved.
 */
#pragma once

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
/*
 * The smallest limit of memory in bytes, read at the call: of the process's control group (of
 * version 1 or 2) and those above, from files, or RLIMIT_DATA or RLIMIT_AS; 0 if there is none that
 * can be read, or the smallest is ROOM_NONE or more. Preserves errno.
 */
uint64_t room_limit(void);

/* The memory of the machine in bytes; 0: not known. */
uint64_t room_machine(void);
/*
 * The path of the process's control group in `text`, which is that of /proc/self/cgroup: in the
 * line whose list of controllers, "cpu,memory", has this one; "": in that of version 2, which has
 * none. NULL if there is no such line. The rest of text is cut off, and so is a lone slash: the
 * files of the top group, "/", lie in the directory itself. Writes to text.
 */
char *room_group(char *text, const char *controller);
