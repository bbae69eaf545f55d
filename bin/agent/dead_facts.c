/*
 * Reads what a box says of the last hour or more of its process, and words the sentence about the
 * end of the process (dead.h). A box is a memory file with the tables of a process's profiler, and
 * may say anything. So its numbers are only shown; one fact decides something: that the box was
 * closed makes an exit (with an unknown status, code -1) of an unknown end. At most
 * JEPROF_COURSE_MAX of its lines are read. No locks, no state. Called by dead_watch.c (facts_read)
 * and dead_pages.c (facts_sentence).
 */
#include "dead.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NS_PER_MS UINT64_C(1000000)

/* Resident bytes: rss, those of the process, or those of the allocator if rss is not known (0). */
static uint64_t
resident_of(uint64_t rss, uint64_t resident) {
	return rss != 0 ? rss : resident;
}

/* Sets d->course to at most HISTORY_POINTS lines: the last one, and every step-th before it. */
static void
keep_course(dead_t *d, const jeprof_image_line_t *lines, size_t count) {
	size_t step = (count + HISTORY_POINTS - 1) / HISTORY_POINTS;
	size_t points = count == 0 ? 0 : (count - 1) / step + 1;
	for (size_t i = 0; i < points; i++) {
		const jeprof_image_line_t *line = &lines[count - 1 - (points - 1 - i) * step];
		d->course[i] = (point_t){(int64_t)(line->time_ns / NS_PER_MS),
		    resident_of(line->rss, line->resident), line->allocated};
	}
	d->points = (unsigned)points;
}

/* Sets course, points, grown and growing_ms; without lines or memory they stay as they are (0). */
static void
read_course(dead_t *d, jeprof_image_t *image) {
	jeprof_image_line_t *lines = malloc(JEPROF_COURSE_MAX * sizeof(*lines));
	size_t count = lines != NULL ? jeprof_image_course(image, lines, JEPROF_COURSE_MAX) : 0;
	if (count > 0) {
		keep_course(d, lines, count);
		d->grown = jeprof_course_growth(lines, count, &d->growing_ms);
	}
	free(lines);
}

void
facts_read(dead_t *d, int box) {
	char why[JEPROF_WHY] = "";
	jeprof_image_t *image;
	if (jeprof_image_of_file(&image, box, why) != 0) {
		snprintf(d->why, sizeof(d->why), "%.*s", (int)sizeof(d->why) - 1,
		    why[0] != '\0' ? why : "its box cannot be read");
		return;
	}
	jeprof_image_facts_t f = jeprof_image_facts(image);
	d->told_ms = f.time_ns / NS_PER_MS;
	d->allocated = f.allocated;
	d->resident = resident_of(f.rss, f.resident);
	d->limit = f.limit != 0 && f.limit < d->limit ? f.limit : d->limit;
	d->how = d->how == end_unknown && f.ended_ns != 0 ? end_exit : d->how;
	read_course(d, image);
	jeprof_image_close(image);
}

/* ---- the sentence ---- */

static const struct {
	int number;
	const char *name;
} signals[] = {{SIGABRT, "SIGABRT"}, {SIGALRM, "SIGALRM"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"},
    {SIGHUP, "SIGHUP"}, {SIGILL, "SIGILL"}, {SIGINT, "SIGINT"}, {SIGKILL, "SIGKILL"},
    {SIGPIPE, "SIGPIPE"}, {SIGQUIT, "SIGQUIT"}, {SIGSEGV, "SIGSEGV"}, {SIGSYS, "SIGSYS"},
    {SIGTERM, "SIGTERM"}, {SIGTRAP, "SIGTRAP"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};

/* The name of a signal of the list; NULL: it is not there, and the sentence gives the number. */
static const char *
signal_name(int number) {
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (signals[i].number == number) {
			return signals[i].name;
		}
	}
	return NULL;
}

static void
add_how(text_t *t, const dead_t *d) {
	const char *name = d->how == end_signal ? signal_name(d->code) : NULL;
	if (d->how == end_oom) {
		text_add(t, "killed by the kernel for want of memory");
	} else if (name != NULL) {
		text_add(t, "ended by %s", name);
	} else if (d->how == end_signal) {
		text_add(t, "ended by signal %d", d->code);
	} else if (d->how == end_exit && d->code >= 0) {
		text_add(t, "exited with status %d", d->code);
	} else {
		text_add(t, d->how == end_exit ? "exited" : "ended without a word: by a signal, or _exit");
	}
}

void
facts_sentence(text_t *t, const dead_t *d) {
	add_how(t, d);
	if (d->resident > 0) {
		text_add(t, " at ");
		text_size(t, (double)d->resident);
	}
	if (d->resident > 0 && d->limit != UINT64_MAX) {
		text_add(t, " of ");
		text_size(t, (double)d->limit);
	}
	if (d->growing_ms > 0) {
		double minutes = (double)d->growing_ms / 60000;
		text_add(t, ", growing by ");
		text_size(t, (double)d->grown / minutes);
		text_add(t, minutes < 2 ? " a minute for %.0f s" : " a minute for %.0f min",
		    minutes < 2 ? minutes * 60 : minutes);
	}
}
