/*
 * The dead: processes that had a box when they ended, that is, a memory file that holds the tables
 * of their profiler (src/meta/image.h). While such a process lives, jeprofd holds that file open;
 * when the process has ended the box is copied, the file is closed, so that its memory no longer
 * counts for the cgroup of the process, and what the box says is served below /dead/. At most
 * DEAD_MAX are kept, for DEAD_MS, in a directory below --cache or in memory. Boxes come from
 * processes and may hold anything.
 *
 *   dead_watch.c    holds the boxes of the living, and notices their ends
 *   dead_end.c      how a process ended
 *   dead_facts.c    what its box says
 *   dead_store.c    the dead that are kept, and their files
 *   dead_profile.c  their profiles
 *   dead_pages.c    /dead/ and /dead/KEY/
 *
 * Locks: one of dead_watch.c and two of dead_store.c; no two of them are held together, and no
 * other lock is taken inside one. The table's may be held around them, but not around draft_lock.
 * Called by main.c, watch.c, scrape.c, pages.c and metrics.c.
 */
#pragma once
#include "scrape.h"
#include "text.h"

enum {
	DEAD_MAX = 64,             /* of the dead that are kept, at most */
	DEAD_MS = 24 * 3600 * 1000, /* how long one is kept after its end; checked once a minute */
	DEAD_WHY = 256,             /* bytes of dead_t.why, with its NUL */
};

/* How a process ended: by itself, by a signal, by the out-of-memory killer. Words: end_words. */
typedef enum end_s { end_exit, end_signal, end_oom, end_unknown, end_count } end_t;
extern const char *const end_words[end_count];

/* One of the dead. All times are of the wall clock, ms since 1970. */
typedef struct dead_s {
	/* of its paths below /dead/ and of its files: end and pid, "20261125T100341.666Z.28804" */
	char key[DEAD_KEY];
	int pid;
	end_t how;
	int code;             /* exit status or number of the signal; -1: not known */
	uint64_t ended_ms;    /* when jeprofd noticed the end */
	labels_t labels;      /* as they were when jeprofd opened the box */
	/* What the box says. */
	char why[DEAD_WHY];   /* why there is no profile; "": there is one */
	uint64_t told_ms;     /* when the process told the following figures */
	uint64_t allocated;   /* bytes, as are the next three */
	uint64_t resident;    /* of the process (rss) if known, else of the allocator */
	uint64_t limit;       /* of memory, UINT64_MAX: none, or not known */
	uint64_t grown;       /* by so many bytes `resident` rose up to the end without a great fall */
	uint64_t growing_ms;  /* how long that took; 0: it did not grow */
	uint64_t box_bytes;   /* size of the copy of the box, holes included; 0: there is none */
	unsigned points;      /* in `course` */
	point_t course[HISTORY_POINTS]; /* of the last hour at most, oldest first */
} dead_t;

/* ---- dead_watch.c ---- */

/*
 * Reads what an earlier jeprofd has kept, and starts the thread that notices ends and expires what
 * is kept, unless --blackbox is off and there is no --cache. 0 or errno.
 */
int dead_start(void);

/*
 * How many descriptors the boxes that are held may take; and sets that, but no more than it was.
 * Called by main(), before it starts threads.
 */
uint64_t dead_descriptors(void);
void dead_limit(uint64_t descriptors);

/*
 * Begins or ends to hold the box of a process, or notes how many out-of-memory kills its cgroup and
 * the machine have seen so far. To be called from time to time while the process, which is open,
 * lives; may be blocked by it. Does nothing with --blackbox off.
 */
void dead_look(const jeprof_target_t *t);

/* The number of processes whose box is held. */
unsigned dead_held(void);
/* Whether the box of this process is held. start: clock ticks from boot to its start. */
bool dead_holds(int pid, uint64_t start);

/* ---- dead_end.c ---- */

/* Out-of-memory kills so far, of a cgroup and of the whole machine; 0 if not known. */
typedef struct kills_s {
	bool has_group, has_machine; /* whether the number is known */
	uint64_t of_group, of_machine;
} kills_t;
/* Reads them; "": of the machine only. */
kills_t end_kills(const char *cgroup);
/* Whether there was a kill in between: in the cgroup, if both know of it, else in the machine. */
bool end_has_kill(const kills_t *before, const kills_t *now);
/*
 * How a process that has ended did that. `process` is its pidfd; start: as above; has_kill: what
 * end_has_kill() says of the time since it was last seen alive: then a SIGKILL, or an end of which
 * nothing can be read, is end_oom. Sets *code to the exit status or the number of the signal; -1:
 * not known.
 */
end_t end_read(int process, int pid, uint64_t start, bool has_kill, int *code);

/* ---- dead_facts.c ---- */

/*
 * Reads what the box (a descriptor, which stays open) says into *d, whose `how` and `limit` are
 * set and whose other figures are 0; may correct these two. If it cannot be read, sets only d->why.
 */
void facts_read(dead_t *d, int box);

/* A sentence about the end, without its full stop: how, at which size, and how fast it grew. */
void facts_sentence(text_t *t, const dead_t *d);

/* ---- dead_store.c ---- */

/*
 * With --cache, opens the directory and reads what an earlier jeprofd left there. If that cannot be
 * used, tells why; files are then kept in memory, as without --cache.
 */
void dead_open(void);

/*
 * Counts the end, gives *d a key (on entry it is ""), and keeps a copy of it and, unless d->why is
 * set, of its box (a descriptor, which stays open); sets d->why if that cannot be copied. Then does
 * dead_expire(), which may remove this very one. False: there is no memory; the end is counted, but
 * nothing is kept. Called by one thread only.
 */
bool dead_keep(dead_t *d, int box);

/* Removes those that ended more than DEAD_MS ago, or are too many or take too many bytes. */
void dead_expire(void);
/*
 * Removes files that belong to none of the dead, such as a jeprofd that was killed has left: drafts
 * that nobody writes to any more, and profiles whose box is gone.
 */
void dead_sweep(void);

/* Copies one of the dead; false: there is none with this key. */
bool dead_find(const char *key, dead_t *to);

/* Calls f for each, the newest first, under the lock of dead_store.c. */
void dead_each(void (*f)(const dead_t *d, void *arg), void *arg);

/*
 * Opens the box, or the profile, of one of the dead for reading; -1: it is not there or cannot be
 * opened. The caller closes it, and reads by pread(): memory files share their offset. dead_files:
 * number of kinds.
 */
typedef enum { dead_box, dead_pprof, dead_files } dead_file_t;
int dead_file(const char *key, dead_file_t which);

/*
 * Keeps the profile (profile.proto, gzipped) of one of the dead, then does dead_expire(). One that
 * cannot be written is made anew each time that it is asked for.
 */
void dead_keep_pprof(const char *key, const char *bytes, size_t length);

typedef struct dead_counts_s {
	uint64_t ended[end_count]; /* processes with a held box that ended so, since jeprofd's start */
	unsigned kept;             /* now */
	uint64_t bytes;            /* that their files take on disk or in memory */
} dead_counts_t;
void dead_count(dead_counts_t *to);

/* ---- dead_profile.c ---- */

/* Carries out a job_dead: sets *a to its answer, and closes order->root if that is not 0. */
void dead_answer(const order_t *order, answer_t *a);
