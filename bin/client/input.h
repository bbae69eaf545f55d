/*
 * Opens a file that the words of a tool name, which may be a pipe that nobody writes. Called by
 * bin/ctl/dump.c and bin/agent/server.c. No state and no locks. Not part of jeprof_client.h.
 */
#pragma once
#include <stdint.h>

/*
 * A descriptor that reads the file; -1: there is none, *why says why. What has neither a byte nor
 * an end within wait_ms, such as a pipe without a writer, is not opened; what is below /dev/ has no
 * limit. A pipe that is opened is then waited for as usual.
 */
int client_open_input(const char *path, int wait_ms, const char **why);
