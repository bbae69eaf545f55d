/*
 * A snapshot of the site tables, copied when a dump begins, so that formatting and writing hold no
 * lock for which a thread that samples would wait. It is a sequence of items in memory of its own,
 * mapped for the dump and then unmapped: one item for each site that has counts, followed by one
 * for each thread that has a share in it. If only one thread has a share, the site's item names
 * that thread (sole), because its sums are those of the site. Items only point to sites and thread
 * records, which stay because the pass (the lock `pass` of prof_data.c, without which nothing is
 * removed) is held until the snapshot is dropped. Made and read by prof_dump.c, one at a time, and
 * read by prof_dump_label.c; prof_age.c, prof_frag.c and prof_label_sums.c add to its items.
 */
#pragma once

#include "prof/sites/prof_types.h"

typedef enum {
	prof_item_site,
	prof_item_thread,
	prof_item_shrunk, /* a site that holds less than at the mark (prof_mark.h); sums: by how much */
	prof_item_void  /* a site all of whose sums are 0; readers skip it */
} prof_item_kind_t;

/*
 * Sums of the live samples of one site with one key: a column of ages (prof_ages.h), or a label; a
 * list may have several elements of a label (prof_label_sums.h).
 */
typedef struct prof_sum_s {
	struct prof_sum_s *next;
	prof_counts_t cur;
	uint32_t key;
} prof_sum_t;

/* Words of 64 bits in prof_snap_t.labels: a bit for each number that a label may have. */
#define PROF_LABEL_WORDS 1024u

typedef struct {
	const void *who; /* the prof_site_t or, of prof_item_thread, the prof_tdata_t */
	uint8_t kind;    /* a prof_item_kind_t */
	/* The fields from here to `sole` are of sites only. */
	/* the column of the sample that was found first; age.est: estimated bytes in this column */
	uint8_t age_column;
	uint16_t gone_class; /* the bin's class to which `gone` counts (prof_frag.h) */
	float pinned_variance; /* variance of `pinned`, in bytes squared */
	/* est 0: no sample of the site has an age; next: the other columns, in any order */
	struct {
		prof_sum_t *next;
		uint64_t est;
	} age;
	prof_sum_t *labels;      /* by label; NULL: no sample has one */
	/*
	 * bytes that it pins by samples whose slabs exist, and most that it may pin by samples whose
	 * slabs are gone (prof_frag.h)
	 */
	float pinned;
	float gone;
	/* the only thread with a share; NULL: the threads' items follow, or there is no share */
	const prof_tdata_t *sole;
	prof_counts_t cur;     /* live samples of the site, or of the thread at the site */
	/* all samples since the last reset: one element in a snapshot with is_accum, else none */
	prof_counts_t accum[];
} prof_item_t;

typedef struct prof_chunk_s prof_chunk_t;

/* A list of chunks, oldest first, of which the last one is filled; both NULL: none. */
typedef struct {
	prof_chunk_t *first;
	prof_chunk_t *last;
} prof_chunks_t;

/*
 * Chunks whose items have numbers (prof_snap_item()); sites in chunks beyond get no ages, labels or
 * charges.
 */
#define PROF_SNAP_CHUNKS 512u

typedef struct {
	prof_chunks_t items;
	prof_chunks_t pieces;    /* memory of prof_sum_t and `labels` */
	/* PROF_LABEL_WORDS words: the labels that live samples have; NULL: none, or lacks_labels */
	uint64_t *labels;
	prof_chunk_t *numbered[PROF_SNAP_CHUNKS]; /* chunks of items by their number */
	unsigned nnumbered;      /* how many of these there are */
	uint32_t next_number;    /* of the next item of the last chunk */
	bool has_ages;           /* items of sites have their ages (prof_age.h) */
	bool lacks_labels;       /* there was no memory for some labels, so none are reported */
	size_t item_bytes;       /* size of an item in this snapshot */
	bool is_accum;           /* items have `accum`, what was allocated in all (prof_accum) */
	bool is_delta;           /* sites hold what they grew by since the mark; without threads */
	size_t nshrunk;          /* items of prof_item_shrunk */
	size_t nsites;           /* sites with something to report, those that shrunk not counted */
	size_t nlive;            /* sites with live samples */
	prof_counts_t cur;       /* sum over all sites; of a delta, over those that grew */
	prof_counts_t accum;     /* the same of what was allocated in all; 0 without is_accum */
	/* sampling interval in bytes of the first count copied; 0: none was; of a delta 1 */
	uint64_t rate;
	bool is_mixed;           /* samples of more than one rate; of a delta always */
	/* all thread records, ascending by uid; NULL in a delta, and if there is none */
	prof_tdata_t **threads;
	size_t nthreads;         /* their number */
	size_t threads_bytes;    /* bytes that are mapped for the array */
} prof_snap_t;

/*
 * Begins the pass, for which it may wait, and copies the tables. *snap need not be set. 0: the pass
 * is open, until prof_snap_drop(); ENOMEM: it is not, and *snap is all zeros. Called inside the
 * gate (os/gate.h: fork waits until no thread is inside), one level deep; leaves the gate for a
 * moment between two sites if a thread waits to fork.
 */
int prof_snap_take(prof_snap_t *snap);
/*
 * The same less what the mark remembers (prof_mark.h): sites that grew, and those that shrunk. The
 * sums are estimates, as of samples of the rate 1. ENODATA: there is no mark, or it ended during
 * the copy; no pass is open.
 */
int prof_snap_take_delta(prof_snap_t *snap);
/* Ends the pass and frees the memory; inside the gate. */
void prof_snap_drop(prof_snap_t *snap);
/* Frees the memory only, for a forked child where no thread holds the pass. */
void prof_snap_forget(prof_snap_t *snap);

/* The item after `item`, of any kind, or the first one if that is NULL; NULL at the end. */
const prof_item_t *prof_snap_next(const prof_snap_t *snap, const prof_item_t *item);

/*
 * The item of this number, as prof_cnt_t.snap_number has it; NULL if there is none. A count that
 * this snapshot has not copied has any number, so the caller compares item->who with the site.
 */
prof_item_t *prof_snap_item(const prof_snap_t *snap, uint32_t number);
/*
 * Zeroed memory until the snapshot is dropped; bytes is a multiple of 8, and at most one mebibyte,
 * as it must fit a chunk. NULL without memory.
 */
void *prof_snap_piece(prof_snap_t *snap, size_t bytes);
/*
 * Adds the counts of a sample to the element of the key, if that is among the first PROF_AGES of
 * the list; else to a new first element. So adding takes the same time in a list of thousands of
 * keys, which then may have a key more than once; one of ages has each once. False: no memory.
 */
bool prof_snap_try_sum(prof_snap_t *snap, prof_sum_t **list, uint32_t key, const prof_counts_t *c);

/* The item's sums of what was allocated in all; zeros in a snapshot without them. */
static inline const prof_counts_t *
prof_item_accum(const prof_snap_t *snap, const prof_item_t *item) {
	static const prof_counts_t none;
	return snap->is_accum ? item->accum : &none;
}
