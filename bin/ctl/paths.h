/*
 * Paths of a process as this shell can open them, and the other way round. Called by answer.c and
 * the verbs.
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
 * A session whose profile cannot be written at its end is better not begun. What we may not see is
 * not judged.
 */
void check_directory(const jeprof_target_t *p, const char *path);
