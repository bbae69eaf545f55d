/*
 * Pushes the profiles of processes to a receiver of OTLP over HTTP (--push), for places that no
 * scraper reaches. Called by main.c, and by metrics.c and pages.c for the figures.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/*
 * Counts since the start of jeprofd; only `queued` is of this moment. A request has the profile of
 * one process; it may take several attempts: after 429, 502 to 504, or no answer, another one
 * follows. A receiver may answer 2xx and say there that it left some Profiles out (`rejected`).
 */
typedef struct push_figures_s {
	uint64_t sent;     /* requests that the receiver answered with 2xx */
	uint64_t retried;  /* failed attempts, the request being kept for another one */
	uint64_t refused;  /* requests given up, as no attempt would help: other answers; wrong URL */
	uint64_t dropped;  /* requests lost: no memory, too large, or the oldest of a full queue */
	uint64_t large;    /* of these: larger than the queue */
	uint64_t rejected; /* OTLP Profiles that the receiver left out, by its answers with 2xx */
	uint64_t queued;   /* bytes that wait now, without those that are being sent */
} push_figures_t;

/* A sentence about `dropped`, which is not 0; for the log and the page of all processes. */
enum { PUSH_LOSS = 160 };
void push_loss(const push_figures_t *f, char text[PUSH_LOSS]);

/* Copies the figures, all 0 without --push. Any thread; takes the lock of push.c. */
void push_read(push_figures_t *f);

/*
 * Starts the thread that sends; does nothing without --push. Exits with the reason if the thread
 * cannot be started. A thread that finds no memory at its begin prints that and ends; then nothing
 * is pushed.
 */
void push_start(void);

/*
 * Begins the profiles that are due at now_ms (monotonic), one of each selected process in each
 * --push-interval; at most 4 in a call, those that are due for longest. Called by main() about
 * every second. Takes the lock of the figures, then that of the table, then that of the jobs, one
 * at a time.
 */
void push_tick(int64_t now_ms);

/*
 * Aborts the attempt that is being made, and waits at most 3 s until the thread ends. A look-up of
 * the receiver's address cannot be aborted and may last longer. What is still queued or being sent
 * is lost.
 */
void push_stop(void);
/* Whether that thread has ended, or was never started. Else the process must end by _exit(). */
bool push_is_stopped(void);
