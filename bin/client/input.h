/*
 * Opens a file that an argument of a tool names; it may be a pipe that nobody writes. Called by
 * bin/ctl/dump.c and bin/agent/server.c. No state and no locks. Not part of jeprof_client.h.
 */
#pragma once
#include <stdint.h>

/*
 * A descriptor that reads the file; -1: there is none, *why says why (valid until the next call).
 * It fails if neither a byte nor the end comes within wait_ms, as from a pipe without a writer;
 * /dev/fd/, /proc/self/fd/, /dev/stdin and terminals have no limit. A pipe that is opened is then
 * waited for as usual.
 */
int client_open_input(const char *path, int wait_ms, const char **why);
