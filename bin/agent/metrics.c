/*
 * /metrics: the figures of all processes and of jeprofd, and /p/PID/metrics: those of one process,
 * as OpenMetrics 1.0 or in the older text format of Prometheus. Only OpenMetrics has UNIT lines and
 * an EOF line; only the older one has "_total" in the HELP and TYPE lines of counters (samples
 * always do). Invariant: all samples of a metric follow its TYPE line. Locks: the table's, which
 * tell_*() take for the whole answer, so that all put_*() and seen_*() run under it; inside it, one
 * at a time, those of dead_watch.c, dead_store.c and push.c. Called by server.c.
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dead.h"
#include "push.h"
#include "tell.h"

/* An answer that is being written. */
typedef struct sheet_s {
	text_t *text;
	proc_t *const *list;      /* ends with NULL */
	bool is_openmetrics;      /* else the older format */
	/* each sample has labels that tell its process; else the scraper has them from /targets */
	bool has_labels;
} sheet_t;

/* The HELP, TYPE and UNIT lines of a metric; name is without "_total". */
static void
put_head(const sheet_t *s, const char *name, const char *type, const char *unit, const char *help) {
	const char *end = strcmp(type, "counter") == 0 && !s->is_openmetrics ? "_total" : "";
	text_add(s->text, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, end, help, name, end, type);
	if (s->is_openmetrics && unit[0] != '\0') {
		text_add(s->text, "# UNIT %s %s\n", name, unit);
	}
}

/* The labels that tell the process of a sample; the caller has looked at has_labels. */
static void
put_labels(const sheet_t *s, const proc_t *p) {
	char pid[16];
	snprintf(pid, sizeof(pid), "%d", p->pid);
	text_label(s->text, "pid", pid);
	text_add(s->text, ",");
	text_label(s->text, "comm", p->labels->comm);
	text_add(s->text, ",");
	text_label(s->text, "service_name", p->labels->service);
}

/* Name (with `end` behind it), labels and space of a sample; key NULL: no label of its own. */
static void
put_name(const sheet_t *s, const char *name, const char *end, const proc_t *p, const char *key,
    const char *value) {
	text_add(s->text, "%s%s", name, end);
	if (!s->has_labels && key == NULL) {
		text_add(s->text, " ");
		return;
	}
	text_add(s->text, "{");
	if (s->has_labels) {
		put_labels(s, p);
	}
	if (key != NULL) {
		text_add(s->text, "%s", s->has_labels ? "," : "");
		text_label(s->text, key, value);
	}
	text_add(s->text, "} ");
}

/* ---- of processes ---- */

/* The metrics of figures that the library reports in its answer to "status". */
static const struct {
	const char *name;
	const char *unit;
	const char *help;
	fig_t figure;
	bool is_counter;
} reported[] = {
	{"jeprof_allocated_bytes", "bytes", "Bytes in allocations that the program holds.",
	    fig_allocated, false},
	{"jeprof_active_bytes", "bytes", "Bytes in pages with allocations.", fig_active, false},
	{"jeprof_metadata_bytes", "bytes", "Bytes that the allocator needs for itself.", fig_metadata,
	    false},
	{"jeprof_resident_bytes", "bytes", "Bytes of the allocator in memory, at most.", fig_resident,
	    false},
	{"jeprof_mapped_bytes", "bytes", "Bytes in mapped extents.", fig_mapped, false},
	{"jeprof_retained_bytes", "bytes", "Bytes of address space that is kept for later.",
	    fig_retained, false},
	{"jeprof_sample_interval_bytes", "bytes", "Mean number of bytes between two samples.",
	    fig_interval, false},
	{"jeprof_dumps", "", "Profiles written.", fig_dumps, true},
	{"jeprof_dumps_suppressed", "", "Profiles not written, because there were too many.",
	    fig_suppressed, true},
	{"jeprof_dump_errors", "", "Profiles not written, because that failed.", fig_errors, true},
	{"jeprof_requests_rejected", "", "Starts and stops that the profiler refused.", fig_rejected,
	    true},
};

/* For each metric of `reported` a sample of each process whose last answer had the figure. */
static void
put_reported(const sheet_t *s) {
	for (size_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++) {
		const char *name = reported[i].name;
		bool is_counter = reported[i].is_counter;
		put_head(s, name, is_counter ? "counter" : "gauge", reported[i].unit, reported[i].help);
		for (proc_t *const *p = s->list; *p != NULL; p++) {
			if (proc_has(*p, reported[i].figure)) {
				put_name(s, name, is_counter ? "_total" : "", *p, NULL, NULL);
				text_add(s->text, "%" PRIu64 "\n", (*p)->figures.values[reported[i].figure]);
			}
		}
	}
}

/* A function that sets *value to a figure that jeprofd itself has seen; false: not known. */
typedef bool seen_t(const proc_t *p, uint64_t *value);

static bool
seen_rss(const proc_t *p, uint64_t *value) {
	*value = p->figures.rss;
	return true;
}

static bool
seen_threads(const proc_t *p, uint64_t *value) {
	*value = p->figures.threads;
	return true;
}

static bool
seen_cgroup(const proc_t *p, uint64_t *value) {
	*value = p->figures.cgroup_current;
	return p->figures.has_cgroup;
}

static bool
seen_limit(const proc_t *p, uint64_t *value) {
	*value = p->figures.cgroup_limit;
	return p->figures.has_cgroup && *value != UINT64_MAX;
}

static bool
seen_start(const proc_t *p, uint64_t *value) {
	*value = p->labels->started;
	return true;
}

static bool
seen_session(const proc_t *p, uint64_t *value) {
	*value = p->head.session_id;
	return true;
}

static bool
seen_box(const proc_t *p, uint64_t *value) {
	*value = dead_holds(p->pid, p->start);
	return true;
}

static const struct {
	const char *name;
	const char *unit;
	const char *help;
	seen_t *read;
} seen[] = {
	{"jeprof_rss_bytes", "bytes", "Resident memory of the process.", seen_rss},
	{"jeprof_threads", "", "Threads of the process.", seen_threads},
	{"jeprof_cgroup_current_bytes", "bytes", "Memory of the cgroup of the process.", seen_cgroup},
	{"jeprof_cgroup_limit_bytes", "bytes", "Memory limit of the cgroup.", seen_limit},
	{"jeprof_start_time_seconds", "seconds", "Start of the process since 1970.", seen_start},
	{"jeprof_session", "", "Number of this or the last session of the profiler.", seen_session},
	{"jeprof_box_held", "", "1 if jeprofd can read the tables of the process when it is dead.",
	    seen_box},
};

static void
put_measured(const sheet_t *s) {
	uint64_t value;
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
		put_head(s, seen[i].name, "gauge", seen[i].unit, seen[i].help);
		for (proc_t *const *p = s->list; *p != NULL; p++) {
			if (seen[i].read(*p, &value)) {
				put_name(s, seen[i].name, "", *p, NULL, NULL);
				text_add(s->text, "%" PRIu64 "\n", value);
			}
		}
	}
}

/* A state set: a sample for each known state, 1 for the current one. A newer state: all are 0. */
static void
put_states(const sheet_t *s) {
	put_head(s, "jeprof_state", "gauge", "", "1 for the state that the profiler is in.");
	for (proc_t *const *p = s->list; *p != NULL; p++) {
		for (uint32_t state = 0; state <= jeprof_state_switched_on; state++) {
			put_name(s, "jeprof_state", "", *p, "state", jeprof_state_word(state));
			text_add(s->text, "%d\n", (*p)->head.state == state);
		}
	}
}

/*
 * For each process a sample with all labels that tell who it is, to be joined with other samples by
 * pid. A scraper that found the process by /targets has these labels already.
 */
static void
put_info(const sheet_t *s) {
	put_head(s, "jeprof_process_info", "gauge", "", "1, with the labels of /targets.");
	for (proc_t *const *p = s->list; *p != NULL; p++) {
		label_t labels[PROC_LABELS];
		size_t n = proc_labels(*p, labels);
		text_add(s->text, "jeprof_process_info{pid=\"%d\"", (*p)->pid);
		for (size_t i = 0; i < n; i++) {
			text_add(s->text, ",");
			text_label(s->text, labels[i].key, labels[i].value);
		}
		text_add(s->text, "} 1\n");
	}
}

static void
put_processes(const sheet_t *s) {
	put_reported(s);
	put_measured(s);
	put_states(s);
	if (s->has_labels) {
		put_info(s);
	}
}

/* ---- of jeprofd ---- */

static void
put_own(const sheet_t *s, const char *name, const char *type, const char *unit, const char *help,
    double value) {
	put_head(s, name, type, unit, help);
	text_add(s->text, "%s%s %.15g\n", name, strcmp(type, "counter") == 0 ? "_total" : "", value);
}

static double
own_rss(void) {
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (file != NULL) {
		if (fscanf(file, "%*s %lu", &pages) != 1) {
			pages = 0;
		}
		fclose(file);
	}
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void
put_push(const sheet_t *s) {
	push_figures_t f;
	if (options.push_url == NULL) {
		return;
	}
	push_read(&f);
	put_own(s, "jeprofd_push_sent", "counter", "", "Requests that the receiver answered by 2xx.",
	    (double)f.sent);
	put_own(s, "jeprofd_push_retried", "counter", "",
	    "Attempts to push that failed and are made again.", (double)f.retried);
	put_own(s, "jeprofd_push_refused", "counter", "",
	    "Requests that the receiver answered by a failure for good.", (double)f.refused);
	put_own(s, "jeprofd_push_rejected", "counter", "",
	    "OTLP profiles, several in a request, that were rejected by an answer of 2xx.",
	    (double)f.rejected);
	put_own(s, "jeprofd_push_dropped", "counter", "",
	    "Requests for which the queue had no room.", (double)f.dropped);
	put_own(s, "jeprofd_push_queued_bytes", "gauge", "bytes", "Requests that wait to be pushed.",
	    (double)f.queued);
}

static void
put_dead(const sheet_t *s) {
	dead_counts_t c;
	dead_count(&c);
	put_own(s, "jeprofd_boxes_held", "gauge", "",
	    "Processes whose tables jeprofd can read when they are dead.", dead_held());
	put_own(s, "jeprofd_dead_kept", "gauge", "", "Processes that ended and are shown below /dead/.",
	    c.kept);
	put_own(s, "jeprofd_dead_bytes", "gauge", "bytes", "Bytes of those below /dead/.",
	    (double)c.bytes);
	put_head(s, "jeprofd_dead", "counter", "", "Processes that ended, of those that were held.");
	for (int i = 0; i < end_count; i++) {
		text_add(s->text, "jeprofd_dead_total{");
		text_label(s->text, "how", end_words[i]);
		text_add(s->text, "} %" PRIu64 "\n", c.ended[i]);
	}
}

static void
put_agent(const sheet_t *s, double rss, uint64_t kills) {
	struct rusage usage = {0};
	getrusage(RUSAGE_SELF, &usage);
	double cpu = (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec
	    + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	put_own(s, "jeprofd_processes", "gauge", "", "Processes that run the library.",
	    counts.processes);
	put_own(s, "jeprofd_unreadable_processes", "gauge", "",
	    "Processes that may not be looked into.", counts.unreadable);
	put_own(s, "jeprofd_oom_kills", "counter", "",
	    "Processes of this machine that the kernel killed for want of memory.", (double)kills);
	put_own(s, "jeprofd_requests", "counter", "", "Requests.", (double)counts.requests);
	put_own(s, "jeprofd_scrapes", "counter", "",
	    "Profiles, starts, stops and marks that were asked for.", (double)counts.scrapes);
	put_own(s, "jeprofd_scrapes_failed", "counter", "", "Scrapes not answered by 200.",
	    (double)counts.failed);
	put_own(s, "jeprofd_scrapes_refused", "counter", "",
	    "Requests for scrapes that were refused for want of room, which are no scrapes.",
	    (double)counts.refused);
	put_own(s, "jeprofd_scrape_seconds", "counter", "seconds",
	    "Time that scrapes took, with the waits of deltas.", counts.seconds);
	put_own(s, "jeprofd_scrape_bytes", "counter", "bytes",
	    "Bytes of the profiles that scrapes got.", (double)counts.bytes);
	put_own(s, "jeprofd_sessions_started", "counter", "",
	    "Sessions that scrapes and requests began.", (double)counts.sessions);
	put_head(s, "jeprofd_sessions_without_box", "counter", "",
	    "Sessions that were to have a box (--blackbox) and have none.");
	for (int i = lack_none + 1; i < lack_count; i++) {
		text_add(s->text, "jeprofd_sessions_without_box_total{");
		text_label(s->text, "why", lack_words[i]);
		text_add(s->text, "} %" PRIu64 "\n", counts.lacks[i]);
	}
	put_own(s, "jeprofd_leases_renewed", "counter", "",
	    "Extensions of the time limits of sessions by scrapes.", (double)counts.renewed);
	put_own(s, "jeprofd_threads_held_up", "counter", "",
	    "Threads that took too long: replaced, or answered for.", (double)counts.written_off);
	put_dead(s);
	put_push(s);
	put_own(s, "jeprofd_cpu_seconds", "counter", "seconds", "Processor time of jeprofd.", cpu);
	put_own(s, "jeprofd_rss_bytes", "gauge", "bytes", "Resident memory of jeprofd.", rss);
}

void
tell_metrics(text_t *t, bool is_openmetrics) {
	double rss = own_rss();
	uint64_t kills = end_kills("").of_machine;
	table_lock();
	sheet_t s = {t, table_sorted(), is_openmetrics, true};
	put_processes(&s);
	put_agent(&s, rss, kills);
	table_unlock();
	text_add(t, "%s", is_openmetrics ? "# EOF\n" : "");
}

bool
tell_process_metrics(text_t *t, int pid, bool is_openmetrics) {
	table_lock();
	proc_t *list[2] = {table_find(pid), NULL};
	bool is_there = list[0] != NULL && list[0]->kind == kind_ours;
	if (is_there) {
		sheet_t s = {t, list, is_openmetrics, false};
		put_processes(&s);
		text_add(t, "%s", is_openmetrics ? "# EOF\n" : "");
	}
	table_unlock();
	return is_there;
}
