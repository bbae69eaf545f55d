/*
 * Parses the path and the arguments of a request (route.h). The path is looked up in fixed lists;
 * each argument is checked against the table `arguments`, and combinations by route_finish().
 * Invariant: a route without a fault has a place, and all its numbers are within their limits. No
 * locks, no state. Called by server.c and the fuzz target.
 */
#include "route.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Seconds of a delta, seconds of a started session, digits of a number. */
enum { SECONDS_MOST = 600, SESSION_MOST = 86400, DIGITS_MOST = 15 };
#define RATE_MOST (UINT64_C(1) << 40) /* bytes */

/* The paths below /p/PID. */

static const struct {
	const char *path;
	place_t place;
	bool is_post;
	job_kind_t kind;
	bool is_otlp;
} places[] = {
	{"", place_page, false, job_heap, false},
	{"/", place_page, false, job_heap, false},
	{"/metrics", place_process_metrics, false, job_heap, false},
	{"/debug/pprof/heap", place_job, false, job_heap, false},
	{"/debug/pprof/allocs", place_job, false, job_allocs, false},
	{"/otlp", place_job, false, job_heap, true},
	{"/start", place_job, true, job_start, false},
	{"/stop", place_job, true, job_stop, false},
	{"/mark", place_job, true, job_mark, false},
};

/* Sets the fault unless there is one already: the client gets the first. */
static void
set_fault(route_t *r, unsigned fault, const char *why) {
	if (r->fault == 0) {
		r->fault = fault;
		r->why = why;
	}
}

/* Decimal digits only, within the limits; a suffix K, M, G if it is a size. */
static bool
read_number(const char *text, bool is_size, uint64_t least, uint64_t most, uint64_t *out) {
	static const char units[] = "KMG";
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > DIGITS_MOST) {
		return false;
	}
	uint64_t n = strtoull(text, NULL, 10);
	char end = text[digits];
	const char *unit = is_size && end != '\0' && text[digits + 1] == '\0'
	    ? strchr(units, toupper((unsigned char)end)) : NULL;
	if (end != '\0' && unit == NULL) {
		return false;
	}
	unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
	if (n > most >> shift) {
		return false;
	}
	*out = n << shift;
	return *out >= least;
}

/* Parses the path behind "/p/": a pid, then one of `places`. */
static void
route_process(const char *path, route_t *r) {
	char number[12];
	size_t digits = strcspn(path, "/");
	uint64_t pid;
	if (digits >= sizeof(number)) {
		set_fault(r, 400, "the number of a process is expected after /p/");
		return;
	}
	memcpy(number, path, digits);
	number[digits] = '\0';
	if (number[0] == '0' || !read_number(number, false, 1, INT_MAX, &pid)) {
		set_fault(r, 400, "the number of a process is expected after /p/");
		return;
	}
	r->order.pid = (int)pid;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (strcmp(path + digits, places[i].path) == 0) {
			r->place = places[i].place;
			r->is_post = places[i].is_post;
			r->order.kind = places[i].kind;
			r->order.is_otlp = places[i].is_otlp;
			return;
		}
	}
	set_fault(r, 404, "there is no such path below /p/PID");
}

void
route_path(const char *path, route_t *r) {
	memset(r, 0, sizeof(*r));
	if (strcmp(path, "/") == 0) {
		r->place = place_index;
	} else if (strcmp(path, "/targets") == 0) {
		r->place = place_targets;
	} else if (strcmp(path, "/metrics") == 0) {
		r->place = place_metrics;
	} else if (strncmp(path, "/p/", 3) == 0) {
		route_process(path + 3, r);
	} else {
		set_fault(r, 404, "there is no such path; there are /, /targets, /metrics, "
		    "/p/PID/debug/pprof/heap and more: jeprofd(1)");
	}
}

/* ---- arguments ---- */

typedef enum { arg_seconds, arg_rate, arg_since, arg_raw, arg_debug, arg_gc, arg_count } arg_t;

/* The arguments: whether profiles and starts take it, and the message for a wrong value. */
static const struct {
	const char *key;
	bool is_of_profile;
	bool is_of_start;
	const char *why;
} arguments[arg_count] = {
	[arg_seconds] = {"seconds", true, true, "seconds is a number from 1 to 600, of a start from 1 "
	    "to 86400"},
	[arg_rate] = {"rate", false, true, "rate is a number of bytes, with K, M or G behind if you "
	    "like"},
	[arg_since] = {"since", true, false, "since can be: mark"},
	[arg_raw] = {"raw", true, false, "raw can be: 0, 1, false, true"},
	[arg_debug] = {"debug", true, false, "debug can be: 0, or 1 for text, which is what raw gives"},
	[arg_gc] = {"gc", true, false, "gc can be: 0, 1; there is nothing to collect"},
};

/* The argument with this key, or arg_count if the path of the route takes none of that name. */
static arg_t
find_argument(const char *key, const route_t *r) {
	bool is_profile = r->place == place_job && !r->is_post;
	bool is_start = r->place == place_job && r->order.kind == job_start;
	arg_t i = 0;
	while (i < arg_count && (strcmp(key, arguments[i].key) != 0
	    || !((is_profile && arguments[i].is_of_profile)
	    || (is_start && arguments[i].is_of_start)))) {
		i++;
	}
	return i;
}

/* Parses 0 or 1, with has_words also false or true; returns false for anything else. */
static bool
read_flag(const char *value, bool has_words, bool *out) {
	*out = strcmp(value, "1") == 0 || (has_words && strcmp(value, "true") == 0);
	return *out || strcmp(value, "0") == 0 || (has_words && strcmp(value, "false") == 0);
}

/* Parses the value of an argument into the order; false if the value is not allowed. */
static bool
read_argument(arg_t argument, const char *value, order_t *o) {
	uint64_t n = 0;
	bool is_good = true, is_on = false;
	switch (argument) {
	case arg_seconds:
		is_good = read_number(value, false, 1, o->kind == job_start ? SESSION_MOST : SECONDS_MOST,
		    &n);
		o->seconds = (unsigned)n;
		break;
	case arg_rate:
		is_good = read_number(value, true, 1, RATE_MOST, &n);
		o->rate = n;
		break;
	case arg_since:
		is_good = o->is_since_mark = strcmp(value, "mark") == 0;
		break;
	default:
		is_good = read_flag(value, argument == arg_raw, &is_on);
		o->is_raw = o->is_raw || (is_on && argument != arg_gc);
	}
	return is_good;
}

void
route_argument(const char *key, const char *value, route_t *r) {
	if (r->fault != 0 || (key[0] == '\0' && value == NULL)) {
		return;
	}
	arg_t argument = find_argument(key, r);
	if (argument == arg_count) {
		set_fault(r, 400, "this path takes no such argument: profiles take seconds, since, raw, "
		    "debug, gc, and start takes seconds, rate");
	} else if ((r->given >> argument & 1) != 0) {
		set_fault(r, 400, "an argument stands there twice");
	} else if (!read_argument(argument, value != NULL ? value : "", &r->order)) {
		set_fault(r, 400, arguments[argument].why);
	}
	r->given |= argument < arg_count ? 1U << argument : 0;
}

void
route_finish(route_t *r) {
	bool is_delta = r->order.seconds > 0 || r->order.is_since_mark;
	bool is_profile = r->place == place_job && !r->is_post;
	if (is_profile && r->order.is_raw && is_delta) {
		set_fault(r, 400, "raw is one profile as it is: it has no difference (seconds, since)");
	}
	if (is_profile && r->order.seconds > 0 && r->order.is_since_mark) {
		set_fault(r, 400, "seconds and since exclude each other");
	}
}
