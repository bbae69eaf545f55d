/*
 * Finds the processes that run the library, and refreshes their records in the table. All functions
 * take the locks that they need, and are called without one. Called by main.c; watch_hold() by
 * scrape.c.
 */
#pragma once
#include "table.h"

/* Starts the watchers, the threads that read processes; 0 or errno. */
int watch_start(void);

/*
 * Starts a new watcher in place of each that a process has blocked for more than 5 s. Reads /proc,
 * so that new processes are found, if that was last done options.look_ms ago or 5 s ago, whichever
 * is less. now_ms: monotonic clock. Called by main() at the start, then about every second.
 */
void watch_tick(int64_t now_ms);

/*
 * Finds or adds the record of a process that jeprof_find() has just found, and raises its
 * `holders`, so that the record is not freed before table_release(). First removes the record of an
 * earlier process with this pid that ran the library. If the record is not kind_ours, the next
 * round over /proc queues it for a look. NULL: no memory. Takes the table's lock. Called by the
 * threads of jobs.
 */
proc_t *watch_hold(jeprof_target_t *t);
