/*
 * How one thread makes others look: it says what at in a word of theirs and points their cache word at the boot block, so
 * that their next malloc or free comes to the slow path, which finds it (thread/tsd.c, tsd_look).
 * A thread that neither allocates nor frees looks when it does again.
 */
#ifndef THREAD_RECALL_H
#define THREAD_RECALL_H

#include "os/tls.h"

/* At what, one bit each. */
#define RECALL_SETTINGS 1u  /* those of sampling, who waits for bytes, whether the fast path is open */
#define RECALL_PACE 2u      /* others have given much memory back: thread/thread_event.h */

void recall_one(struct tls_s *t, uint32_t what);
/* Each thread that has a tsd, the calling one too; how many. */
unsigned recall_all(uint32_t what);

#endif
