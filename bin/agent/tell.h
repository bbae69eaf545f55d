/*
 * The answers that are made from the table of processes: service discovery, metrics, pages. Each
 * takes the table's lock. Called by server.c.
 */
#pragma once
#include "text.h"

/* HTTP service discovery of Prometheus; host is our address for scrapers: "127.0.0.1:7071". */
void tell_targets(text_t *t, const char *host);

/* Of all processes, with their labels, and of the agent itself. */
void tell_metrics(text_t *t, bool is_openmetrics);

/* Of one process, without labels: they come from /targets. False: there is none. */
bool tell_process_metrics(text_t *t, int pid, bool is_openmetrics);

/* The page with all processes. */
void tell_index(text_t *t);

/* The page of one process. False: there is none. */
bool tell_page(text_t *t, int pid);
