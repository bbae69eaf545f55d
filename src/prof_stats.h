/*
 * prof.stats.*: requested bytes and number of sampled objects by size class, live and since start.
 * Raw numbers, with prof_stats:true only.
 */
#ifndef PROF_STATS_H
#define PROF_STATS_H

#include "prof.h"

void prof_stats_inc(unsigned szind, size_t req);
void prof_stats_dec(unsigned szind, size_t req);

#endif /* PROF_STATS_H */
