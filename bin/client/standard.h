/*
 * Keeps files of the tools off the standard descriptors. Called first by main() of jeprofctl and of
 * jeprofd, before they open files or start threads. No state and no locks. Not part of
 * jeprof_client.h.
 */
#pragma once

/*
 * Takes the standard descriptors that are closed, by opening /dev/null (without it they stay
 * closed), so that no file that is opened later gets one of them: what is printed would be written
 * into it, for example into the memory of a process. Reading from 0, and printing to 1 or 2, still
 * fail with EBADF.
 */
void client_hold_standard(void);
