/*
 * /targets: the processes that run the library, as a JSON list for HTTP service discovery (http_sd)
 * of Prometheus and compatible scrapers. Each is a target with labels that identify it and paths of
 * its metrics and profiles, so that a scraper needs no relabelling rules to find these. Lock: the
 * table's, taken here for the whole answer. Called by server.c.
 */
#include "table.h"

#include <time.h>

#include "tell.h"

static void
add_label(text_t *t, const char *name, const char *value) {
	text_add(t, ",\n   \"%s\":", name);
	text_json(t, value);
}

/* Adds a target, at host (ADDR:PORT). Labels that begin with __ are for the scraper only. */
static void
add_target(text_t *t, const proc_t *p, const char *host) {
	char started[32] = "";
	label_t labels[PROC_LABELS];
	size_t n = proc_labels(p, labels);
	time_t at = (time_t)p->labels->started;
	struct tm tm;
	if (gmtime_r(&at, &tm) != NULL) {
		strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", &tm);
	}
	text_add(t, "{\"targets\":[");
	text_json(t, host);
	text_add(t, "],\n  \"labels\":{\"pid\":\"%d\"", p->pid);
	for (size_t i = 0; i < n; i++) {
		add_label(t, labels[i].key, labels[i].value);
	}
	if (started[0] != '\0') {
		add_label(t, "start_time", started);
	}
	text_add(t, ",\n   \"__metrics_path__\":\"/p/%d/metrics\",\n   "
	    "\"__profile_path_prefix__\":\"/p/%d\",\n   "
	    "\"__meta_jeprof_heap_path\":\"/p/%d/debug/pprof/heap\",\n   "
	    "\"__meta_jeprof_allocs_path\":\"/p/%d/debug/pprof/allocs\"}}", p->pid, p->pid, p->pid,
	    p->pid);
}

void
tell_targets(text_t *t, const char *host) {
	table_lock();
	proc_t *const *list = table_sorted();
	text_add(t, "[");
	for (proc_t *const *p = list; *p != NULL; p++) {
		text_add(t, "%s", p > list ? ",\n " : "");
		add_target(t, *p, host);
	}
	text_add(t, "]\n");
	table_unlock();
}
