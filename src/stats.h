/*
 * malloc_stats_print: prints the build, the options, and the statistics that mallctl also offers,
 * as text or as JSON, the counters from one snapshot. No lock is held while text is passed on, so
 * reports of several threads may mix. Called by jemalloc.c, and by hooks that jemalloc_init.c sets,
 * at exit and at heartbeats.
 */
#ifndef STATS_H
#define STATS_H

#include "conf/stats_opts.h"

/*
 * Prints a report by calls of write_cb, each with opaque and a piece of it; NULL: through the
 * message function (malloc_message or fd 2), without opaque. opts: letters; J: JSON, not text; each
 * of the others omits a part: g general, m sums over all arenas, d destroyed arenas, a each arena,
 * b bins, l large, x locks, e extents, h huge slabs; unknown ones are ignored. NULL: no letters. If
 * there is no memory for the snapshot, only a message is printed. Prints nothing in a lost child
 * (os/gate.h). Call it outside the gate.
 */
void stats_print(void (*write_cb)(void *opaque, const char *s), void *opaque, const char *opts);

struct tsd_s;
/*
 * A hook of the heartbeat: prints when the process has allocated opt_stats_interval bytes since the
 * last print (0: as 1; below 0: never). bytes: allocated by this thread since its last heartbeat.
 * No lock is held; leaves the gate to print.
 */
void stats_interval_event(struct tsd_s *tsd, uint64_t bytes);

/* For atexit(): prints a report if opt_stats_print is set; not in a lost child (os/gate.h). */
void stats_atexit(void);

#endif /* STATS_H */
