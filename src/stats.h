/*
 * malloc_stats_print: one description of everything the statistics nodes offer, as text for people
 * or as JSON. Values are read only through the ctl tree, after one refresh of its snapshot.
 */
#ifndef STATS_H
#define STATS_H

#include "conf/stats_opts.h"

/* write_cb NULL: the message function (malloc_message or fd 2). opts NULL: no letters. */
void stats_print(void (*write_cb)(void *opaque, const char *s), void *opaque, const char *opts);

struct tsd_s;
/*
 * A hook of the heartbeat: prints when the process has allocated opt_stats_interval bytes since the
 * last print. No lock is held; leaves the gate to print.
 */
void stats_interval_event(struct tsd_s *tsd, uint64_t bytes);

/* For atexit(): prints if opt_stats_print is set. */
void stats_atexit(void);

#endif /* STATS_H */
