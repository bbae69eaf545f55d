/*
 * A snapshot: what the books said when a dump began, copied out so that formatting and writing need
 * no lock.  It is a row of items in memory of its own (mapped for the dump, then unmapped): one item
 * for each site that has something to report, followed by one for each thread that has a share.
 * Sites and thread records are only named; they stay because the pass stays open until the end.
 */
#ifndef PROF_SNAP_H
#define PROF_SNAP_H

#include "prof_types.h"

typedef enum {
	prof_item_site,
	prof_item_thread,
	prof_item_void  /* a site with nothing to report: skip it */
} prof_item_kind_t;

typedef struct {
	const void *who; /* prof_site_t or prof_tdata_t */
	prof_item_kind_t kind;
	prof_counts_t cur;
	prof_counts_t accum[]; /* one, with prof_accum */
} prof_item_t;

typedef struct prof_chunk_s prof_chunk_t;

typedef struct {
	prof_chunk_t *first;
	prof_chunk_t *last;
	size_t item_bytes;
	size_t nsites;
	size_t nlive;            /* sites with live samples */
	prof_counts_t cur;       /* over all threads and sites */
	prof_counts_t accum;
	uint64_t rate;           /* of all that is reported; 0: nothing is */
	bool is_mixed;           /* more than one rate */
	prof_tdata_t **threads;  /* ascending by uid */
	size_t nthreads;
	size_t threads_bytes;
} prof_snap_t;

/*
 * Begins the pass and copies; ENOMEM (then no pass is open).  Inside the gate, one deep; lets a fork go
 * ahead in between: the pass is made new in the child.
 */
int prof_snap_take(prof_snap_t *snap);
/* Gives the memory back and ends the pass. */
void prof_snap_drop(prof_snap_t *snap);
/* The memory alone: for a forked child, where nobody holds the pass. */
void prof_snap_forget(prof_snap_t *snap);

/* Items in order: NULL begins; NULL at the end. */
const prof_item_t *prof_snap_next(const prof_snap_t *snap, const prof_item_t *item);

static inline const prof_counts_t *
prof_item_accum(const prof_snap_t *snap, const prof_item_t *item) {
	static const prof_counts_t none;
	return snap->item_bytes > sizeof(prof_item_t) ? item->accum : &none;
}

#endif /* PROF_SNAP_H */
