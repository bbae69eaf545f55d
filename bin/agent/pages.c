/*
 * Writes the HTML pages. "/" lists the processes, with a curve of the last hour in SVG. "/p/PID/"
 * is the page of "jeprof report" for one process; its script (bin/page/, joined into page_parts.c)
 * fetches debug/pprof/heap repeatedly. Invariant: a page loads nothing from other servers, and all
 * strings that come from a process are quoted. Takes the table's lock. Called by server.c.
 */
#include "table.h"

#include <stdlib.h>

#include "page_parts.h"
#include "tell.h"

enum {
	PICTURE_WIDTH = 240,     /* of the curve, in pixels */
	PICTURE_HEIGHT = 36,
	HOUR_MS = 3600000,
	LIVE_SECONDS = 10,       /* longest time between the profiles that the page fetches */
};

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\">"
    "<meta http-equiv=\"refresh\" content=\"15\"><title>jeprofd</title>\n"
    "<style>body{font:14px/1.5 system-ui,sans-serif;margin:2em;color:#222;background:#fff}"
    "table{border-collapse:collapse}"
    "td,th{padding:.3em .8em;text-align:left;border-bottom:1px solid #ddd}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    "a{color:#0645ad}svg{vertical-align:middle}.r{fill:none;stroke:#999}"
    ".a{fill:none;stroke:#c33;stroke-width:1.5}form{display:inline}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
    "td,th{border-color:#444}a{color:#8ab4f8}}</style>\n";

/* One curve; `most` is the value at the top. Unknown values (0) are left out. */
static void
add_curve(text_t *t, const proc_t *p, const char *class, bool is_allocated, uint64_t most,
    int64_t now) {
	unsigned begin = p->points > HISTORY_POINTS ? p->points - HISTORY_POINTS : 0;
	text_add(t, "<polyline class=\"%s\" points=\"", class);
	for (unsigned i = begin; i < p->points; i++) {
		const point_t *point = &p->history[i % HISTORY_POINTS];
		uint64_t value = is_allocated ? point->allocated : point->rss;
		if (now - point->at_ms < HOUR_MS && value > 0) {
			text_add(t, "%.1f,%.1f ", PICTURE_WIDTH * (1 - (double)(now - point->at_ms) / HOUR_MS),
			    PICTURE_HEIGHT - 1 - (PICTURE_HEIGHT - 2) * (double)value / (double)most);
		}
	}
	text_add(t, "\"/>");
}

/* The curves of the last hour: resident memory in grey, allocated bytes in red. */
static void
add_picture(text_t *t, const proc_t *p) {
	uint64_t most = 1;
	unsigned count = p->points < HISTORY_POINTS ? p->points : HISTORY_POINTS;
	for (unsigned i = 0; i < count; i++) {
		most = p->history[i].rss > most ? p->history[i].rss : most;
		most = p->history[i].allocated > most ? p->history[i].allocated : most;
	}
	text_add(t, "<svg width=\"%d\" height=\"%d\" role=\"img\"><title>the last hour: resident grey, "
	    "allocated red; at most ", PICTURE_WIDTH, PICTURE_HEIGHT);
	text_size(t, (double)most);
	text_add(t, "</title>");
	add_curve(t, p, "r", false, most, client_now_ms());
	add_curve(t, p, "a", true, most, client_now_ms());
	text_add(t, "</svg>");
}

static void
add_bytes(text_t *t, bool is_known, uint64_t bytes) {
	text_add(t, "<td class=\"n\">");
	if (is_known) {
		text_size(t, (double)bytes);
	} else {
		text_add(t, "-");
	}
	text_add(t, "</td>");
}

static void
add_row(text_t *t, const proc_t *p) {
	text_add(t, "<tr><td class=\"n\"><a href=\"/p/%d/\">%d</a></td><td>", p->pid, p->pid);
	text_html(t, p->labels->comm);
	text_add(t, "</td><td>");
	text_html(t, p->labels->service);
	text_add(t, "</td><td>");
	text_html(t, p->labels->user);
	text_add(t, "</td><td>%s</td>", state_word(p->head.state));
	add_bytes(t, proc_has(p, fig_allocated), p->figures.values[fig_allocated]);
	add_bytes(t, true, p->figures.rss);
	text_add(t, "<td>");
	add_picture(t, p);
	text_add(t, "</td></tr>\n");
}

void
tell_index(text_t *t) {
	table_lock();
	proc_t **list = table_sorted();
	text_add(t, "%s<h1>Processes that run the library: %u</h1>\n", head, counts.processes);
	text_add(t, "<table><tr><th class=\"n\">pid<th>name<th>service<th>user<th>profiler<th "
	    "class=\"n\">allocated<th class=\"n\">resident<th>last hour</tr>\n");
	for (proc_t **p = list; p != NULL && *p != NULL; p++) {
		add_row(t, *p);
	}
	text_add(t, "</table>\n<p>%u more may not be looked into. <a href=\"/targets\">targets</a> "
	    "<a href=\"/metrics\">metrics</a></p></html>\n", counts.unreadable);
	free(list);
	table_unlock();
}

/* ---- the page of one process ---- */

static void
add_fact(text_t *t, const char *name, const char *value) {
	if (value[0] != '\0') {
		text_add(t, "<tr><td class=\"t\">%s</td><td class=\"t\">", name);
		text_html(t, value);
		text_add(t, "</td></tr>\n");
	}
}

static void
add_facts(text_t *t, const proc_t *p) {
	text_add(t, "<details><summary>this process</summary>");
	add_picture(t, p);
	text_add(t, "<table>");
	add_fact(t, "profiler", state_word(p->head.state));
	add_fact(t, "service", p->labels->service);
	add_fact(t, "user", p->labels->user);
	add_fact(t, "program", p->labels->exe);
	add_fact(t, "build-id", p->labels->build_id);
	add_fact(t, "cgroup", p->labels->cgroup);
	add_fact(t, "container", p->labels->container_id);
	add_fact(t, "library", p->head.library_version);
	for (int i = 0; i < fig_count; i++) {
		if (proc_has(p, (fig_t)i)) {
			text_add(t, "<tr><td class=\"t\">%s</td><td class=\"t\">%llu</td></tr>\n", fig_keys[i],
			    (unsigned long long)p->figures.values[i]);
		}
	}
	text_add(t, "<tr><td class=\"t\">rss</td><td class=\"t\">%llu</td></tr></table></details>\n",
	    (unsigned long long)p->figures.rss);
}

static void
add_tools(text_t *t) {
	static const char *const verbs[] = {"start", "stop", "mark"};
	text_add(t, "<p>Profiles: <a href=\"debug/pprof/heap\">heap</a> <a "
	    "href=\"debug/pprof/allocs\">allocs</a> <a href=\"debug/pprof/heap?seconds=30\">30 "
	    "seconds</a> <a href=\"debug/pprof/heap?raw=1\">heap_v2</a></p>\n"
	    "<p><button id=\"live-pause\" type=\"button\">pause</button> ");
	for (size_t i = 0; options.may_control && i < sizeof(verbs) / sizeof(*verbs); i++) {
		text_add(t, "<button type=\"button\" data-verb=\"%s\">%s</button> ", verbs[i], verbs[i]);
	}
	text_add(t, "<output id=\"live-state\" aria-live=\"polite\">waits for the first "
	    "profile</output></p>\n");
}

static void
add_part(text_t *t, const char *before, const unsigned char *part, size_t size) {
	text_add(t, "%s", before);
	text_bytes(t, (const char *)part, size);
}

static void
add_head(text_t *t, const proc_t *p) {
	text_add(t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
	    "name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>%d ", p->pid);
	text_html(t, p->labels->comm);
	text_add(t, "</title>\n<style>");
	add_part(t, "", page_style, page_style_size);
	text_add(t, "</style></head>\n<body>\n<header><p><a href=\"/\">all processes</a></p><h1>%d ",
	    p->pid);
	text_html(t, p->labels->comm);
	text_add(t, "</h1>\n");
	add_facts(t, p);
}

bool
tell_page(text_t *t, int pid) {
	table_lock();
	const proc_t *p = table_find(pid);
	bool is_there = p != NULL && p->kind == kind_ours;
	if (is_there) {
		add_head(t, p);
	}
	table_unlock();
	if (!is_there) {
		return false;
	}
	add_tools(t);
	uint64_t seconds = options.interval_ms / 1000;
	seconds = seconds < 1 ? 1 : seconds < LIVE_SECONDS ? seconds : LIVE_SECONDS;
	add_part(t, "</header>\n", page_body, page_body_size);
	text_add(t, "<script type=\"application/json\" id=\"data\" data-from=\"debug/pprof/heap\" "
	    "data-interval=\"%u\"></script>\n", (unsigned)seconds);
	add_part(t, "<script>", page_model, page_model_size);
	add_part(t, "</script>\n<script>", page_live, page_live_size);
	text_add(t, "</script>\n</body></html>\n");
	return true;
}
