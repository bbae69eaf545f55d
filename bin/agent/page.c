/*
 * Pieces of the HTML pages (page.h): lists with curves of the last hour at most in SVG, and the
 * report that "jeprof report" makes too. A file of jeprof has the profiles in it; here the script
 * (from bin/page/, by way of page_parts.c) fetches debug/pprof/heap.
 * Invariant: a page loads nothing from other servers, and all strings that come from a process are
 * quoted for HTML: the parameters comm and value. title, name, up and up_name are constants of the
 * callers and are put in as they are. No locks, no state. Called by pages.c and dead_pages.c.
 */
#include "page.h"

#include "page_parts.h"

enum {
	PICTURE_WIDTH = 240,     /* of a picture with curves, in pixels */
	PICTURE_HEIGHT = 36,     /* in pixels */
	MINUTE_MS = 60000,
};

static const char list_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\">"
    "<meta http-equiv=\"refresh\" content=\"15\"><title>";
static const char list_style[] =
    "</title>\n<style>body{font:14px/1.5 system-ui,sans-serif;margin:2em;color:#222;"
    "background:#fff}"
    "table{border-collapse:collapse}"
    "td,th{padding:.3em .8em;text-align:left;border-bottom:1px solid #ddd}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    "a{color:#0645ad}svg{vertical-align:middle}form{display:inline}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}"
    "td,th{border-color:#444}a{color:#8ab4f8}}</style>\n";

void
page_list_begin(text_t *t, const char *title) {
	text_add(t, "%s%s%s", list_head, title, list_style);
}

/* Whether a point is not older than span; both are ms. The ring may reach further back (--look). */
static bool
is_shown(const point_t *point, int64_t now, int64_t span) {
	return now - point->at_ms <= span;
}

/*
 * One curve of page_picture(), of allocated or of resident bytes; `most` is the value at the top,
 * now and span are ms. Points older than span, and unknown values (0), are left out.
 */
static void
add_curve(text_t *t, const point_t *history, unsigned points, bool is_allocated, uint64_t most,
    int64_t now, int64_t span) {
	unsigned begin = points > HISTORY_POINTS ? points - HISTORY_POINTS : 0;
	text_add(t, "<polyline fill=\"none\" stroke=\"%s\" points=\"", is_allocated ? "#c33" : "#999");
	for (unsigned i = begin; i < points; i++) {
		const point_t *point = &history[i % HISTORY_POINTS];
		uint64_t value = is_allocated ? point->allocated : point->rss;
		if (is_shown(point, now, span) && value > 0) {
			double ago = (double)(now - point->at_ms) / (double)span;
			text_add(t, "%.1f,%.1f ", PICTURE_WIDTH * (1 - ago),
			    PICTURE_HEIGHT - 1 - (PICTURE_HEIGHT - 2) * (double)value / (double)most);
		}
	}
	text_add(t, "\"/>");
}

void
page_duration(text_t *t, int64_t ms) {
	if (ms == HOUR_MS) {
		text_add(t, "hour");
	} else if (ms >= 2 * MINUTE_MS) {
		text_add(t, "%d minutes", (int)(ms / MINUTE_MS));
	} else {
		text_add(t, "%d seconds", (int)(ms / 1000));
	}
}

void
page_picture(text_t *t, const point_t *history, unsigned points, int64_t now, int64_t span) {
	uint64_t most = 1;
	int64_t known = span;
	unsigned count = points < HISTORY_POINTS ? points : HISTORY_POINTS;
	for (unsigned i = 0; i < count; i++) {
		const point_t *point = &history[i];
		uint64_t value = point->rss > point->allocated ? point->rss : point->allocated;
		most = is_shown(point, now, span) && value > most ? value : most;
	}
	if (points > HISTORY_POINTS) {
		known = now - history[points % HISTORY_POINTS].at_ms + (int64_t)options.look_ms;
	}
	text_add(t, "<svg width=\"%d\" height=\"%d\" role=\"img\"><title>the last ", PICTURE_WIDTH,
	    PICTURE_HEIGHT);
	page_duration(t, known < span ? known : span);
	text_add(t, ": resident grey, allocated red; at most ");
	text_size(t, (double)most);
	text_add(t, "</title>");
	add_curve(t, history, points, false, most, now, span);
	add_curve(t, history, points, true, most, now, span);
	text_add(t, "</svg>");
}

void
page_fact(text_t *t, const char *name, const char *value) {
	if (value[0] != '\0') {
		text_add(t, "<tr><td class=\"t\">%s</td><td class=\"t\">", name);
		text_html(t, value);
		text_add(t, "</td></tr>\n");
	}
}

/* Adds the text `before`, then a part of page_parts.h. */
static void
add_part(text_t *t, const char *before, const unsigned char *part, size_t size) {
	text_add(t, "%s", before);
	text_bytes(t, (const char *)part, size);
}

void
page_report_begin(text_t *t, int pid, const char *comm, const char *up, const char *up_name) {
	text_add(t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
	    "name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>%d ", pid);
	text_html(t, comm);
	text_add(t, "</title>\n<style>");
	add_part(t, "", page_style, page_style_size);
	text_add(t, "</style></head>\n<body>\n<header><p><a href=\"%s\">%s</a></p><h1>%d ", up,
	    up_name, pid);
	text_html(t, comm);
	text_add(t, "</h1>\n");
}

void
page_report_end(text_t *t, unsigned seconds) {
	add_part(t, "</header>\n", page_body, page_body_size);
	text_add(t, "<script type=\"application/json\" id=\"data\" "
	    "data-from=\"debug/pprof/heap?ages=1\" data-interval=\"%u\"></script>\n", seconds);
	add_part(t, "<script>", page_model, page_model_size);
	add_part(t, "</script>\n<script>", page_live, page_live_size);
	text_add(t, "</script>\n</body></html>\n");
}
