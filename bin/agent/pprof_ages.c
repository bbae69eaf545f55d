/*
 * Reads how old the live bytes of a profile are. Two kinds of lines behind the stacks say it.
 * "# age_bounds_s SECONDS..." has the ages between the columns, which are ranges of ages. The
 * others count only behind such a line that is equal to ours, byte for byte (prof_ages.h); without
 * it the profile has no ages, which is no error. "# age STACK COLUMN:BYTES ..." has the live bytes
 * (before estimates) of the stack with this number in the text, from 1; COLUMN is from 0, the
 * youngest, to PROF_AGES - 1. Invariant: p->ages has one element for each pair COLUMN:BYTES, so its
 * memory is linear in the text, which is not trusted; it is sorted by stack. No locks: a profile
 * belongs to one thread. ages_parse() is called by pprof_parse.c, ages_of() by pprof_encode.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_own.h"

/*
 * Reads the pairs COLUMN:BYTES behind the stack's number. A pair that is wrong ends the line: those
 * before it count. 0 or ENOMEM.
 */
static int
columns_parse(struct pprof_profile *p, uint32_t stack, const char *at, const char *end) {
	uint64_t column, bytes, next = 0; /* columns must rise, so a stack has at most PROF_AGES */
	while (word_read(&at, end, " ") && dec_read(&at, end, &column) && column >= next
	    && column < PROF_AGES
	    && word_read(&at, end, ":") && dec_read(&at, end, &bytes)) {
		if (array_grow(&p->ages, &p->age_room, p->nages, sizeof(*p->ages)) != 0) {
			return ENOMEM;
		}
		p->ages[p->nages++] = (age_t){stack, (uint32_t)column, (double)bytes};
		next = column + 1;
	}
	return 0;
}

int
ages_parse(struct pprof_profile *p, lines_t l, size_t nstacks) {
	static const char bounds[] = "# age_bounds_s" PROF_AGE_BOUNDS_TEXT;
	const char *line;
	size_t len;
	uint64_t stack, last = 0;
	bool is_known = false;
	int err = 0;
	while (err == 0 && line_next(&l, &line, &len)) {
		const char *at = line, *end = line + len;
		is_known |= len == sizeof(bounds) - 1 && memcmp(line, bounds, len) == 0;
		/* The numbers of stacks must rise: ages_of() searches them. */
		if (is_known && word_read(&at, end, "# age ") && dec_read(&at, end, &stack)
		    && stack > last && stack <= nstacks) {
			err = columns_parse(p, (uint32_t)stack, at, end);
			last = stack;
		}
	}
	return err;
}

static int
by_stack(const void *a, const void *b) {
	const age_t *x = a, *y = b;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

bool
ages_of(const struct pprof_profile *p, const site_t *s, double shares[PROF_AGES]) {
	age_t key = {s->stack, 0, 0};
	double sum = 0;
	const age_t *a = p->nages == 0 || s->stack == 0 ? NULL
	    : bsearch(&key, p->ages, p->nages, sizeof(key), by_stack);
	memset(shares, 0, PROF_AGES * sizeof(shares[0]));
	while (a != NULL && a > p->ages && a[-1].stack == s->stack) {
		a--;
	}
	for (; a != NULL && a < p->ages + p->nages && a->stack == s->stack; a++) {
		shares[a->column] += a->bytes;
		sum += a->bytes;
	}
	for (unsigned i = 0; i < PROF_AGES && sum > 0; i++) {
		shares[i] /= sum;
	}
	return sum > 0;
}
