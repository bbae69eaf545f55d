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
 * The path in the line of this controller in the text of /proc/PID/cgroup, "7:memory:/path", also
 * if others are mounted with it, "7:cpu,memory:/path". That of cgroup version 2, "0::/path", names
 * none: ask for it with the controller "". The path ends at a newline or NUL, and may hold colons.
 * NULL: there is no such line.
 */
const char *client_cgroup_of(const char *text, const char *controller);

/*
 * Copies the path of the memory cgroup from the text of /proc/PID/cgroup, cut to size - 1 bytes; ""
 * if the text names none.
 */
void client_take_cgroup(const char *text, char *cgroup, size_t size);

/*
 * Whether a cgroup has its files below /sys/fs/cgroup, judged by its path alone. A path "/../..."
 * is that of a cgroup outside of our cgroup namespace: it has none there.
 */
bool client_is_cgroup_visible(const char *cgroup);

/* Reads memory use and limit, in bytes; UINT64_MAX: no limit. False: they cannot be read. */
bool client_read_cgroup(const char *cgroup, uint64_t *current, uint64_t *limit);

/* How much memory a process may take before the kernel kills some process. */
typedef struct client_room_s {
	uint64_t bytes;             /* limit - used, 0 if that is below 0; UINT64_MAX: no limit */
	uint64_t used;              /* without the cache of files that were not used lately */
	uint64_t limit;
	char cgroup[CLIENT_CGROUP]; /* the one that limits; "" or "/": the root, or there is no limit */
} client_room_t;

/*
 * Of the cgroups that hold the process, as far as we see them, the one that has least room. If none
 * limits, or none is seen: UINT64_MAX bytes, the rest 0. task: pid or thread id.
 */
void client_find_room(int task, client_room_t *room);
