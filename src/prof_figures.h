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

/*
 * Inside the gate.  A few hundred words, read without the locks that an allocating thread may want:
 * all but `resident`, which takes those of the metadata for a moment.
 */
void prof_figures_read(prof_figures_t *to);
/* What the program itself holds: allocated without what lies in thread caches.  Takes the lock of their list. */
uint64_t prof_figures_live(void);
uint64_t prof_figures_active(void);
uint64_t prof_figures_resident(void);

#endif /* PROF_FIGURES_H */
