/*
 * Keeps files of the tools off the standard descriptors. Not part of jeprof_client.h.
 */
#pragma once

/*
 * Takes the standard descriptors that are closed, so that no file that is opened later gets one of
 * them: what is printed would be written into it, for example into the memory of a process. Reading
 * or printing by them still fails with EBADF.
 */
void client_hold_standard(void);
