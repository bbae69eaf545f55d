/*
 * Translates a path that a process uses into one that this shell can open, and back; the process
 * may have another root directory or mount namespace. Called by answer.c and the verbs.
 */
#pragma once
#include "ctl.h"

/* A path of the process as this shell can open it. */
void path_here(const jeprof_target_t *p, const char *path, char *buf, size_t size);

/*
 * A path of this shell as the process understands it: relative ones are of our directory if it sees
 * the same files.
 */
void path_there(const jeprof_target_t *p, const char *path, char *buf, size_t size);

/*
 * Leaves if the process sees no directory of this path: a session whose profile cannot be written
 * at its end is not begun. If its root may not be read, nothing is checked.
 */
void check_directory(const jeprof_target_t *p, const char *path);
