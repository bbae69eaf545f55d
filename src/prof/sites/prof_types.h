/*
 * The data types of the profiler's site tables. prof_data.c makes, changes and frees them.
 * Others store some fields: prof_table.c links the nodes, prof_mark.c stores the sums of the mark,
 * prof_snap.c the fields snap_*; in a tdata prof_thread.c stores the name, `active` and the texts,
 * prof_backtrace.c what belongs to the backtrace, prof.c beat_ns. prof_age.c, prof_log.c,
 * prof_recent.c and the writers of profiles read them.
 *
 * A site is one distinct backtrace. A count holds what one thread sampled at one site with one
 * sampling rate (mean bytes between samples) in the time between two resets (an epoch); the record
 * of a live sample points to its count. A tdata is the profiler's record of one thread; it outlives
 * the thread for as long as a count refers to it.
 *
 * Sites and counts are found without a lock, a tdata through its thread's tsd. Only the sweeper (in
 * prof_data.c; any thread may run a step of it) removes sites and counts from the tables, and their
 * memory is freed when no thread can be reading it any more. `pass` below is the lock of
 * prof_data_pass_begin(). All of them lie in the region, and other programs read them there:
 * meta/image.h lists the fields that those use.
 */
#pragma once

#include "meta/image.h"
#include "prof/sites/prof_ages.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_printed.h"
#include "unwind/unwind.h"
#include "util/atomic.h"

/*
 * First member of sites, counts, bucket arrays and thread records: the list that the object is in;
 * and, of those that are freed through the limbo list (prof_data.c), which are all but thread
 * records, the size to free.
 */
typedef struct prof_link_s {
	struct prof_link_s *next;
	uint32_t bytes; /* the size; in limbo PROF_RETIRED is added */
	uint32_t extra; /* sites and counts have a number here, see there; otherwise not used */
} prof_link_t;

/* Bit of link.bytes in limbo; no object is that large, so readers see that it is retired. */
#define PROF_RETIRED (UINT32_C(1) << 31)

/* A node of a prof_table_t, embedded in its owner. */
typedef struct prof_node_s {
	atomic_p_t next;
	uint64_t hash;
} prof_node_t;

/*
 * What was allocated in all, freed or not: the sums of a prof_counts_t (prof_printed.h; c16 in
 * 1/65536 object, est in bytes). The thread of the count adds to them and others read them; any
 * thread that frees a sample adds to `life`. So all are atomic.
 */
typedef struct {
	atomic_u64_t objs;
	atomic_u64_t bytes;
	atomic_u64_t c16;
	atomic_u64_t est;
	/* estimated bytes of what was freed, by the age at the free: columns of prof_ages.h */
	atomic_u64_t life[PROF_AGES];
} prof_acounts_t;

/* Bytes per stored frame. */
#define PROF_FRAME_BYTES IMAGE_FRAME_BYTES
/* Bytes behind the last frame, so that each frame can be loaded as a 64-bit word. */
#define PROF_FRAMES_PAD 2

typedef struct prof_site_s {
	prof_link_t link;      /* list of all sites, newest first; link.extra: number of frames */
	prof_node_t node;      /* node in the table of sites */
	atomic_p_t counts;     /* prof_cnt_t of this site, newest first, chained by link.next */
	/* number of counts of this site, and of threads making a count for it; PROF_DEAD: removed */
	atomic_u64_t refs;
	/*
	 * hash of the loaded objects that contain the frames (module_history_stamp()); 0: these are
	 * never unloaded, or not known
	 */
	uint32_t stamp;
	/* number of the last record of loaded objects when the site was made; 0 if stamp is 0 */
	uint32_t then;
	/*
	 * The sums c16 (1/65536 object) and est (bytes) over its counts when the mark (prof_mark.h) was
	 * set; 0 in a site that is newer. Valid only while there is a mark (prof_data_is_marked()).
	 * Read and written under `pass`.
	 */
	uint64_t mark_c16;
	uint64_t mark_est;
	uint32_t log_number;   /* its index in the log's list of stacks (prof_log.c), if it is there */
	/* return addresses, leaf first, PROF_FRAME_BYTES each; then PROF_FRAMES_PAD bytes */
	uint8_t frames[];
} prof_site_t;

/*
 * Bit in site->refs and cnt->live: the sweeper is removing the object or has done so; a thread that
 * finds the bit looks it up again under the lock of its shard.
 */
#define PROF_DEAD (UINT64_C(1) << 63)
/*
 * Layout of cnt->live: sampled objects in the low bits; above them pins, of the log, of the recent
 * list and of td->last, which keep the count from being swept; PROF_DEAD on top.
 */
#define PROF_PIN (UINT64_C(1) << IMAGE_LIVE_BITS)
#define PROF_LIVE_MASK (PROF_PIN - 1)

/* A backtrace as captured, leaf first, without the allocator's own frames. */
typedef struct {
	void **vec;     /* return addresses; points into the thread's td->frames */
	unsigned len;   /* number of addresses, at most prof_bt_max */
	bool is_cut;    /* there were more frames than prof_bt_max */
	uint64_t stack; /* equal numbers in one thread mean equal backtraces; 0: not known */
} prof_bt_t;

typedef struct prof_tdata_s prof_tdata_t;

/*
 * Size in bytes of the texts of prof.last_error and prof.last_dump, and of what a dump tells its
 * caller: a path and a few words.
 */
#define PROF_TEXT_SIZE ((size_t)4096 + 128)

typedef struct prof_cnt_s {
	prof_link_t link;      /* list of the site's counts; link.extra: epoch, resets before it */
	prof_node_t node;      /* node in the table of counts */
	prof_site_t *site;
	prof_tdata_t *tdata;
	/* sample interval in bytes of all its samples; 0: the place of a free, which has none */
	uint64_t rate;
	atomic_b_t is_idle;    /* the sweeper found it empty; a new sample or pin clears it */
	/*
	 * the number of its site's item in the present snapshot (prof_snap_item()); any value if that
	 * snapshot has not copied the count, so readers compare the item's `who` with the site
	 */
	uint32_t snap_number;
	atomic_u64_t live;     /* sampled objects that are not freed, and pins; layout above */
	/* sums over these objects, as in prof_counts_t */
	atomic_u64_t bytes;
	atomic_u64_t c16;
	atomic_u64_t est;
	prof_acounts_t accum[]; /* one element if prof_data_is_accum() was true, else none */
} prof_cnt_t;

struct prof_tdata_s {
	prof_link_t link;      /* list of all records, newest first */
	uint64_t uid; /* number of the thread in dumps, from 0 on; no other thread gets it */
	/* tables.pin_epoch when the thread began to read the tables; 0: it does not read them now */
	atomic_u64_t pinned;
	atomic_u64_t ncounts;  /* counts that point to this record */
	/* set by the thread alone; a dump by another thread reads it word by word, without a lock */
	union {
		char text[PROF_THREAD_NAME_MAX];
		atomic_u64_t words[PROF_THREAD_NAME_MAX / 8];
	} name;
	atomic_b_t attached;   /* the thread has not ended */
	bool active;           /* thread.prof.active; used by the thread alone */
	bool busy;             /* `frames` is in use (prof_backtrace()); used by the thread alone */
	unsigned frames_max;   /* elements of `frames` */
	void **frames; /* addresses of the last backtrace; NULL before the first, and after the end */
	unsigned depth;        /* frames of the last backtrace, those of the allocator included */
	struct unwind_memo_s memo; /* what the unwinder keeps of its last walk into `frames` */
	prof_bt_t bt;          /* the last backtrace, in `frames` without those of the allocator */
	/*
	 * monotonic ns of the last heartbeat that the budget (prof_budget.h) was told of; 0: none yet
	 */
	uint64_t beat_ns;
	uint64_t last_stack;   /* bt.stack of the last backtrace that was looked up in the tables */
	prof_cnt_t *last;      /* count of that backtrace if it came twice in a row, pinned; or NULL */
	uint32_t log_number;   /* its index in the log's list of threads (prof_log.c), if it is there */
	/*
	 * texts of PROF_TEXT_SIZE bytes, [0] for prof.last_error and [1] for prof.last_dump, that were
	 * returned to the thread last; NULL: none yet
	 */
	char *texts[2];
	/* The next four are written under `pass`, by the present snapshot: the sums over all sites. */
	prof_counts_t snap_cur;
	prof_counts_t snap_accum;
	void *snap_site;       /* the prof_item_t of the site for which snap_item was made; or NULL */
	void *snap_item;       /* the thread's own prof_item_t for that site */
};

/* The record after td in the list of all; NULL at the end. */
static inline prof_tdata_t *
prof_tdata_next(const prof_tdata_t *td) {
	prof_link_t *link = td->link.next;
	return link == NULL ? NULL : container_of(link, prof_tdata_t, link);
}
