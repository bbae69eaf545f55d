/*
 * What the heap amounts to, in bytes, summed over all arenas now.
 */
#ifndef PROF_FIGURES_H
#define PROF_FIGURES_H

#include "util/compiler.h"

typedef struct {
	uint64_t allocated;
	uint64_t active;
	uint64_t resident;
	uint64_t retained;
} prof_figures_t;

/* Inside the gate.  All 0 without memory for reading them. */
void prof_figures_read(prof_figures_t *to);
/* Cheaper, without locks: a few hundred words all in all. */
uint64_t prof_figures_allocated(void);
uint64_t prof_figures_active(void);

#endif /* PROF_FIGURES_H */
