/*
 * Included first by all .c files of jeprofctl: feature macros of the C library, and the exit after
 * a failure of bin/client/ (answer.c has these functions). No locks: jeprofctl has one thread.
 */
#pragma once
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "client/jeprof_client.h"

/* Prints p->why and exits with the code for that errno of bin/client/. */
__attribute__((noreturn)) void leave_failed(const jeprof_target_t *p, int error);

/* leave_failed(), unless error is 0. */
void need(const jeprof_target_t *p, int error);
