/*
 * Pieces of HTML pages, added to a text_t. A list is page_list_begin() and what its caller adds;
 * the page of a process is page_report_begin(), facts and page_report_end(). No locks: who calls
 * page_picture() holds that of the points (the table's, or that of dead_store.c), or has a copy.
 * Used by pages.c and dead_pages.c.
 */
#pragma once
#include "table.h"

/* The begin of a page that is a list and reloads every 15 s; the title is put in as it is. */
void page_list_begin(text_t *t, const char *title);

enum { HOUR_MS = 3600000 }; /* the longest span of a picture */

/*
 * The curves of the last `span` ms before `now` (ms, clock of the points: monotonic for the living,
 * since 1970 for the dead): resident bytes in grey, allocated ones in red. history: a ring of
 * HISTORY_POINTS elements. points: how many points were written to it in all; if that is more than
 * HISTORY_POINTS, the newer ones replaced the older. The upper edge is the largest value in the
 * span. The title tells it, and of how much time: of less than the span if the ring, full, does not
 * reach back so far (--look below 15s).
 */
void page_picture(text_t *t, const point_t *history, unsigned points, int64_t now, int64_t span);

/* Adds what follows "the last": "hour", "25 minutes", "40 seconds"; ms: an hour at most. */
void page_duration(text_t *t, int64_t ms);

/*
 * A row of a table with a name, put in as it is, and a value, which is quoted; nothing if the value
 * is "".
 */
void page_fact(text_t *t, const char *name, const char *value);

/*
 * The begin of a report, the page of one process: its heading, and a link with the text `up_name`
 * to the path `up`. comm, the name of the process, is quoted; the other two need no quoting.
 */
void page_report_begin(text_t *t, int pid, const char *comm, const char *up, const char *up_name);
/* The end of a report. The script in it fetches debug/pprof/heap every `seconds`; 0: once. */
void page_report_end(text_t *t, unsigned seconds);
