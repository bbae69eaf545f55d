/*
 * Pushes the profiles of processes to a receiver of OTLP over HTTP (--push), for places that no
 * scraper reaches. Called by main.c, and by metrics.c for the figures.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Counts of profiles since the start. */
typedef struct push_figures_s {
	uint64_t sent;     /* the receiver answered 2xx, also where it rejected some (`rejected`) */
	uint64_t retried;  /* attempts that failed and are made again */
	uint64_t refused;  /* the receiver answered that it does not take them */
	uint64_t dropped;  /* no room in the queue */
	uint64_t rejected; /* the receiver took the request, but not these profiles of it */
	uint64_t queued;   /* bytes that wait now */
} push_figures_t;

void push_read(push_figures_t *f);

/* Starts the thread that sends; does nothing without --push. Exits with the reason on failure. */
void push_start(void);

/* Begins the profiles that are due. Called by main's loop about every second. */
void push_tick(int64_t now_ms);

/*
 * Ends the thread: gives an attempt up, and waits 3 s at most, which a search for the receiver's
 * address may exceed. What is still queued or being sent is lost.
 */
void push_stop(void);
/* Whether the thread has ended. If not, the process must end without exit handlers. */
bool push_is_stopped(void);
