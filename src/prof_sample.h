/*
 * The sampling rate, and what a sample stands for.
 *
 * Which allocation becomes a sample is decided by thread/thread_event from the interval published
 * here (0: none).  An object of z bytes is sampled with probability 1 - exp(-z/R), so one sample
 * stands for 1 / (1 - exp(-z/R)) objects; that weight is fixed at the moment of sampling.  With R = 1
 * everything is sampled and each weight is exactly 1.
 */
#ifndef PROF_SAMPLE_H
#define PROF_SAMPLE_H

#include "prof_types.h"

/* Weights are fixed-point numbers with 16 binary places, never below 1. */
#define PROF_WEIGHT_ONE UINT64_C(65536)

/* What the options say, in bytes; at least 1. */
uint64_t prof_sample_configured(void);
uint64_t prof_sample_rate(void);
/* Keeps switches and rate and makes them known to every thread. */
void prof_sample_rate_set(uint64_t rate);
void prof_sample_switch(bool on);

uint64_t prof_weight(size_t usize, uint64_t rate);

/* Estimated bytes that a sample of usize stands for; the same at allocation and at free. */
static inline uint64_t
prof_weighted_bytes(size_t usize, uint64_t weight) {
	if (likely(weight == PROF_WEIGHT_ONE)) {
		return usize;
	}
	uint64_t whole = weight / PROF_WEIGHT_ONE;
	uint64_t part = weight % PROF_WEIGHT_ONE;
	return usize * whole + ((usize * part + PROF_WEIGHT_ONE / 2) >> 16);
}

/*
 * The pair of numbers to print under the header rate, so that the reader's rule gives the
 * estimates back; is_raw: the numbers as sampled.  Where sizes are mixed the number of objects is no
 * whole one, and always a little above what was sampled: it is rounded up as often as its fraction
 * says, else sites of few samples would all be printed too small.  The same counts print the same.
 */
void prof_sample_printed(const prof_counts_t *c, uint64_t header_rate, bool is_raw,
    uint64_t *objs, uint64_t *bytes);

#endif /* PROF_SAMPLE_H */
