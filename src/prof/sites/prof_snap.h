/*
 * A snapshot of the site tables, copied when a dump begins, so that formatting and writing need no
 * lock. It is a sequence of items in memory of its own, mapped for the dump and then unmapped: one
 * item for each site with something to report, followed by one for each thread that has a share in
 * it. If only one thread has a share, the site's item names that thread (sole), because its sums
 * are those of the site. Items only point to sites and thread records, which stay because the pass
 * is open until the snapshot is dropped.
 */
#ifndef PROF_SNAP_H
#define PROF_SNAP_H

#include "prof/sites/prof_types.h"

typedef enum {
	prof_item_site,
	prof_item_thread,
	prof_item_shrunk, /* a site that holds less than at the mark; its sums say by how much */
	prof_item_void  /* a site with nothing to report, skipped */
} prof_item_kind_t;

/* Estimated bytes of live samples in one column of ages. */
typedef struct prof_age_s {
	struct prof_age_s *next;
	uint64_t est;
	unsigned column;
} prof_age_t;

/* Live samples of one site and label; a list may have several of a label (prof_label_sums.h). */
typedef struct prof_label_sum_s {
	struct prof_label_sum_s *next;
	prof_counts_t cur;
	uint32_t label;
} prof_label_sum_t;

/* A bit for each label. */
#define PROF_LABEL_WORDS 1024u

typedef struct {
	const void *who; /* a prof_site_t or prof_tdata_t */
	uint8_t kind;    /* a prof_item_kind_t */
	/* of a site, with `age`: the first column and those behind it; est 0: nothing has an age */
	uint8_t age_column;
	uint16_t gone_class;
	float doubt;     /* of a site: variance of `pinned` */
	struct {
		prof_age_t *next;
		uint64_t est;
	} age;
	uint64_t labels;         /* of a site: 0: nothing of it has a label (prof_label_sums.h) */
	/* of a site: bytes that it pins, and most that its samples of slabs gone may (prof_frag.h) */
	float pinned;
	float gone;
	/* of a site: the only thread with a share; NULL: the threads' items follow */
	const prof_tdata_t *sole;
	prof_counts_t cur;
	prof_counts_t accum[]; /* one element in a snapshot with is_accum, else none */
} prof_item_t;

typedef struct prof_chunk_s prof_chunk_t;

/* Memory from which pieces are cut, in the order of their making. */
typedef struct {
	prof_chunk_t *first;
	prof_chunk_t *last;
} prof_chunks_t;

/* Chunks of items by number; those beyond have no numbers, and so no ages. */
#define PROF_SNAP_CHUNKS 512u

typedef struct {
	prof_chunks_t items;
	prof_chunks_t pieces;    /* prof_age_t, prof_label_sum_t and `labels` */
	uint64_t *labels;        /* PROF_LABEL_WORDS: those that live samples have; NULL: none has */
	prof_chunk_t *numbered[PROF_SNAP_CHUNKS];
	unsigned nnumbered;
	uint32_t next_number;    /* of the next item of the last chunk */
	bool has_ages;           /* items of sites have their ages (prof_age.h) */
	bool lacks_labels;       /* there was no memory for those of all sites */
	size_t item_bytes;       /* size of an item in this snapshot */
	bool is_accum;           /* what was allocated in all is counted */
	bool is_delta;           /* sites hold what they grew by since the mark; without threads */
	size_t nshrunk;          /* items of prof_item_shrunk */
	size_t nsites;           /* sites with something to report */
	size_t nlive;            /* sites with live samples */
	prof_counts_t cur;       /* sum over all threads and sites */
	prof_counts_t accum;
	uint64_t rate;           /* rate of the first sample reported, in bytes; 0: there are none */
	bool is_mixed;           /* samples of more than one rate */
	prof_tdata_t **threads;  /* ascending by uid */
	size_t nthreads;
	size_t threads_bytes;
} prof_snap_t;

/*
 * Begins the pass and copies the tables; 0 or ENOMEM, and then no pass is open. Called inside the
 * gate, one level deep; leaves the gate for a moment between two sites if a thread waits to fork.
 */
int prof_snap_take(prof_snap_t *snap);
/*
 * The same less what the mark remembers (prof_mark.h): sites that grew, and those that shrunk. The
 * sums are estimates, as of samples of the rate 1. ENODATA: there is no mark.
 */
int prof_snap_take_delta(prof_snap_t *snap);
/* Frees the memory and ends the pass. */
void prof_snap_drop(prof_snap_t *snap);
/* Frees the memory only, for a forked child where no thread holds the pass. */
void prof_snap_forget(prof_snap_t *snap);

/* The item after `item`, or the first one if that is NULL; NULL at the end. */
const prof_item_t *prof_snap_next(const prof_snap_t *snap, const prof_item_t *item);

/*
 * The item of this number; NULL if there is none. A count that has nothing to report, or none yet,
 * has any number.
 */
prof_item_t *prof_snap_item(const prof_snap_t *snap, uint32_t number);
/* Zeroed bytes, a multiple of 8, until the snapshot is dropped; NULL without memory. */
void *prof_snap_piece(prof_snap_t *snap, size_t bytes);

static inline const prof_counts_t *
prof_item_accum(const prof_snap_t *snap, const prof_item_t *item) {
	static const prof_counts_t none;
	return snap->is_accum ? item->accum : &none;
}

#endif /* PROF_SNAP_H */
