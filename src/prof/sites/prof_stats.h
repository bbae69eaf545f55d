/*
 * prof.stats.*: requested bytes and number of sampled objects by size class, live and since the
 * start. The numbers are not scaled, and are counted with prof_stats:true only.
 */
#ifndef PROF_STATS_H
#define PROF_STATS_H

#include "util/compiler.h"

typedef struct {
	uint64_t req_sum; /* requested bytes */
	uint64_t count;   /* samples */
} prof_stats_t;
/*
 * szind counts over small and large classes together. 0, or ENOENT unless booted with prof_stats.
 */
int prof_stats_live(unsigned szind, prof_stats_t *out);
int prof_stats_accum(unsigned szind, prof_stats_t *out);

/* Count a sample of req requested bytes, and subtract it from the live ones when it is freed. */
void prof_stats_inc(unsigned szind, size_t req);
void prof_stats_dec(unsigned szind, size_t req);

#endif /* PROF_STATS_H */
