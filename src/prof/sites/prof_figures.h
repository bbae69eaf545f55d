/*
 * The size of the heap in bytes, summed over all arenas at the time of the call.
 */
#ifndef PROF_FIGURES_H
#define PROF_FIGURES_H

#include "util/compiler.h"

typedef struct {
	uint64_t allocated;
	uint64_t active;
	uint64_t resident;
	uint64_t retained;
	uint64_t mapped;
	uint64_t metadata;
	uint64_t huge;      /* in huge pieces, in use or dirty; contained in `resident` */
	uint64_t populated; /* got ready before the first touch, since the start of the process */
} prof_figures_t;

/*
 * Reads a few hundred words inside the gate, without locks that an allocating thread may want,
 * except that resident, mapped and metadata take those of the metadata for a moment.
 */
void prof_figures_read(prof_figures_t *to);
/*
 * Bytes that the user's code holds: allocated less what lies in thread caches. Takes the lock of
 * the list of caches.
 */
uint64_t prof_figures_live(void);
uint64_t prof_figures_active(void);
uint64_t prof_figures_resident(void);

#endif /* PROF_FIGURES_H */
