/*
 * Writes the answers that need no job (scrape.h): service discovery (targets.c), metrics
 * (metrics.c) and pages (pages.c) from the table of processes, and the pages of the dead, processes
 * that ended (dead_pages.c). Otherwise "process" means one that runs the library. Each function
 * adds to *t and takes the locks that it needs. Without memory t->is_cut is set; the caller then
 * frees the text and answers 503. Called by server.c.
 */
#pragma once
#include "text.h"

/* Targets for Prometheus's HTTP service discovery; host is jeprofd's address: "127.0.0.1:7071". */
void tell_targets(text_t *t, const char *host);

/* Metrics of all processes, with their labels, and of jeprofd itself. */
void tell_metrics(text_t *t, bool is_openmetrics);

/*
 * Metrics of one process, without the labels that tell which it is: a scraper has them from
 * /targets. False: there is no such process.
 */
bool tell_process_metrics(text_t *t, int pid, bool is_openmetrics);

/* The page with all processes. */
void tell_index(text_t *t);

/* The page of one process. False: there is no such process. */
bool tell_page(text_t *t, int pid);

/* The page with the processes that ended; that of one (false: it is not kept). */
void tell_dead_list(text_t *t);
bool tell_dead(text_t *t, const char *key);
