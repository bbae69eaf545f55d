/*
 * The columns of ages: how old live samples are in a profile, and how old freed ones became
 * (prof_accum). Shared by the library (prof_types.h, prof_age.c, prof_data.c, prof_dump.c), by the
 * tools that read its tables from outside (image_*.c of bin/client/), and by readers of profiles
 * (pprof_ages.c and pprof_encode.c of bin/agent/), so it needs nothing but the C library. Pure
 * functions, no locks.
 */
#pragma once

#include <stdint.h>

/*
 * X(seconds), ascending: an age is in the first column whose bound it is below; ages of the last
 * bound and above are in the last column. Columns are counted from 0.
 */
#define PROF_AGE_BOUNDS(X) X(1) X(4) X(16) X(60) X(240) X(960) X(3600) X(14400) X(57600)

/* PROF_AGES: the number of columns, one more than there are bounds. */
#define PROF_AGE_ONE(seconds) +1
enum { PROF_AGES = 1 PROF_AGE_BOUNDS(PROF_AGE_ONE) };
#undef PROF_AGE_ONE

/* The bounds as text, each with a blank before it, for the line "# age_bounds_s" of a profile. */
#define PROF_AGE_TEXT(seconds) " " #seconds
#define PROF_AGE_BOUNDS_TEXT PROF_AGE_BOUNDS(PROF_AGE_TEXT)

/* The column of an age in ns. */
static inline unsigned
prof_age_column(uint64_t age_ns) {
#define PROF_AGE_IS_OVER(seconds) + (age_ns >= seconds * UINT64_C(1000000000))
	return 0 PROF_AGE_BOUNDS(PROF_AGE_IS_OVER);
#undef PROF_AGE_IS_OVER
}

/*
 * The column of what lived from `from` to `to`, in ns. If from > to, as after a clock was set back,
 * the age counts as 0.
 */
static inline unsigned
prof_age_between(uint64_t from, uint64_t to) {
	return prof_age_column(to > from ? to - from : 0);
}

/*
 * A profile prints the bytes `total` for an estimate of est bytes. Splits total in proportion to
 * the columns, which hold estimated bytes; they become what is printed. If the estimates sum to
 * est, what is printed sums to total. If est equals total, the columns stay as they are.
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
