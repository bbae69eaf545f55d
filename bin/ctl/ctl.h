/*
 * What all files of jeprofctl share: which functions of the C library are wanted (so it is included
 * first), and how a failure of src/client/ ends the program.
 */
#pragma once
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "client/jeprof_client.h"

/* Says why, and leaves with the exit code of that error. */
__attribute__((noreturn)) void leave_failed(const jeprof_target_t *p, int error);

/* The same, unless error is 0. */
void need(const jeprof_target_t *p, int error);
