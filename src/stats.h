/*
 * malloc_stats_print: prints a report, as text or as JSON: the build, the options, and those
 * statistics that mallctl offers too. Its counters come from one snapshot, which also refreshes
 * stats.* as writing `epoch` does; but zero_reallocs and counts of samples are read when they are
 * printed. No lock is held while text is passed on, so reports of several threads may mix. Called
 * by jemalloc.c, and by hooks that jemalloc_init.c sets, at exit and at heartbeats.
 */
#pragma once

#include "conf/stats_opts.h"

/*
 * Prints a report: calls write_cb(opaque, piece) for each piece of the text; with write_cb NULL it
 * goes to malloc_message with the same opaque, or to fd 2. opts is a string of letters, or NULL for
 * none: J prints JSON; each other letter leaves a part out: g general, m sums over all arenas, d
 * destroyed arenas, a each arena, b bins, l large, x locks, e extents, h huge slabs; unknown ones
 * are ignored. If there is no memory for the snapshot, only a message is printed. Prints nothing in
 * a lost child (gate_is_lost()). Called outside the gate, or by a hook of the user that the library
 * calls inside: a fork waits for the hook, and for what the report calls, in any case.
 */
void stats_print(void (*write_cb)(void *opaque, const char *s), void *opaque, const char *opts);

struct tsd_s;
/*
 * Called at each heartbeat with the bytes that this thread has allocated since its last one. Adds
 * them up for all threads, and prints when the sum has passed a further multiple of
 * opt_stats_interval (0: as 1 byte; below 0: never). No lock is held; leaves the gate to print.
 */
void stats_heartbeat(struct tsd_s *tsd, uint64_t bytes);

/* For atexit(): prints a report if opt_stats_print is set; not in a lost child (os/gate.h). */
void stats_atexit(void);
