/*
 * Finds the processes that run the library, and refreshes their records in the table. Called by
 * main.c; watch_hold() by scrape.c.
 */
#pragma once
#include "table.h"

/* Starts the lookers, the threads that read processes; 0 or errno. */
int watch_start(void);

/*
 * Starts a new looker for each that a process has blocked for more than 5 s. Reads /proc, so that
 * new processes are found, if the last time was options.look_ms ago (5 s ago if that is less).
 * now_ms: monotonic clock. Called by main() at the start, then about every second.
 */
void watch_tick(int64_t now_ms);

/*
 * Finds or adds the record of a process that jeprof_find() has just found, and raises its
 * `holders`, so that it is not freed before table_release(). Removes that of an earlier process
 * with its pid, if that ran the library, and has the next round look at a process whose record is
 * not kind_ours. NULL: no memory. Takes the table's lock. Called by the threads of jobs.
 */
proc_t *watch_hold(jeprof_target_t *t);
