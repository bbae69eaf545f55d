/* The parts of malloc_stats_print about huge pages. */
#ifndef STATS_HPA_H
#define STATS_HPA_H

#include "extent/piece.h"
#include "hpa/hpa.h"
#include "util/emitter.h"

/* Prints the statistics of an arena's shard; as a table only if it has or had slabs. */
void stats_print_hpa(emitter_t *em, const hpa_stats_t *hpa);
/* Prints stats.thp.*; as a table only if something was populated or a huge piece made. */
void stats_print_thp(emitter_t *em, const thp_stats_t *s);

#endif
