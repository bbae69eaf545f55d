/*
 * Makes other threads notice a change: sets a bit in a word of theirs, and points their cache word
 * at the boot block, so that their next malloc or free takes the slow path, which looks (tsd_look
 * in thread/tsd.c). A thread that neither allocates nor frees looks when it does so again.
 */
#ifndef THREAD_RECALL_H
#define THREAD_RECALL_H

#include "os/tls.h"

/* What has changed, one bit each. */
/* sampling, whether somebody waits for bytes, whether the fast path is open */
#define RECALL_SETTINGS 1u
#define RECALL_PACE 2u      /* other threads have released much memory: thread/thread_event.h */

/* Recalls one thread. */
void recall_one(struct tls_s *t, uint32_t what);
/* Recalls each thread that has a tsd, including the calling one; returns how many. */
unsigned recall_all(uint32_t what);

#endif
