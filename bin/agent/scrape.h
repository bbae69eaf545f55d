/*
 * What takes time: profiles, starts, stops and marks of one process, each in a thread of its own,
 * so that a slow process delays nobody. Invariant: a job is bounded in time for its asker; if its
 * thread is held up by the process, the asker gets 503 then.
 */
#pragma once
#include "table.h"

typedef enum { job_heap, job_allocs, job_start, job_stop, job_mark } job_kind_t;

/* What is answered to a request. */
typedef struct answer_s {
	unsigned status;      /* of HTTP */
	const char *type;     /* of the content */
	bool is_gzip;
	char *body;           /* malloc()ed */
	size_t length;
} answer_t;

/* What is asked for. */
typedef struct order_s {
	job_kind_t kind;
	int pid;
	unsigned seconds;     /* of a delta; of the longest session that start begins; 0: not given */
	uint64_t rate;        /* bytes, 0: --rate */
	bool is_raw;          /* heap_v2 instead of profile.proto */
	bool is_since_mark;
} order_t;

/* A line of text as the answer. */
__attribute__((format(printf, 3, 4))) void answer_line(answer_t *a, unsigned status,
    const char *format, ...);

/*
 * Begins the job; done(arg, answer) is called once, from another thread, and owns the body. false:
 * no room, nothing is called.
 */
typedef void done_t(void *arg, const answer_t *answer);
bool scrape_begin(const order_t *order, done_t *done, void *arg);

/* Answers for jobs that are late; all of them if we are ending. Called by main. */
void scrape_tick(int64_t now_ms);
