/*
 * The columns of ages: how old live samples are in a profile, and how old freed ones became
 * (prof_accum). Shared by the library and by readers of its tables outside (bin/client/), so it
 * needs nothing but the C library. Pure functions.
 */
#ifndef PROF_AGES_H
#define PROF_AGES_H

#include <stdint.h>

/* X(seconds): column n holds what is younger than the n-th bound, the last column all else. */
#define PROF_AGE_BOUNDS(X) X(1) X(4) X(16) X(60) X(240) X(960) X(3600) X(14400) X(57600)

#define PROF_AGE_ONE(seconds) +1
enum { PROF_AGES = 1 PROF_AGE_BOUNDS(PROF_AGE_ONE) };
#undef PROF_AGE_ONE

/* The bounds, each with a blank before it. */
#define PROF_AGE_TEXT(seconds) " " #seconds
#define PROF_AGE_BOUNDS_TEXT PROF_AGE_BOUNDS(PROF_AGE_TEXT)

/* The column of an age in ns. */
static inline unsigned
prof_age_column(uint64_t age_ns) {
#define PROF_AGE_IS_OVER(seconds) + (age_ns >= seconds * UINT64_C(1000000000))
	return 0 PROF_AGE_BOUNDS(PROF_AGE_IS_OVER);
#undef PROF_AGE_IS_OVER
}

/* The column of what began at `from`, which may be later than `to` by a clock that was set back. */
static inline unsigned
prof_age_between(uint64_t from, uint64_t to) {
	return prof_age_column(to > from ? to - from : 0);
}

/*
 * Splits `total`, the bytes printed for estimates that sum to est, as the columns' estimates are:
 * if these sum to est, the columns printed sum to total. columns becomes what is printed.
 */
static inline void
prof_ages_split(uint64_t columns[PROF_AGES], uint64_t est, uint64_t total) {
	uint64_t sum = 0, done = 0;
	for (unsigned i = 0; i < PROF_AGES && est != total; i++) {
		sum += columns[i];
		double share = (double)total * ((double)sum / (double)est);
		uint64_t upto = sum >= est || share >= (double)total ? total : (uint64_t)share;
		columns[i] = upto > done ? upto - done : 0;
		done += columns[i];
	}
}

#endif /* PROF_AGES_H */
