/*
 * prof.stats.*: requested bytes and number of sampled objects by size class, live and since the
 * start of the process; prof.reset does not change them. They are of the samples themselves, not
 * estimates, and are counted with prof_stats:true only. No locks. Called by prof.c for samples, by
 * ctl_prof.c and stats.c to read.
 */
#pragma once

#include "util/compiler.h"

typedef struct {
	uint64_t req_sum; /* requested bytes */
	uint64_t count;   /* samples */
} prof_stats_t;
/*
 * Reads the numbers of one size class: of live samples or, with is_accum, of all so far. szind is
 * the index of the class among small and large ones together. 0; or ENOENT, with *out unchanged, if
 * the profiler is not booted, without prof_stats, or if there is no such class. While threads
 * sample, the two numbers may be of slightly different moments.
 */
int prof_stats_read(bool is_accum, unsigned szind, prof_stats_t *out);

/*
 * Count a sample of req requested bytes, and subtract it from the live ones when it is freed. The
 * class is that of its usable size; prof.c calls these only with prof_stats.
 */
void prof_stats_inc(unsigned szind, size_t req);
void prof_stats_dec(unsigned szind, size_t req);
