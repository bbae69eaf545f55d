/*
 * Pushes the profiles of processes to a receiver of OTLP over HTTP (--push), for places that no
 * scraper reaches. Called by main.c, and by metrics.c for the figures.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Counts, since the start, of requests, each with the profile of one process; bytes that wait. */
typedef struct push_figures_s {
	uint64_t sent;     /* the receiver answered 2xx, even if it rejected some (`rejected`) */
	uint64_t retried;  /* attempts that failed and are made again */
	uint64_t refused;  /* given up: by the answer, or the URL, no other attempt would help */
	uint64_t dropped;  /* no room in the queue, or no memory */
	uint64_t rejected; /* OTLP Profiles that, by its answers, it left out of requests it took */
	uint64_t queued;   /* bytes that wait now, without those that are being sent */
} push_figures_t;

void push_read(push_figures_t *f);

/* Starts the thread that sends; does nothing without --push. Exits with the reason on failure. */
void push_start(void);

/*
 * Begins the profiles that are due at now_ms (monotonic), at most 4 in a call: those that are due
 * for longest. Called by main() about every second; takes the locks of the table and of the jobs.
 */
void push_tick(int64_t now_ms);

/*
 * Ends the thread: has it give up an attempt, and waits for its end 3 s at most. A search for the
 * receiver's address cannot be given up and may last longer. What is still queued or being sent is
 * lost.
 */
void push_stop(void);
/* Whether no such thread runs. Else the process must end by _exit(), without exit handlers. */
bool push_is_stopped(void);
