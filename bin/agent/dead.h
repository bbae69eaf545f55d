/*
 * The dead: processes that had a box in a memory file (meta/image.h) when they ended. While such
 * a process lives, jeprofd holds that file open; when the process has ended the box is copied, the
 * file is closed, so that its memory no longer counts for the group of the process, and what the
 * box says is served below /dead/. At most DEAD_MOST are kept, for DEAD_MS, in a directory below
 * --cache or in memory. Boxes come from processes and may hold anything.
 *
 *   dead_watch.c    holds the boxes of the living, and notices their ends
 *   dead_end.c      how a process ended
 *   dead_facts.c    what its box says
 *   dead_store.c    the dead that are kept, and their files
 *   dead_profile.c  their profiles
 *   dead_pages.c    /dead/ and /dead/KEY/
 *
 * Locks: one of dead_watch.c and one of dead_store.c, which are never held together, and inside
 * which no other one is taken. The table's may be held around them.
 */
#pragma once
#include "scrape.h"
#include "text.h"

enum {
	DEAD_MOST = 64,
	DEAD_MS = 24 * 3600 * 1000,
	DEAD_WHY = 256,
};

/* How a process ended; end_words has the words. */
typedef enum end_s { end_exit, end_signal, end_oom, end_unknown, end_count } end_t;
extern const char *const end_words[end_count];

/* One of the dead. All times are of the wall clock, ms since 1970. */
typedef struct dead_s {
	char key[DEAD_KEY];
	int pid;
	end_t how;
	int code;             /* exit status or signal; -1: not known */
	uint64_t ended_ms;
	labels_t labels;
	/* What the box says. */
	char why[DEAD_WHY];   /* why there is no profile; "": there is one */
	uint64_t told_ms;     /* when the process told the following figures, in bytes */
	uint64_t allocated;
	uint64_t resident;    /* rss if known, else what the library says of its own */
	uint64_t limit;       /* of memory, UINT64_MAX: none, or not known */
	uint64_t grown;       /* bytes, without a fall, up to the end */
	uint64_t growing_ms;  /* for so long; 0: it did not grow */
	uint64_t box_bytes;   /* of the copy of the box; 0: there is none */
	unsigned points;      /* in `course`: the last hour */
	point_t course[HISTORY_POINTS];
} dead_t;

/* ---- dead_watch.c ---- */

/* Starts the thread that notices ends; 0 or errno. Does nothing with --blackbox off. */
int dead_start(void);

/*
 * Begins or ends to hold the box of a process, or notes what its group says now. To be called from
 * time to time while the process, which is open, lives; may be blocked by it.
 */
void dead_look(const jeprof_target_t *t);

/* The number of boxes that are held; whether that of this process is. */
unsigned dead_held(void);
bool dead_holds(int pid, uint64_t start);

/* ---- dead_end.c ---- */

/* Out-of-memory kills in a cgroup so far, in all of the machine if it does not say; 0: unknown. */
uint64_t end_kills(const char *cgroup);
/*
 * Reads how the process behind a pidfd, which has ended, did that: sets *code to the exit status or
 * the signal, or -1; has_kill: the group of the process had an out-of-memory kill meanwhile.
 */
end_t end_read(int process, int pid, uint64_t start, bool has_kill, int *code);

/* ---- dead_facts.c ---- */

/* Reads what the box says into *d, whose ended_ms is set. */
void facts_read(dead_t *d, int box);

/* A sentence about the end: how, at which size, and how fast it grew. */
void facts_sentence(text_t *t, const dead_t *d);

/* ---- dead_store.c ---- */

/* Opens the directory and reads what an earlier jeprofd left there. */
void dead_open(void);

/*
 * Keeps a copy of *d, and of its box if it can be read, and gives it a key; removes those that are
 * too many or too old. False: there is no memory.
 */
bool dead_keep(dead_t *d, int box);

/* Removes those that are too old. */
void dead_expire(void);
/*
 * Removes from the cache what a jeprofd that was killed has left there and no element counts:
 * drafts that nobody writes to any more, and profiles whose box is gone.
 */
void dead_sweep(void);

/* Copies one of the dead; false: there is none with this key. */
bool dead_find(const char *key, dead_t *to);

/* Calls f for each, the last one first, under the lock. */
void dead_each(void (*f)(const dead_t *d, void *arg), void *arg);

/* Opens the box, or the profile, of one of the dead for reading; -1: it is not there. */
typedef enum { dead_box, dead_pprof, dead_files } dead_file_t;
int dead_file(const char *key, dead_file_t which);

/* Keeps a profile; without room for it, it is made anew when it is asked for. */
void dead_keep_pprof(const char *key, const char *bytes, size_t length);

typedef struct dead_counts_s {
	uint64_t ended[end_count]; /* since the start */
	unsigned kept;
	uint64_t bytes;            /* of their files */
} dead_counts_t;
void dead_count(dead_counts_t *to);

/* ---- dead_profile.c ---- */

/* Carries out a job_dead. */
void dead_answer(const order_t *order, answer_t *a);
