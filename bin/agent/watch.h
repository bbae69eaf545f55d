/*
 * Finds the processes that run the library, and refreshes their records in the table. Called by
 * main.c; watch_hold() by scrape.c.
 */
#pragma once
#include "table.h"

/* Starts the lookers, the threads that read processes; 0 or errno. */
int watch_start(void);

/*
 * Replaces lookers that are blocked and, every look_ms or 5 s, whichever is less, makes a round
 * over /proc. now_ms: monotonic clock. Called by main() at the start, then about every second.
 */
void watch_tick(int64_t now_ms);

/*
 * Finds or adds the record of a process that jeprof_find() has just found, and raises its
 * `holders`, so that it is not freed before table_release(). NULL: no memory. Takes the table's
 * lock. Called by the threads of jobs.
 */
proc_t *watch_hold(jeprof_target_t *t);
