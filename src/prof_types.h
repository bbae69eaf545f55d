/*
 * The nouns of the profiler's books.
 *
 * A site is one distinct backtrace.  A count says what one thread sampled at one site with one
 * sampling rate since one reset; a live sample points to its count.  A tdata is what the profiler
 * knows about one thread; it outlives the thread as long as a count names it.
 *
 * Everything is found without a lock.  Sites and counts are taken out of the tables by the sweeper
 * only, and their memory is given back when no thread can still be looking at it (prof_data.c).
 */
#ifndef PROF_TYPES_H
#define PROF_TYPES_H

#include "os/unwind.h"
#include "prof_opt.h"
#include "util/atomic.h"

/* First in everything that the books retire: the chain it is in, and what to give back. */
typedef struct prof_link_s {
	struct prof_link_s *next;
	uint32_t bytes;
	uint32_t extra; /* meaning belongs to the type that embeds the link */
} prof_link_t;

typedef struct prof_node_s {
	atomic_p_t next;
	uint64_t hash;
} prof_node_t;

/* Sums over samples. c16: estimated number of objects, times 65536; est: estimated bytes. */
typedef struct {
	uint64_t objs;
	uint64_t bytes;
	uint64_t c16;
	uint64_t est;
} prof_counts_t;

typedef struct {
	atomic_u64_t objs;
	atomic_u64_t bytes;
	atomic_u64_t c16;
	atomic_u64_t est;
} prof_acounts_t;

/* Frames are kept in six bytes each: user addresses have at most 48 bits. */
#define PROF_FRAME_BYTES 6
/* Behind the last one, so that each can be read as a word. */
#define PROF_FRAMES_PAD 2

typedef struct prof_site_s {
	prof_link_t link;      /* all sites; link.extra: number of frames */
	prof_node_t node;      /* in the table of sites */
	atomic_p_t counts;     /* prof_cnt_t, chained by link.next */
	atomic_u64_t refs;     /* counts of this site; PROF_DEAD: taken out */
	uint32_t stamp;        /* of the objects that the frames lie in; 0: they stay (os/module_history) */
	uint32_t then;         /* the last record of them when it was made */
	uint8_t frames[];
} prof_site_t;

#define PROF_DEAD (UINT64_C(1) << 63)
/* cnt->live: objects below, pins (of the log and of the recent list) above, PROF_DEAD on top. */
#define PROF_PIN (UINT64_C(1) << 40)
#define PROF_LIVE_MASK (PROF_PIN - 1)

typedef struct prof_tdata_s prof_tdata_t;

/* A path with a few words around it. */
#define PROF_TEXT_SIZE ((size_t)4096 + 128)

typedef struct prof_cnt_s {
	prof_link_t link;      /* the site's counts; link.extra: epoch of prof.reset */
	prof_node_t node;      /* in the table of counts */
	prof_site_t *site;
	prof_tdata_t *tdata;
	uint64_t rate;         /* sample interval of all its samples */
	atomic_b_t is_idle;    /* nothing came to it since the sweeper found it empty */
	atomic_u64_t live;
	atomic_u64_t bytes;
	atomic_u64_t c16;
	atomic_u64_t est;
	prof_acounts_t accum[]; /* one, with prof_accum */
} prof_cnt_t;

struct prof_tdata_s {
	prof_tdata_t *next;    /* all records, newest first */
	uint64_t uid;
	atomic_u64_t pinned;   /* 0, or the epoch in which the thread began to look at the books */
	atomic_u64_t ncounts;
	union {
		char text[PROF_THREAD_NAME_MAX];
		atomic_u64_t words[PROF_THREAD_NAME_MAX / 8];
	} name;
	atomic_b_t attached;   /* its thread lives */
	bool active;           /* thread.prof.active; the thread's own */
	bool busy;             /* a backtrace is being taken into `frames`; the thread's own */
	unsigned frames_max;
	void **frames;
	unsigned depth;        /* of what is in `frames` */
	struct unwind_memo_s memo; /* of the walks into `frames` */
	uint64_t stack;        /* number of the stack in `frames`: changes when another one comes */
	uint64_t last_stack;   /* that of the last backtrace that was looked up in the books */
	prof_cnt_t *last;      /* if it came twice in a row: its count, pinned */
	char *texts[2];        /* what the thread asked for last: an error, a path */
	/* Belongs to the snapshot being taken. */
	prof_counts_t snap_cur;
	prof_counts_t snap_accum;
	void *snap_site;
	void *snap_item;
};

/* A backtrace as captured, leaf first. */
typedef struct {
	void **vec;
	unsigned len;
	bool is_cut;    /* there were more frames than prof_bt_max */
	uint64_t stack; /* equal numbers in one thread: equal backtraces; 0: not known */
} prof_bt_t;

#endif /* PROF_TYPES_H */
