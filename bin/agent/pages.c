/*
 * Writes the HTML pages of processes that run the library (tell.h, page.h): "/" lists them,
 * "/p/PID/" is the report of one of them, whose script fetches debug/pprof/heap again and again.
 * Locks: that of dead_store.c, then the table's, one after the other; static functions with a
 * proc_t run under the table's lock. Called by server.c.
 */
#include "table.h"

#include <stdlib.h>

#include "dead.h"
#include "elsewhere.h"
#include "page.h"
#include "push.h"
#include "tell.h"

/* Seconds between two profiles that the report fetches: --interval, but from 1 to this. */
enum { LIVE_SECONDS = 10 };

/* If is_elsewhere(): the sentence about memory that is not malloc's, quoted, between two texts. */
static void
add_elsewhere(text_t *t, const proc_t *p, const char *before, const char *after) {
	text_t words = {0};
	if (is_elsewhere(&p->figures)) {
		elsewhere_sentence(&words, &p->figures);
	}
	t->is_cut |= words.is_cut;
	if (words.length > 0) {
		text_add(t, "%s", before);
		text_html(t, words.at);
		text_add(t, "%s", after);
	}
	free(words.at);
}

static void
add_row(text_t *t, const proc_t *p) {
	text_add(t, "<tr><td class=\"n\"><a href=\"/p/%d/\">%d</a></td><td>", p->pid, p->pid);
	text_html(t, p->labels->comm);
	text_add(t, "</td><td>");
	text_html(t, p->labels->service);
	text_add(t, "</td><td>");
	text_html(t, p->labels->user);
	text_add(t, "</td><td>%s</td>", jeprof_state_word(p->head.state));
	text_add(t, "<td class=\"n\">");
	if (proc_has(p, fig_allocated)) {
		text_size(t, (double)p->figures.values[fig_allocated]);
	} else {
		text_add(t, "-");
	}
	text_add(t, "</td><td class=\"n\">");
	text_size(t, (double)p->figures.rss);
	add_elsewhere(t, p, " <abbr title=\"", "\">not malloc's</abbr>");
	text_add(t, "</td><td>");
	page_picture(t, p->history, p->points, client_now_ms(), HOUR_MS);
	text_add(t, "</td></tr>\n");
}

void
tell_index(text_t *t) {
	dead_counts_t dead;
	push_figures_t push;
	char loss[PUSH_LOSS];
	dead_count(&dead);
	push_read(&push);
	table_lock();
	page_list_begin(t, "jeprofd");
	text_add(t, "<h1>Processes that run the library: %u</h1>\n", counts.processes);
	text_add(t, "<table><tr><th class=\"n\">pid<th>name<th>service<th>user<th>profiler<th "
	    "class=\"n\">allocated<th class=\"n\">resident<th>last hour</tr>\n");
	for (proc_t *const *p = table_sorted(); *p != NULL; p++) {
		add_row(t, *p);
	}
	text_add(t, "</table>\n");
	if (push.dropped > 0) {
		push_loss(&push, loss);
		text_add(t, "<p>%s</p>\n", loss);
	}
	text_add(t, "<p>%u more processes may not be looked into. <a "
	    "href=\"/targets\">targets</a> <a href=\"/metrics\">metrics</a> <a href=\"/dead/\">%u that "
	    "ended</a></p></html>\n",
	    counts.unreadable, dead.kept);
	table_unlock();
}

/* ---- the page of one process ---- */

/* Why our session has no box; "": it has one, none was wanted, or the session is not ours. */
static const char *
lack_text(const proc_t *p) {
	static const char *const texts[lack_count] = {
		[lack_none] = "",
		[lack_filter] = ("none: its system calls are filtered (seccomp), by a filter of its own or "
		    "one that is not known to be its container's"),
		[lack_room] = "none: its memory cgroup, or one above, has too little room for it",
		[lack_refused] = "none: the process has no room for it, or its library is older",
	};
	bool is_ours = p->lease.session != 0 && p->lease.session == p->head.session_id
	    && p->lease.instance == p->head.instance;
	return is_ours ? texts[p->lease.lack] : "";
}

static void
add_facts(text_t *t, const proc_t *p) {
	text_add(t, "<details><summary>this process</summary>");
	page_picture(t, p->history, p->points, client_now_ms(), HOUR_MS);
	text_add(t, "<table>");
	page_fact(t, "profiler", jeprof_state_word(p->head.state));
	page_fact(t, "service", p->labels->service);
	page_fact(t, "user", p->labels->user);
	page_fact(t, "program", p->labels->exe);
	page_fact(t, "build-id", p->labels->build_id);
	page_fact(t, "cgroup", p->labels->cgroup);
	page_fact(t, "container", p->labels->container_id);
	page_fact(t, "library", p->head.library_version);
	page_fact(t, "box", lack_text(p));
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

bool
tell_page(text_t *t, int pid) {
	table_lock();
	const proc_t *p = table_find(pid);
	bool is_there = p != NULL && p->kind == kind_ours;
	if (is_there) {
		page_report_begin(t, p->pid, p->labels->comm, "/", "all processes");
		add_elsewhere(t, p, "<p id=\"elsewhere\">", "</p>\n");
		add_facts(t, p);
	}
	table_unlock();
	if (!is_there) {
		return false;
	}
	add_tools(t);
	uint64_t seconds = options.interval_ms / 1000;
	seconds = seconds < 1 ? 1 : seconds < LIVE_SECONDS ? seconds : LIVE_SECONDS;
	page_report_end(t, (unsigned)seconds);
	return true;
}
