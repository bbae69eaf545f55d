/*
 * The data types of the profiler's site tables.
 *
 * A site is one distinct backtrace. A count holds what one thread sampled at one site with one
 * sampling rate since one reset; a live sample points to its count. A tdata is the profiler's
 * record of one thread; it outlives the thread for as long as a count refers to it.
 *
 * All of them are found without a lock. Only the sweeper removes sites and counts from the tables,
 * and their memory is freed when no thread can be reading it any more (prof_data.c). They lie in
 * the region, and other programs read them there: meta/image.h lists the fields that those use.
 */
#ifndef PROF_TYPES_H
#define PROF_TYPES_H

#include "meta/image.h"
#include "prof/sites/prof_ages.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_printed.h"
#include "unwind/unwind.h"
#include "util/atomic.h"

/*
 * First member of all types that are freed through the limbo list: the chain that the object is in,
 * and the size to free.
 */
typedef struct prof_link_s {
	struct prof_link_s *next;
	uint32_t bytes;
	uint32_t extra; /* each type that embeds the link defines its meaning */
} prof_link_t;

/* A node of a prof_table_t, embedded in its owner. */
typedef struct prof_node_s {
	atomic_p_t next;
	uint64_t hash;
} prof_node_t;

/* What was allocated in all: the sums of a prof_counts_t, for many writers. */
typedef struct {
	atomic_u64_t objs;
	atomic_u64_t bytes;
	atomic_u64_t c16;
	atomic_u64_t est;
	/* estimated bytes of what was freed, by the age that it had */
	atomic_u64_t life[PROF_AGES];
} prof_acounts_t;

/* Bytes per stored frame. */
#define PROF_FRAME_BYTES IMAGE_FRAME_BYTES
/* Bytes behind the last frame, so that each frame can be loaded as a 64-bit word. */
#define PROF_FRAMES_PAD 2

typedef struct prof_site_s {
	prof_link_t link;      /* list of all sites; link.extra: number of frames */
	prof_node_t node;      /* node in the table of sites */
	atomic_p_t counts;     /* prof_cnt_t of this site, chained by link.next */
	atomic_u64_t refs;     /* number of counts of this site; PROF_DEAD: removed */
	/*
	 * stamp of the objects that contain the frames (unwind/module_history); 0: they are never
	 * unloaded
	 */
	uint32_t stamp;
	/* number of the last record of loaded objects when the site was made; 0 if stamp is 0 */
	uint32_t then;
	/*
	 * The sums c16 and est over its counts when the mark was set (prof_mark.h); 0 in a site that is
	 * newer. Read and written under `pass`.
	 */
	uint64_t mark_c16;
	uint64_t mark_est;
	/* return addresses, leaf first, PROF_FRAME_BYTES each; then PROF_FRAMES_PAD bytes */
	uint8_t frames[];
} prof_site_t;

/* Mark in site->refs and cnt->live: the sweeper is removing it, so look it up again. */
#define PROF_DEAD (UINT64_C(1) << 63)
/*
 * Layout of cnt->live: sampled objects in the low bits, pins (of the log and the recent list) above
 * them, PROF_DEAD on top.
 */
#define PROF_PIN (UINT64_C(1) << IMAGE_LIVE_BITS)
#define PROF_LIVE_MASK (PROF_PIN - 1)

/* A backtrace as captured, leaf first. */
typedef struct {
	void **vec;
	unsigned len;
	bool is_cut;    /* there were more frames than prof_bt_max */
	uint64_t stack; /* equal numbers in one thread mean equal backtraces; 0: not known */
} prof_bt_t;

typedef struct prof_tdata_s prof_tdata_t;

/* Size of a text that thread.prof nodes return: a path and a few words. */
#define PROF_TEXT_SIZE ((size_t)4096 + 128)

typedef struct prof_cnt_s {
	prof_link_t link;      /* list of the site's counts; link.extra: epoch of prof.reset */
	prof_node_t node;      /* node in the table of counts */
	prof_site_t *site;
	prof_tdata_t *tdata;
	uint64_t rate;         /* sample interval in bytes of all its samples */
	atomic_b_t is_idle;    /* nothing was added since the sweeper found it empty */
	/* used only by the snapshot being taken: the number of the item of its site; others: any */
	uint32_t snap_number;
	atomic_u64_t live;     /* sampled objects that are not freed, and pins; layout above */
	/* sums over these objects, as in prof_counts_t */
	atomic_u64_t bytes;
	atomic_u64_t c16;
	atomic_u64_t est;
	prof_acounts_t accum[]; /* one element if prof_data_is_accum() was true, else none */
} prof_cnt_t;

struct prof_tdata_s {
	prof_tdata_t *next;    /* list of all records, newest first */
	uint64_t uid; /* number of the thread in dumps, never used again */
	/* epoch (tables.pin_epoch) in which the thread began to read the tables; 0: it does not */
	atomic_u64_t pinned;
	atomic_u64_t ncounts;  /* counts that point to this record */
	/* the thread's name, read by dumps of other threads word by word */
	union {
		char text[PROF_THREAD_NAME_MAX];
		atomic_u64_t words[PROF_THREAD_NAME_MAX / 8];
	} name;
	atomic_b_t attached;   /* the thread has not ended */
	bool active;           /* thread.prof.active; used by the thread alone */
	bool busy;             /* a backtrace is being taken into `frames`; used by the thread alone */
	unsigned frames_max;   /* elements of `frames` */
	void **frames;         /* addresses of the last backtrace; NULL until the first one */
	unsigned depth;        /* number of frames in `frames` */
	struct unwind_memo_s memo; /* memo of the unwinder's walks into `frames` */
	prof_bt_t bt;          /* the last backtrace, in `frames` without those of the allocator */
	uint64_t beat_ns;      /* the thread's last heartbeat that prof_budget.c has counted */
	uint64_t last_stack;   /* number of the last stack that was looked up in the tables */
	prof_cnt_t *last;      /* count of the last stack if it came twice in a row; pinned */
	char *texts[2];        /* texts returned to the thread last: an error, a path */
	/*
	 * Used only by the snapshot being taken: the thread's sums, and its item for the site that is
	 * being copied.
	 */
	prof_counts_t snap_cur;
	prof_counts_t snap_accum;
	void *snap_site;
	void *snap_item;
};

#endif /* PROF_TYPES_H */
