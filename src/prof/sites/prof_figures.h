/*
 * The size of the heap in bytes, summed over all arenas, those of samples included, at the time of
 * the call. (A profile tells that of prof_frag.h, which is in parts.) All functions are called
 * inside the gate (os/gate.h: fork waits until no thread is inside), by prof_course.c,
 * prof_trigger.c and prof_request.c; counters may be a moment old.
 */
#pragma once

#include "util/compiler.h"

typedef struct {
	uint64_t allocated; /* objects in use or in thread caches */
	uint64_t active;    /* pages of slabs and large objects, holes (arena/holes.h) included */
	uint64_t resident;  /* estimate of what is in memory, with metadata, without muzzy pages */
	uint64_t retained;  /* unused address space without memory that is kept */
	uint64_t mapped;    /* address space in use, dirty or muzzy, and metadata; without retained */
	uint64_t metadata;  /* the allocator's own data */
	uint64_t huge;      /* in huge pieces, in use or dirty; contained in `resident` */
	/* bytes of pages that a system call made before their first touch, summed up since the start */
	uint64_t populated;
} prof_figures_t;

/*
 * Reads a few hundred words for each arena, without locks that an allocating thread may want,
 * except that resident, mapped and metadata take those of the metadata for a moment.
 */
void prof_figures_read(prof_figures_t *to);
/*
 * Bytes that the user's code holds: allocated less what lies in thread caches. Takes, of each arena
 * in turn, the lock of the list of its caches.
 */
uint64_t prof_figures_live(void);
/* As the fields of prof_figures_t. */
uint64_t prof_figures_active(void);
uint64_t prof_figures_resident(void);
