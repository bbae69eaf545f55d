/*
 * Jobs: the requests that take time, that is, profiles, starts, stops and marks of one process, and
 * profiles of the dead, which are processes that ended and left their tables (dead.h). Each job
 * runs in a thread of its own, so a slow process delays no other request. Invariant: the client
 * gets an answer within a bounded time; if the process blocks the job's thread longer, the answer
 * is 503. scrape_begin() is called by server.c, push.c and dead_watch.c, scrape_tick() by main.c,
 * answer_line() by scrape.c, server.c and dead_profile.c.
 */
#pragma once
#include "table.h"

/*
 * job_heap, job_allocs: a profile of what is live, of all that was allocated. job_start, job_stop,
 * job_mark: those of POST. job_dead: the profile of a process that has ended.
 */
typedef enum { job_heap, job_allocs, job_start, job_stop, job_mark, job_dead } job_kind_t;

enum { DEAD_KEY = 40 }; /* bytes of the key of a dead process (dead.h), with its NUL */
#define DEAD_KEY_CHARS "0123456789TZ." /* the characters that a key may have */

/* The HTTP answer to a request. */
typedef struct answer_s {
	unsigned status;      /* of HTTP; 0: not answered yet */
	const char *type;     /* of the content */
	char *body;           /* malloc()ed; NULL if there was no memory, or once somebody took it */
	size_t length;        /* of the body, bytes */
} answer_t;

/* The parameters of a job, as read from the request line. */
typedef struct order_s {
	job_kind_t kind;
	int pid;
	/*
	 * of job_heap and job_allocs: time between the two profiles whose difference is asked for, 0:
	 * one profile; of job_start: time limit of the session, 0: none
	 */
	unsigned seconds;
	uint64_t rate;        /* of job_start: mean bytes between two samples; 0: that of --rate */
	bool is_raw;          /* the library's text (heap_v2) instead of pprof's profile.proto */
	bool has_ages;        /* the profile tells live bytes by age (?ages=1); the page asks for it */
	bool is_otlp;         /* OTLP instead of profile.proto */
	bool is_packed;       /* OTLP: gzipped, as push.c sends it */
	/*
	 * not 0: push.c has ordered it: ms until it orders the next profile of this process. It tries
	 * again if the job is not started, so such a refusal is not counted.
	 */
	uint64_t push_again_ms;
	bool is_since_mark;   /* the difference from the mark, the moment of the last job_mark */
	bool is_own;          /* jeprofd itself has ordered it: it is in no count of scrapes */
	char key[DEAD_KEY];   /* of a job_dead, instead of the pid */
	/*
	 * of a job_dead: descriptor of the root directory of its process, which the job closes; 0:
	 * there is none, and the files that have the names of symbols are looked for below jeprofd's
	 * own root
	 */
	int root;
} order_t;

/*
 * Frees the body of the answer and makes it one line of text with a newline, at most about 3 KiB;
 * control characters become '?'. Without memory the body is NULL and the length 0.
 */
__attribute__((format(printf, 3, 4))) void answer_line(answer_t *a, unsigned status,
    const char *format, ...);

/*
 * Starts a job with a copy of *order. done(arg, answer) is called once, from the job's thread or
 * main's, with the lock of the job list held, so it must not call scrape_*; it takes ownership of
 * the body. Returns false if too many jobs run, if there is no memory or thread for one more, or if
 * jeprofd is ending; then done is not called, and order->root stays the caller's.
 */
typedef void done_t(void *arg, const answer_t *answer);
bool scrape_begin(const order_t *order, done_t *done, void *arg);

/*
 * Answers 503 in place of each job that is past its deadline (30 s after its begin; for a profile,
 * `seconds` more), or of all jobs once `ending` is set. now_ms: monotonic clock. Called by the loop
 * of main() about every second, and once after it.
 */
void scrape_tick(int64_t now_ms);
