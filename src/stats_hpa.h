/*
 * The parts of malloc_stats_print about huge pages. They print from a snapshot: no lock, no state.
 * Called by stats.c.
 */
#ifndef STATS_HPA_H
#define STATS_HPA_H

#include "extent/piece.h"
#include "hpa/hpa.h"
#include "util/emitter.h"

/*
 * Prints the statistics of the huge slabs of an arena (its hpa shard), or their sums over several
 * arenas: as JSON always (a member of the open object), as text only if there are huge slabs or
 * some were purged.
 */
void stats_print_hpa(emitter_t *em, const hpa_stats_t *hpa);
/*
 * Prints stats.thp.*: as JSON always, as text only if pages were populated (MADV_POPULATE_WRITE),
 * if that failed, or if a huge piece (2 MiB, extent/piece.h) was made.
 */
void stats_print_thp(emitter_t *em, const thp_stats_t *s);

#endif
