/*
 * The pages of the dead, processes that ended (dead.h): the list /dead/, and /dead/KEY/ for each.
 * Functions add HTML to a text_t; strings of a process are quoted (text_html). Without memory
 * t->is_cut is set, and server.c answers 503 instead of the page. No locks of its own: dead_each()
 * holds the lock of dead_store.c while all rows of the list are added, dead_find() only while it
 * copies. No state. Called by server.c.
 */
#include "dead.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "page.h"
#include "tell.h"

enum { SPAN_MIN_MS = 10000 }; /* the least time that the axis of a picture has */

/* A time, in ms since 1970, as "2026-11-25 09:15:31Z". */
static void
add_time(text_t *t, uint64_t ms) {
	char stamp[40] = "?";
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	if (gmtime_r(&seconds, &tm) != NULL) {
		strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%SZ", &tm);
	}
	text_add(t, "%s", stamp);
}

/* The time before the end that the picture shows: that of `course`, held to 10 s .. 1 h; ms. */
static int64_t
span_of(const dead_t *d) {
	int64_t known = d->points > 0 ? (int64_t)d->ended_ms - d->course[0].at_ms : 0;
	return known > HOUR_MS ? HOUR_MS : known < SPAN_MIN_MS ? SPAN_MIN_MS : known;
}

/* A row of the list. Called by dead_each(), under its lock; arg: the text. */
static void
add_row(const dead_t *d, void *arg) {
	text_t *t = arg;
	text_add(t, "<tr><td><a href=\"/dead/%s/\">", d->key);
	add_time(t, d->ended_ms);
	text_add(t, "</a></td><td class=\"n\">%d</td><td>", d->pid);
	text_html(t, d->labels.comm);
	text_add(t, "</td><td>");
	text_html(t, d->labels.service);
	text_add(t, "</td><td>");
	text_html(t, d->labels.user);
	text_add(t, "</td><td>");
	facts_sentence(t, d);
	text_add(t, "</td><td>");
	page_picture(t, d->course, d->points, (int64_t)d->ended_ms, span_of(d));
	text_add(t, "</td></tr>\n");
}

void
tell_dead_list(text_t *t) {
	page_list_begin(t, "jeprofd: processes that ended");
	text_add(t, "<p><a href=\"/\">all processes</a></p><h1>Processes that ended</h1>\n"
	    "<p>Those whose profiler had its tables in a memory file; at most %d are kept, for a "
	    "day.%s</p>\n<table><tr><th>ended<th class=\"n\">pid<th>name<th>service<th>user<th>how<th>"
	    "before the end</tr>\n",
	    DEAD_MAX, options.box_bytes == 0 ? " This jeprofd looks for none: --blackbox off." : "");
	dead_each(add_row, t);
	text_add(t, "</table></html>\n");
}

/* A row with a number of bytes; nothing if it is not known (0, or UINT64_MAX for the limit). */
static void
add_bytes(text_t *t, const char *name, uint64_t bytes) {
	if (bytes != 0 && bytes != UINT64_MAX) {
		text_add(t, "<tr><td class=\"t\">%s</td><td class=\"t\">%" PRIu64 "</td></tr>\n", name,
		    bytes);
	}
}

static void
add_facts(text_t *t, const dead_t *d) {
	text_add(t, "<p>");
	add_time(t, d->ended_ms);
	text_add(t, ": ");
	facts_sentence(t, d);
	text_add(t, ".</p>\n");
	page_picture(t, d->course, d->points, (int64_t)d->ended_ms, span_of(d));
	text_add(t, "<p>The last ");
	page_duration(t, span_of(d));
	text_add(t, ": resident grey, allocated red.</p>\n");
	text_add(t, "<details><summary>this process</summary><table>");
	page_fact(t, "service", d->labels.service);
	page_fact(t, "user", d->labels.user);
	page_fact(t, "program", d->labels.exe);
	page_fact(t, "build-id", d->labels.build_id);
	page_fact(t, "cgroup", d->labels.cgroup);
	page_fact(t, "container", d->labels.container_id);
	add_bytes(t, "allocated", d->allocated);
	add_bytes(t, "resident", d->resident);
	add_bytes(t, "limit", d->limit);
	text_add(t, "</table></details>\n");
	if (d->why[0] != '\0') {
		text_add(t, "<p>There is no profile: ");
		text_html(t, d->why);
		text_add(t, ".</p>\n");
	}
	text_add(t, "<p>%s<output id=\"live-state\" aria-live=\"polite\"></output></p>\n",
	    d->why[0] != '\0' ? "" : "Profiles: <a href=\"debug/pprof/heap\">heap</a> <a "
	    "href=\"debug/pprof/heap?raw=1\">heap_v2</a> ");
}

bool
tell_dead(text_t *t, const char *key) {
	dead_t *d = malloc(sizeof(*d));
	if (d == NULL) {
		t->is_cut = true;
		return true;
	}
	bool is_there = dead_find(key, d);
	if (is_there) {
		page_report_begin(t, d->pid, d->labels.comm, "/dead/", "all that ended");
		add_facts(t, d);
		page_report_end(t, 0); /* its profile is fetched once */
	}
	free(d);
	return is_there;
}
