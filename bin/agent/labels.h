/*
 * The labels and the memory use of a process, read from /proc, /sys/fs/cgroup and /etc/passwd. A
 * process controls much of what stands there, so everything is cut to fixed sizes and never
 * trusted. Called by watch.c, dead_watch.c and dead_end.c; read_file() also by elsewhere.c.
 */
#pragma once
#include <sys/types.h>

#include "table.h"

/*
 * Reads a file into buf, at most size - 1 bytes, and puts a NUL behind them. Returns their number,
 * or -1 if it cannot be read.
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
 * Sets rss and threads. False if the process has ended (a zombie too), or has another start time,
 * because its pid belongs to another process now.
 */
bool read_usage(int pid, uint64_t start, figures_t *f);

/*
 * Sets memory use and limit of a cgroup, of version 2, else of version 1; if neither can be read
 * sets has_cgroup to false.
 */
void read_cgroup_memory(const char *cgroup, figures_t *f);
