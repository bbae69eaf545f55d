/*
 * The labels and the memory use of a process, read from /proc, /sys/fs/cgroup and /etc/passwd into
 * labels_t and figures_t (table.h). A process controls much of what stands there, so everything is
 * cut to fixed sizes and never trusted. Called by watch.c and dead_watch.c; read_file() by
 * dead_end.c and elsewhere.c. No locks. These are labels of processes; those of threads are in
 * pprof_labels.c.
 */
#pragma once
#include <sys/types.h>

#include "table.h"

/*
 * Reads the first size - 1 bytes of a file, or all if it has fewer, into buf, and puts a NUL behind
 * them. Returns their number; -1 if the file cannot be opened or a read fails (buf then has what
 * was read before, at least the NUL). size is at least 2.
 */
ssize_t read_file(const char *path, char *buf, size_t size);

/*
 * Sets all labels; "" for those that cannot be read, and for a user without a name in /etc/passwd
 * the uid in digits. May read those of another process that has got the pid: the caller asks
 * read_usage() afterwards. The call may hang, because a process can stall reads of its files in
 * /proc; so it is not made under the table's lock.
 */
void read_labels(const jeprof_target_t *t, labels_t *l);

/*
 * Sets rss (bytes) and threads. False, and sets nothing, if /proc does not show the process, if all
 * its threads have ended (a zombie), or if the process with this pid started at another time than
 * `start` (clock ticks from boot). Cannot hang: the kernel tells this without the process.
 */
bool read_usage(int pid, uint64_t start, figures_t *f);

/*
 * Reads the memory use and the limit of the cgroup with this path below /sys/fs/cgroup into
 * cgroup_current and cgroup_limit: bytes; a limit of UINT64_MAX means none. It tries the files of
 * cgroup version 2 first, then those of version 1; a path with /.. is refused. Sets has_cgroup to
 * whether both could be read; if not, their values mean nothing.
 */
void read_cgroup_memory(const char *cgroup, figures_t *f);
