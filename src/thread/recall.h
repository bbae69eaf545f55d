/*
 * Makes other threads notice a change: sets a bit in the word tls_s.recall of a thread, and points
 * its cache word (tls_s.cache) at the boot block, whose bins can neither be popped nor pushed. So
 * its next malloc or free takes the slow path, which handles the bits (tsd_look in thread/tsd.c)
 * and opens the fast path again. A thread that neither allocates nor frees is not disturbed. Called
 * by the profiler, alloc_hook.c, claim.c, peak.c, thread_event.c, user_event.c, tsd.c and
 * ctl_arena.c; tcache.c and tsd.c close and open the fast path of their own thread.
 */
#pragma once

#include "os/tls.h"

/*
 * The bits of tls_s.recall: what has changed. RECALL_SETTINGS: a setting on which the fast path or
 * its countdowns depend: thread_event_sample_interval, thread_event_waiting,
 * thread_event_is_wanted, tcache_slow_min or tsd_no_fast_path.
 */
#define RECALL_SETTINGS 1u
#define RECALL_PACE 2u      /* much memory has become unused: tcache_shorten_interval() */
#define RECALL_GRANTS 4u    /* an arena's decay time became 0: tcache_return_grants() */
#define RECALL_CLAIM 8u     /* another thread takes objects of the cache: thread/claim.h */

/*
 * Recalls one thread, whose tls_s must stay valid during the call (the caller holds the lock of the
 * gate's list of threads, or is that thread); `what`: bits. Takes no lock.
 */
void recall_one(struct tls_s *t, uint32_t what);
/*
 * For a change of a bin of this thread that takes more than one store, between which a signal
 * handler may allocate. recall_close() points the cache word at the boot block and returns its old
 * value for recall_open(). recall_open() points it at `cache`; but at the boot block while a recall
 * is pending, and in a lost child (gate_is_lost()).
 */
void *recall_close(struct tls_s *t);
void recall_open(struct tls_s *t, void *cache);
/*
 * Recalls each thread with a tsd, also the calling one; returns their number. Enters the gate, also
 * if the thread is inside already, and takes the lock of the gate's list of threads. what: not
 * RECALL_CLAIM.
 */
unsigned recall_all(uint32_t what);
