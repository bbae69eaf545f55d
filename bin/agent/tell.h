/*
 * What the table is told as: service discovery, metrics, pages. All of them take the table's lock.
 */
#pragma once
#include "text.h"

/* http_sd of Prometheus; host is what the scrapers reach us by: "127.0.0.1:7071". */
void tell_targets(text_t *t, const char *host);

/* Of all processes, with their labels, and of the agent itself. */
void tell_metrics(text_t *t, bool is_openmetrics);

/* Of one process, without labels: they come from /targets. False: there is none. */
bool tell_process_metrics(text_t *t, int pid, bool is_openmetrics);

void tell_index(text_t *t);
bool tell_page(text_t *t, int pid);
