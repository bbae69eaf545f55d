/*
 * Memory cgroups, of version 1 and 2, as the kernel tells them below /sys/fs/cgroup; a cgroup is
 * named by its path there. No state, no locks. Used by box.c and halted.c, and in bin/agent by
 * labels.c and dead_end.c.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIENT_CGROUP = 512 }; /* bytes of the longest path, with its NUL */

/*
 * Finds the line of a controller in the text of /proc/PID/cgroup, "7:memory:/path", or with others
 * that are mounted with it "7:cpu,memory:/path"; returns the path there. The line of cgroup version
 * 2, "0::/path", has no controller: it is found by the controller "". The path ends at a newline or
 * NUL, and may hold colons. NULL: there is no such line.
 */
const char *client_cgroup_of(const char *text, const char *controller);

/*
 * Copies the path of the memory cgroup from the text of /proc/PID/cgroup, cut to size - 1 bytes; ""
 * if the text names none.
 */
void client_take_cgroup(const char *text, char *cgroup, size_t size);

/*
 * Whether a cgroup has its files below /sys/fs/cgroup, judged by its path alone. False for a path
 * with "/..": such a cgroup is outside of our cgroup namespace and has no files there.
 */
bool client_is_cgroup_visible(const char *cgroup);

/* Reads memory use and limit, in bytes; UINT64_MAX: no limit. False: they cannot be read. */
bool client_read_cgroup(const char *cgroup, uint64_t *current, uint64_t *limit);

/*
 * How much more memory a process can take until a cgroup that holds it reaches its limit, at which
 * the kernel kills some process.
 */
typedef struct client_room_s {
	uint64_t bytes;             /* limit - used, 0 if that is below 0; UINT64_MAX: no limit */
	uint64_t used;              /* without file cache that was not used lately (inactive_file) */
	uint64_t limit;
	char cgroup[CLIENT_CGROUP]; /* whose limit that is; "" or "/": the root, or there is no limit */
} client_room_t;

/*
 * Of the cgroups that hold the process, as far as we see them, the one that has least room. If none
 * limits, or none is seen: UINT64_MAX bytes, the rest 0. task: pid or thread id.
 */
void client_find_room(int task, client_room_t *room);
