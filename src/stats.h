/*
 * malloc_stats_print: prints the statistics that mallctl also offers, as text or as JSON, from one
 * snapshot of the counters. No lock is held while it prints. Called by jemalloc.c, and by hooks
 * that jemalloc_init.c sets, at exit and at heartbeats.
 */
#ifndef STATS_H
#define STATS_H

#include "conf/stats_opts.h"

/*
 * Prints a report through write_cb; NULL: through the message function (malloc_message or fd 2).
 * opts: letters, each of which omits a part, but J: JSON instead of text; NULL: none. Call it
 * outside the gate.
 */
void stats_print(void (*write_cb)(void *opaque, const char *s), void *opaque, const char *opts);

struct tsd_s;
/*
 * A hook of the heartbeat: prints when the process has allocated opt_stats_interval bytes since the
 * last print. No lock is held; leaves the gate to print.
 */
void stats_interval_event(struct tsd_s *tsd, uint64_t bytes);

/* For atexit(): prints a report if opt_stats_print is set. */
void stats_atexit(void);

#endif /* STATS_H */
