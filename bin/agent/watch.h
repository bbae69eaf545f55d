/* Finds the processes that run the library, and keeps the table of them fresh. */
#pragma once
#include "table.h"

/* Starts the threads that look into processes; 0 or errno. */
int watch_start(void);

/* Looks at /proc and at the threads: called by main each second or so. */
void watch_tick(int64_t now_ms);

/*
 * Puts a process that was just found from a request into the table, or finds it there, and holds
 * it; NULL: no room.
 */
proc_t *watch_hold(jeprof_target_t *t);
