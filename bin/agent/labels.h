/*
 * The labels and the memory use of a process, read from /proc, /sys/fs/cgroup and /etc/passwd into
 * labels_t and figures_t (table.h). A process controls much of what stands there, so everything is
 * cut to fixed sizes and never trusted. Called by watch.c, dead_watch.c and dead_end.c; read_file()
 * also by elsewhere.c. No locks.
 */
#pragma once
#include <sys/types.h>

#include "table.h"

/*
 * Reads a file into buf, at most size - 1 bytes, and puts a NUL behind them. Returns their number;
 * -1 if it cannot be opened or a read fails (buf then has what was read before).
 */
ssize_t read_file(const char *path, char *buf, size_t size);

/*
 * Whether the files of a cgroup, by its path in /proc/PID/cgroup, can be found below
 * /sys/fs/cgroup. Those of one outside of our cgroup namespace, "/../...", cannot.
 */
bool is_cgroup_visible(const char *cgroup);

/* Sets all labels; "" for those that cannot be read. The process may block it. */
void read_labels(const jeprof_target_t *t, labels_t *l);

/*
 * Sets rss and threads. False, and sets nothing, if the process has ended (a zombie too), or if the
 * process with this pid started at another time than `start` (clock ticks from boot).
 */
bool read_usage(int pid, uint64_t start, figures_t *f);

/*
 * Sets cgroup_current and cgroup_limit of the cgroup with this path, of version 2, else of version
 * 1, and has_cgroup to whether both could be read.
 */
void read_cgroup_memory(const char *cgroup, figures_t *f);
