/*
 * Translates a path that a process uses into one that this shell can open, and back; the process
 * may have another root directory or mount namespace. Called by answer.c, dump.c, session.c
 * and status.c.
 */
#pragma once
#include "ctl.h"

/*
 * A path of the process as this shell can open it, in buf; the path itself if no such file can be
 * seen. A relative one begins at the working directory of the process. A path below /proc/PID is
 * valid only while the process lives.
 */
void path_here(const jeprof_target_t *p, const char *path, char *buf, size_t size);

/*
 * A path that was typed, as the process understands it: an absolute one unchanged; a relative one
 * in our working directory. Exits (EXIT_USAGE) if that has no path, or if the process sees other
 * files there; if we may not look there through its root directory, it is taken for the same.
 */
void path_there(const jeprof_target_t *p, const char *path, char *buf, size_t size);

/*
 * Exits (EXIT_USAGE) if the process does not see the directory of this path (all up to the last
 * '/'), so that no session begins whose profile cannot be written at its end. Only ENOENT and
 * ENOTDIR count; if the root directory of the process may not be read, nothing is checked.
 */
void check_directory(const jeprof_target_t *p, const char *path);
